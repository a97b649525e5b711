// Steps come in: commits, ends of episodes, and the items that follow from the table's policy.

#include <algorithm>

#include "base/check.h"
#include "base/shared_word.h"
#include "table/table.h"

namespace gear {

using layout::kNone;

bool Table::step_makes_item(const Lane& lane) const {
  if (header_->item_policy == GEAR_ITEMS_STEP) return true;
  if (header_->item_policy != GEAR_ITEMS_SEQUENCE) return false;
  uint64_t steps = lane.episode_steps() + 1;
  return steps >= header_->item_length &&
         (steps - header_->item_length) % header_->item_period == 0;
}

Admit Table::commit(uint32_t index, uint32_t count, uint32_t* done) {
  *done = 0;
  Lane& lane = lanes_[index];
  uint64_t rows_granted = 0;
  if (lane.filling < lane.blocks.size()) {
    rows_granted =
        (lane.blocks.size() - lane.filling) * uint64_t{header_->block_steps} - lane.position;
  }
  if (count > rows_granted) return Admit::kBroken;
  if (header_->episode_slots != 0 && lane.episodes.empty()) return Admit::kBroken;
  if (lane.episode_steps() + count > layout::episode_limit(*header_)) return Admit::kBroken;

  Admit outcome = Admit::kDone;
  begin_rows(index);
  for (; *done < count; ++*done) {
    bool makes_item = step_makes_item(lane);
    uint32_t length = policy_length();
    if (makes_item && items_blocked(lane, length)) {
      outcome = Admit::kBlocked;
      break;
    }
    auto step = static_cast<uint32_t>(lane.episode_steps());
    if (makes_item) intend_item(lane.next_row, length);
    append_row(lane, index, step);
    if (makes_item) {
      insert_item(lane, lane.next_row - length, length, coming_priority(lane), 0);
    }
  }
  note(header_->counters.steps, header_->counters.steps + *done);
  sync_lane(lane, index);
  end_intent();
  forget_past_rows(lane);
  return outcome;
}

// The row's cells are in place (their writer published them through the ring); after this, readers may copy them.
void Table::append_row(Lane& lane, uint32_t index, uint32_t mark) {
  uint32_t block = lane.blocks[lane.filling];
  if (lane.position == 0) pool_->link(lane.tail, block);
  GEAR_ASSERT(blocks_[block].lane == index, "block %u of lane %u filled by lane %u", block,
              blocks_[block].lane, index);
  note(marks_[uint64_t{block} * header_->block_steps + lane.position], mark);
  // Release: who observes `rows` also sees the mark, and the cells that this thread acquired through the ring.
  publish(blocks_[block].rows, lane.position + 1);
  // A block of an open lane has a writer, or is in the chain of its tail.
  if (lane.position == 0) publish(lane_records_[index].tail_block, block);
  lane.tail = block;
  if ((mark & layout::kMarkFinal) == 0) {
    lane.last_block = block;
    lane.last_position = lane.position;
  }
  ++lane.next_row;
  if (++lane.position == header_->block_steps) {
    pool_->leave(block);
    lane.position = 0;
    ++lane.filling;
  }
}

// Gives up the lane's hold on blocks whose rows no coming item of the lane can contain. The tail is kept: the next
// block is linked to it.
void Table::forget_past_rows(Lane& lane) {
  uint64_t keep_from = rows_kept_from(lane);
  uint32_t past = 0;
  while (past < lane.filling && lane.blocks[past] != lane.tail &&
         blocks_[lane.blocks[past]].start_row + header_->block_steps <= keep_from) {
    ++past;
  }
  if (past == 0) return;
  for (uint32_t i = 0; i < past; ++i) pool_->drop(lane.blocks[i]);
  lane.blocks.erase(lane.blocks.begin(), lane.blocks.begin() + past);
  lane.filling -= past;
}

uint64_t Table::rows_kept_from(const Lane& lane) const {
  uint64_t reach = header_->item_policy == GEAR_ITEMS_STEP ? 1 : header_->item_steps_max;
  uint64_t keep_from = lane.next_row > reach ? lane.next_row - reach : 0;
  keep_from = std::max(keep_from, lane.episode_row);
  return header_->item_policy == GEAR_ITEMS_EPISODE ? lane.episode_row : keep_from;
}

Admit Table::end_episode(uint32_t index, uint32_t flags, uint64_t rows_after) {
  if (record_done()) return Admit::kDone;
  bool has_final = (flags & layout::kEndHasFinal) != 0;
  uint64_t rows = lanes_[index].next_row + uint64_t{has_final};
  if (rows_after != rows) return Admit::kBroken;
  return try_end(index, flags, layout::kIntentByWriter);
}

Admit Table::try_end(uint32_t index, uint32_t flags, uint64_t by) {
  Lane& lane = lanes_[index];
  uint32_t end = flags & ~layout::kEndHasFinal;
  bool has_final = (flags & layout::kEndHasFinal) != 0;
  if (end != GEAR_TERMINATED && end != GEAR_TRUNCATED) return Admit::kBroken;
  if (has_final && lane.filling >= lane.blocks.size()) return Admit::kBroken;

  uint64_t steps = lane.episode_steps();
  bool whole = header_->item_policy == GEAR_ITEMS_EPISODE && steps > 0;
  bool shorter = header_->item_policy == GEAR_ITEMS_SEQUENCE && steps > 0 &&
                 steps < header_->item_length && header_->short_episodes == 0;
  if ((whole || shorter) && items_blocked(lane, static_cast<uint32_t>(steps))) return Admit::kBlocked;

  uint64_t bits = by | (end == GEAR_TERMINATED ? layout::kMarkTerminated : layout::kMarkTruncated);
  if (has_final) bits |= layout::kIntentFinal;
  if (whole || shorter) bits |= layout::kIntentMakesItem;
  if (shorter) bits |= layout::kIntentShort;
  intend_end(index, lane.next_row + uint64_t{has_final}, bits);
  carry_out_end();
  return Admit::kDone;
}

// What the intent says, from wherever a server died in it.
void Table::carry_out_end() {
  layout::IntentRecord& intent = header_->intent;
  uint32_t index = intent.lane;
  Lane& lane = lanes_[index];
  auto end_flag = static_cast<uint32_t>(intent.number) & (layout::kMarkTerminated | layout::kMarkTruncated);
  bool has_final = (intent.number & layout::kIntentFinal) != 0;
  auto steps = static_cast<uint32_t>(intent.row - uint64_t{has_final} - intent.first_row);
  if (has_final && lane.next_row < intent.row) append_row(lane, index, steps | layout::kMarkFinal | end_flag);
  if ((intent.number & layout::kIntentMakesItem) != 0 && item_owed()) {
    bool shorter = (intent.number & layout::kIntentShort) != 0;
    insert_item(lane, intent.first_row, steps, coming_priority(lane), shorter ? layout::kItemShort : 0);
  }
  if (steps > 0 && lane.last_block != kNone) {
    uint32_t& mark = marks_[uint64_t{lane.last_block} * header_->block_steps + lane.last_position];
    publish(mark, mark | end_flag);
    note(header_->counters.episodes, intent.episodes + 1);
  }
  lane.episode_row = lane.next_row;
  lane.cells_given = false;
  auto cells = static_cast<uint32_t>(intent.number >> 32);
  bool has_cells = !lane.episodes.empty() && lane.episodes.front() == cells;
  if (has_cells) lane.episodes.erase(lane.episodes.begin());
  sync_lane(lane, index);
  if ((intent.number & layout::kIntentByWriter) != 0) {
    if (has_cells) leave_episode(cells);
    record_is_done();
  }
  end_intent();
  if (has_cells) drop_episode(cells);
  forget_past_rows(lane);
}

Admit Table::give_episode_cells(uint32_t index) {
  Lane& lane = lanes_[index];
  if (record_done()) return Admit::kDone;
  if (lane.episodes.empty() || lane.cells_given) return Admit::kBroken;
  uint32_t slot = lane.episodes.front();
  lane.cells_given = true;
  // The slot is the lane's by this from here on, no more by its writer.
  note(lane_records_[index].open_episode, slot);
  note(header_->intent.slot, slot);
  begin_intent(layout::IntentOp::kCells);
  // Release: who observes `given` also sees the cells that this thread acquired through the ring.
  publish(episodes_[slot].given, 1u);
  leave_episode(slot);
  record_is_done();
  end_intent();
  return Admit::kDone;
}

Admit Table::make_item(uint32_t index, uint32_t length, double priority) {
  Lane& lane = lanes_[index];
  if (header_->item_policy != GEAR_ITEMS_EXPLICIT) return Admit::kBroken;
  if (record_done()) return Admit::kDone;
  bool valid = length >= 1 && length <= lane.episode_steps() &&
               length <= header_->item_steps_max && priority_valid(priority);
  if (valid && items_blocked(lane, length)) return Admit::kBlocked;
  note(header_->intent.lane, index);
  intend_item(lane.next_row, valid ? length : 0);
  begin_intent(layout::IntentOp::kItem);
  if (valid) {
    insert_item(lane, lane.next_row - length, length, priority, 0);
  } else {
    count_rejected_item();
  }
  record_is_done();
  end_intent();
  return valid ? Admit::kDone : Admit::kRejected;
}

Admit Table::set_version(uint32_t index, uint64_t version) {
  if (versions_ == nullptr) return Admit::kBroken;
  lanes_[index].version = version;
  note(lane_records_[index].version, version);
  return Admit::kDone;
}

Admit Table::set_prompt_group(uint32_t index, uint64_t group, uint32_t size) {
  if (size > header_->capacity_items || (size != 0 && header_->prompt_groups_max == 0)) {
    return Admit::kBroken;
  }
  lanes_[index].prompt_group = group;
  lanes_[index].prompt_size = size;
  note(lane_records_[index].prompt_group, group);
  note(lane_records_[index].prompt_size, size);
  return Admit::kDone;
}

Admit Table::set_priority(uint32_t index, bool given, double priority) {
  if (given && !priority_valid(priority)) return Admit::kRejected;
  lanes_[index].priority_given = given;
  lanes_[index].priority = priority;
  note(lane_records_[index].priority, priority);
  note(lane_records_[index].priority_given, uint32_t{given});
  return Admit::kDone;
}

}  // namespace gear
