// The blocks of a table: who needs them, and when one may change hands.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/directory.h"

namespace gear {

// Conductor only. A block is free, or belongs to one lane's chain. It is held by lanes (from its grant until its rows are
// past), by items and by leases whose range touches it; each counts as one hold. A block goes back to the free list when
// it is not held and no held block is within the windows' reach of it, for windows of that block's items may look here.
//
// Invariants: generation is odd exactly while the block belongs to a lane; a free block is in no chain; holds of a free
// block are 0. take and give_back are O(1); drop is O(reach^2) when the last hold goes, else O(1).
class BlockPool {
 public:
  BlockPool(layout::TableHeader* header, layout::BlockRecord* blocks);

  uint32_t free_count() const { return static_cast<uint32_t>(free_.size()); }

  // Every block free.
  void format();
  // The blocks as they are: those of odd generation belong to lanes, and nobody holds them yet. Chains that a death left
  // half linked are mended.
  void adopt();
  // After adopt, once all holds are there: what is not needed is free.
  void finish_adoption();
  // The block that take hands out next; kNone when none is free.
  uint32_t next_free() const { return free_.empty() ? layout::kNone : free_.back(); }
  // It goes to the lane, with one hold, for the channel `writer` to fill.
  void take(uint32_t lane, uint32_t writer, uint64_t start_row);
  void hold(uint32_t block) { ++holds_[block]; }
  void drop(uint32_t block);
  // Nobody stores into the block any more.
  void leave(uint32_t block);

  // `block` is the first in the chain after `previous`, which may be kNone.
  void link(uint32_t previous, uint32_t block);

 private:
  bool needed(uint32_t block) const;
  void give_back(uint32_t block);
  void clear(uint32_t block);

  layout::TableHeader* header_;
  layout::BlockRecord* blocks_;
  uint32_t before_;  // blocks that windows reach back
  uint32_t after_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> holds_;
  std::vector<uint32_t> candidates_;  // scratch of drop
};

}  // namespace gear
