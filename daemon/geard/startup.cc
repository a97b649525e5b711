#include "geard/startup.h"

#include "common/quantity.h"
#include "geard/log.h"

namespace gear::daemon {
namespace {

// Allocating and populating hundreds of GiB takes minutes.
constexpr int64_t kTableTimeoutNs = int64_t{30} * 60 * 1'000'000'000;

Status last_failure(int code) {
  return Status(code, gear_last_error());
}

Status make_table(gear_client* client, const DeclaredTable& declared) {
  const TableRequest request(declared.spec);
  gear_table* table = nullptr;
  const int code = gear_table_create(client, &request.options(), &table);
  if (code == GEAR_EEXISTS) {
    log_info("table \"" + declared.spec.name + "\" exists already and is kept as it is");
    return {};
  }
  if (code != GEAR_OK) return last_failure(code);
  gear_table_detach(table);
  return {};
}

Status make_all(gear_client* client, const std::vector<DeclaredTable>& tables,
                const ServiceNotifier& notifier) {
  for (const DeclaredTable& declared : tables) {
    notifier.send("EXTEND_TIMEOUT_USEC=" + std::to_string(kTableTimeoutNs / 1000) +
                  "\nSTATUS=making table " + declared.spec.name + ", " +
                  format_bytes(declared.bytes));
    GEAR_TRY(make_table(client, declared));
  }
  return {};
}

}  // namespace

Status make_tables(const std::string& socket_path, const std::vector<DeclaredTable>& tables,
                   const ServiceNotifier& notifier) {
  gear_connect_options options = GEAR_CONNECT_OPTIONS_INIT;
  options.name = "geard (startup)";
  options.request_timeout_ns = kTableTimeoutNs;
  gear_client* client = nullptr;
  const int code = gear_connect(("unix:" + socket_path).c_str(), &options, &client);
  if (code != GEAR_OK) return last_failure(code);
  const Status made = make_all(client, tables, notifier);
  gear_close(client);
  return made;
}

}  // namespace gear::daemon
