// Lanes of a table whose server died: from LaneRecord, the chains of blocks, and marks.

#include <algorithm>

#include "base/shared_word.h"
#include "table/table.h"

namespace gear {

using layout::BlockRecord;
using layout::EpisodeRecord;
using layout::kNone;
using layout::LaneRecord;

// A block is an open lane's when it is in the chain of its tail, or when the lane's writer may store into it: of another
// writer that had the lane's index before, it is what a take-over left.
Status Table::adopt_lanes() {
  std::vector<std::vector<uint32_t>> own(header_->lanes_max);
  for (uint32_t block = 0; block < header_->block_count; ++block) {
    const BlockRecord& record = blocks_[block];
    if (record.generation % 2 == 0 || record.writer == 0) continue;
    const LaneRecord& lane = lane_records_[record.lane];
    if (lane.state != 0 && lane.channel == record.writer) own[record.lane].push_back(block);
  }
  lanes_open_ = 0;
  lowest_free_lane_ = header_->lanes_max;
  for (uint32_t index = header_->lanes_max; index-- > 0;) {
    if (lane_records_[index].state == 0) {
      lowest_free_lane_ = index;
      continue;
    }
    ++lanes_open_;
    adopt_settings(index);
    GEAR_TRY(adopt_lane(index, std::move(own[index])));
  }
  note(header_->counters.lanes_open, uint64_t{lanes_open_});
  adopt_episodes();
  return {};
}

void Table::adopt_settings(uint32_t index) {
  const LaneRecord& record = lane_records_[index];
  Lane& lane = lanes_[index];
  lane = Lane{};
  lane.open = true;
  lane.channel = record.channel;
  lane.part = part_of(record.channel);
  lane.owner_index = record.owner_index;
  lane.named = (record.state & layout::kLaneNamed) != 0;
  lane.name = record.name;
  lane.wants = record.wants;
  lane.priority_given = record.priority_given != 0;
  lane.priority = record.priority;
  lane.version = record.version;
  lane.prompt_group = record.prompt_group;
  lane.prompt_size = record.prompt_size;
  lane.episode_row = record.episode_row;
  if (lane.named) lanes_by_name_.emplace(lane.name, index);
}

// The tail of the record may lag behind the rows by blocks, which follow it.
uint32_t Table::newest_block(uint32_t index, const std::vector<uint32_t>& own) const {
  uint32_t tail = lane_records_[index].tail_block;
  if (tail == kNone) {
    for (uint32_t block : own) {
      if (blocks_[block].rows > 0) tail = block;
    }
  }
  if (tail == kNone) return kNone;
  for (uint32_t steps = 0; blocks_[tail].next != kNone && steps < header_->block_count; ++steps) {
    tail = blocks_[tail].next;
  }
  return tail;
}

Status Table::adopt_lane(uint32_t index, std::vector<uint32_t> ahead) {
  Lane& lane = lanes_[index];
  lane.tail = newest_block(index, ahead);
  if (lane.tail != kNone) {
    lane.next_row = blocks_[lane.tail].start_row + blocks_[lane.tail].rows;
    if (blocks_[lane.tail].generation % 2 == 0 || blocks_[lane.tail].rows == 0) {
      return error(GEAR_ECORRUPT, "lane %u: block %u, its newest, is of generation %llu with %u rows", index, lane.tail,
                   static_cast<unsigned long long>(blocks_[lane.tail].generation), blocks_[lane.tail].rows);
    }
  }
  if (lane.episode_row > lane.next_row) {
    return error(GEAR_ECORRUPT, "lane %u: its episode begins at row %llu, it has %llu rows", index,
                 static_cast<unsigned long long>(lane.episode_row), static_cast<unsigned long long>(lane.next_row));
  }
  if (lane.episode_steps() > layout::episode_limit(*header_)) {
    return error(GEAR_ECORRUPT, "lane %u: an open episode of %llu steps, at most %llu are allowed", index,
                 static_cast<unsigned long long>(lane.episode_steps()),
                 static_cast<unsigned long long>(layout::episode_limit(*header_)));
  }
  uint64_t keep_from = rows_kept_from(lane);
  for (uint32_t at = lane.tail; at != kNone; at = blocks_[at].previous) {
    lane.blocks.push_back(at);
    if (blocks_[at].start_row <= keep_from) break;
    if (lane.blocks.size() > header_->block_count) break;
  }
  std::reverse(lane.blocks.begin(), lane.blocks.end());
  if (!lane.blocks.empty() && blocks_[lane.blocks.front()].start_row > keep_from) {
    return error(GEAR_ECORRUPT, "lane %u: rows from %llu on are needed, its chain begins at %llu", index,
                 static_cast<unsigned long long>(keep_from),
                 static_cast<unsigned long long>(blocks_[lane.blocks.front()].start_row));
  }
  auto chained = static_cast<uint32_t>(lane.blocks.size());
  std::erase_if(ahead, [&](uint32_t block) { return blocks_[block].rows > 0; });
  std::sort(ahead.begin(), ahead.end(),
            [&](uint32_t a, uint32_t b) { return blocks_[a].start_row < blocks_[b].start_row; });
  lane.blocks.insert(lane.blocks.end(), ahead.begin(), ahead.end());
  bool room = chained > 0 && blocks_[lane.tail].rows < header_->block_steps;
  lane.filling = room ? chained - 1 : chained;
  lane.position = room ? blocks_[lane.tail].rows : 0;
  for (size_t i = 0; i < lane.blocks.size(); ++i) {
    const BlockRecord& block = blocks_[lane.blocks[i]];
    uint64_t expected = i > 0 ? blocks_[lane.blocks[i - 1]].start_row + header_->block_steps
                              : chained > 0 ? block.start_row : 0;
    if (block.start_row != expected || block.lane != index) {
      return error(GEAR_ECORRUPT, "lane %u: block %u begins at row %llu of lane %u, after others that end at %llu", index,
                   lane.blocks[i], static_cast<unsigned long long>(block.start_row), block.lane,
                   static_cast<unsigned long long>(expected));
    }
    pool_->hold(lane.blocks[i]);
  }
  lane.granted_row =
      lane.blocks.empty() ? 0 : blocks_[lane.blocks.back()].start_row + header_->block_steps;
  find_newest_step(lane);
  return {};
}

void Table::find_newest_step(Lane& lane) const {
  if (lane.tail == kNone) return;
  uint32_t block = lane.tail;
  uint32_t position = blocks_[block].rows - 1;
  if ((marks_[uint64_t{block} * header_->block_steps + position] & layout::kMarkFinal) != 0) {
    if (position == 0) block = blocks_[block].previous;
    position = position > 0 ? position - 1 : header_->block_steps - 1;
  }
  lane.last_block = block;
  lane.last_position = position;
}

// The slot that the record calls open is the lane's though its cells are given.
void Table::adopt_episodes() {
  for (uint32_t slot = header_->episode_slots; slot-- > 0;) {
    const EpisodeRecord& record = episodes_[slot];
    if (record.generation % 2 == 0) {
      free_episodes_[layout::part_of_slot(*header_, slot)].push_back(slot);
      continue;
    }
    Lane& lane = lanes_[record.lane];
    const LaneRecord& of = lane_records_[record.lane];
    if (!lane.open || (slot != of.open_episode && (record.writer == 0 || record.writer != lane.channel))) continue;
    lane.episodes.push_back(slot);
    hold_episode(slot);
  }
  for (uint32_t index = 0; index < header_->lanes_max; ++index) {
    Lane& lane = lanes_[index];
    if (!lane.open) continue;
    lane.episodes_granted = lane_records_[index].episodes_granted;
    if (lane.episodes.empty()) continue;
    std::sort(lane.episodes.begin(), lane.episodes.end(), [&](uint32_t a, uint32_t b) {
      return static_cast<int32_t>(episodes_[a].number - episodes_[b].number) < 0;
    });
    // The count may lag behind a grant by one.
    lane.episodes_granted = episodes_[lane.episodes.back()].number + 1;
    note(lane_records_[index].episodes_granted, lane.episodes_granted);
    lane.cells_given = episodes_[lane.episodes.front()].given != 0;
  }
}

LaneRest Table::rest_of(uint32_t channel) {
  channels_claimed_.push_back(channel);
  LaneRest rest;
  auto lives_on = [&](uint32_t lane) {
    const LaneRecord& record = lane_records_[lane];
    return record.state != 0 && (record.state & layout::kLaneLeaving) == 0 && record.channel == channel;
  };
  // All that it has is in its part.
  const uint32_t part = part_of(channel);
  if (part == kNone) return rest;
  const uint32_t budget = header_->block_budget;
  for (uint32_t block = part * budget; block < (part + 1) * budget; ++block) {
    const BlockRecord& record = blocks_[block];
    if (record.generation % 2 == 0 || record.writer != channel || lives_on(record.lane)) continue;
    pool_->hold(block);
    rest.blocks.push_back(block);
  }
  const uint32_t slots = layout::part_slots(*header_);
  for (uint32_t slot = part * slots; slot < (part + 1) * slots; ++slot) {
    const EpisodeRecord& record = episodes_[slot];
    if (record.generation % 2 == 0 || record.writer != channel || lives_on(record.lane)) continue;
    hold_episode(slot);
    rest.episodes.push_back(slot);
  }
  return rest;
}

// Lanes that nobody claimed, and those that were on their way out. What writers may still be storing into keeps their names.
void Table::finish_lanes() {
  for (uint32_t index = 0; index < header_->lanes_max; ++index) {
    bool leaving = (lane_records_[index].state & layout::kLaneLeaving) != 0;
    if (!lanes_[index].open || (lanes_[index].owner != nullptr && !leaving)) continue;
    LaneRest rest = take_over_lane(index);
    for (uint32_t block : rest.blocks) pool_->drop(block);
    for (uint32_t slot : rest.episodes) drop_episode(slot);
  }
}

}  // namespace gear
