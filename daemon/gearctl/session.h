// gearctl's connection to a server, through gear.h alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gear.h"

namespace gear::daemon {

// Exit statuses; gearctl(1) lists them.
enum ExitStatus : int {
  kExitOk = 0,
  kExitFailure = 1,   // the server refused, or doctor found what must be mended
  kExitUsage = 2,     // command line
  kExitNoServer = 3,  // nothing to talk to
};

// What a command failed with. Thrown by the functions below and caught in main.
struct Failure {
  int code;  // gear_status
  std::string text;
};

// Throws the library's latest error unless code is GEAR_OK.
void check(int code);

struct CloseClient {
  void operator()(gear_client* client) const { gear_close(client); }
};
using Client = std::unique_ptr<gear_client, CloseClient>;

struct DetachTable {
  void operator()(gear_table* table) const { gear_table_detach(table); }
};
using Table = std::unique_ptr<gear_table, DetachTable>;

// "" is the default endpoint.
Client connect(const std::string& endpoint);

// What `endpoint` leads to, as a user would name it: the default one spelled out where it is known.
std::string endpoint_name(const std::string& endpoint);

Table open_table(gear_client* client, const std::string& name);
std::vector<std::string> table_names(gear_client* client);

}  // namespace gear::daemon
