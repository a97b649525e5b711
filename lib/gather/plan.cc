#include <cstring>
#include <string>

#include "base/status.h"
#include "gather/gather.h"

namespace gear {

using layout::ColumnRecord;

namespace {

bool per_episode(const ColumnRecord& column) {
  return (column.flags & GEAR_COLUMN_PER_EPISODE) != 0;
}

std::string column_names(const TableView& table) {
  constexpr uint32_t kShown = 8;
  std::string names;
  for (uint32_t i = 0; i < table.header->column_count; ++i) {
    if (i == kShown) return names + ", ...";
    names += (i == 0 ? "\"" : ", \"") + std::string(table.columns[i].name) + "\"";
  }
  return names;
}

WindowPlan plan_of(const TableView& table, uint32_t index) {
  const ColumnRecord& column = table.columns[index];
  WindowPlan plan{};
  plan.column = index;
  plan.per_episode = per_episode(column);
  plan.length = 1;
  plan.pad = GEAR_PAD_NONE;
  plan.fill = GEAR_FILL_ZERO;
  plan.cell_bytes = column.cell_bytes;
  plan.column_offset = column.offset;
  return plan;
}

WindowPlan default_plan(const TableView& table, uint32_t index) {
  WindowPlan plan = plan_of(table, index);
  if (!plan.per_episode && table.header->item_policy != GEAR_ITEMS_STEP) {
    plan.item_range = true;
    plan.length = table.header->item_steps_max;
  }
  return plan;
}

Status find_column(const TableView& table, const gear_window& window, size_t place,
                   uint32_t* index) {
  const layout::TableHeader& header = *table.header;
  for (*index = 0; *index < header.column_count; ++*index) {
    if (strcmp(table.columns[*index].name, window.column) == 0) return {};
  }
  return error(GEAR_ENOCOLUMN, "window %zu: table \"%s\" has no column \"%s\"; its columns are %s",
               place, header.name, window.column, column_names(table).c_str());
}

Status check_fields(const gear_window& window, size_t place) {
  if (window.struct_size != sizeof(gear_window)) {
    return error(GEAR_ESTRUCT,
                 "window %zu: struct_size %u, this library knows %zu; begin with GEAR_WINDOW_INIT",
                 place, window.struct_size, sizeof(gear_window));
  }
  if (window.column == nullptr) {
    return error(GEAR_EINVAL, "window %zu: column is NULL; give a column's name", place);
  }
  if (window.pad > GEAR_PAD_RIGHT) {
    return error(GEAR_EINVAL,
                 "window %zu of \"%s\": pad %u is no gear_pad; give none 0, left 1 or right 2",
                 place, window.column, window.pad);
  }
  if (window.fill > GEAR_FILL_EDGE) {
    return error(GEAR_EINVAL,
                 "window %zu of \"%s\": fill %u is no gear_fill; give zero 0 or edge 1", place,
                 window.column, window.fill);
  }
  return {};
}

const char* shown_name(const gear_window& window) {
  return window.name != nullptr ? window.name : window.column;
}

Status check_before(const TableView& table, const gear_window& window) {
  const layout::TableHeader& header = *table.header;
  int64_t before = -int64_t{window.offset};
  if (before <= int64_t{header.window_before_max}) return {};
  return error(GEAR_EWINDOW,
               "window \"%s\" offset %d reaches %lld steps before the drawn step, table \"%s\" "
               "keeps %u; create it with window_before_max >= %lld, or raise the offset",
               shown_name(window), window.offset, static_cast<long long>(before), header.name,
               header.window_before_max, static_cast<long long>(before));
}

Status check_after(const TableView& table, const gear_window& window) {
  const layout::TableHeader& header = *table.header;
  int64_t beyond = int64_t{window.offset} + window.length - int64_t{header.item_steps_max};
  if (beyond <= int64_t{header.window_after_max}) return {};
  return error(GEAR_EWINDOW,
               "window \"%s\" offset %d length %u reaches %lld steps beyond an item of %u, table "
               "\"%s\" keeps %u; create it with window_after_max >= %lld, or shorten the window",
               shown_name(window), window.offset, window.length, static_cast<long long>(beyond),
               header.item_steps_max, header.name, header.window_after_max,
               static_cast<long long>(beyond));
}

Status check_item_range(const TableView& table, const gear_window& window) {
  const layout::TableHeader& header = *table.header;
  if (window.offset < int64_t{header.item_steps_max}) return {};
  return error(GEAR_EWINDOW,
               "window \"%s\" offset %d length 0 (the item's own steps) shows nothing: items of "
               "table \"%s\" have at most %u steps; give a smaller offset, or a length",
               shown_name(window), window.offset, header.name, header.item_steps_max);
}

Status check_per_episode(const gear_window& window) {
  if (window.offset == 0 && window.length <= 1) return {};
  return error(GEAR_EWINDOW,
               "window \"%s\" offset %d length %u: column \"%s\" has one cell an episode; give "
               "offset 0 and length 1",
               shown_name(window), window.offset, window.length, window.column);
}

Result<WindowPlan> plan_window(const TableView& table, const gear_window& window, size_t place) {
  GEAR_TRY(check_fields(window, place));
  uint32_t index = 0;
  GEAR_TRY(find_column(table, window, place, &index));
  WindowPlan plan = plan_of(table, index);
  plan.pad = window.pad;
  plan.fill = window.fill;
  if (plan.per_episode) {
    GEAR_TRY(check_per_episode(window));
    return plan;
  }
  GEAR_TRY(check_before(table, window));
  plan.offset = window.offset;
  plan.item_range = window.length == 0;
  if (plan.item_range) {
    GEAR_TRY(check_item_range(table, window));
    plan.length = table.header->item_steps_max;
  } else {
    GEAR_TRY(check_after(table, window));
    plan.length = window.length;
  }
  return plan;
}

}  // namespace

Result<std::vector<WindowPlan>> plan_windows(const TableView& table, const gear_window* windows,
                                             size_t count) {
  std::vector<WindowPlan> plans;
  if (count == 0) {
    for (uint32_t i = 0; i < table.header->column_count; ++i) {
      plans.push_back(default_plan(table, i));
    }
    return plans;
  }
  if (windows == nullptr) {
    return error(GEAR_EINVAL,
                 "windows is NULL but %zu are counted; give the windows, or a count of 0 for every "
                 "column",
                 count);
  }
  plans.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    Result<WindowPlan> plan = plan_window(table, windows[i], i);
    if (!plan.ok()) return plan.status();
    plans.push_back(plan.value());
  }
  return plans;
}

}  // namespace gear
