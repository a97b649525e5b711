#include "common/table_spec.h"

#include <cmath>
#include <limits>

#include "common/names.h"
#include "common/quantity.h"
#include "common/split.h"

namespace gear::daemon {
namespace {

using SetResult = std::optional<Fault>;

template <typename T>
Parsed<T> parse_bounded(const std::string& text) {
  const Parsed<uint64_t> count = parse_count(text);
  if (!count.ok()) return Fault{count.fault_text()};
  if (count.value() > static_cast<uint64_t>(std::numeric_limits<T>::max())) {
    return Fault{text + " is over the limit of " + std::to_string(std::numeric_limits<T>::max())};
  }
  return static_cast<T>(count.value());
}

template <auto Member>
SetResult set_count(TableSpec* spec, const std::string& text) {
  using T = std::remove_reference_t<decltype(spec->options.*Member)>;
  const Parsed<T> value = parse_bounded<T>(text);
  if (!value.ok()) return Fault{value.fault_text()};
  spec->options.*Member = value.value();
  return std::nullopt;
}

template <auto Member>
SetResult set_real(TableSpec* spec, const std::string& text) {
  const Parsed<double> value = parse_real(text);
  if (!value.ok()) return Fault{value.fault_text()};
  if (value.value() < 0) return Fault{text + " is negative"};
  spec->options.*Member = value.value();
  return std::nullopt;
}

template <auto Member, const NameList& (*List)()>
SetResult set_name(TableSpec* spec, const std::string& text) {
  const Parsed<uint32_t> value = value_of(List(), text);
  if (!value.ok()) return Fault{value.fault_text()};
  spec->options.*Member = value.value();
  return std::nullopt;
}

SetResult set_capacity_items(TableSpec* spec, const std::string& text) {
  const SetResult fault = set_count<&gear_table_options::capacity_items>(spec, text);
  if (!fault && spec->options.capacity_items == 0) return Fault{"0 items; give at least 1"};
  return fault;
}

SetResult set_items(TableSpec* spec, const std::string& text) {
  const Parsed<gear_table_options> options = parse_items(text, spec->options);
  if (!options.ok()) return Fault{options.fault_text()};
  spec->options = options.value();
  return std::nullopt;
}

SetResult set_priority_alpha(TableSpec* spec, const std::string& text) {
  const SetResult fault = set_real<&gear_table_options::priority_alpha>(spec, text);
  // In gear.h zero means the default; who writes 0 here means 0.
  if (!fault && spec->options.priority_alpha == 0) spec->options.priority_alpha = GEAR_ALPHA_ZERO;
  return fault;
}

SetResult set_limiter(TableSpec* spec, const std::string& text) {
  const Parsed<gear_rate_limiter> limiter = parse_limiter(text);
  if (!limiter.ok()) return Fault{limiter.fault_text()};
  spec->options.limiter = limiter.value();
  return std::nullopt;
}

template <uint64_t TableSpec::*Member>
SetResult set_line(TableSpec* spec, const std::string& text) {
  const Parsed<uint64_t> capacity = parse_count(text);
  if (!capacity.ok()) return Fault{capacity.fault_text()};
  if (capacity.value() == 0) return Fault{"of 0 items; give at least 1"};
  spec->*Member = capacity.value();
  return std::nullopt;
}

SetResult set_half_life(TableSpec* spec, const std::string& text) {
  const Parsed<double> half_life = parse_amount(text);
  if (!half_life.ok()) return Fault{half_life.fault_text()};
  if (half_life.value() <= 0) return Fault{text + "; give insertions, more than 0"};
  spec->options.half_life = half_life.value();
  return std::nullopt;
}

SetResult set_top_k(TableSpec* spec, const std::string& text) {
  const SetResult fault = set_count<&gear_table_options::top_k>(spec, text);
  if (!fault && spec->options.top_k == 0) return Fault{"0 items; give at least 1"};
  return fault;
}

SetResult set_numa_node(TableSpec* spec, const std::string& text) {
  if (text == "-1" || text == "any") {
    spec->options.numa_node = -1;
    return std::nullopt;
  }
  return set_count<&gear_table_options::numa_node>(spec, text);
}

SetResult set_lease_timeout(TableSpec* spec, const std::string& text) {
  const Parsed<int64_t> duration = parse_duration_ns(text);
  if (!duration.ok()) return Fault{duration.fault_text()};
  const int64_t ms = duration.value() / 1'000'000;
  if (ms < 1 || ms > std::numeric_limits<uint32_t>::max()) {
    return Fault{text + " is not between 1 ms and 49 days"};
  }
  spec->options.lease_timeout_ms = static_cast<uint32_t>(ms);
  return std::nullopt;
}

SetResult set_mode(TableSpec* spec, const std::string& text) {
  const Parsed<uint32_t> mode = parse_mode(text);
  if (!mode.ok()) return Fault{mode.fault_text()};
  spec->options.mode = mode.value();
  return std::nullopt;
}

using Options = gear_table_options;

}  // namespace

const std::vector<TableField>& table_fields() {
  static const std::vector<TableField> fields = {
      {"capacity_items", ValueKind::kCount, "N", "items kept; the remover makes room beyond",
       set_capacity_items},
      {"items", ValueKind::kWord, "POLICY",
       "step | episode | sequence:LENGTH[:PERIOD] | explicit (default step)", set_items},
      {"short_episodes", ValueKind::kWord, "one|none",
       "items of an episode shorter than a sequence (default one)",
       set_name<&Options::short_episodes, short_episode_names>},
      {"sampler", ValueKind::kWord, "SELECTOR",
       "uniform | fifo | lifo | prioritized | max_heap | min_heap | top_k | recency | mixture "
       "(default uniform)",
       set_name<&Options::sampler, selector_names>},
      {"remover", ValueKind::kWord, "SELECTOR",
       "fifo | lifo | uniform | prioritized | max_heap | min_heap (default fifo)",
       set_name<&Options::remover, selector_names>},
      {"priority_alpha", ValueKind::kReal, "A", "prioritized: exponent (default 0.6)",
       set_priority_alpha},
      {"priority_epsilon", ValueKind::kReal, "E", "prioritized: added to each priority (default 0)",
       set_real<&Options::priority_epsilon>},
      {"half_life", ValueKind::kAmount, "N",
       "recency: insertions after which an item is half as likely", set_half_life},
      {"top_k", ValueKind::kCount, "K", "top_k: how many items of largest priority are drawn",
       set_top_k},
      {"new_priority", ValueKind::kWord, "lifetime_max|table_max",
       "priority of a new item: the largest ever seen, or now in the table (default lifetime_max)",
       set_name<&Options::new_priority, new_priority_names>},
      {"table_weights", ValueKind::kSwitch, "no|yes",
       "keep what weights normalised by the table's largest need (default no)",
       set_name<&Options::table_weights, yes_names>},
      {"max_times_sampled", ValueKind::kCount, "N",
       "the draw that reaches it removes the item (default 0: no limit)",
       set_count<&Options::max_times_sampled>},
      {"limiter", ValueKind::kWord, "LIMITER",
       "when draws and insertions wait (default min_size:1)", set_limiter},
      {"queue", ValueKind::kCount, "N", "a bounded FIFO queue of N items, each drawn once",
       set_line<&TableSpec::queue>},
      {"stack", ValueKind::kCount, "N", "a bounded stack of N items: the newest first, each once",
       set_line<&TableSpec::stack>},
      {"capacity_bytes", ValueKind::kCount, "BYTES",
       "bytes of the steps of all items; the remover makes room beyond (default 0: no limit)",
       set_count<&Options::capacity_bytes>},
      {"versions", ValueKind::kSwitch, "no|yes",
       "items carry the version of the policy that made them (default no)",
       set_name<&Options::versions, yes_names>},
      {"prompt_groups_max", ValueKind::kCount, "N",
       "prompt groups that may be incomplete at one time (default 0: none)",
       set_count<&Options::prompt_groups_max>},
      {"capacity_steps", ValueKind::kCount, "N",
       "steps stored (default what capacity_items items need)",
       set_count<&Options::capacity_steps>},
      {"episode_steps_max", ValueKind::kCount, "N",
       "longest episode; needed for episode and explicit items",
       set_count<&Options::episode_steps_max>},
      {"lanes_max", ValueKind::kCount, "N", "lanes open at one time (default 64)",
       set_count<&Options::lanes_max>},
      {"block_steps", ValueKind::kCount, "N", "steps a block (default about 64 KiB worth)",
       set_count<&Options::block_steps>},
      {"window_before_max", ValueKind::kCount, "N",
       "steps a window may reach before an item (default 16)",
       set_count<&Options::window_before_max>},
      {"window_after_max", ValueKind::kCount, "N",
       "steps a window may reach beyond an item (default 16)",
       set_count<&Options::window_after_max>},
      {"memory", ValueKind::kWord, "posix|memfd", "kind of shared memory (default the server's)",
       set_name<&Options::memory, memory_names>},
      {"huge_pages", ValueKind::kWord, "no|try|required",
       "try: transparent huge pages; required: hugetlb pages, with memfd",
       set_name<&Options::huge_pages, want_names>},
      {"populate", ValueKind::kWord, "no|try|required", "touch every page at creation",
       set_name<&Options::populate, want_names>},
      {"lock", ValueKind::kWord, "no|try|required", "lock the pages in memory",
       set_name<&Options::lock, want_names>},
      {"numa_node", ValueKind::kCount, "NODE", "bind the memory to a NUMA node (default -1: no)",
       set_numa_node},
      {"lease_timeout", ValueKind::kWord, "DURATION",
       "how long a leased batch may be held (default 60s)", set_lease_timeout},
      {"mode", ValueKind::kWord, "MODE",
       "who may use it, as of a file: 0640 lets the group read (default 0600)", set_mode},
      {"payload_isolation", ValueKind::kWord, "none|per_writer",
       "per_writer: a writer can store into its own rows alone (default none)",
       set_name<&Options::payload_isolation, isolation_names>},
      {"writers_max", ValueKind::kCount, "N",
       "per_writer: writers open at one time (default 8, at most 32)",
       set_count<&Options::writers_max>}};
  return fields;
}

std::optional<Fault> finish_table(TableSpec* spec) {
  if (spec->queue != 0 && spec->stack != 0) {
    return Fault{"a table is a queue or a stack; leave out one of the two"};
  }
  const uint64_t line = spec->queue + spec->stack;
  if (line == 0) {
    if (spec->options.capacity_items == 0) return Fault{"capacity_items is missing; give a count"};
    return std::nullopt;
  }
  gear_table_options& options = spec->options;
  const bool limited = options.limiter.samples_per_insert != 0 || options.limiter.min_size != 0;
  if (options.sampler != 0 || options.remover != 0 || options.max_times_sampled != 0 || limited) {
    const std::string key = spec->queue != 0 ? "queue" : "stack";
    return Fault{key +
                 " sets sampler, remover, limiter and max_times_sampled; leave them out, or "
                 "leave out " +
                 key};
  }
  const uint64_t capacity_items = options.capacity_items;
  const auto declare = spec->queue != 0 ? gear_table_options_queue : gear_table_options_stack;
  if (declare(line, &options) != GEAR_OK) return Fault{gear_last_error()};
  options.capacity_items = capacity_items != 0 ? capacity_items : line;
  return std::nullopt;
}

TableRequest::TableRequest(const TableSpec& spec) : options_(spec.options) {
  for (const ColumnSpec& column : spec.columns) {
    gear_column_options options = GEAR_COLUMN_OPTIONS_INIT;
    options.dtype = column.dtype;
    options.name = column.name.c_str();
    options.rank = static_cast<uint32_t>(column.shape.size());
    options.element_bytes = column.element_bytes;
    options.flags = (column.per_episode ? GEAR_COLUMN_PER_EPISODE : 0) |
                    (column.optional ? GEAR_COLUMN_OPTIONAL : 0);
    for (size_t axis = 0; axis < column.shape.size() && axis < GEAR_RANK_MAX; ++axis) {
      options.shape[axis] = column.shape[axis];
    }
    columns_.push_back(options);
  }
  for (const SelectorSpec& selector : spec.selectors) {
    selectors_.push_back(selector.options);
    selectors_.back().name = selector.name.c_str();
  }
  options_.name = spec.name.c_str();
  options_.columns = columns_.data();
  options_.column_count = static_cast<uint32_t>(columns_.size());
  options_.selectors = selectors_.data();
  options_.selector_count = static_cast<uint32_t>(selectors_.size());
}

Parsed<gear_rate_limiter> parse_limiter(const std::string& text) {
  const Fault form{"\"" + text +
                   "\" is not a limiter; give min_size:N, ratio:SAMPLES_PER_INSERT:MIN_SIZE:ERROR "
                   "or bounds:SAMPLES_PER_INSERT:MIN_SIZE:MIN_DIFF:MAX_DIFF"};
  const std::vector<std::string> parts = split(text, ':');
  const bool is_min_size = parts[0] == "min_size" && parts.size() == 2;
  const bool is_ratio = parts[0] == "ratio" && parts.size() == 4;
  const bool is_bounds = parts[0] == "bounds" && parts.size() == 5;
  if (!is_min_size && !is_ratio && !is_bounds) return form;

  const Parsed<int64_t> min_size = parse_bounded<int64_t>(parts[is_min_size ? 1 : 2]);
  if (!min_size.ok()) return Fault{min_size.fault_text()};
  gear_rate_limiter limiter = {0, 0, 0, 0};
  if (is_min_size) {
    if (gear_rate_limiter_min_size(min_size.value(), &limiter) == GEAR_OK) return limiter;
    return Fault{gear_last_error()};
  }
  const Parsed<double> samples_per_insert = parse_real(parts[1]);
  const Parsed<double> first = parse_real(parts[3]);
  const Parsed<double> second = parse_real(parts.back());
  for (const Parsed<double>* number : {&samples_per_insert, &first, &second}) {
    if (!number->ok()) return Fault{number->fault_text()};
  }
  if (is_ratio) {
    if (gear_rate_limiter_ratio(samples_per_insert.value(), min_size.value(), first.value(),
                                &limiter) == GEAR_OK) {
      return limiter;
    }
    return Fault{gear_last_error()};
  }
  return gear_rate_limiter{samples_per_insert.value(), min_size.value(), first.value(),
                           second.value()};
}

Parsed<gear_table_options> parse_items(const std::string& text, gear_table_options options) {
  const std::vector<std::string> parts = split(text, ':');
  const Parsed<uint32_t> policy = value_of(item_policy_names(), parts[0]);
  if (!policy.ok()) return Fault{policy.fault_text()};
  options.item_policy = policy.value();
  options.item_length = 0;
  options.item_period = 0;
  if (options.item_policy != GEAR_ITEMS_SEQUENCE) {
    if (parts.size() == 1) return options;
    return Fault{"\"" + text + "\": only sequence takes a length and a period"};
  }
  if (parts.size() < 2 || parts.size() > 3) {
    return Fault{"\"" + text + "\": give sequence:LENGTH or sequence:LENGTH:PERIOD"};
  }
  const Parsed<uint32_t> length = parse_bounded<uint32_t>(parts[1]);
  const Parsed<uint32_t> period = parse_bounded<uint32_t>(parts.back());
  if (!length.ok()) return Fault{length.fault_text()};
  if (!period.ok()) return Fault{period.fault_text()};
  if (length.value() == 0 || period.value() == 0) {
    return Fault{"\"" + text + "\": length and period are at least 1"};
  }
  options.item_length = length.value();
  options.item_period = period.value();
  return options;
}

Parsed<uint32_t> parse_mode(const std::string& text) {
  uint32_t mode = 0;
  const bool octal = !text.empty() && text.size() <= 4 && text.find_first_not_of("01234567") == std::string::npos;
  for (const char digit : text) mode = mode * 8 + static_cast<uint32_t>(digit - '0');
  if (!octal || mode == 0 || mode > 0777) {
    return Fault{"\"" + text + "\" is not a mode; give permission bits in octal, from 0001 to 0777, such as 0640"};
  }
  return mode;
}

std::string format_mode(uint32_t mode) {
  std::string text = "0";
  for (int shift = 6; shift >= 0; shift -= 3) text += static_cast<char>('0' + (mode >> shift & 7));
  return text;
}

std::string format_limiter(const gear_rate_limiter& limiter) {
  std::string text = "samples_per_insert " + format_real(limiter.samples_per_insert) +
                     ", min_size " + std::to_string(limiter.min_size);
  const double unbounded = std::numeric_limits<double>::max();
  if (limiter.min_diff > -unbounded) text += ", min_diff " + format_real(limiter.min_diff);
  if (limiter.max_diff < unbounded) text += ", max_diff " + format_real(limiter.max_diff);
  return text;
}

std::string format_items(uint32_t item_policy, uint32_t item_length, uint32_t item_period) {
  std::string text = name_of(item_policy_names(), item_policy);
  if (item_policy == GEAR_ITEMS_SEQUENCE) {
    text += ":" + std::to_string(item_length) + ":" + std::to_string(item_period);
  }
  return text;
}

}  // namespace gear::daemon
