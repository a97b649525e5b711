#include "geard/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "client/table_request.h"
#include "common/column_spec.h"
#include "common/names.h"
#include "common/nearest.h"
#include "common/quantity.h"
#include "table/geometry.h"

namespace gear::daemon {
namespace {

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

// Collects faults. Every reader below takes what it reads and leaves the rest.
class Reader {
 public:
  void fault(const toml::source_region& at, const std::string& text) {
    faults_.push_back(
        {static_cast<uint32_t>(at.begin.line), static_cast<uint32_t>(at.begin.column), text});
  }
  std::vector<ConfigFault> take_faults() {
    std::stable_sort(faults_.begin(), faults_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
    return std::move(faults_);
  }
  size_t fault_count() const { return faults_.size(); }

  void unknown_key(const toml::key& key, const std::string& where,
                   const std::vector<std::string>& known) {
    const std::string name(key.str());
    fault(key.source(), "unknown key " + quoted(name) + " in " + where + suggestion(name, known));
  }

  void wrong_type(const toml::key& key, const toml::node& node, const std::string& wanted) {
    std::ostringstream type;
    type << node.type();
    fault(node.source(),
          std::string(key.str()) + " must be " + wanted + ", and is of TOML type " + type.str());
  }

 private:
  std::vector<ConfigFault> faults_;
};

const char* wanted_by(ValueKind kind) {
  switch (kind) {
    case ValueKind::kWord:
      return "a string";
    case ValueKind::kCount:
      return "a whole number, or a string such as \"100k\"";
    case ValueKind::kReal:
      return "a number";
    case ValueKind::kAmount:
      return "a number, or a string such as \"10k\"";
    case ValueKind::kSwitch:
      return "true or false, or \"yes\" or \"no\"";
  }
  return "of another type";
}

// The text of a scalar, as the field's setter wants it; nullopt after a fault.
std::optional<std::string> text_of(Reader& reader, const toml::key& key, const toml::node& node,
                                   ValueKind kind) {
  const bool is_number = kind == ValueKind::kReal || kind == ValueKind::kAmount;
  if (const auto* text = node.as_string()) {
    if (kind != ValueKind::kReal) return text->get();
  }
  if (const auto* integer = node.as_integer()) {
    if (kind == ValueKind::kCount || is_number) return std::to_string(integer->get());
  }
  if (const auto* real = node.as_floating_point()) {
    if (is_number) return format_real(real->get());
  }
  if (const auto* flag = node.as_boolean()) {
    if (kind == ValueKind::kSwitch) return flag->get() ? "yes" : "no";
  }
  reader.wrong_type(key, node, wanted_by(kind));
  return std::nullopt;
}

// One key of [server] or [log].
struct Setting {
  const char* key;
  ValueKind kind;
  std::optional<Fault> (*set)(Config* config, const std::string& text);
};

template <auto Member, const NameList& (*List)()>
std::optional<Fault> set_log(Config* config, const std::string& text) {
  const Parsed<uint32_t> value = value_of(List(), text);
  if (!value.ok()) return Fault{value.fault_text()};
  config->log.*Member = value.value();
  return std::nullopt;
}

std::optional<Fault> set_memory(Config* config, const std::string& text) {
  const Parsed<uint32_t> value = value_of(memory_names(), text);
  if (!value.ok()) return Fault{value.fault_text()};
  config->server.memory = value.value();
  return std::nullopt;
}

std::optional<Fault> set_access(Config* config, const std::string& text) {
  const Parsed<uint32_t> value = value_of(access_names(), text);
  if (!value.ok()) return Fault{value.fault_text()};
  config->server.access = static_cast<ConnectAccess>(value.value());
  return std::nullopt;
}

// Of one user; 0 is without limit.
template <auto Member>
std::optional<Fault> set_quota(Config* config, const std::string& text) {
  using T = std::remove_reference_t<decltype(config->server.user_quotas.*Member)>;
  const Parsed<uint64_t> count = parse_count(text);
  if (!count.ok()) return Fault{count.fault_text()};
  if (count.value() > std::numeric_limits<T>::max()) {
    return Fault{text + "; give at most " + std::to_string(std::numeric_limits<T>::max()) + ", or 0 for no limit"};
  }
  config->server.user_quotas.*Member = static_cast<T>(count.value());
  return std::nullopt;
}

std::optional<Fault> set_socket(Config* config, const std::string& text) {
  if (text.empty() || text[0] != '/') return Fault{quoted(text) + " is not an absolute path"};
  config->server.socket_path = text;
  return std::nullopt;
}

template <uint32_t ServerOptions::*Member>
std::optional<Fault> set_maximum(Config* config, const std::string& text) {
  const Parsed<uint64_t> count = parse_count(text);
  if (!count.ok()) return Fault{count.fault_text()};
  if (count.value() < 1 || count.value() > 1'000'000) {
    return Fault{text + "; give 1 to 1000000"};
  }
  config->server.*Member = static_cast<uint32_t>(count.value());
  return std::nullopt;
}

template <int64_t ServerOptions::*Member>
std::optional<Fault> set_duration(Config* config, const std::string& text) {
  const Parsed<int64_t> duration = parse_duration_ns(text);
  if (!duration.ok()) return Fault{duration.fault_text()};
  config->server.*Member = duration.value();
  return std::nullopt;
}

constexpr char kIoUring[] = "io_uring";

const std::vector<Setting>& server_settings() {
  static const std::vector<Setting> settings = {
      {"socket", ValueKind::kWord, set_socket},
      {"memory", ValueKind::kWord, set_memory},
      {"clients_max", ValueKind::kCount, set_maximum<&ServerOptions::clients_max>},
      {"tables_max", ValueKind::kCount, set_maximum<&ServerOptions::tables_max>},
      {"channels_max", ValueKind::kCount, set_maximum<&ServerOptions::channels_max>},
      {"access", ValueKind::kWord, set_access},
      {"user_clients_max", ValueKind::kCount, set_quota<&UserQuotas::clients_max>},
      {"user_channels_max", ValueKind::kCount, set_quota<&UserQuotas::channels_max>},
      {"user_lanes_max", ValueKind::kCount, set_quota<&UserQuotas::lanes_max>},
      {"user_tables_max", ValueKind::kCount, set_quota<&UserQuotas::tables_max>},
      {"user_table_bytes_max", ValueKind::kCount, set_quota<&UserQuotas::table_bytes_max>},
      {"user_leased_bytes_max", ValueKind::kCount, set_quota<&UserQuotas::leased_bytes_max>},
      {"hello_timeout", ValueKind::kWord, set_duration<&ServerOptions::hello_timeout_ns>},
      {"spin", ValueKind::kWord, set_duration<&ServerOptions::spin_ns>},
      {"drowsy", ValueKind::kWord, set_duration<&ServerOptions::drowsy_ns>}};
  return settings;
}

const std::vector<Setting>& log_settings() {
  static const std::vector<Setting> settings = {
      {"level", ValueKind::kWord, set_log<&LogOptions::level, log_level_names>},
      {"format", ValueKind::kWord, set_log<&LogOptions::format, log_format_names>}};
  return settings;
}

// False where the key is none of the settings.
bool read_setting(Reader& reader, const std::vector<Setting>& settings, const toml::key& key,
                  const toml::node& node, Config* config) {
  const auto setting = std::find_if(settings.begin(), settings.end(),
                                    [&](const Setting& one) { return key.str() == one.key; });
  if (setting == settings.end()) return false;
  const std::optional<std::string> text = text_of(reader, key, node, setting->kind);
  if (!text) return true;
  const std::optional<Fault> fault = setting->set(config, *text);
  if (fault) reader.fault(node.source(), std::string(setting->key) + " " + fault->text);
  return true;
}

std::vector<std::string> keys_of(const std::vector<Setting>& settings) {
  std::vector<std::string> keys;
  for (const Setting& setting : settings) keys.push_back(setting.key);
  return keys;
}

void read_server(Reader& reader, const toml::table& section, Config* config) {
  for (auto&& [key, node] : section) {
    if (key.str() == kIoUring) {
      if (const auto* flag = node.as_boolean()) {
        config->server.allow_io_uring = flag->get();
      } else {
        reader.wrong_type(key, node, "true or false");
      }
    } else if (!read_setting(reader, server_settings(), key, node, config)) {
      std::vector<std::string> known = keys_of(server_settings());
      known.push_back(kIoUring);
      reader.unknown_key(key, "[server]", known);
    }
  }
}

void read_log(Reader& reader, const toml::table& section, Config* config) {
  for (auto&& [key, node] : section) {
    if (!read_setting(reader, log_settings(), key, node, config)) {
      reader.unknown_key(key, "[log]", keys_of(log_settings()));
    }
  }
}

// [84, 84, 4] or "84x84x4"
void read_shape(Reader& reader, const toml::key& key, const toml::node& node, ColumnSpec* column) {
  if (const auto* text = node.as_string()) {
    const Parsed<std::vector<int64_t>> shape = parse_shape(text->get());
    if (shape.ok())
      column->shape = shape.value();
    else
      reader.fault(node.source(), shape.fault_text());
    return;
  }
  const toml::array* extents = node.as_array();
  if (extents == nullptr) return reader.wrong_type(key, node, "an array of extents");
  for (const toml::node& extent : *extents) {
    const auto* integer = extent.as_integer();
    if (integer == nullptr) return reader.wrong_type(key, extent, "an array of whole numbers");
    if (integer->get() < 1) {
      return reader.fault(extent.source(), "extent " + std::to_string(integer->get()) +
                                               "; every extent of a shape is at least 1");
    }
    column->shape.push_back(integer->get());
  }
  if (column->shape.size() > GEAR_RANK_MAX) {
    reader.fault(node.source(), "shape of rank " + std::to_string(column->shape.size()) +
                                    "; at most " + std::to_string(GEAR_RANK_MAX));
  }
}

void read_dtype(Reader& reader, const toml::key& key, const toml::node& node, ColumnSpec* column) {
  const auto* text = node.as_string();
  if (text == nullptr) return reader.wrong_type(key, node, "a string");
  const Parsed<ColumnSpec> dtype = parse_dtype(text->get());
  if (!dtype.ok()) return reader.fault(node.source(), dtype.fault_text());
  column->dtype = dtype.value().dtype;
  column->element_bytes = dtype.value().element_bytes;
}

ColumnSpec read_column_table(Reader& reader, const toml::table& table) {
  ColumnSpec column;
  const size_t faults_before = reader.fault_count();
  for (auto&& [key, node] : table) {
    if (key.str() == "name") {
      if (const auto* text = node.as_string())
        column.name = text->get();
      else
        reader.wrong_type(key, node, "a string");
    } else if (key.str() == "dtype") {
      read_dtype(reader, key, node, &column);
    } else if (key.str() == "shape") {
      read_shape(reader, key, node, &column);
    } else if (key.str() == "per_episode" || key.str() == "optional") {
      if (const auto* flag = node.as_boolean())
        (key.str() == "optional" ? column.optional : column.per_episode) = flag->get();
      else
        reader.wrong_type(key, node, "true or false");
    } else {
      reader.unknown_key(key, "a column", {"name", "dtype", "shape", "per_episode", "optional"});
    }
  }
  if (reader.fault_count() != faults_before) return column;
  if (column.name.empty())
    reader.fault(table.source(), "column without a name");
  else if (column.dtype == 0) {
    reader.fault(table.source(), "column " + quoted(column.name) + " has no dtype");
  } else if (column.per_episode && column.optional) {
    reader.fault(table.source(), "column " + quoted(column.name) + " " + kPerEpisodeOrOptional);
  }
  return column;
}

void read_columns(Reader& reader, const toml::key& key, const toml::node& node, TableSpec* spec) {
  const toml::array* columns = node.as_array();
  if (columns == nullptr) return reader.wrong_type(key, node, "an array of columns");
  for (const toml::node& entry : *columns) {
    if (const auto* text = entry.as_string()) {
      const Parsed<ColumnSpec> column = parse_column(text->get());
      if (column.ok())
        spec->columns.push_back(column.value());
      else
        reader.fault(entry.source(), column.fault_text());
    } else if (const toml::table* table = entry.as_table()) {
      spec->columns.push_back(read_column_table(reader, *table));
    } else {
      reader.wrong_type(key, entry,
                        "an array of {name, dtype, shape} or of strings \"name:dtype:shape\"");
    }
  }
}

void read_selector_key(Reader& reader, const toml::key& key, const toml::node& node,
                       SelectorSpec* spec) {
  const std::vector<SelectorField>& fields = selector_fields();
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const SelectorField& one) { return key.str() == one.key; });
  if (key.str() == "name") {
    if (const auto* text = node.as_string())
      spec->name = text->get();
    else
      reader.wrong_type(key, node, "a string");
  } else if (field == fields.end()) {
    std::vector<std::string> known = {"name"};
    for (const SelectorField& one : fields) known.push_back(one.key);
    reader.unknown_key(key, "a selector", known);
  } else if (const std::optional<std::string> text = text_of(reader, key, node, field->kind)) {
    const std::optional<Fault> fault = set_selector_field(spec, field->key, *text);
    if (fault) reader.fault(node.source(), std::string(field->key) + " " + fault->text);
  }
}

// The kind comes first: it says which other keys there are.
SelectorSpec read_selector_table(Reader& reader, const toml::table& table) {
  SelectorSpec spec;
  const size_t faults_before = reader.fault_count();
  for (const bool kind : {true, false}) {
    for (auto&& [key, node] : table) {
      if ((key.str() == "kind") == kind) read_selector_key(reader, key, node, &spec);
    }
    const std::optional<Fault> fault = kind ? std::nullopt : finish_selector(spec);
    if (reader.fault_count() != faults_before) return spec;
    if (fault) reader.fault(table.source(), fault->text);
  }
  return spec;
}

void read_selectors(Reader& reader, const toml::key& key, const toml::node& node, TableSpec* spec) {
  const toml::array* selectors = node.as_array();
  if (selectors == nullptr) return reader.wrong_type(key, node, "an array of selectors");
  for (const toml::node& entry : *selectors) {
    if (const auto* text = entry.as_string()) {
      const Parsed<SelectorSpec> selector = parse_selector(text->get());
      if (selector.ok())
        spec->selectors.push_back(selector.value());
      else
        reader.fault(entry.source(), selector.fault_text());
    } else if (const toml::table* table = entry.as_table()) {
      spec->selectors.push_back(read_selector_table(reader, *table));
    } else {
      reader.wrong_type(
          key, entry,
          "an array of {name, kind, proportion} or of strings \"name:kind:proportion\"");
    }
  }
}

void read_table_key(Reader& reader, const toml::key& key, const toml::node& node, TableSpec* spec) {
  if (key.str() == "name") {
    if (const auto* text = node.as_string())
      spec->name = text->get();
    else
      reader.wrong_type(key, node, "a string");
    return;
  }
  if (key.str() == "columns") return read_columns(reader, key, node, spec);
  if (key.str() == "selectors") return read_selectors(reader, key, node, spec);
  const std::vector<TableField>& fields = table_fields();
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const TableField& one) { return key.str() == one.key; });
  if (field == fields.end()) {
    std::vector<std::string> known = {"name", "columns", "selectors"};
    for (const TableField& one : fields) known.push_back(one.key);
    return reader.unknown_key(key, "[[table]]", known);
  }
  const std::optional<std::string> text = text_of(reader, key, node, field->kind);
  if (!text) return;
  const std::optional<Fault> fault = field->set(spec, *text);
  if (fault) reader.fault(node.source(), std::string(field->key) + " " + fault->text);
}

