// A table that is to be made, as configuration files and command lines declare it. Every field is
// one row of table_fields(): its key in TOML, its option on a command line, its check and its help
// come from there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/column_spec.h"
#include "common/parsed.h"
#include "common/selector_spec.h"
#include "gear.h"

namespace gear::daemon {

struct TableSpec {
  std::string name;
  std::vector<ColumnSpec> columns;
  std::vector<SelectorSpec> selectors;                   // the named ones
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;  // but name, columns and selectors
  uint64_t queue = 0;                                    // 0: not declared a queue
  uint64_t stack = 0;                                    // 0: not declared a stack
};

struct TableField {
  const char* key;
  ValueKind kind;
  const char* value_name;  // in help
  const char* help;
  std::optional<Fault> (*set)(TableSpec* spec, const std::string& text);
};

// All but name, columns and selectors, in the order of help.
const std::vector<TableField>& table_fields();

// Applies what depends on more than one field (queue, stack); call it once all fields are set.
std::optional<Fault> finish_table(TableSpec* spec);

// The spec in the form of gear.h. Not copied, not moved: options point into it and into the spec,
// which outlives it.
class TableRequest {
 public:
  explicit TableRequest(const TableSpec& spec);
  TableRequest(const TableRequest&) = delete;
  TableRequest& operator=(const TableRequest&) = delete;

  const gear_table_options& options() const { return options_; }

 private:
  std::vector<gear_column_options> columns_;
  std::vector<gear_selector_options> selectors_;
  gear_table_options options_;
};

// "min_size:1000", "ratio:4:100:50" (samples an insert, min_size, error) or "bounds:4:100:350:450"
// (samples an insert, min_size, min_diff, max_diff).
Parsed<gear_rate_limiter> parse_limiter(const std::string& text);

// "step", "episode", "explicit", "sequence:80" or "sequence:80:40" (length and period).
Parsed<gear_table_options> parse_items(const std::string& text, gear_table_options options);

// "0640": permission bits in octal.
Parsed<uint32_t> parse_mode(const std::string& text);
std::string format_mode(uint32_t mode);

std::string format_limiter(const gear_rate_limiter& limiter);
std::string format_items(uint32_t item_policy, uint32_t item_length, uint32_t item_period);

}  // namespace gear::daemon
