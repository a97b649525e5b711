// The blocks of a table: who needs them, and when one may change hands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/directory.h"
#include "table/table_data.h"

namespace gear {

// Conductor only. A block is free, or belongs to one lane's chain. It is held by lanes (from its grant until its rows are
// past), by items and by leases whose range touches it; each counts as one hold. A block goes back to the free list when
// it is not held and no held block is within the windows' reach of it, for windows of that block's items may look here.
//
// In tables with parts a writer gets blocks of its part alone. Every part has as many block numbers as the whole table may
// grant (the budget), and memory for some of them: for no more than the budget in all. A part that needs another one takes
// the memory of a free block of the part that has most of these (two system calls). So memory follows the writers' shares.
// Without parts there is one list, called part 0.
//
// Invariants: generation is odd exactly while the block belongs to a lane; a free block is in no chain; holds of a free
// block are 0. take and give_back are O(1); drop is O(reach^2) when the last hold goes, else O(1).
class BlockPool {
 public:
  BlockPool(layout::TableHeader* header, layout::BlockRecord* blocks, TableData* data);

  // With memory, of all parts.
  uint32_t free_count() const { return free_count_; }

  // Every block free.
  void format();
  // The blocks as they are: those of odd generation belong to lanes, and nobody holds them yet. Chains that a death left
  // half linked are mended.
  void adopt();
  // After adopt, once all holds are there: what is not needed is free.
  void finish_adoption();
  // Whether the part has a free block, which may bring memory from another part. False also where the system had none: then
  // it is tried again, at times, and short_of_memory says so.
  bool provide(uint32_t part);
  // Tables with parts: pages of the part that no block has go. Its writer is gone.
  void release_bare(uint32_t part);
  // Where none was provided: memory is missing, or other parts have some that could not be moved now. It is worth asking again.
  bool memory_may_come() const { return short_of_memory() || (parted() && free_count_ > 0); }
  uint64_t moves() const { return moves_; }  // of memory from part to part, so far
  // The block that take hands out next; kNone when none is free.
  uint32_t next_free(uint32_t part) const { return free_[part].empty() ? layout::kNone : free_[part].back(); }
  // It goes to the lane, with one hold, for the channel `writer` to fill.
  void take(uint32_t part, uint32_t lane, uint32_t writer, uint64_t start_row);
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
  bool parted() const { return header_->parts != 0; }
  // Some blocks have no memory, though the table is to have it; that is tried again when blocks are granted.
  bool short_of_memory() const { return parted() && backed_ < header_->block_budget; }
  uint32_t part_of(uint32_t block) const { return layout::part_of_block(*header_, block); }
  void put_free(uint32_t block);
  void count_free();
  bool replace_missing(uint32_t part);
  bool bring_memory(uint32_t part);
  bool back(uint32_t part);
  bool withdraw_memory(uint32_t part);
  void complain(const std::string& what);
  void mend_memory();

  layout::TableHeader* header_;
  layout::BlockRecord* blocks_;
  uint32_t before_;  // blocks that windows reach back
  uint32_t after_;
  TableData* data_;       // tables with parts
  std::vector<std::vector<uint32_t>> free_;  // by part; last freed, first taken
  std::vector<std::vector<uint32_t>> bare_;  // by part: free ones without memory
  uint32_t free_count_ = 0;
  uint32_t backed_ = 0;   // tables with parts: blocks with memory
  uint64_t moves_ = 0;
  uint32_t swept_ = 0;      // the part whose forgotten pages went last
  int64_t missing_ns_ = 0;  // not before: another look for memory that is missing
  int64_t move_ns_ = 0;     // not before: another move
  int64_t say_ns_ = 0;    // not before: a line about it
  std::vector<uint32_t> holds_;
  std::vector<uint32_t> candidates_;  // scratch of drop
};

}  // namespace gear
