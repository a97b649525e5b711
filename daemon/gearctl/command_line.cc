#include "gearctl/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>

#include "common/nearest.h"
#include "common/quantity.h"
#include "gearctl/session.h"

namespace gear::daemon {
namespace {

constexpr char kFooter[] =
    "Endpoints: unix:/path, handle:XXXX; default $GEAR_ENDPOINT, else "
    "$XDG_RUNTIME_DIR/gear/geard.sock, or\n"
    "/run/gear/geard.sock when run by root or where that variable is not set.\n"
    "\n"
    "Exit status: 0 done; 1 refused, or doctor found a fail; 2 command line; 3 no server.";

constexpr char kCreateFooter[] =
    "A column is name:dtype[:shape][:episode], or [:optional] at its end; dtypes are bool u8 i8 "
    "u16 "
    "i16 u32\n"
    "i32 u64 i64 f16 bf16 f32 f64 c64 and bytesN. Counts take k M G (1000s) and Ki Mi Gi (1024s). "
    "A "
    "limiter is\n"
    "min_size:N, ratio:SAMPLES_PER_INSERT:MIN_SIZE:ERROR or "
    "bounds:SAMPLES_PER_INSERT:MIN_SIZE:MIN_DIFF:MAX_DIFF.\n"
    "A selector is NAME:KIND[:PROPORTION[:PARAMETER[:PARAMETER]]]; parameters are the half-life of "
    "recency, the k\n"
    "of top_k, alpha and epsilon of prioritized.\n"
    "\n"
    "  gearctl table create replay --column obs:u8:84x84 --column action:i64 --column reward:f32 "
    "\\\n"
    "      --capacity 1M --sampler prioritized --limiter min_size:1000\n"
    "  gearctl table create rollouts --column tokens:i32 --queue 512 --items episode "
    "--episode-steps-max 8k";

// Declares every command and keeps what the user gave.
class CommandLine {
 public:
  CommandLine()
      : app_(
            "gearctl looks at a running geard, makes, changes and removes tables, and checks the "
            "machine.",
            "gearctl") {
    app_.footer(kFooter);
    app_.set_version_flag("--version", std::string("gearctl ") + GEAR_BUILD_VERSION,
                          "Print the version and exit");
    app_.add_option("-e,--endpoint", invocation_.endpoint, "Which server")->type_name("ENDPOINT");
    app_.add_flag("--json", invocation_.json, "Print JSON");
    app_.require_subcommand(1);
    app_.fallthrough();
    add(app_, "status", "The server and its tables", Command::kStatus);
    add(app_, "doctor", "Whether this machine has what GEAR needs, and what to do",
        Command::kDoctor);
    declare_named(app_, "fsck", "Whether the shared memory of a table keeps its rules", Command::kFsck)
        ->add_flag("--online", online_, "while the server works: reads the table and changes nothing")
        ->required();
    CLI::App* table =
        app_.add_subcommand("table", "Make, list, describe, change and remove tables");
    table->require_subcommand(1);
    table->fallthrough();
    declare_create(*table);
    add(*table, "ls", "List the tables", Command::kTableList);
    declare_named(*table, "describe", "Everything about a table", Command::kTableDescribe);
    declare_named(*table, "rm",
                  "Remove tables: who waits on them is told, and their memory is freed",
                  Command::kTableRemove);
    declare_named(*table, "handle",
                  "Print a table's handle, by which any process attaches; it holds a secret",
                  Command::kTableHandle);
    declare_set(*table);
    declare_named(*table, "groups", "The consumer groups of a table: who lags, what is in flight",
                  Command::kTableGroups);
    declare_named(*table, "drop-group",
                  "Remove consumer groups of a table: their samplers are told",
                  Command::kTableDropGroup)
        ->add_option("GROUP", invocation_.groups, "Names of groups")
        ->required()
        ->type_name("");
  }

  CLI::App& app() { return app_; }

  // "" or what is wrong with the values.
  std::string finish() {
    if (invocation_.command == Command::kTableSet) return finish_set();
    return invocation_.command == Command::kTableCreate ? finish_create() : "";
  }

  Invocation& invocation() { return invocation_; }

 private:
  std::string finish_create() {
    TableSpec& spec = invocation_.spec;
    for (const std::string& text : columns_) {
      const Parsed<ColumnSpec> column = parse_column(text);
      if (!column.ok()) return "--column " + column.fault_text();
      spec.columns.push_back(column.value());
    }
    for (const std::string& text : selectors_) {
      const Parsed<SelectorSpec> selector = parse_selector(text);
      if (!selector.ok()) return "--selector: " + selector.fault_text();
      spec.selectors.push_back(selector.value());
    }
    for (const TableField& field : table_fields()) {
      const std::string& text = values_[field.key];
      if (text.empty()) continue;
      const std::optional<Fault> fault = field.set(&spec, text);
      if (fault) return option_name(field) + " " + fault->text;
    }
    const std::optional<Fault> fault = finish_table(&spec);
    return fault ? fault->text : "";
  }

