// gearctl's command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/table_spec.h"

namespace gear::daemon {

enum class Command {
  kStatus,
  kDoctor,
  kTableCreate,
  kTableList,
  kTableDescribe,
  kTableRemove,
  kTableHandle
};

struct Invocation {
  Command command = Command::kStatus;
  std::string endpoint;  // "" is the default
  bool json = false;
  TableSpec spec;                  // create
  std::vector<std::string> names;  // describe, rm, handle
};

// Where nothing is left to do (--help, or a fault, which it prints) returns nullopt and sets
// *exit_status.
std::optional<Invocation> read_command_line(int argc, char** argv, int* exit_status);

}  // namespace gear::daemon
