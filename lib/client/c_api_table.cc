// gear.h, section 3: tables and their options.

#include <cstring>

#include "client/c_api.h"
#include "client/options.h"
#include "client/text.h"
#include "limit/rate_limiter.h"

using namespace gear;          // NOLINT: this file is the C edge of the namespace
using namespace gear::client;  // NOLINT

namespace {

// Gives an opened table to the client and to the caller.
Status hand_over(gear_client* client, Result<std::unique_ptr<Table>> opened, gear_table** table) {
  if (!opened.ok()) return opened.status();
  *table = reinterpret_cast<gear_table*>(behind(client)->keep(opened.take()));
  return {};
}

// The largest capacity whose every smaller number a double holds.
constexpr uint64_t kQueueCapacityMax = uint64_t{1} << 53;

// Every item is drawn once, in the order of `selector`; at most `capacity` wait.
Status bound_waiting_items(const char* tried, gear_selector selector, uint64_t capacity,
                           gear_table_options* options) {
  GEAR_TRY(need(options, tried, "options"));
  gear_table_options known;
  GEAR_TRY(read_struct("gear_table_options", options, &known));
  if (capacity < 1 || capacity > kQueueCapacityMax) {
    return error(GEAR_EINVAL, "%s: capacity %llu; give 1 to 2^53", tried,
                 static_cast<unsigned long long>(capacity));
  }
  options->sampler = selector;
  options->remover = selector;
  options->max_times_sampled = 1;
  options->limiter = {1.0, 1, 0.0, static_cast<double>(capacity)};
  return {};
}

}  // namespace

int gear_rate_limiter_min_size(int64_t min_size, gear_rate_limiter* limiter) {
  return guarded([&]() -> Status {
    GEAR_TRY(need(limiter, "gear_rate_limiter_min_size", "limiter"));
    return min_size_limiter(min_size, limiter);
  });
}

int gear_rate_limiter_ratio(double samples_per_insert, int64_t min_size, double error_buffer,
                            gear_rate_limiter* limiter) {
  return guarded([&]() -> Status {
    GEAR_TRY(need(limiter, "gear_rate_limiter_ratio", "limiter"));
    return ratio_limiter(samples_per_insert, min_size, error_buffer, limiter);
  });
}

int gear_table_options_queue(uint64_t capacity, gear_table_options* options) {
  return guarded([&]() -> Status {
    return bound_waiting_items("gear_table_options_queue", GEAR_SELECT_FIFO, capacity, options);
  });
}

int gear_table_options_stack(uint64_t capacity, gear_table_options* options) {
  return guarded([&]() -> Status {
    return bound_waiting_items("gear_table_options_stack", GEAR_SELECT_LIFO, capacity, options);
  });
}

int gear_table_create(gear_client* client, const gear_table_options* options, gear_table** table) {
  return guarded([&]() -> Status {
    Call call(behind(client));
    GEAR_TRY(call.status());
    GEAR_TRY(need(options, "gear_table_create", "options"));
    GEAR_TRY(need(table, "gear_table_create", "table"));
    gear_table_options known;
    GEAR_TRY(read_struct("gear_table_options", options, &known));
    return hand_over(client, Table::create(*behind(client), known), table);
  });
}

int gear_table_open(gear_client* client, const char* name, gear_table** table) {
  return guarded([&]() -> Status {
    Call call(behind(client));
    GEAR_TRY(call.status());
    GEAR_TRY(need(table, "gear_table_open", "table"));
    return hand_over(client, Table::open(*behind(client), name), table);
  });
}

int gear_table_handle(gear_table* table, char handle[GEAR_HANDLE_BYTES + 1]) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    GEAR_TRY(need(handle, "gear_table_handle", "handle"));
    std::string text = behind(table)->handle_text();
    memcpy(handle, text.c_str(), GEAR_HANDLE_BYTES + 1);
    return {};
  });
}

int gear_table_attach(gear_client* client, const char* handle, gear_table** table) {
  return guarded([&]() -> Status {
    Call call(behind(client));
    GEAR_TRY(call.status());
    GEAR_TRY(need(handle, "gear_table_attach", "handle"));
    GEAR_TRY(need(table, "gear_table_attach", "table"));
    return hand_over(client, Table::attach(*behind(client), handle), table);
  });
}

int gear_table_detach(gear_table* table) {
  return guarded([&]() -> Status {
    GEAR_TRY(check_handle(behind(table)));
    // As in gear_writer_close.
    Call call(&behind(table)->client());
    GEAR_TRY(call.status());
    GEAR_TRY(behind(table)->end_calls());
    behind(table)->client().forget(behind(table));
    return {};
  });
}

int gear_table_close(gear_table* table) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    return behind(table)->close();
  });
}

int gear_table_reset(gear_table* table) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    return behind(table)->reset();
  });
}

int gear_table_drop(gear_client* client, const char* name) {
  return guarded([&]() -> Status {
    Call call(behind(client));
    GEAR_TRY(call.status());
    GEAR_TRY(check_name("drop table: name", name));
    layout::TableNameRequest request{};
    memcpy(request.name, name, strlen(name));
    return behind(client)->session().ask(layout::ControlOp::kTableDrop, request).status();
  });
}
