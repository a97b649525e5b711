// The smallest table there is, "t" of one i64 column, through gear.h; answers are texts, empty when all is well, so that
// children can hand them to their parents.
#pragma once

#include <cstring>
#include <string>

#include "gear.h"

namespace gear::test {

inline constexpr int64_t kCallNs = 10'000'000'000;

inline std::string told(const char* what, int status) {
  return std::string(what) + ": " + gear_status_string(status) + ": " + gear_last_error();
}

// Returns from the calling function, which returns a text, unless the call answers OK.
#define GEAR_OR_SAY(call)                                  \
  do {                                                     \
    int or_say_status = (call);                            \
    if (or_say_status != GEAR_OK) return told(#call, or_say_status); \
  } while (0)

// The same, unless it answers this status.
#define GEAR_MUST(status, call)                                                          \
  do {                                                                                   \
    int must_status = (call);                                                            \
    if (must_status != (status)) return "not " #status ": " + told(#call, must_status);  \
  } while (0)

// And unless the text of the last error has that in it.
#define GEAR_MUST_SAY(part)                                                                       \
  do {                                                                                            \
    if (strstr(gear_last_error(), part) == nullptr) return std::string("no \"" part "\" in: ") + gear_last_error(); \
  } while (0)

inline gear_column_options int_column(const char* name = "x") {
  gear_column_options column = GEAR_COLUMN_OPTIONS_INIT;
  column.name = name;
  column.dtype = GEAR_I64;
  return column;
}

// A table of that name; `change` sets what it has beyond 1000 items of steps, and its column's name.
template <typename Change>
int create_int_table_with(gear_client* client, const char* name, gear_table** table, Change change,
                          const char* column_name = "x") {
  gear_column_options column = int_column(column_name);
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = name;
  options.columns = &column;
  options.column_count = 1;
  options.capacity_items = 1000;
  change(&options);
  return gear_table_create(client, &options, table);
}

inline int create_int_table(gear_client* client, gear_table** table, uint32_t mode = 0, const char* name = "t",
                            uint64_t capacity = 1000, uint32_t sampler = GEAR_SELECT_PRIORITIZED) {
  return create_int_table_with(client, name, table, [&](gear_table_options* options) {
    options->capacity_items = capacity;
    options->sampler = sampler;
    options->mode = mode;
  });
}

inline int append_int(gear_writer* writer, int64_t value, uint32_t lane = 0, int64_t timeout_ns = kCallNs) {
  gear_cell cell{};
  cell.dtype = GEAR_I64;
  cell.data = &value;
  return gear_writer_append(writer, lane, &cell, 1, timeout_ns);
}

// Appends first, first + 1, ... and flushes.
inline std::string append_ints(gear_table* table, int64_t first, int64_t count) {
  gear_writer* writer = nullptr;
  GEAR_OR_SAY(gear_writer_open(table, nullptr, &writer));
  for (int64_t i = 0; i < count; ++i) GEAR_OR_SAY(append_int(writer, first + i));
  GEAR_OR_SAY(gear_writer_flush(writer, kCallNs, nullptr));
  GEAR_OR_SAY(gear_writer_close(writer));
  return {};
}

// Draws a batch; each of its values must be in [least, most]. *key, if given, is of the first row.
inline std::string draw_ints(gear_table* table, uint32_t mode, uint32_t rows, int64_t least, int64_t most,
                             uint64_t* key = nullptr) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  gear_sampler* sampler = nullptr;
  GEAR_OR_SAY(gear_sampler_open(table, &options, &sampler));
  gear_batch* batch = nullptr;
  GEAR_OR_SAY(gear_sample(sampler, rows, kCallNs, &batch));
  gear_tensor tensor{};
  GEAR_OR_SAY(gear_batch_tensor(batch, 0, &tensor));
  for (uint32_t row = 0; row < rows; ++row) {
    int64_t value = 0;
    memcpy(&value, static_cast<char*>(tensor.data) + row * tensor.strides[0], sizeof value);
    if (value < least || value > most) return "a value that was never appended: " + std::to_string(value);
  }
  if (key != nullptr) *key = gear_batch_keys(batch)[0];
  GEAR_OR_SAY(gear_batch_release(batch));
  GEAR_OR_SAY(gear_sampler_close(sampler));
  return {};
}

}  // namespace gear::test