  std::string finish_set() {
    TableChange& change = invocation_.change;
    if (new_limiter_.empty() && new_version_.empty()) {
      return "table set has nothing to set; give --limiter LIMITER, --policy-version N, or both";
    }
    if (!new_limiter_.empty()) {
      const Parsed<gear_rate_limiter> limiter = parse_limiter(new_limiter_);
      if (!limiter.ok()) return "--limiter " + limiter.fault_text();
      change.limiter = limiter.value();
    }
    if (!new_version_.empty()) {
      const Parsed<uint64_t> version = parse_count(new_version_);
      if (!version.ok()) return "--policy-version " + version.fault_text();
      change.policy_version = version.value();
    }
    return "";
  }

  CLI::App* add(CLI::App& parent, const std::string& name, const std::string& help,
                Command command) {
    CLI::App* app = parent.add_subcommand(name, help);
    app->fallthrough();
    app->callback([this, command] { invocation_.command = command; });
    return app;
  }

  CLI::App* declare_named(CLI::App& parent, const std::string& name, const std::string& help,
                          Command command) {
    const bool several = command == Command::kTableRemove;
    CLI::App* app = add(parent, name, help, command);
    CLI::Option* names = app->add_option("NAME", invocation_.names,
                                         several ? "Names of tables" : "Name of the table")
                             ->required()
                             ->type_name("");
    if (!several) names->expected(1)->allow_extra_args(false);
    return app;
  }

  void declare_set(CLI::App& parent) {
    CLI::App* app = declare_named(
        parent, "set", "Change a table in use; who waits on it is looked at again at once",
        Command::kTableSet);
    app->add_option("--limiter", new_limiter_, "when draws and insertions wait; the counts go on")
        ->type_name("LIMITER");
    app->add_option("--policy-version", new_version_,
                    "version that items are measured against; it never goes down")
        ->type_name("N");
  }

  static std::string option_name(const TableField& field) {
    std::string name = std::string("--") + field.key;
    for (char& c : name) c = c == '_' ? '-' : c;
    return name;
  }

  void declare_create(CLI::App& parent) {
    CLI::App* app = add(parent, "create", "Make a table", Command::kTableCreate);
    app->footer(kCreateFooter);
    app->add_option("NAME", invocation_.spec.name, "Name of the table")->required()->type_name("");
    app->add_option("--column", columns_, "A column; once for each")
        ->required()
        ->type_name("NAME:DTYPE[:SHAPE]")
        ->allow_extra_args(false);
    app->add_option("--selector", selectors_, "A named selector; once for each, at most 4")
        ->type_name("NAME:KIND[:PROPORTION[:PARAMETER..]]")
        ->allow_extra_args(false);
    for (const TableField& field : table_fields()) {
      std::string names = option_name(field);
      if (names == "--capacity-items") names = "--capacity,--capacity-items";
      app->add_option(names, values_[field.key], field.help)->type_name(field.value_name);
    }
  }

  CLI::App app_;
  Invocation invocation_;
  bool online_ = false;
  std::vector<std::string> columns_;
  std::vector<std::string> selectors_;
  std::string new_limiter_;
  std::string new_version_;
  std::map<std::string, std::string> values_;
};

// The command or option that a mistyped word most likely meant, among those of the deepest command
// given.
std::string hint(const CLI::App& app) {
  const CLI::App* deepest = &app;
  while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
  std::vector<std::string> known;
  for (const CLI::App* command : deepest->get_subcommands({})) known.push_back(command->get_name());
  for (const CLI::App* level = deepest; level != nullptr; level = level->get_parent()) {
    for (const CLI::Option* option : level->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  for (const std::string& word : app.remaining(true)) {
    const std::string near = nearest(word, known);
    if (!near.empty()) return "; \"" + word + "\" is not known, did you mean " + near + "?";
  }
  return "";
}

void print_fault(const std::string& text) {
  std::cerr << "gearctl: " << text << "\nTry gearctl --help.\n";
}

}  // namespace

std::optional<Invocation> read_command_line(int argc, char** argv, int* exit_status) {
  CommandLine line;
  *exit_status = kExitUsage;
  try {
    line.app().parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    *exit_status = line.app().exit(success);
    return std::nullopt;
  } catch (const CLI::ParseError& failure) {
    print_fault(failure.what() + hint(line.app()));
    return std::nullopt;
  }
  const std::string fault = line.finish();
  if (!fault.empty()) {
    print_fault(fault);
    return std::nullopt;
  }
  *exit_status = kExitOk;
  return line.invocation();
}

}  // namespace gear::daemon
