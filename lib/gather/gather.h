// Gather: from a drawn item to rows of a batch.
//
// A plan is made once a sampler; gather_row copies one row's windows, checking after each copied
// run that the block did not change hands (BlockRecord::generation). Nothing here allocates, locks
// or calls the system.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "gather/bring_near.h"
#include "gather/table_view.h"
#include "gear.h"

namespace gear {

// How far from the drawn step the windows of a plan look, when some of them are computed: these
// need to know where the episode ends, and all windows of a row must agree about it.
struct Ahead {
  bool wanted;       // some window is computed
  bool item;         // some window shows the item's own steps
  int64_t rows;      // rows [0, rows) by windows of a fixed length
  int64_t item_rows; // and up to item_rows beyond the item's end
};

// One window of the plan, resolved against the table. Lengths and offsets in steps.
struct WindowPlan {
  uint32_t column;  // index in the table
  bool per_episode;
  bool item_range;  // length 0 was asked: the item's own steps, cut at the item's end
  int32_t offset;
  uint32_t length;  // steps in the tensor, >= 1
  uint32_t pad;     // gear_pad
  uint32_t fill;    // gear_fill
  uint64_t cell_bytes;
  uint64_t column_offset;  // within a block, or within an episode slot's cells

  bool optional;     // steps may lack the cell; their presence bits tell
  uint32_t compute;  // gear_compute; `column` is kNone but for the n-step return
  uint32_t dtype;    // gear_dtype of the tensor
  uint32_t steps;    // n of an n-step window, else 0
  uint32_t burn_in;
  std::vector<double> powers;  // n-step: discount^0 .. discount^n, each the one before * discount
  Ahead ahead;                 // the first window's holds for the plan
};

inline bool computed(const WindowPlan& window) {
  return window.compute != GEAR_COMPUTE_NONE;
}

// Checks the windows against the table. `count` 0: every column (for step items offset 0 length 1,
// else item range; per-episode columns length 1). Names are the caller's matter. Errors: ENOCOLUMN,
// EWINDOW, ESTRUCT, EINVAL. A fixed window [offset, offset+length) relative to the drawn step must
// stay within what the table keeps: offset >= -window_before_max, and for anchors other than the
// first the same. Forward: offset + length - 1 <= (steps after the anchor within the item) +
// window_after_max; with anchor first that is item_steps_max - 1 + window_after_max. That is what
// is checked here. Where the drawn item is shorter, or the anchor further on, steps beyond the
// item's last step + window_after_max are padding: the table does not promise to keep them. An
// n-step window reaches n steps further: the rewards summed, and the step whose value is
// bootstrapped. Of computed windows also EDTYPE and ESHAPE (of the rewards' column).
Result<std::vector<WindowPlan>> plan_windows(const TableView& table, const gear_window* windows,
                                             size_t count);

// Where one window's rows go; memory of the batch.
struct WindowBuffer {
  char* data;           // [rows, length, cell_bytes]
  uint8_t* mask;        // [rows, length]
  uint32_t* lengths;    // [rows]
  uint64_t row_stride;  // bytes from row to row of data; the cells of a row follow one another
};

// DrawnItem::item_generation of a leased draw: its pins keep the blocks, whatever becomes of the
// item.
inline constexpr uint64_t kItemPinned = 0;

// An item as drawn: a consistent copy of its record's fields.
struct DrawnItem {
  uint64_t key;
  uint64_t item_generation;   // what ItemRecord::generation was; kItemPinned for a leased draw
  uint64_t block_generation;  // of `block`
  uint32_t slot;
  uint32_t block;
  uint32_t position;
  uint32_t length;
  uint32_t episode;
  uint32_t times_sampled;
  double priority;
};

// Reads the item in `slot`. False when it is not in the table, or changed while it was read.
bool read_item(const TableView& table, uint32_t slot, DrawnItem* item);

// The first step of the item that the anchor picks (gear_anchor, resolved: not AUTO);
// `window_length` is K of GEAR_ANCHOR_RANDOM_START.
uint32_t pick_anchor(uint32_t anchor, uint32_t item_length, uint32_t window_length, Rng& rng);

enum class GatherOutcome {
  kGathered,  // the row is exactly what one writer committed
  kMoved  // a block changed hands, or a directly drawn item left the table: the row means nothing,
          // draw again
};

// Copies the windows around step `anchor` (0 is the item's first) of `item` into row `row` of the
// buffers, one buffer a window. Writes every byte of the row: data, padding (zeros, or the edge
// step), mask and lengths.
GatherOutcome gather_row(const TableView& table, const std::vector<WindowPlan>& plan,
                         const DrawnItem& item, uint32_t anchor, uint32_t row,
                         const WindowBuffer* buffers);

// gather_row for `count` items, into rows first_row and on, with the memory of several
// rows brought near at once: the way to gather a batch. outcomes[i] is of items[i];
// returns how many moved.
uint32_t gather_rows(const TableView& table, const std::vector<WindowPlan>& plan,
                     const DrawnItem* items, const uint32_t* anchors, uint32_t count,
                     uint32_t first_row, const WindowBuffer* buffers, GatherOutcome* outcomes);

// Brings the item's record near, for a read_item that comes soon; many slots in a row overlap.
inline void prefetch_item(const TableView& table, uint32_t slot) {
  if (slot >= table.header->item_slots) return;
  // A record of 40 bytes often lies in two lines.
  bring_near(&table.items[slot].generation);
  bring_near(&table.items[slot].priority);
}

}  // namespace gear
