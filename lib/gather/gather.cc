#include "gather/gather.h"

#include <cstring>

#include "gather/copy_payload.h"
#include "gather/window.h"

namespace gear {

namespace {

// Rows that gather_rows touches together before it copies them, and bytes of each of their windows:
// beyond those the processor's own prefetcher follows the copy. All of it stays in the first
// caches.
constexpr uint32_t kGroupRows = 32;
constexpr uint64_t kTouchBytesMax = 512;

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
  return window.offset != 0 || window.length != 1;
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
  copy_payload(cells_of(window, buffer, row), first_cell(table, window, at.place.block, position),
               window.length * window.cell_bytes);
  uint8_t* mask = buffer.mask + uint64_t{row} * window.length;
  if (window.length == 1) {
    *mask = 1;
  } else {
    memset(mask, 1, window.length);
  }
  buffer.lengths[row] = window.length;
}

// Loads what gather_row of this item will read, and nothing else. Loads, since few instructions lie
// between them, miss side by side; the checks and stores of gather_row would let only few of its
// own do so, and software prefetches that miss the TLB are slow. Rows in later blocks are found by
// following links, which may not be here yet.
inline void touch_row(const TableView& table, const std::vector<WindowPlan>& plan,
                      const DrawnItem& item, uint32_t anchor) {
  const layout::TableHeader& header = *table.header;
  uint64_t position = uint64_t{item.position} + anchor;
  if (item.block >= header.block_count || position >= header.block_steps) return;
  bring_near(&table.blocks[item.block].rows);
  auto drawn = static_cast<int64_t>(position);
  for (const WindowPlan& window : plan) {
    if (window.per_episode) continue;
    if (needs_marks(window)) {
      bring_near(&table.marks[uint64_t{item.block} * header.block_steps + position]);
    }
    int64_t begin = std::max<int64_t>(0, drawn + window.offset);
    int64_t end = std::min<int64_t>(header.block_steps, drawn + window.offset + window.length);
    if (begin >= end) continue;
    uint64_t bytes = static_cast<uint64_t>(end - begin) * window.cell_bytes;
    touch_payload(first_cell(table, window, item.block, begin), std::min(bytes, kTouchBytesMax));
  }
}

// A direct draw holds nothing: while its item is in the table, the item's blocks, those within
// reach and its episode's cells stay. A pinned draw keeps them whatever becomes of the item.
inline bool item_unchanged(const TableView& table, const DrawnItem& item) {
  return item.item_generation == kItemPinned ||
         (item.slot < table.header->item_slots &&
          peek(table.items[item.slot].generation) == item.item_generation);
}

}  // namespace

GatherOutcome gather_row(const TableView& table, const std::vector<WindowPlan>& plan,
                         const DrawnItem& item, uint32_t anchor, uint32_t row,
                         const WindowBuffer* buffers) {
  AnchorRow at{};
  if (!find_anchor(table, item, anchor, &at)) return GatherOutcome::kMoved;
  const WindowBuffer* buffer = buffers;
  bool step_read = false;
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
    } else if (lies_inside(table, window, &at)) {
      gather_inside(table, window, at, row, *buffer);
    } else {
      kept = gather_window(table, window, at, row, *buffer);
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
  uint32_t moved = 0;
  uint32_t touched = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (i == touched) {
      for (; touched < count && touched < i + kGroupRows; ++touched) {
        touch_row(table, plan, items[touched], anchors[touched]);
      }
    }
    outcomes[i] = gather_row(table, plan, items[i], anchors[i], first_row + i, buffers);
    if (outcomes[i] == GatherOutcome::kMoved) ++moved;
  }
  return moved;
}

}  // namespace gear
