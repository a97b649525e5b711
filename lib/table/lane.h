// A lane: one writer's stream of rows, as the conductor keeps it.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/directory.h"

namespace gear {

// Who writes a lane, as the table sees it. Conductor only.
class LaneOwner {
 public:
  virtual ~LaneOwner() = default;
  // It closed or died: nothing more is written, though steps that it had accepted may still be admitted.
  virtual bool leaving() const = 0;
  // Another writer takes over its lane `index`, counted as the owner does. Ends the lane by Table::take_over_lane.
  virtual void lose_lane(uint32_t index) = 0;
};

// What a lane that was taken over leaves behind: space its former writer may still be storing into. It is held until that
// writer is known to be gone.
struct LaneRest {
  std::vector<uint32_t> blocks;
  std::vector<uint32_t> episodes;
};

// Conductor only; private memory. Rebuilt from LaneRecord, BlockRecord and marks.
struct Lane {
  bool open = false;
  LaneOwner* owner = nullptr;  // nullptr: nobody who could lose it
  uint32_t channel = 0;        // its writer's; 0: none
  uint32_t part = 0;           // of the data, its writer's
  uint32_t owner_index = 0;    // its own number of the lane
  bool named = false;
  uint64_t name = 0;

  // Blocks held, oldest first: past ones that items to come may still need, the one being filled, those granted ahead.
  std::vector<uint32_t> blocks;
  uint32_t filling = 0;   // index in `blocks` of the block that takes the next row; = blocks.size() when none
  uint32_t position = 0;  // of the next row in it

  uint32_t tail = layout::kNone;  // block of the newest row
  uint64_t next_row = 0;
  uint64_t granted_row = 0;  // start row of the next block to be granted
  uint64_t episode_row = 0;
  uint32_t last_block = layout::kNone;  // of the newest step, for its end flags
  uint32_t last_position = 0;

  std::vector<uint32_t> episodes;  // slots granted; the front belongs to the current or coming episode
  bool cells_given = false;

  bool priority_given = false;
  double priority = 0;
  uint64_t version = 0;        // of coming items
  uint64_t prompt_group = 0;   // of coming items, with prompt_size
  uint32_t prompt_size = 0;    // 0: they are members of none
  uint64_t wants = 0;          // layout::make_wants
  uint32_t episodes_granted = 0;  // so far; wraps

  uint64_t episode_steps() const { return next_row - episode_row; }
};

}  // namespace gear
