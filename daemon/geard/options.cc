#include "geard/options.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "common/names.h"
#include "common/nearest.h"

namespace gear::daemon {
namespace {

constexpr char kDescription[] =
    "geard serves GEAR tables: trajectories in shared memory, which actors append to and learners\n"
    "sample from. It runs in the foreground until SIGTERM or SIGINT and then leaves nothing "
    "behind.";

constexpr char kFooter[] =
    "Without --socket it listens on $XDG_RUNTIME_DIR/gear/geard.sock, or on /run/gear/geard.sock "
    "when\n"
    "run by root or where that variable is not set. Options given here win over the file's.\n"
    "\n"
    "Exit status: 0 clean end; 1 failure; 2 command line or configuration; 3 already running.\n"
    "See geard(8) for the configuration file, gearctl(1) to look at a running geard.";

struct CommandLine {
  std::string config_path;
  bool check_config = false;
  std::string socket_path;
  std::string memory;
  std::string access;
  bool no_io_uring = false;
  bool fresh = false;
  std::string log_level;
  std::string log_format;
};

void declare(CLI::App& app, CommandLine* line) {
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("geard ") + GEAR_BUILD_VERSION,
                       "Print the version and exit");
  app.add_option("-c,--config", line->config_path, "Read this TOML file")->type_name("FILE");
  app.add_flag("--check-config", line->check_config,
               "Check the file of --config, print what is wrong with line and column, and exit");
  app.add_option("-s,--socket", line->socket_path, "Listen on this Unix socket")->type_name("PATH");
  app.add_option(
         "--memory", line->memory,
         "Where tables that do not say go: posix (/dev/shm, default) or memfd (no size limit)")
      ->type_name("posix|memfd");
  app.add_option("--access", line->access,
                 "Whose processes may connect: own (this user's and root's, default) or any (the tables' modes rule)")
      ->type_name("own|any");
  app.add_flag("--no-io-uring", line->no_io_uring, "Use epoll even where io_uring is available");
  app.add_flag("--fresh", line->fresh,
               "Discard what a geard that was killed left for this socket, instead of adopting it");
  app.add_option("--log-level", line->log_level, "Least level written (default info)")
      ->type_name("debug|info|warning|error");
  app.add_option("--log-format", line->log_format, "Form of a line (default text)")
      ->type_name("text|json");
}

// The nearest long option of what CLI11 could not place.
std::string option_hint(const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const std::string& word : app.remaining()) {
    const std::string near = nearest(word, known);
    if (!near.empty()) return "; \"" + word + "\" is not known, did you mean " + near + "?";
  }
  return "";
}

bool usage_fault(const std::string& text) {
  std::cerr << "geard: " << text << "\nTry geard --help.\n";
  return false;
}

bool apply_name(const NameList& list, const std::string& option, const std::string& text,
                uint32_t* value) {
  if (text.empty()) return true;
  const Parsed<uint32_t> parsed = value_of(list, text);
  if (!parsed.ok()) return usage_fault(option + " " + parsed.fault_text());
  *value = parsed.value();
  return true;
}

// What the command line says wins over what the file said.
bool apply(const CommandLine& line, Config* config) {
  if (!line.socket_path.empty()) config->server.socket_path = line.socket_path;
  if (line.fresh) config->server.fresh = true;
  if (line.no_io_uring) config->server.allow_io_uring = false;
  auto access = static_cast<uint32_t>(config->server.access);
  if (!apply_name(access_names(), "--access", line.access, &access)) return false;
  config->server.access = static_cast<ConnectAccess>(access);
  return apply_name(memory_names(), "--memory", line.memory, &config->server.memory) &&
         apply_name(log_level_names(), "--log-level", line.log_level, &config->log.level) &&
         apply_name(log_format_names(), "--log-format", line.log_format, &config->log.format);
}

bool read_file(const std::string& path, Config* config) {
  const std::vector<ConfigFault> faults = read_config(path, config);
  for (const ConfigFault& fault : faults) std::cerr << format_fault(path, fault) << "\n";
  return faults.empty();
}

}  // namespace

std::optional<Invocation> read_command_line(int argc, char** argv, int* exit_status) {
  CommandLine line;
  CLI::App app(kDescription, "geard");
  declare(app, &line);
  *exit_status = kExitUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    *exit_status = app.exit(success);
    return std::nullopt;
  } catch (const CLI::ParseError& failure) {
    usage_fault(failure.what() + option_hint(app));
    return std::nullopt;
  }
  Invocation invocation;
  invocation.config.server.memory = GEAR_MEMORY_POSIX;
  invocation.config_path = line.config_path;
  invocation.check_config = line.check_config;
  if (line.check_config && line.config_path.empty()) {
    usage_fault("--check-config needs --config FILE");
    return std::nullopt;
  }
  if (!line.config_path.empty() && !read_file(line.config_path, &invocation.config)) {
    return std::nullopt;
  }
  if (!apply(line, &invocation.config)) return std::nullopt;
  *exit_status = kExitOk;
  return invocation;
}

}  // namespace gear::daemon
