#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <utility>

#include "client.h"
#include "status.h"

namespace gear_python {
namespace {

// (name, dtype, element_bytes, shape, flags)
using ColumnTuple = std::tuple<std::string, uint32_t, uint32_t, std::vector<int64_t>, uint32_t>;
// (samples_per_insert, min_size, min_diff, max_diff)
using LimiterTuple = std::tuple<double, int64_t, double, double>;

LimiterTuple to_tuple(const gear_rate_limiter& limiter) {
  return {limiter.samples_per_insert, limiter.min_size, limiter.min_diff, limiter.max_diff};
}

gear_rate_limiter to_limiter(const LimiterTuple& limiter) {
  return {std::get<0>(limiter), std::get<1>(limiter), std::get<2>(limiter), std::get<3>(limiter)};
}

gear_column_options to_options(const ColumnTuple& column) {
  const auto& [name, dtype, element_bytes, shape, flags] = column;
  if (shape.size() > GEAR_RANK_MAX) {
    raise(GEAR_ESHAPE, "column \"" + name + "\" has rank " + std::to_string(shape.size()) +
                           "; at most " + std::to_string(GEAR_RANK_MAX) + " are possible");
  }
  gear_column_options options = GEAR_COLUMN_OPTIONS_INIT;
  options.dtype = dtype;
  options.name = name.c_str();
  options.rank = static_cast<uint32_t>(shape.size());
  options.element_bytes = element_bytes;
  options.flags = flags;
  std::copy(shape.begin(), shape.end(), options.shape);
  return options;
}

// Sets one field of the options by its name in gear.h; false when there is none of that name.
bool set_option(gear_table_options& options, const std::string& name, nb::handle value) {
#define GEAR_OPTION(field)                                    \
  if (name == #field) {                                       \
    options.field = nb::cast<decltype(options.field)>(value); \
    return true;                                              \
  }
  GEAR_OPTION(capacity_items)
  GEAR_OPTION(item_policy)
  GEAR_OPTION(item_length)
  GEAR_OPTION(item_period)
  GEAR_OPTION(short_episodes)
  GEAR_OPTION(sampler)
  GEAR_OPTION(remover)
  GEAR_OPTION(priority_alpha)
  GEAR_OPTION(priority_epsilon)
  GEAR_OPTION(max_times_sampled)
  GEAR_OPTION(capacity_steps)
  GEAR_OPTION(episode_steps_max)
  GEAR_OPTION(lanes_max)
  GEAR_OPTION(block_steps)
  GEAR_OPTION(window_before_max)
  GEAR_OPTION(window_after_max)
  GEAR_OPTION(memory)
  GEAR_OPTION(huge_pages)
  GEAR_OPTION(populate)
  GEAR_OPTION(lock)
  GEAR_OPTION(numa_node)
  GEAR_OPTION(lease_timeout_ms)
  GEAR_OPTION(top_k)
  GEAR_OPTION(half_life)
  GEAR_OPTION(table_weights)
  GEAR_OPTION(capacity_bytes)
  GEAR_OPTION(mode)
  GEAR_OPTION(payload_isolation)
  GEAR_OPTION(writers_max)
#undef GEAR_OPTION
  return false;
}

// Creates a table. `fields` names fields of gear_table_options; `queue_capacity` applies
// gear_table_options_queue before them.
std::shared_ptr<Table> create_table(std::shared_ptr<Client> client, const std::string& name,
                                    const std::vector<ColumnTuple>& columns,
                                    const std::optional<LimiterTuple>& limiter,
                                    std::optional<uint64_t> queue_capacity,
                                    const nb::dict& fields) {
  std::vector<gear_column_options> column_options;
  for (const ColumnTuple& column : columns) column_options.push_back(to_options(column));
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  if (queue_capacity) check(gear_table_options_queue(*queue_capacity, &options));
  options.name = name.c_str();
  options.columns = column_options.data();
  options.column_count = static_cast<uint32_t>(column_options.size());
  if (limiter) options.limiter = to_limiter(*limiter);
  for (auto [key, value] : fields) {
    const auto field = nb::cast<std::string>(key);
    try {
      if (!set_option(options, field, value)) throw nb::type_error(field.c_str());
    } catch (const nb::cast_error&) {
      raise(GEAR_EINVAL, "create table \"" + name + "\": " + field + " cannot be " +
                             nb::cast<std::string>(nb::repr(value)));
    }
  }

  gear_client* raw_client = client->raw();
  gear_table* raw = nullptr;
  check(call_unlocked(*client, [&] { return gear_table_create(raw_client, &options, &raw); }));
  return std::make_shared<Table>(std::move(client), raw);
}

using Opener = int (*)(gear_client*, const char*, gear_table**);

std::shared_ptr<Table> open_with(Opener opener, std::shared_ptr<Client> client,
                                 const std::string& text) {
  gear_client* raw_client = client->raw();
  gear_table* raw = nullptr;
  check(call_unlocked(*client, [&] { return opener(raw_client, text.c_str(), &raw); }));
  return std::make_shared<Table>(std::move(client), raw);
}

std::string table_handle(Table& table) {
  char handle[GEAR_HANDLE_BYTES + 1];
  gear_table* raw = table.raw();
  check(call_unlocked(table.client(), [&] { return gear_table_handle(raw, handle); }));
  return handle;
}

void call_plain(Table& table, int (*call)(gear_table*)) {
  gear_table* raw = table.raw();
  check(call_unlocked(table.client(), [&] { return call(raw); }));
}

nb::dict describe(Table& table) {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  check(gear_table_describe(table.raw(), &info));
  nb::dict result;
  result["name"] = info.name;
  result["table_id"] = info.table_id;
  result["capacity_items"] = info.capacity_items;
  result["capacity_steps"] = info.capacity_steps;
  result["episode_steps_max"] = info.episode_steps_max;
  result["items"] = info.item_policy;
  result["item_length"] = info.item_length;
  result["item_period"] = info.item_period;
  result["short_episodes"] = info.short_episodes;
  result["sampler"] = info.sampler;
  result["remover"] = info.remover;
  result["priority_alpha"] = info.priority_alpha;
  result["priority_epsilon"] = info.priority_epsilon;
  result["max_times_sampled"] = info.max_times_sampled;
  result["lanes_max"] = info.lanes_max;
  result["limiter"] = to_tuple(info.limiter);
  result["window_before_max"] = info.window_before_max;
  result["window_after_max"] = info.window_after_max;
  result["block_steps"] = info.block_steps;
  result["block_count"] = info.block_count;
  result["block_bytes"] = info.block_bytes;
  result["directory_bytes"] = info.directory_bytes;
  result["data_bytes"] = info.data_bytes;
  result["memory"] = info.memory;
  result["direct"] = info.direct != 0;
  result["payload_isolation"] = info.payload_isolation;
  result["writers_max"] = info.writers_max;
  return result;
}

// {name: (dtype, element_bytes, shape, flags)} in the order of the table.
nb::dict describe_columns(Table& table) {
  table.raw();
  nb::dict result;
  for (const Column& column : table.columns()) {
    result[column.name] =
        nb::make_tuple(column.dtype, column.element_bytes, column.shape, column.flags);
  }
  return result;
}

nb::dict stats(Table& table) {
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  check(gear_table_get_stats(table.raw(), &stats));
  nb::dict result;
  result["state"] = stats.state;
  result["items"] = stats.items;
  result["inserts"] = stats.inserts;
  result["samples"] = stats.samples;
  result["deletes"] = stats.deletes;
  result["steps"] = stats.steps;
  result["episodes"] = stats.episodes;
  result["evictions"] = stats.evictions;
  result["blocks_free"] = stats.blocks_free;
  result["lanes_open"] = stats.lanes_open;
  result["priority_max"] = stats.priority_max;
  return result;
}

nb::tuple to_tuple(const gear_items_result& result) {
  return nb::make_tuple(result.updated, result.stale, result.unknown, result.rejected);
}

nb::tuple update_priorities(Table& table, nb::handle keys, nb::handle priorities, double timeout) {
  const nb::object key_array = keys_array(keys, "keys");
  const nb::object priority_array = priorities_array(priorities, "priorities");
  const size_t count = array_length(key_array);
  if (array_length(priority_array) != count) {
    raise(GEAR_ESHAPE, "update priorities: " + std::to_string(count) + " keys and " +
                           std::to_string(array_length(priority_array)) + " priorities");
  }
  gear_table* raw = table.raw();
  const int64_t timeout_ns = to_nanoseconds(timeout);
  gear_items_result result = GEAR_ITEMS_RESULT_INIT;
  check(call_unlocked(table.client(), [&] {
    return gear_update_priorities(raw, static_cast<const uint64_t*>(array_data(key_array)),
                                  static_cast<const double*>(array_data(priority_array)), count,
                                  timeout_ns, &result);
  }));
  return to_tuple(result);
}

nb::tuple delete_items(Table& table, nb::handle keys, double timeout) {
  const nb::object key_array = keys_array(keys, "keys");
  gear_table* raw = table.raw();
  const int64_t timeout_ns = to_nanoseconds(timeout);
  gear_items_result result = GEAR_ITEMS_RESULT_INIT;
  check(call_unlocked(table.client(), [&] {
    return gear_delete_items(raw, static_cast<const uint64_t*>(array_data(key_array)),
                             array_length(key_array), timeout_ns, &result);
  }));
  return to_tuple(result);
}

LimiterTuple limiter_min_size(int64_t min_size) {
  gear_rate_limiter limiter{};
  check(gear_rate_limiter_min_size(min_size, &limiter));
  return to_tuple(limiter);
}

LimiterTuple limiter_ratio(double samples_per_insert, int64_t min_size, double error_buffer) {
  gear_rate_limiter limiter{};
  check(gear_rate_limiter_ratio(samples_per_insert, min_size, error_buffer, &limiter));
  return to_tuple(limiter);
}

}  // namespace

Table::Table(std::shared_ptr<Client> client, gear_table* raw)
    : client_(std::move(client)), raw_(raw) {
  try {
    load_columns();
  } catch (...) {
    gear_table_detach(raw_);
    throw;
  }
}

Table::~Table() {
  if (raw_ == nullptr || !client_->usable()) return;
  call_unlocked(*client_, [this] { return gear_table_detach(raw_); });
}

void Table::load_columns() {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  check(gear_table_describe(raw_, &info));
  for (uint32_t index = 0; index < info.column_count; ++index) {
    gear_column_info source = GEAR_COLUMN_INFO_INIT;
    check(gear_table_column(raw_, index, &source));
    Column column;
    column.index = index;
    column.dtype = source.dtype;
    column.element_bytes = source.element_bytes;
    column.flags = source.flags;
    column.cell_bytes = source.cell_bytes;
    column.shape.assign(source.shape, source.shape + source.rank);
    column.name = nb::steal(PyUnicode_InternFromString(source.name));
    column.descr = descr_of(source.dtype, source.element_bytes);
    columns_.push_back(std::move(column));
  }
}

gear_table* Table::raw() const {
  client_->raw();
  if (raw_ == nullptr) raise(GEAR_ESTATE, "the table handle was given back; open the table again");
  return raw_;
}

const Column* Table::find(nb::handle name) const {
  for (const Column& column : columns_) {
    if (column.name.ptr() == name.ptr()) return &column;
  }
  for (const Column& column : columns_) {
    const int equal = PyObject_RichCompareBool(column.name.ptr(), name.ptr(), Py_EQ);
    if (equal < 0) throw nb::python_error();
    if (equal == 1) return &column;
  }
  return nullptr;
}

void Table::detach() {
  if (raw_ == nullptr) return;
  if (children_ > 0) {
    raise(GEAR_ESTATE, "detach table: " + std::to_string(children_) +
                           " of its writers and samplers are open; close these first");
  }
  raw();
  gear_table* raw = std::exchange(raw_, nullptr);
  check(call_unlocked(*client_, [raw] { return gear_table_detach(raw); }));
}

void bind_table(nb::module_& module) {
  module.def("limiter_min_size", &limiter_min_size);
  module.def("limiter_ratio", &limiter_ratio);
  module.def("create_table", &create_table, nb::arg("client"), nb::arg("name"), nb::arg("columns"),
             nb::arg("limiter").none(), nb::arg("queue_capacity").none(), nb::arg("fields"));
  module.def("open_table", [](std::shared_ptr<Client> client, const std::string& name) {
    return open_with(gear_table_open, std::move(client), name);
  });
  module.def("attach_table", [](std::shared_ptr<Client> client, const std::string& handle) {
    return open_with(gear_table_attach, std::move(client), handle);
  });
  nb::class_<Table>(module, "Table")
      .def("handle", &table_handle)
      .def("describe", &describe)
      .def("columns", &describe_columns)
      .def("stats", &stats)
      .def("close", [](Table& table) { call_plain(table, gear_table_close); })
      .def("reset", [](Table& table) { call_plain(table, gear_table_reset); })
      .def("detach", &Table::detach)
      .def("update_priorities", &update_priorities)
      .def("delete", &delete_items);
}

}  // namespace gear_python
