#include "gather/gather.h"

#include <cstring>

#include "gather/compute.h"
#include "gather/copy_payload.h"
#include "gather/window.h"

namespace gear {

namespace {

// A small window of a row is brought near whole; of a large one only the begin, since the
// processor's own prefetcher follows the copy from there. A group of rows stays in the first
// caches.
constexpr uint64_t kSmallBytesMax = 1024;
constexpr uint64_t kBeginBytes = 256;
constexpr uint32_t kGroupRowsMax = 32;
constexpr uint32_t kGroupLinesMax = 512;
constexpr uint64_t kLineBytes = 64;

// From the item's first row to the drawn step. The walk is bounded by the table's blocks whatever
// the item says.
bool find_anchor(const TableView& table, const DrawnItem& item, uint32_t anchor, AnchorRow* at) {
  const layout::TableHeader& header = *table.header;
  if (item.block >= header.block_count || item.position >= header.block_steps ||
      anchor >= item.length) {
    return false;
  }
  enter(table, item.block, item.block_generation, &at->place);
  // Also checked after the copy; here it saves the copy.
  if (peek(table.blocks[item.block].generation) != item.block_generation) return false;

  uint64_t position = uint64_t{item.position} + anchor;
  for (uint32_t walked = 0; position >= header.block_steps; ++walked) {
    if (walked >= header.block_count) return false;
    if (follow(table, Link::kNext, &at->place) != Walk::kThere) return false;
    position -= header.block_steps;
  }
  if (position >= at->place.rows) return false;
  at->position = static_cast<uint32_t>(position);
  at->known_end = 1;
  at->item_end = int64_t{item.length} - anchor;
  at->reach_end = at->item_end + header.window_after_max;
  return true;
}

// Whether the window asks for more than the drawn step itself, which the item vouches for. Marks
// are far from all else, and reading one costs as much as a small row: who asks only for the drawn
// step does not pay for it.
inline bool needs_marks(const WindowPlan& window) {
  return window.offset != 0 || window.length != 1 || window.optional || computed(window);
}

inline bool read_step(const TableView& table, AnchorRow* at) {
  uint32_t mark = mark_at(table, at->place.block, at->position);
  at->step = layout::mark_step(mark);
  return (mark & layout::kMarkFinal) == 0;
}

// Whether all rows of the window are steps of the episode and lie in the anchor's block: the common
// case, one copy.
inline bool lies_inside(const TableView& table, const WindowPlan& window, AnchorRow* at) {
  int64_t begin = window.offset;
  int64_t end = begin + window.length;
  if (begin < 0 && (begin + at->position < 0 || begin + at->step < 0)) return false;
  if (end > (window.item_range ? at->item_end : at->reach_end)) return false;
  if (end <= at->known_end) return true;
  int64_t last = end - 1 + at->position;
  if (last >= at->place.rows) return false;
  uint32_t mark = mark_at(table, at->place.block, static_cast<uint64_t>(last));
  if ((mark & layout::kMarkFinal) != 0) return false;
  if (layout::mark_step(mark) != at->step + (end - 1)) return false;
  at->known_end = end;
  return true;
}

inline const char* first_cell(const TableView& table, const WindowPlan& window, uint32_t block,
                              int64_t position) {
  return table.block_data(block) + window.column_offset +
         static_cast<uint64_t>(position) * window.cell_bytes;
}

inline void gather_inside(const TableView& table, const WindowPlan& window, const AnchorRow& at,
                          uint32_t row, const WindowBuffer& buffer) {
  int64_t position = int64_t{at.position} + window.offset;
  copy_payload(cells_of(buffer, row), first_cell(table, window, at.place.block, position),
               window.length * window.cell_bytes);
  uint8_t* mask = buffer.mask + uint64_t{row} * window.length;
  if (window.length == 1) {
    *mask = 1;
  } else {
    memset(mask, 1, window.length);
  }
  buffer.lengths[row] = window.length;
}

// A direct draw holds nothing: while its item is in the table, the item's blocks, those within
// reach and its episode's cells stay. A pinned draw keeps them whatever becomes of the item.
inline bool item_unchanged(const TableView& table, const DrawnItem& item) {
  return item.item_generation == kItemPinned ||
         (item.slot < table.header->item_slots &&
          peek(table.items[item.slot].generation) == item.item_generation);
}

constexpr uint64_t near_bytes(uint64_t window_bytes) {
  return window_bytes <= kSmallBytesMax ? window_bytes : kBeginBytes;
}

// The lines that a group of rows will read, found without reading any of them.
class LineList {
 public:
  void add(const void* begin, uint64_t bytes) {
    auto line = reinterpret_cast<uintptr_t>(begin);
    uintptr_t end = line + bytes;
    for (; line < end && count_ < kGroupLinesMax; line = (line / kLineBytes + 1) * kLineBytes) {
      lines_[count_++] = reinterpret_cast<const char*>(line);
    }
  }
  void bring_near() const { touch_payload(lines_, count_); }

