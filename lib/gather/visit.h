// A block of a walk along a lane, with rows counted from the drawn step.
#pragma once

#include "gather/chain.h"
#include "gather/copy_payload.h"
#include "gather/window.h"

namespace gear {

// A block, and the row (relative to the anchor) that its first row is.
struct Visit {
  Place place;
  int64_t base;

  int64_t rows_end() const { return base + place.rows; }
};

inline Visit visit_anchor(const AnchorRow& at) {
  return {at.place, -int64_t{at.position}};
}

inline uint32_t mark_of(const TableView& table, const Visit& visit, int64_t row) {
  return mark_at(table, visit.place.block, static_cast<uint64_t>(row - visit.base));
}

// Rows before the anchor belong to its episode by the step number that the anchor has.
inline bool same_episode(const TableView& table, const AnchorRow& at, const Visit& visit,
                         int64_t row) {
  return row <= 0 || layout::mark_step(mark_of(table, visit, row)) == at.step + row;
}

// The first row of the block before `end` that is of another episode; `end` when there is none.
// Once a row is of a later episode all that follow are, so the test of the last one mostly
// suffices.
inline int64_t episode_end(const TableView& table, const AnchorRow& at, const Visit& visit,
                           int64_t end) {
  if (end <= visit.base || same_episode(table, at, visit, end - 1)) return end;
  int64_t inside = visit.base;
  int64_t outside = end - 1;
  while (inside < outside) {
    int64_t middle = inside + (outside - inside) / 2;
    if (same_episode(table, at, visit, middle)) {
      inside = middle + 1;
    } else {
      outside = middle;
    }
  }
  return inside;
}

inline bool is_final(const TableView& table, const Visit& visit, int64_t row) {
  return row > 0 && row >= visit.base && (mark_of(table, visit, row) & layout::kMarkFinal) != 0;
}

// Moves to the block of `row`, which is a step of the anchor's episode that the table keeps. False
// when a block on the way changed hands. O(blocks between).
inline bool go_to(const TableView& table, int64_t row, Visit* visit) {
  auto block_steps = int64_t{table.header->block_steps};
  while (visit->base > row) {
    // The episode has rows there, and the table keeps them while the item lives: a missing or
    // partly filled block means that it lives no more.
    if (follow(table, Link::kPrevious, &visit->place) != Walk::kThere) return false;
    if (visit->place.rows != block_steps) return false;
    visit->base -= block_steps;
  }
  while (row >= visit->base + block_steps) {
    if (follow(table, Link::kNext, &visit->place) != Walk::kThere) return false;
    visit->base += block_steps;
  }
  return true;
}

// Whether the row has a cell for the column: of final rows, and in tables with optional columns of
// every row.
inline bool present(const TableView& table, const Visit& visit, int64_t row, uint32_t column) {
  const layout::TableHeader& header = *table.header;
  const char* bits = table.block_data(visit.place.block) + header.presence_offset +
                     static_cast<uint64_t>(row - visit.base) * header.presence_bytes;
  unsigned char byte = 0;
  copy_payload(&byte, bits + column / 8, 1);
  return ((byte >> (column % 8)) & 1) != 0;
}

}  // namespace gear
