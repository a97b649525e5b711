// gear.h, section 7: items by key.

#include "client/c_api.h"
#include "client/options.h"
#include "client/text.h"

using namespace gear;          // NOLINT: this file is the C edge of the namespace
using namespace gear::client;  // NOLINT

namespace {

// priorities: nullptr deletes.
Status change_items(const char* tried, gear_table* table, const uint64_t* keys,
                    const double* priorities, size_t count, int64_t timeout_ns,
                    gear_items_result* result) {
  if (result != nullptr) {
    GEAR_TRY(check_writable("gear_items_result", result));
  }
  gear_items_result known;
  Status status = behind(table)->items().change(keys, priorities, count, timeout_ns, &known);
  if (!status.ok()) {
    return within(format("%s %zu items of \"%s\"", tried, count, behind(table)->name()), status);
  }
  return result != nullptr ? write_struct("gear_items_result", known, result) : Status();
}

}  // namespace

int gear_update_priorities(gear_table* table, const uint64_t* keys, const double* priorities,
                           size_t count, int64_t timeout_ns, gear_items_result* result) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    if (count > 0) {
      GEAR_TRY(need(keys, "gear_update_priorities", "keys"));
      GEAR_TRY(need(priorities, "gear_update_priorities", "priorities"));
    }
    return change_items("update", table, keys, priorities, count, timeout_ns, result);
  });
}

int gear_delete_items(gear_table* table, const uint64_t* keys, size_t count, int64_t timeout_ns,
                      gear_items_result* result) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    if (count > 0) GEAR_TRY(need(keys, "gear_delete_items", "keys"));
    return change_items("delete", table, keys, nullptr, count, timeout_ns, result);
  });
}
