#include "gearctl/command_line.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>

#include "common/nearest.h"
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
    "A column is name:dtype[:shape][:episode]; dtypes are bool u8 i8 u16 i16 u32 i32 u64 i64 f16 "
    "bf16 f32\n"
    "f64 c64 and bytesN. Counts take k M G (1000s) and Ki Mi Gi (1024s). A limiter is min_size:N,\n"
    "ratio:SAMPLES_PER_INSERT:MIN_SIZE:ERROR or "
    "bounds:SAMPLES_PER_INSERT:MIN_SIZE:MIN_DIFF:MAX_DIFF.\n"
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
      : app_("gearctl looks at a running geard, makes and removes tables, and checks the machine.",
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
    CLI::App* table = app_.add_subcommand("table", "Make, list, describe and remove tables");
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
  }

  CLI::App& app() { return app_; }

  // "" or what is wrong with the values.
  std::string finish() {
    if (invocation_.command != Command::kTableCreate) return "";
    TableSpec& spec = invocation_.spec;
    for (const std::string& text : columns_) {
      const Parsed<ColumnSpec> column = parse_column(text);
      if (!column.ok()) return "--column " + column.fault_text();
      spec.columns.push_back(column.value());
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

  Invocation& invocation() { return invocation_; }

 private:
  CLI::App* add(CLI::App& parent, const std::string& name, const std::string& help,
                Command command) {
    CLI::App* app = parent.add_subcommand(name, help);
    app->fallthrough();
    app->callback([this, command] { invocation_.command = command; });
    return app;
  }

  void declare_named(CLI::App& parent, const std::string& name, const std::string& help,
                     Command command) {
    CLI::Option* names = add(parent, name, help, command)
                             ->add_option("NAME", invocation_.names, "Names of tables")
                             ->required()
                             ->type_name("");
    if (command != Command::kTableRemove) names->expected(1);
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
    for (const TableField& field : table_fields()) {
      std::string names = option_name(field);
      if (names == "--capacity-items") names = "--capacity,--capacity-items";
      app->add_option(names, values_[field.key], field.help)->type_name(field.value_name);
    }
  }

  CLI::App app_;
  Invocation invocation_;
  std::vector<std::string> columns_;
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
