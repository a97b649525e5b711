// A full table through its conductor's side, and a reader's view of it: no server, no client.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "bench/harness.h"
#include "gather/gather.h"
#include "table/table.h"

namespace gear::bench {

// `items` step items of one column of row_bytes (u8, or one element of another dtype), in one lane, priorities uniform over (0.01, 1.01).
inline std::unique_ptr<Table> full_table(uint32_t sampler, uint64_t items, uint64_t row_bytes,
                                         uint32_t dtype = GEAR_U8,
                                         const std::vector<layout::SelectorSpec>& named = {}) {
  layout::TableCreateRequest request{};
  snprintf(request.name, sizeof request.name, "bench");
  request.capacity_items = items;
  request.column_count = 1;
  request.sampler = sampler;
  request.lanes_max = 1;
  request.numa_node = -1;
  request.selector_count = static_cast<uint32_t>(named.size());
  layout::ColumnSpec column{};
  snprintf(column.name, sizeof column.name, "row");
  column.dtype = dtype;
  column.rank = dtype == GEAR_U8 ? 1 : 0;
  column.shape[0] = static_cast<int64_t>(row_bytes);
  Result<Geometry> geometry = plan_geometry(request, &column, named.data());
  must(geometry.status().code(), "plan");
  Result<std::unique_ptr<Table>> made = Table::create(geometry.value(), 1, 1, MemoryOptions{});
  must(made.status().code(), "create");
  std::unique_ptr<Table> table = made.take();
  memset(static_cast<char*>(table->data().segment(0).data()) + layout::kPageBytes, 1,
         table->data().bytes() - layout::kPageBytes);
  uint32_t lane = table->open_lane(1);
  Rng rng(3);
  for (uint64_t step = 0; step < items; ++step) {
    layout::GrantRecord grant{};
    if (table->unfilled_blocks(lane) == 0 && !table->grant_block(lane, &grant)) abort();
    uint32_t done = 0;
    if (table->set_priority(lane, true, rng.unit() + 0.01) != Admit::kDone) abort();
    if (table->commit(lane, 1, &done) != Admit::kDone) abort();
  }
  return table;
}

inline TableView view_of(const Table& table) {
  return TableView::over(table.directory().data(), table.data().segment(0).data());
}

}  // namespace gear::bench
