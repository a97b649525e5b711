// Requests for tables that are made in no time, and the shortest way to a conductor with one.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "layout/control.h"
#include "table/geometry.h"
#include "table/table.h"

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
  request.limiter = {1, 1, -1e300, 1e300};
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

// A table that must be possible; columns are request.column_count.
inline std::shared_ptr<Table> make_table(const layout::TableCreateRequest& request, const layout::ColumnSpec* columns) {
  auto geometry = plan_geometry(request, columns);
  if (!geometry.ok()) fprintf(stderr, "%s\n", geometry.status().text().c_str()), abort();
  auto table = Table::create(geometry.value(), 1, 1, MemoryOptions{});
  if (!table.ok()) fprintf(stderr, "%s\n", table.status().text().c_str()), abort();
  return std::shared_ptr<Table>(table.take());
}

}  // namespace gear::test
