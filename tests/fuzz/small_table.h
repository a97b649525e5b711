// Requests for tables that are made in no time, and the shortest way to a conductor with one.
#pragma once

#include <cfloat>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "layout/control.h"
#include "support/bare_table.h"

namespace gear::test {

inline layout::TableCreateRequest small_request(const char* name) {
  layout::TableCreateRequest request{};
  strcpy(request.name, name);
  request.capacity_items = 6;
  request.capacity_steps = 16;
  request.column_count = 1;
  request.item_policy = GEAR_ITEMS_STEP;
  request.episode_steps_max = 8;
  request.sampler = GEAR_SELECT_UNIFORM;
  request.remover = GEAR_SELECT_FIFO;
  request.limiter = {1, 1, -DBL_MAX, DBL_MAX};
  request.lanes_max = 3;
  request.block_steps = 4;
  request.memory = GEAR_MEMORY_MEMFD;
  request.lease_timeout_ms = 1000;
  request.numa_node = -1;
  return request;
}

inline layout::ColumnSpec small_column(const char* name = "x", uint32_t flags = 0) {
  layout::ColumnSpec column{};
  strcpy(column.name, name);
  column.dtype = GEAR_F32;
  column.flags = flags;
  return column;
}

inline layout::SelectorSpec small_selector(const char* name, uint32_t selector) {
  layout::SelectorSpec spec{};
  strcpy(spec.name, name);
  spec.selector = selector;
  spec.proportion = 0.25;
  spec.alpha = 0.5;
  spec.half_life = 3;
  spec.top_k = 2;
  return spec;
}

// One kind of table of each item policy and one with many indexes, each with what goes along with it; odd ones have a
// per-episode column, those from 0x80 to 0xbf have their data in parts, and those from 0xc0 on more items than a node of a tree has children.
// `instance_id`: of named segments; 0: memfds.
inline std::shared_ptr<Table> table_of_kind(uint8_t kind, uint64_t instance_id = 0) {
  auto request = small_request("ring");
  if (instance_id != 0) request.memory = GEAR_MEMORY_POSIX;
  layout::ColumnSpec columns[] = {small_column(), small_column("goal", GEAR_COLUMN_PER_EPISODE)};
  if (kind % 2 == 1) request.column_count = 2;
  if (kind >= 0xc0) {
    request.capacity_items = 70;
  } else if (kind >= 0x80) {
    request.payload_isolation = GEAR_ISOLATION_PER_WRITER;
    request.writers_max = 3;
  }
  layout::SelectorSpec selectors[4] = {};
  switch (kind / 2 % 5) {
    case 0: break;
    case 1:
      request.item_policy = GEAR_ITEMS_EXPLICIT;
      request.versions = 1;
      request.prompt_groups_max = 2;
      break;
    case 2:
      request.item_policy = GEAR_ITEMS_SEQUENCE;
      request.item_length = 2;
      request.item_period = 1;
      request.max_times_sampled = 2;
      request.sampler = GEAR_SELECT_PRIORITIZED;
      request.priority_alpha = 1;
      request.table_weights = kind >= 0x80;
      request.new_priority = kind >= 0x80 ? GEAR_NEW_PRIORITY_TABLE_MAX : GEAR_NEW_PRIORITY_LIFETIME_MAX;
      break;
    case 3:
      request.item_policy = GEAR_ITEMS_EPISODE;
      request.limiter = {2, 1, -4, 4};
      request.sampler = GEAR_SELECT_FIFO;
      request.capacity_bytes = 60;
      break;
    default:
      request.sampler = GEAR_SELECT_MIXTURE;
      request.remover = GEAR_SELECT_MIN_HEAP;
      request.selector_count = 4;
      selectors[0] = small_selector("p", GEAR_SELECT_PRIORITIZED);
      selectors[1] = small_selector("n", GEAR_SELECT_RECENCY);
      selectors[2] = small_selector("k", GEAR_SELECT_TOP_K);
      selectors[3] = small_selector("l", GEAR_SELECT_LIFO);
  }
  return make_bare(request, columns, selectors, instance_id);
}

}  // namespace gear::test
