#include "gearctl/session.h"

#include <unistd.h>

#include <cstdlib>

namespace gear::daemon {

void check(int code) {
  if (code != GEAR_OK) throw Failure{code, gear_last_error()};
}

Client connect(const std::string& endpoint) {
  gear_connect_options options = GEAR_CONNECT_OPTIONS_INIT;
  options.name = "gearctl";
  gear_client* client = nullptr;
  check(gear_connect(endpoint.empty() ? nullptr : endpoint.c_str(), &options, &client));
  return Client(client);
}

std::string endpoint_name(const std::string& endpoint) {
  if (!endpoint.empty()) return endpoint;
  const char* variable = getenv("GEAR_ENDPOINT");
  if (variable != nullptr && *variable != '\0') return variable;
  const char* runtime = geteuid() != 0 ? getenv("XDG_RUNTIME_DIR") : nullptr;
  if (runtime == nullptr || *runtime == '\0') runtime = "/run";
  return "unix:" + std::string(runtime) + "/gear/geard.sock";
}

Table open_table(gear_client* client, const std::string& name) {
  gear_table* table = nullptr;
  check(gear_table_open(client, name.c_str(), &table));
  return Table(table);
}

std::vector<std::string> table_names(gear_client* client) {
  std::vector<std::string> names;
  check(gear_table_list(
      client,
      [](const char* name, void* user) {
        static_cast<std::vector<std::string>*>(user)->emplace_back(name);
      },
      &names));
  return names;
}

}  // namespace gear::daemon