void read_table(Reader& reader, const toml::table& table, Config* config) {
  DeclaredTable declared;
  const size_t faults_before = reader.fault_count();
  for (auto&& [key, node] : table) read_table_key(reader, key, node, &declared.spec);
  if (reader.fault_count() != faults_before) return;
  if (declared.spec.name.empty()) return reader.fault(table.source(), "table without a name");
  const std::string name = quoted(declared.spec.name);
  if (declared.spec.columns.empty()) {
    return reader.fault(table.source(), "table " + name + " has no columns");
  }
  for (const DeclaredTable& other : config->tables) {
    if (other.spec.name == declared.spec.name) {
      return reader.fault(table.source(), "a table " + name + " is declared above");
    }
  }
  const std::optional<Fault> fault = finish_table(&declared.spec);
  if (fault) return reader.fault(table.source(), "table " + name + ": " + fault->text);
  const Status status = check_table(declared.spec, &declared.bytes);
  if (!status.ok()) return reader.fault(table.source(), status.text());
  config->tables.push_back(std::move(declared));
}

void read_tables(Reader& reader, const toml::key& key, const toml::node& node, Config* config) {
  const toml::array* tables = node.as_array();
  if (tables == nullptr) {
    return reader.fault(key.source(), "write [[table]], with two brackets: there may be several");
  }
  for (const toml::node& entry : *tables) {
    if (const toml::table* table = entry.as_table())
      read_table(reader, *table, config);
    else
      reader.wrong_type(key, entry, "an array of tables");
  }
}

