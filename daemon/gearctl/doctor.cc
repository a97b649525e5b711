#include "gearctl/doctor.h"

#include <cstdlib>

#include "gearctl/session.h"

namespace gear::daemon {
namespace {

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "fail";
  }
  return "fail";
}

}  // namespace

Finding check_server(const std::string& endpoint) {
  const std::string place = endpoint_name(endpoint);
  const char* variable = getenv("GEAR_ENDPOINT");
  const bool named = !endpoint.empty() || (variable != nullptr && *variable != '\0');
  try {
    const Client client = connect(endpoint);
    gear_server_info info = GEAR_SERVER_INFO_INIT;
    check(gear_get_server_info(client.get(), &info));
    return {"server", Verdict::kOk, place + ": answers, pid " + std::to_string(info.pid), ""};
  } catch (const Failure& failure) {
    // Who named no endpoint may not have started a daemon yet, or may never want one.
    const bool absent = failure.code == GEAR_ENOSERVER && !named;
    return {"server", absent ? Verdict::kWarn : Verdict::kFail,
            place + ": " + gear_status_string(failure.code),
            absent ? "start geard, or use the endpoint embedded:" : failure.text};
  }
}

Json examine(const std::string& endpoint) {
  const std::vector<Finding> findings = {
      check_shm(),      check_memory_cgroup(), check_memlock(),
      check_nofile(),   check_huge_pages(),    check_transparent_huge_pages(),
      check_io_uring(), check_memfd(),         check_pidfd(),
      check_cuda(),     check_rdma(),          check_server(endpoint)};
  Json document;
  document["findings"] = Json::array();
  for (const char* verdict : {"ok", "warn", "fail"}) document[verdict] = 0;
  for (const Finding& finding : findings) {
    const char* verdict = verdict_name(finding.verdict);
    Json line;
    line["check"] = finding.check;
    line["status"] = verdict;
    line["found"] = finding.found;
    line["remedy"] = finding.remedy.empty() ? Json(nullptr) : Json(finding.remedy);
    document["findings"].push_back(std::move(line));
    document[verdict] = document[verdict].get<int>() + 1;
  }
  return document;
}

std::string render_doctor(const Json& document) {
  TextTable table({"STATUS", "CHECK", "FOUND"});
  for (const Json& line : document["findings"]) {
    table.add({line["status"].get<std::string>(), line["check"].get<std::string>(),
               printable(line["found"].get<std::string>())});
    if (!line["remedy"].is_null()) {
      table.add({"", "", "-> " + printable(line["remedy"].get<std::string>())});
    }
  }
  return table.text() + "\n" + document["ok"].dump() + " ok, " + document["warn"].dump() +
         " to consider, " + document["fail"].dump() + " to mend\n";
}

}  // namespace gear::daemon
