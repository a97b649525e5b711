// Walking a lane's chain of blocks while the conductor changes it.
//
// Nothing read here is trusted: links and row counts are bounded before they are used, and a place
// is only as good as the generation it was entered with, which `unchanged` confirms after
// everything was read. Callers bound their loops.
#pragma once

#include <algorithm>

#include "base/shared_word.h"
#include "gather/table_view.h"

namespace gear {

// A block and what was seen when it was entered.
struct Place {
  uint32_t block;
  uint32_t rows;  // committed, at most block_steps
  uint64_t generation;
};

enum class Link { kNext, kPrevious };
enum class Walk { kThere, kNoBlock, kMoved };

// True when the block kept its generation: all that was read from it and its data before this call
// was of one lane.
inline bool unchanged(const TableView& table, const Place& place) {
  fence_copy_before_check();
  return peek(table.blocks[place.block].generation) == place.generation;
}

inline void enter(const TableView& table, uint32_t block, uint64_t generation, Place* place) {
  // Acquire: the marks and cells of that many rows are visible from here on.
  uint32_t rows = observe(table.blocks[block].rows);
  *place = {block, std::min(rows, table.header->block_steps), generation};
}

// Moves to a neighbour; kThere and kNoBlock confirm the place left behind as `unchanged` does.
inline Walk follow(const TableView& table, Link direction, Place* place) {
  const layout::BlockRecord& here = table.blocks[place->block];
  const uint32_t& link = direction == Link::kNext ? here.next : here.previous;
  uint32_t neighbour = observe(link);
  if (neighbour == layout::kNone) {
    return unchanged(table, *place) ? Walk::kNoBlock : Walk::kMoved;
  }
  if (neighbour >= table.header->block_count) return Walk::kMoved;

  // Acquire: a generation of a later grant brings the link cleared before it, which is then seen
  // below. An even one may come before the link is cleared.
  uint64_t generation = observe(table.blocks[neighbour].generation);
  if (generation % 2 == 0 || !unchanged(table, *place) || peek(link) != neighbour) {
    return Walk::kMoved;
  }
  enter(table, neighbour, generation, place);
  return Walk::kThere;
}

inline uint32_t mark_at(const TableView& table, uint32_t block, uint64_t position) {
  return peek(table.marks[uint64_t{block} * table.header->block_steps + position]);
}

}  // namespace gear
