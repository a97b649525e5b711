// Tables without a server, for tests of the conductor's side.
#pragma once

#include <cfloat>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "table/table.h"

namespace gear::test {

// Of lanes that nobody takes over.
struct Owner final : LaneOwner {
  bool leaving() const override { return false; }
  void lose_lane(uint32_t) override {}
};

inline layout::ColumnSpec u64_column(const char* name = "x", uint32_t flags = 0) {
  layout::ColumnSpec column{};
  snprintf(column.name, sizeof column.name, "%s", name);
  column.dtype = GEAR_U64;
  column.flags = flags;
  return column;
}

// Of one column, drawn uniformly, the oldest removed, without a limit of draws.
inline layout::TableCreateRequest bare_request(uint64_t items, uint32_t lanes, uint32_t block_steps = 4) {
  layout::TableCreateRequest request{};
  snprintf(request.name, sizeof request.name, "t");
  request.capacity_items = items;
  request.column_count = 1;
  request.lanes_max = lanes;
  request.block_steps = block_steps;
  request.numa_node = -1;
  request.sampler = GEAR_SELECT_UNIFORM;
  request.remover = GEAR_SELECT_FIFO;
  request.limiter = {1, 1, -DBL_MAX, DBL_MAX};
  return request;
}

// As planned, in the memory that the request named, memfd by default. Where that fails the process ends with the reason.
inline std::unique_ptr<Table> create_bare(const Geometry& geometry, uint64_t instance_id = 1, uint64_t table_id = 1) {
  MemoryOptions memory;
  if (geometry.header.memory != 0) memory.memory = geometry.header.memory;
  Result<std::unique_ptr<Table>> table = Table::create(geometry, instance_id, table_id, memory);
  if (!table.ok()) fprintf(stderr, "%s\n", table.status().text().c_str()), abort();
  return table.take();
}

// A table that must be possible. There are request.column_count columns and request.selector_count selectors.
inline Geometry plan_bare(const layout::TableCreateRequest& request, const layout::ColumnSpec* columns,
                          const layout::SelectorSpec* selectors = nullptr) {
  Result<Geometry> geometry = plan_geometry(request, columns, selectors);
  if (!geometry.ok()) fprintf(stderr, "%s\n", geometry.status().text().c_str()), abort();
  return geometry.take();
}
inline std::unique_ptr<Table> make_bare(const layout::TableCreateRequest& request, const layout::ColumnSpec* columns,
                                        const layout::SelectorSpec* selectors = nullptr, uint64_t instance_id = 1,
                                        uint64_t table_id = 1) {
  return create_bare(plan_bare(request, columns, selectors), instance_id, table_id);
}

// As the next server's.
inline Result<std::unique_ptr<Table>> pass_on(std::unique_ptr<Table> table) {
  Segment directory;
  TableData data;
  table->take_segments(&directory, &data);
  table.reset();
  return Table::adopt(std::move(directory), std::move(data));
}

}  // namespace gear::test
