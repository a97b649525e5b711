// Geometry: from what the user asked to where every byte of a table lies.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "layout/control.h"
#include "layout/directory.h"

namespace gear {

// A checked request and the directory header it leads to. Constant after plan_geometry.
struct Geometry {
  layout::TableHeader header;  // all constant fields; segment header and counters still zero
  std::vector<layout::ColumnRecord> columns;
};

// Checks every field of a request from a client and computes the layout. `columns` has request.column_count entries,
// `selectors` request.selector_count.
// Errors: EINVAL, ENAME, EDUPLICATE, EDTYPE, ESHAPE, ESIZE, EPRIORITY; nothing is allocated but the result.
Result<Geometry> plan_geometry(const layout::TableCreateRequest& request,
                               const layout::ColumnSpec* columns,
                               const layout::SelectorSpec* selectors = nullptr);

// Whether nothing has to be counted at a draw, so that clients may draw by themselves.
bool direct_sampling_allowed(const layout::TableHeader& header);

// How many blocks a writer's lane is granted ahead of the one it fills.
uint32_t blocks_ahead(const layout::TableHeader& header);

// Blocks of the chain that windows may reach into, before and after a block that an item lies in.
uint32_t blocks_before(const layout::TableHeader& header);
uint32_t blocks_after(const layout::TableHeader& header);

// Bytes of one element; 0 for no dtype. element_bytes is for GEAR_BYTES only.
uint32_t dtype_bytes(uint32_t dtype, uint32_t element_bytes);
const char* dtype_name(uint32_t dtype);

}  // namespace gear
