// gearctl: one command, one JSON document, printed as JSON or for people.
#include <iostream>

#include "gearctl/command_line.h"
#include "gearctl/doctor.h"
#include "gearctl/gc.h"
#include "gearctl/groups.h"
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
  std::vector<Failure> failures{};  // of a part of the command; the document has the first
};

// All that can be removed are.
Answer remove_tables(gear_client* client, const std::vector<std::string>& names) {
  Answer answer;
  answer.document["removed"] = Json::array();
  for (const std::string& name : names) {
    if (int code = gear_table_drop(client, name.c_str()); code != GEAR_OK) {
      answer.failures.push_back({code, gear_last_error()});
      continue;
    }
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

Answer drop_groups(gear_client* client, const std::string& name,
                   const std::vector<std::string>& groups) {
  const Table table = open_table(client, name);
  Answer answer;
  answer.document["table"] = name;
  answer.document["dropped"] = Json::array();
  for (const std::string& group : groups) {
    check(gear_group_drop(table.get(), group.c_str()));
    answer.document["dropped"].push_back(group);
    answer.text +=
        "dropped group \"" + printable(group) + "\" of table \"" + printable(name) + "\"\n";
  }
  return answer;
}

Answer doctor(const std::string& endpoint) {
  Answer answer = rendered(examine(endpoint), render_doctor);
  if (answer.document["fail"] != 0) answer.exit_status = kExitFailure;
  return answer;
}

Answer fsck(gear_table* table, const std::string& name) {
  std::vector<std::string> findings;
  check(gear_table_check(
      table, [](const char* text, void* user) { static_cast<std::vector<std::string>*>(user)->emplace_back(text); },
      &findings));
  Answer answer;
  answer.document = {{"table", name}, {"findings", findings}};
  for (const std::string& finding : findings) answer.text += printable(finding) + "\n";
  if (findings.empty()) {
    answer.text = "table \"" + printable(name) + "\" keeps its rules\n";
  } else {
    answer.exit_status = kExitFailure;
  }
  return answer;
}

// The commands about one table that is there.
Answer about_table(gear_client* client, const Invocation& invocation) {
  const std::string& name = invocation.names[0];
  if (invocation.command == Command::kTableHandle) return table_handle(client, name);
  if (invocation.command == Command::kTableDropGroup) {
    return drop_groups(client, name, invocation.groups);
  }
  const Table table = open_table(client, name);
  if (invocation.command == Command::kFsck) return fsck(table.get(), name);
  if (invocation.command == Command::kTableGroups) {
    return rendered(list_groups(table.get(), name), render_groups);
  }
  if (invocation.command == Command::kTableSet) change_table(table.get(), invocation.change);
  return rendered(describe_table(table.get()), render_table);
}

Answer answer(const Invocation& invocation) {
  if (invocation.command == Command::kDoctor) return doctor(invocation.endpoint);
  if (invocation.command == Command::kCollect) {
    return rendered(collect_orphans(invocation.instances, invocation.force), render_orphans);
  }
  const Client client = connect(invocation.endpoint);
  switch (invocation.command) {
    case Command::kTableCreate:
      return rendered(create_table(client.get(), invocation.spec), render_table);
    case Command::kTableList:
      return rendered(list_tables(client.get()), render_tables);
    case Command::kTableRemove:
      return remove_tables(client.get(), invocation.names);
    case Command::kStatus:
      return rendered(server_status(client.get(), invocation.endpoint), render_status);
    default:
      return about_table(client.get(), invocation);
  }
}

Json error_of(const Failure& failure) {
  return {{"status", gear_status_string(failure.code)}, {"code", failure.code}, {"text", failure.text}};
}

int explain(const Failure& failure) {
  std::cerr << "gearctl: " << printable(failure.text) << " [" << gear_status_string(failure.code) << "]\n";
  const bool no_server = failure.code == GEAR_ENOSERVER || failure.code == GEAR_ESTALESOCKET ||
                         failure.code == GEAR_ENOTSOCKET;
  return no_server ? kExitNoServer : kExitFailure;
}

// Where something failed the document has {"error": {"status", "code", "text"}}, beside the lines on standard error.
int run(const Invocation& invocation) {
  try {
    Answer result = answer(invocation);
    if (!result.failures.empty()) result.document["error"] = error_of(result.failures[0]);
    if (invocation.json)
      print_json(result.document);
    else
      print_text(result.text);
    for (const Failure& failure : result.failures) result.exit_status = explain(failure);
    return result.exit_status;
  } catch (const Failure& failure) {
    if (invocation.json) print_json({{"error", error_of(failure)}});
    return explain(failure);
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
