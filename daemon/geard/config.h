// What geard is told to do, from a TOML file and from the command line.
//
//   [server]  socket access memory io_uring clients_max tables_max channels_max user_..._max hello_timeout spin drowsy
//   [log]     level format
//   [[table]] name columns selectors, and the keys of table_fields(): made when geard starts
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "common/table_spec.h"
#include "geard/log.h"
#include "server/server.h"

namespace gear::daemon {

struct DeclaredTable {
  TableSpec spec;
  uint64_t bytes = 0;  // shared memory it will take
};

struct Config {
  ServerOptions server;
  LogOptions log;
  std::vector<DeclaredTable> tables;
};

// A place in a file and what is wrong there; line 0 where it concerns the whole file.
struct ConfigFault {
  uint32_t line = 0;
  uint32_t column = 0;
  std::string text;
};

// "geard.toml:3:1: error: ...", as compilers say it.
std::string format_fault(const std::string& path, const ConfigFault& fault);

// Sets in *config what the file says and returns every fault of it; *config may then be half set. A
// table is checked in full, as the server will check it. Allocates no shared memory.
std::vector<ConfigFault> read_config(const std::string& path, Config* config);
std::vector<ConfigFault> read_config_text(const std::string& text, Config* config);

// Checks a finished spec as the server will. On success *bytes is the shared memory it takes.
Status check_table(const TableSpec& spec, uint64_t* bytes);

}  // namespace gear::daemon