void read_root(Reader& reader, const toml::table& root, Config* config) {
  for (auto&& [key, node] : root) {
    if (key.str() == "table") {
      read_tables(reader, key, node, config);
    } else if (key.str() == "server" || key.str() == "log") {
      const toml::table* section = node.as_table();
      if (section == nullptr)
        reader.wrong_type(key, node, "a table");
      else
        (key.str() == "server" ? read_server : read_log)(reader, *section, config);
    } else {
      reader.unknown_key(key, "the file", {"server", "log", "table"});
    }
  }
}

}  // namespace

std::string format_fault(const std::string& path, const ConfigFault& fault) {
  if (fault.line == 0) return path + ": error: " + fault.text;
  return path + ":" + std::to_string(fault.line) + ":" + std::to_string(fault.column) +
         ": error: " + fault.text;
}

std::vector<ConfigFault> read_config_text(const std::string& text, Config* config) {
  Reader reader;
  try {
    const toml::table root = toml::parse(text);
    read_root(reader, root, config);
  } catch (const toml::parse_error& failure) {
    reader.fault(failure.source(), std::string(failure.description()));
  }
  return reader.take_faults();
}

std::vector<ConfigFault> read_config(const std::string& path, Config* config) {
  std::ifstream file(path);
  std::ostringstream text;
  // An empty file sets failbit on the output; a directory opens, and fails to read.
  if (!file || (file.peek() != std::ifstream::traits_type::eof() && !(text << file.rdbuf())) ||
      file.bad()) {
    return {
        {0, 0,
         std::string("cannot be read (") + strerror(errno) + "); give the path of a TOML file"}};
  }
  return read_config_text(text.str(), config);
}

Status check_table(const TableSpec& spec, uint64_t* bytes) {
  const TableRequest table(spec);
  Result<std::vector<char>> body = client::table_create_request(table.options());
  if (!body.ok()) return body.status();
  layout::TableCreateRequest request;
  memcpy(&request, body.value().data(), sizeof request);
  std::vector<layout::ColumnSpec> columns(request.column_count);
  memcpy(columns.data(), body.value().data() + sizeof request,
         columns.size() * sizeof(layout::ColumnSpec));
  std::vector<layout::SelectorSpec> selectors(request.selector_count);
  if (!selectors.empty()) {
    memcpy(selectors.data(),
           body.value().data() + sizeof request + columns.size() * sizeof(layout::ColumnSpec),
           selectors.size() * sizeof(layout::SelectorSpec));
  }
  Result<Geometry> geometry = plan_geometry(request, columns.data(), selectors.data());
  if (!geometry.ok()) return geometry.status();
  *bytes = geometry.value().header.directory_bytes + layout::data_memory_bytes(geometry.value().header);
  return {};
}

}  // namespace gear::daemon
