#include "client/table_request.h"

#include <algorithm>
#include <cstring>

#include "client/options.h"
#include "client/text.h"
#include "layout/control.h"

namespace gear::client {
namespace {

using layout::ColumnSpec;
using layout::TableCreateRequest;

void copy_name(char (&field)[layout::kNameBytesMax + 1], const char* name) {
  memcpy(field, name, strlen(name));
}

Status check_columns(const gear_table_options& options) {
  if (options.column_count == 0) {
    return error(
        GEAR_ESIZE,
        "create table \"%s\": column_count is 0; a table has 1 to %d columns, at least one "
        "of them per step",
        options.name, GEAR_COLUMNS_MAX);
  }
  if (options.column_count > GEAR_COLUMNS_MAX) {
    return error(GEAR_ESIZE, "create table \"%s\": %u columns; a table has at most %d",
                 options.name, options.column_count, GEAR_COLUMNS_MAX);
  }
  if (options.columns == nullptr) {
    return error(GEAR_EINVAL,
                 "create table \"%s\": columns is NULL, column_count %u; give the columns",
                 options.name, options.column_count);
  }
  return {};
}

Status fill_column(const std::string& tried, const gear_column_options* given, uint32_t stride,
                   ColumnSpec* spec) {
  gear_column_options column;
  GEAR_TRY(read_struct("gear_column_options", given, &column));
  if (given->struct_size != stride) {
    return error(
        GEAR_ESTRUCT,
        "%s: struct_size is %u, that of the first column %u; give all columns by one macro",
        tried.c_str(), given->struct_size, stride);
  }
  GEAR_TRY(check_name((tried + ": name").c_str(), column.name));
  copy_name(spec->name, column.name);
  spec->dtype = column.dtype;
  spec->rank = column.rank;
  spec->element_bytes = column.element_bytes;
  spec->flags = column.flags;
  std::copy(std::begin(column.shape), std::end(column.shape), spec->shape);
  return {};
}

Status fill_selector(const std::string& tried, const gear_selector_options* given, uint32_t stride,
                     layout::SelectorSpec* spec) {
  gear_selector_options selector;
  GEAR_TRY(read_struct("gear_selector_options", given, &selector));
  if (given->struct_size != stride) {
    return error(
        GEAR_ESTRUCT,
        "%s: struct_size is %u, that of the first selector %u; give all selectors by one macro",
        tried.c_str(), given->struct_size, stride);
  }
  GEAR_TRY(check_name((tried + ": name").c_str(), selector.name));
  if (strlen(selector.name) > layout::kSelectorNameBytesMax) {
    return error(GEAR_ENAME, "%s: name has %zu bytes; give at most %u", tried.c_str(),
                 strlen(selector.name), layout::kSelectorNameBytesMax);
  }
  memcpy(spec->name, selector.name, strlen(selector.name));
  spec->selector = selector.selector;
  spec->top_k = selector.top_k;
  spec->alpha = selector.alpha;
  spec->epsilon = selector.epsilon;
  spec->half_life = selector.half_life;
  spec->proportion = selector.proportion;
  return {};
}

Status check_selectors(const gear_table_options& options) {
  if (options.selector_count > GEAR_SELECTORS_MAX) {
    return error(GEAR_ESIZE, "create table \"%s\": %u named selectors; a table has at most %d",
                 options.name, options.selector_count, GEAR_SELECTORS_MAX);
  }
  if (options.selector_count > 0 && options.selectors == nullptr) {
    return error(GEAR_EINVAL,
                 "create table \"%s\": selectors is NULL, selector_count %u; give the selectors",
                 options.name, options.selector_count);
  }
  return {};
}

void fill_table(const gear_table_options& options, TableCreateRequest* request) {
  copy_name(request->name, options.name);
  request->capacity_items = options.capacity_items;
  request->capacity_steps = options.capacity_steps;
  request->episode_steps_max = options.episode_steps_max;
  request->column_count = options.column_count;
  request->item_policy = options.item_policy;
  request->item_length = options.item_length;
  request->item_period = options.item_period;
  request->short_episodes = options.short_episodes;
  request->sampler = options.sampler;
  request->remover = options.remover;
  request->max_times_sampled = options.max_times_sampled;
  request->priority_alpha = options.priority_alpha;
  request->priority_epsilon = options.priority_epsilon;
  request->limiter = {options.limiter.samples_per_insert, options.limiter.min_size,
                      options.limiter.min_diff, options.limiter.max_diff};
  request->lanes_max = options.lanes_max;
  request->block_steps = options.block_steps;
  request->window_before_max = options.window_before_max;
  request->window_after_max = options.window_after_max;
  request->memory = options.memory;
  request->huge_pages = options.huge_pages;
  request->populate = options.populate;
  request->lock = options.lock;
  request->numa_node = options.numa_node;
  request->lease_timeout_ms = options.lease_timeout_ms;
  request->selector_count = options.selector_count;
  request->top_k = options.top_k;
  request->half_life = options.half_life;
  request->capacity_bytes = options.capacity_bytes;
  request->new_priority = options.new_priority;
  request->table_weights = options.table_weights;
  request->versions = options.versions;
  request->prompt_groups_max = options.prompt_groups_max;
  request->mode = options.mode;
  request->payload_isolation = options.payload_isolation;
  request->writers_max = options.writers_max;
}

}  // namespace

Result<std::vector<char>> table_create_request(const gear_table_options& options) {
  GEAR_TRY(check_name("create table: name", options.name));
  GEAR_TRY(check_columns(options));
  GEAR_TRY(check_selectors(options));
  std::vector<char> body(sizeof(TableCreateRequest) + options.column_count * sizeof(ColumnSpec) +
                         options.selector_count * sizeof(layout::SelectorSpec));
  fill_table(options, reinterpret_cast<TableCreateRequest*>(body.data()));
  auto* specs = reinterpret_cast<ColumnSpec*>(body.data() + sizeof(TableCreateRequest));
  for (uint32_t i = 0; i < options.column_count; ++i) {
    GEAR_TRY(fill_column(format("create table \"%s\": column %u", options.name, i),
                         struct_at(options.columns, i), options.columns->struct_size, &specs[i]));
  }
  auto* selectors = reinterpret_cast<layout::SelectorSpec*>(specs + options.column_count);
  for (uint32_t i = 0; i < options.selector_count; ++i) {
    GEAR_TRY(fill_selector(format("create table \"%s\": selector %u", options.name, i),
                           struct_at(options.selectors, i), options.selectors->struct_size,
                           &selectors[i]));
  }
  return body;
}

}  // namespace gear::client
