// geard's command line.
#pragma once

#include <optional>

#include "geard/config.h"

namespace gear::daemon {

// Exit statuses; geard(8) lists them.
enum ExitStatus : int {
  kExitOk = 0,
  kExitFailure = 1,         // could not start, or could not go on
  kExitUsage = 2,           // command line or configuration file
  kExitAlreadyRunning = 3,  // another geard serves this socket
};

struct Invocation {
  Config config;
  std::string config_path;
  bool check_config = false;
};

// The configuration of a command line, files read. Where nothing is left to do, for good (--help)
// or ill (faults, which it prints), returns nullopt and sets *exit_status.
std::optional<Invocation> read_command_line(int argc, char** argv, int* exit_status);

}  // namespace gear::daemon
