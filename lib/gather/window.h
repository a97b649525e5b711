// One window of one row, where it does not simply lie within a block.
#pragma once

#include "gather/chain.h"
#include "gather/gather.h"

namespace gear {

// The drawn step, found once for all windows of a row. Rows are counted relative to it.
struct AnchorRow {
  Place place;
  uint32_t position;  // in the block
  uint32_t step;      // of the episode
  int64_t known_end;  // rows [0, known_end) are steps of the episode and lie in the block; the
                      // caller raises it
  int64_t item_end;   // where the item's steps end
  // Where what the table keeps for the item ends; lowered to the first row that a window found not
  // committed yet, so that no later window of the row sees more.
  int64_t reach_end;

  // Found by find_end, once, for plans with computed windows.
  int64_t steps_end;   // rows [0, steps_end) are steps of the episode, as far as the plan looks
  uint32_t end_flags;  // how the episode ended after row steps_end - 1; 0: it goes on, or is open
};

// Rows [begin, end) that a window may show, before commits and the episode's end are looked at.
struct Span {
  int64_t begin;
  int64_t end;
};

inline Span span_of(const WindowPlan& window, const AnchorRow& at) {
  int64_t end = window.item_range ? at.item_end : at.reach_end;
  return {window.offset, std::min(int64_t{window.offset} + window.length, end)};
}

// Where row `row` of the batch begins in a window's buffer.
inline char* cells_of(const WindowBuffer& buffer, uint32_t row) {
  return buffer.data + uint64_t{row} * buffer.row_stride;
}

// Everything of the row around the `count` cells that exist from `begin` on: padding, mask, length.
void pad_row(const WindowPlan& window, uint32_t begin, uint32_t count, uint32_t row,
             const WindowBuffer& buffer);

// Writes data, padding, mask and length of the row; false when a block changed hands. O(length +
// blocks walked).
bool gather_window(const TableView& table, const WindowPlan& window, AnchorRow* at, uint32_t row,
                   const WindowBuffer& buffer);

// The same for the cell of a per-episode column, of the episode in slot `episode`.
bool gather_episode_cell(const TableView& table, const WindowPlan& window, uint32_t episode,
                         uint32_t row, const WindowBuffer& buffer);

}  // namespace gear
