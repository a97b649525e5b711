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
  kTableHandle,
  kTableSet,
  kTableGroups,
  kTableDropGroup,
  kFsck
};

// What "table set" changes; at least one of them.
struct TableChange {
  std::optional<gear_rate_limiter> limiter;
  std::optional<uint64_t> policy_version;
};

struct Invocation {
  Command command = Command::kStatus;
  std::string endpoint;  // "" is the default
  bool json = false;
  TableSpec spec;                   // create
  TableChange change;               // set
  std::vector<std::string> names;   // tables: describe, rm, handle, set, groups, drop-group; fsck
  std::vector<std::string> groups;  // drop-group
};

// Where nothing is left to do (--help, or a fault, which it prints) returns nullopt and sets
// *exit_status.
std::optional<Invocation> read_command_line(int argc, char** argv, int* exit_status);

}  // namespace gear::daemon
