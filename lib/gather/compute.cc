#include "gather/compute.h"

#include <cstring>

#include "gather/visit.h"

namespace gear {

using layout::kMarkTerminated;
using layout::kMarkTruncated;

namespace {

constexpr uint32_t kEndFlags = kMarkTerminated | kMarkTruncated;

int64_t rows_ahead(const Ahead& ahead, const AnchorRow& at) {
  int64_t rows = std::max<int64_t>(ahead.rows, 1);
  if (ahead.item) rows = std::max(rows, at.item_end + ahead.item_rows);
  return std::min(rows, at.reach_end);
}

// Acquire: with the flags of a last step comes the final observation, if there is one.
uint32_t end_flags_of(const TableView& table, const Visit& visit, int64_t row) {
  uint64_t position = static_cast<uint64_t>(row - visit.base);
  uint64_t mark = uint64_t{visit.place.block} * table.header->block_steps + position;
  return observe(table.marks[mark]) & kEndFlags;
}

// What the walk found so far: rows [0, end) are rows of the episode, and these are the flags of the
// last of them.
struct Found {
  int64_t end = 0;
  uint32_t flags = 0;
  bool final_row = false;  // the last of them is the final observation
};

// Looks at the rows of one block below `limit`; true when nothing of the episode follows.
bool look_in(const TableView& table, const AnchorRow& at, const Visit& visit, int64_t limit,
             Found* found) {
  int64_t committed_end = std::min(limit, visit.rows_end());
  found->end = episode_end(table, at, visit, committed_end);
  if (found->end > visit.base) {
    found->flags = end_flags_of(table, visit, found->end - 1);
    found->final_row = is_final(table, visit, found->end - 1);
  }
  return found->final_row || found->end < committed_end || found->end == limit;
}

bool settle(const TableView& table, const Visit& visit, const Found& found, AnchorRow* at) {
  at->steps_end = found.end - (found.final_row ? 1 : 0);
  at->end_flags = found.flags;
  // A second look may have seen more rows of it.
  if (visit.place.block == at->place.block) at->place.rows = visit.place.rows;
  int64_t block_end = int64_t{at->place.rows} - at->position;
  at->known_end = std::max(at->known_end, std::min(at->steps_end, block_end));
  // The anchor's block is checked when the row is whole.
  return visit.place.block == at->place.block || unchanged(table, visit.place);
}

// The last committed row is the episode's.
bool settle_at_frontier(const TableView& table, const Visit& visit, const Found& found,
                        AnchorRow* at) {
  at->reach_end = std::min(at->reach_end, found.end);
  return settle(table, visit, found, at);
}

using Put = void (*)(const WindowPlan&, const AnchorRow&, int64_t row, char* to);

template <typename T>
void put(char* to, T value) {
  memcpy(to, &value, sizeof value);
}

void put_step(const WindowPlan&, const AnchorRow& at, int64_t row, char* to) {
  put(to, static_cast<uint32_t>(at.step + row));
}

void put_is_first(const WindowPlan&, const AnchorRow& at, int64_t row, char* to) {
  put(to, static_cast<uint8_t>(at.step + row == 0));
}

template <uint32_t kFlags>
void put_end(const WindowPlan&, const AnchorRow& at, int64_t row, char* to) {
  put(to, static_cast<uint8_t>(row + 1 == at.steps_end && (at.end_flags & kFlags) != 0));
}

void put_steps_summed(const WindowPlan& window, const AnchorRow& at, int64_t row, char* to) {
  put(to, steps_summed(window, at, row));
}

void put_bootstrap(const WindowPlan& window, const AnchorRow& at, int64_t row, char* to) {
  uint32_t summed = steps_summed(window, at, row);
  bool terminal = row + summed == at.steps_end && (at.end_flags & kMarkTerminated) != 0;
  put(to, terminal ? 0.0f : static_cast<float>(window.powers[summed]));
}

Put put_of(uint32_t compute) {
  switch (compute) {
    case GEAR_COMPUTE_STEP:
      return put_step;
    case GEAR_COMPUTE_IS_FIRST:
      return put_is_first;
    case GEAR_COMPUTE_IS_LAST:
      return put_end<kEndFlags>;
    case GEAR_COMPUTE_TERMINATED:
      return put_end<kMarkTerminated>;
    case GEAR_COMPUTE_TRUNCATED:
      return put_end<kMarkTruncated>;
    case GEAR_COMPUTE_NSTEP_STEPS:
      return put_steps_summed;
    default:
      return put_bootstrap;
  }
}

}  // namespace

// The conductor ends an episode in this order: the final observation's row (whose mark has the end
// flags), then the flags of the last step. Without a final observation only the latter. So flags that
// are seen with no row after them may have a final row that was published before them: one more
// look finds it.
bool find_end(const TableView& table, const Ahead& ahead, AnchorRow* at) {
  int64_t limit = rows_ahead(ahead, *at);
  auto block_steps = int64_t{table.header->block_steps};
  Visit visit = visit_anchor(*at);
  Found found;
  bool looked_again = false;
  for (;;) {
    if (look_in(table, *at, visit, limit, &found)) return settle(table, visit, found, at);
    bool look_again = found.flags != 0 && !looked_again;
    if (visit.place.rows < block_steps) {
      if (!look_again) return settle_at_frontier(table, visit, found, at);
      enter(table, visit.place.block, visit.place.generation, &visit.place);
      looked_again = true;
      continue;
    }
    Walk walk = follow(table, Link::kNext, &visit.place);
    if (walk == Walk::kMoved) return false;
    if (walk == Walk::kThere) {
      visit.base += block_steps;
    } else if (!look_again) {
      return settle_at_frontier(table, visit, found, at);
    } else {
      looked_again = true;
    }
  }
}

bool gather_computed(const TableView& table, const WindowPlan& window, const AnchorRow& at,
                     uint32_t row, const WindowBuffer& buffer) {
  Span span = span_of(window, at);
  int64_t begin = std::max(span.begin, -int64_t{at.step});
  int64_t end = std::max(std::min(span.end, at.steps_end), begin);
  auto count = static_cast<uint32_t>(end - begin);
  uint32_t place = 0;
  if (window.pad == GEAR_PAD_NONE && count > 0) place = static_cast<uint32_t>(begin - window.offset);
  if (window.pad == GEAR_PAD_LEFT) place = window.length - count;

  char* to = cells_of(buffer, row) + place * window.cell_bytes;
  if (window.compute == GEAR_COMPUTE_NSTEP_RETURN) {
    if (!fold_returns(table, window, at, begin, end, to)) return false;
  } else {
    Put put_value = put_of(window.compute);
    for (int64_t i = begin; i < end; ++i, to += window.cell_bytes) put_value(window, at, i, to);
  }
  pad_row(window, place, count, row, buffer);
  return true;
}

}  // namespace gear
