// Windows that show no stored cell but what follows from the steps: numbers, ends, n-step returns.
//
// A computed window has offset, length, pad and fill like any other. It shows steps alone: the final
// observation is no step, and is padding in it.
#pragma once

#include "gather/gather.h"
#include "gather/window.h"

namespace gear {

// Finds, once for all windows of a row, where the anchor's episode ends as far as the plan looks:
// sets steps_end and end_flags, and lowers reach_end to the first row that is not committed yet.
// What is committed meanwhile is for the next draw: no window of this row shows it. False when a
// block changed hands. O(blocks walked + log block_steps).
bool find_end(const TableView& table, const Ahead& ahead, AnchorRow* at);

// gather_window of a computed one, after find_end. O(length), with n-step returns O(length * n).
bool gather_computed(const TableView& table, const WindowPlan& window, const AnchorRow& at,
                     uint32_t row, const WindowBuffer& buffer);

// The n-step returns of rows [begin, end), steps of the episode, to `to`: sums in double, in the order
// of the steps. A step that lacks the cell of an optional column adds nothing. False when a block
// changed hands.
bool fold_returns(const TableView& table, const WindowPlan& window, const AnchorRow& at,
                  int64_t begin, int64_t end, char* to);

// How many rewards the n-step return of a row sums.
inline uint32_t steps_summed(const WindowPlan& window, const AnchorRow& at, int64_t row) {
  return static_cast<uint32_t>(std::min<int64_t>(window.steps, at.steps_end - row));
}

}  // namespace gear
