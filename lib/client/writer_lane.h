// A lane as its writer keeps it: granted space, and where the open episode stands.
#pragma once

#include <cstdint>

#include "layout/directory.h"

namespace gear::client {

// A short queue in place; the conductor's limits keep it short.
template <uint32_t kSlots>
class GrantQueue {
 public:
  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  bool full() const { return count_ == kSlots; }
  uint32_t front() const { return values_[first_]; }
  void push(uint32_t value) { values_[(first_ + count_++) % kSlots] = value; }
  void pop() {
    first_ = (first_ + 1) % kSlots;
    --count_;
  }

 private:
  uint32_t values_[kSlots];
  uint32_t first_ = 0;
  uint32_t count_ = 0;
};

// The writer's thread only. Invariant: where `blocks` is not empty, row `position` of its front is
// the next to fill.
struct WriterLane {
  GrantQueue<32> blocks;
  uint32_t blocks_wanted = 0;  // asked for, not granted yet
  uint64_t rows_granted = 0;   // of all blocks so far; the next block's first row
  uint32_t position = 0;
  bool nothing_to_evict = false;  // what the conductor said last about the blocks wanted
  bool no_memory = false;         // and why: the system had none

  GrantQueue<4>
      episodes;  // slots for per-episode cells; the front is of the current or coming episode
  uint32_t episodes_wanted = 0;
  uint32_t episodes_granted = 0;  // wraps, as EpisodeRecord::number does
  bool cells_given = false;

  uint64_t rows = 0;  // filled so far, final observations too
  uint64_t episode_steps = 0;
  bool reserved = false;  // the caller may be writing row `position`

  bool lost = false;       // another writer took it over
  bool resetting = false;  // autoreset next_step: the coming vector call resets it

  uint64_t rows_left(uint32_t block_steps) const {
    return uint64_t{blocks.count()} * block_steps - position;
  }
  void fill_rows(uint32_t rows, uint32_t block_steps) {
    position += rows;
    this->rows += rows;
    if (position < block_steps) return;
    position = 0;
    blocks.pop();
  }
};

}  // namespace gear::client
