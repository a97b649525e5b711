// gearctl: one command, one JSON document, printed as JSON or for people.
#include <iostream>

#include "gearctl/command_line.h"
#include "gearctl/doctor.h"
#include "gearctl/output.h"
#include "gearctl/session.h"
#include "gearctl/status.h"
#include "gearctl/tables.h"

namespace gear::daemon {
namespace {

struct Answer {
  Json document;
  std::string text;
  int exit_status = kExitOk;
};

Answer remove_tables(gear_client* client, const std::vector<std::string>& names) {
  Answer answer;
  answer.document["removed"] = Json::array();
  for (const std::string& name : names) {
    check(gear_table_drop(client, name.c_str()));
    answer.document["removed"].push_back(name);
    answer.text += "removed table \"" + printable(name) + "\"\n";
  }
  return answer;
}

Answer table_handle(gear_client* client, const std::string& name) {
  char handle[GEAR_HANDLE_BYTES + 1];
  check(gear_table_handle(open_table(client, name).get(), handle));
  return {Json{{"name", name}, {"handle", handle}}, std::string(handle) + "\n"};
}

Answer rendered(Json document, std::string (*render)(const Json&)) {
  std::string text = render(document);
  return {std::move(document), std::move(text)};
}

Answer doctor(const std::string& endpoint) {
  Answer answer = rendered(examine(endpoint), render_doctor);
  if (answer.document["fail"] != 0) answer.exit_status = kExitFailure;
  return answer;
}

Answer answer(const Invocation& invocation) {
  if (invocation.command == Command::kDoctor) return doctor(invocation.endpoint);
  const Client client = connect(invocation.endpoint);
  switch (invocation.command) {
    case Command::kTableCreate:
      return rendered(create_table(client.get(), invocation.spec), render_table);
    case Command::kTableList:
      return rendered(list_tables(client.get()), render_tables);
    case Command::kTableDescribe:
      return rendered(describe_table(open_table(client.get(), invocation.names[0]).get()),
                      render_table);
    case Command::kTableRemove:
      return remove_tables(client.get(), invocation.names);
    case Command::kTableHandle:
      return table_handle(client.get(), invocation.names[0]);
    default:
      return rendered(server_status(client.get(), invocation.endpoint), render_status);
  }
}

// {"error": {"status", "code", "text"}} beside the line on standard error.
int explain(const Failure& failure, bool json) {
  const std::string name = gear_status_string(failure.code);
  if (json) {
    print_json({{"error", {{"status", name}, {"code", failure.code}, {"text", failure.text}}}});
  }
  std::cerr << "gearctl: " << printable(failure.text) << " [" << name << "]\n";
  const bool no_server = failure.code == GEAR_ENOSERVER || failure.code == GEAR_ESTALESOCKET ||
                         failure.code == GEAR_ENOTSOCKET;
  return no_server ? kExitNoServer : kExitFailure;
}

int run(const Invocation& invocation) {
  try {
    const Answer result = answer(invocation);
    if (invocation.json)
      print_json(result.document);
    else
      print_text(result.text);
    return result.exit_status;
  } catch (const Failure& failure) {
    return explain(failure, invocation.json);
  }
}

}  // namespace
}  // namespace gear::daemon

int main(int argc, char** argv) {
  using namespace gear::daemon;
  int exit_status = kExitOk;
  const std::optional<Invocation> invocation = read_command_line(argc, argv, &exit_status);
  return invocation ? run(*invocation) : exit_status;
}
