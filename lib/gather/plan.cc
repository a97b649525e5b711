#include <algorithm>
#include <cstring>
#include <string>

#include "base/status.h"
#include "gather/gather.h"
#include "gather/plan_compute.h"

namespace gear {

using layout::ColumnRecord;

namespace {

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
  plan.per_episode = (column.flags & GEAR_COLUMN_PER_EPISODE) != 0;
  plan.optional = (column.flags & GEAR_COLUMN_OPTIONAL) != 0;
  plan.dtype = column.dtype;
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
  GEAR_TRY(check_compute(window, place));
  if (window.column == nullptr && window.compute == GEAR_COMPUTE_NONE) {
    return error(GEAR_EINVAL, "window %zu: column is NULL; give a column's name", place);
  }
  if (window.pad > GEAR_PAD_RIGHT) {
    return error(GEAR_EINVAL,
                 "window %zu of \"%s\": pad %u is no gear_pad; give none 0, left 1 or right 2",
                 place, shown_name(window), window.pad);
  }
  if (window.fill > GEAR_FILL_EDGE) {
    return error(GEAR_EINVAL,
                 "window %zu of \"%s\": fill %u is no gear_fill; give zero 0 or edge 1", place,
                 shown_name(window), window.fill);
  }
  return {};
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

// Steps of an n-step window's rewards and bootstrap value beyond the last step that it shows.
int64_t fold_steps(const gear_window& window) {
  return needs_steps(window.compute) ? int64_t{window.steps} : 0;
}

Status check_after(const TableView& table, const gear_window& window) {
  const layout::TableHeader& header = *table.header;
  int64_t shown = window.length != 0 ? int64_t{window.offset} + window.length
                                     : int64_t{header.item_steps_max};
  int64_t beyond = shown + fold_steps(window) - int64_t{header.item_steps_max};
  if (beyond <= int64_t{header.window_after_max}) return {};
  std::string steps = needs_steps(window.compute) ? format(" steps %u", window.steps) : "";
  return error(GEAR_EWINDOW,
               "window \"%s\" offset %d length %u%s reaches %lld steps beyond an item of %u, table "
               "\"%s\" keeps %u; create it with window_after_max >= %lld, or shorten the window",
               shown_name(window), window.offset, window.length, steps.c_str(),
               static_cast<long long>(beyond), header.item_steps_max, header.name,
               header.window_after_max, static_cast<long long>(beyond));
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

Status check_burn_in(const gear_window& window, const WindowPlan& plan) {
  uint32_t most = plan.per_episode ? 0 : plan.length;
  if (window.burn_in <= most) return {};
  return error(GEAR_EWINDOW, "window \"%s\" burn_in %u: the window has %u steps%s; give at most %u",
               shown_name(window), window.burn_in, plan.length,
               plan.per_episode ? ", and they are no steps but one cell an episode" : "", most);
}

Result<WindowPlan> plan_cells(const TableView& table, const gear_window& window, size_t place) {
  if (window.column == nullptr) return plan_computed(window);
  uint32_t index = 0;
  GEAR_TRY(find_column(table, window, place, &index));
  WindowPlan plan = plan_of(table, index);
  if (window.compute != GEAR_COMPUTE_NONE) GEAR_TRY(plan_fold(table, window, &plan));
  return plan;
}

Result<WindowPlan> plan_window(const TableView& table, const gear_window& window, size_t place) {
  GEAR_TRY(check_fields(window, place));
  Result<WindowPlan> cells = plan_cells(table, window, place);
  if (!cells.ok()) return cells.status();
  WindowPlan plan = cells.take();
  plan.pad = window.pad;
  plan.fill = window.fill;
  plan.burn_in = window.burn_in;
  if (plan.per_episode) {
    GEAR_TRY(check_per_episode(window));
    GEAR_TRY(check_burn_in(window, plan));
    return plan;
  }
  GEAR_TRY(check_before(table, window));
  plan.offset = window.offset;
  plan.item_range = window.length == 0;
  if (plan.item_range) GEAR_TRY(check_item_range(table, window));
  if (!plan.item_range || plan.steps > 0) GEAR_TRY(check_after(table, window));
  plan.length = plan.item_range ? table.header->item_steps_max : window.length;
  GEAR_TRY(check_burn_in(window, plan));
  if (plan.steps > 0) set_powers(window.discount, &plan);
  return plan;
}

// What the first window tells of the plan.
void set_ahead(std::vector<WindowPlan>* plans) {
  Ahead ahead{};
  for (const WindowPlan& window : *plans) {
    if (window.per_episode) continue;
    ahead.wanted = ahead.wanted || computed(window);
    int64_t fold = window.steps;
    if (window.item_range) {
      ahead.item = true;
      ahead.item_rows = std::max(ahead.item_rows, fold);
    } else {
      ahead.rows = std::max(ahead.rows, int64_t{window.offset} + window.length + fold);
    }
  }
  if (!plans->empty()) plans->front().ahead = ahead;
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
    plans.push_back(plan.take());
  }
  set_ahead(&plans);
  return plans;
}

}  // namespace gear