 private:
  const char* lines_[kGroupLinesMax];
  uint32_t count_ = 0;
};

// Steps that the window shows or sums.
inline int64_t rows_read(const WindowPlan& window) {
  return int64_t{window.length} + std::max(window.steps, 1u) - 1;
}

// Rows in later blocks are not listed: they are found by following links, which may not be near
// yet.
inline void list_row(const TableView& table, const std::vector<WindowPlan>& plan,
                     const DrawnItem& item, uint32_t anchor, LineList* lines) {
  const layout::TableHeader& header = *table.header;
  auto block_steps = int64_t{header.block_steps};
  int64_t position = int64_t{item.position} + anchor;
  if (item.block >= header.block_count || position >= block_steps) return;
  lines->add(&table.blocks[item.block].rows, 1);
  for (const WindowPlan& window : plan) {
    int64_t begin = std::max<int64_t>(0, position + window.offset);
    int64_t end = std::min(block_steps, position + window.offset + rows_read(window));
    if (window.per_episode || begin >= end) continue;
    auto rows = static_cast<uint64_t>(end - begin);
    if (window.column != layout::kNone) {
      lines->add(first_cell(table, window, item.block, begin),
                 near_bytes(rows * window.cell_bytes));
    }
    if (needs_marks(window)) {
      const uint32_t* marks = table.marks + int64_t{item.block} * block_steps;
      lines->add(marks + position, 1);
      lines->add(marks + end - 1, 1);
    }
  }
}

// Cold memory is what small rows cost. Loads with few instructions between them miss side by side,
// as those of a plain memcpy of all rows do; the checks and stores of gather_row would let only few
// of its own. So a group's lines are listed, then loaded in one go, then its rows are gathered.
// Software prefetches do not serve: those that miss the TLB are slow or dropped.
void bring_rows_near(const TableView& table, const std::vector<WindowPlan>& plan,
                     const DrawnItem* items, const uint32_t* anchors, uint32_t count) {
  LineList lines;
  for (uint32_t i = 0; i < count; ++i) list_row(table, plan, items[i], anchors[i], &lines);
  lines.bring_near();
}

// As many rows as the list has room for; should a window lie askew its lines, some are left out.
uint32_t rows_of_group(const std::vector<WindowPlan>& plan) {
  uint64_t lines = 1;
  for (const WindowPlan& window : plan) {
    lines +=
        near_bytes(static_cast<uint64_t>(rows_read(window)) * window.cell_bytes) / kLineBytes + (needs_marks(window) ? 2 : 1);
  }
  return static_cast<uint32_t>(std::clamp<uint64_t>(kGroupLinesMax / lines, 1, kGroupRowsMax));
}

}  // namespace

GatherOutcome gather_row(const TableView& table, const std::vector<WindowPlan>& plan,
                         const DrawnItem& item, uint32_t anchor, uint32_t row,
                         const WindowBuffer* buffers) {
  AnchorRow at{};
  if (!find_anchor(table, item, anchor, &at)) return GatherOutcome::kMoved;
  const WindowBuffer* buffer = buffers;
  bool step_read = false;
  if (!plan.empty() && plan.front().ahead.wanted) {
    if (!read_step(table, &at) || !find_end(table, plan.front().ahead, &at)) {
      return GatherOutcome::kMoved;
    }
    step_read = true;
  }
  for (const WindowPlan& window : plan) {
    bool kept = true;
    if (!step_read && needs_marks(window)) {
      if (!read_step(table, &at)) return GatherOutcome::kMoved;
      step_read = true;
    }
    if (!needs_marks(window) && !window.per_episode) {
      gather_inside(table, window, at, row, *buffer);
    } else if (window.per_episode) {
      kept = gather_episode_cell(table, window, item.episode, row, *buffer);
    } else if (computed(window)) {
      kept = gather_computed(table, window, at, row, *buffer);
    } else if (!window.optional && lies_inside(table, window, &at)) {
      gather_inside(table, window, at, row, *buffer);
    } else {
      kept = gather_window(table, window, &at, row, *buffer);
    }
    if (!kept) return GatherOutcome::kMoved;
    ++buffer;
  }
  // One check for all copies from the anchor's block; copies from other blocks were checked when
  // they were left.
  bool kept = unchanged(table, at.place) && item_unchanged(table, item);
  return kept ? GatherOutcome::kGathered : GatherOutcome::kMoved;
}

uint32_t gather_rows(const TableView& table, const std::vector<WindowPlan>& plan,
                     const DrawnItem* items, const uint32_t* anchors, uint32_t count,
                     uint32_t first_row, const WindowBuffer* buffers, GatherOutcome* outcomes) {
  uint32_t group_rows = rows_of_group(plan);
  uint32_t near_rows = 0;
  uint32_t moved = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (i == near_rows) {
      near_rows = std::min(count, i + group_rows);
      bring_rows_near(table, plan, items + i, anchors + i, near_rows - i);
    }
    outcomes[i] = gather_row(table, plan, items[i], anchors[i], first_row + i, buffers);
    if (outcomes[i] == GatherOutcome::kMoved) ++moved;
  }
  return moved;
}

}  // namespace gear
