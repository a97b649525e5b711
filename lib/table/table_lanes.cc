// Lanes that have names, and lanes that change hands.

#include "base/check.h"
#include "base/shared_word.h"
#include "table/table.h"

namespace gear {

using layout::kNone;

void Table::own_lane(uint32_t index, LaneOwner* owner, uint32_t owner_index) {
  lanes_[index].owner = owner;
  lanes_[index].owner_index = owner_index;
}

void Table::name_lane(uint32_t index, uint64_t name) {
  Lane& lane = lanes_[index];
  bool added = lanes_by_name_.emplace(name, index).second;
  GEAR_ASSERT(added && lane.owner != nullptr, "lane %u named %llu", index,
              static_cast<unsigned long long>(name));
  lane.named = true;
  lane.name = name;
  note(lane_records_[index].name, name);
  note(lane_records_[index].state, layout::kLaneOpen | layout::kLaneNamed);
}

void Table::release_name(uint32_t index) {
  Lane& lane = lanes_[index];
  if (!lane.named) return;
  lanes_by_name_.erase(lane.name);
  lane.named = false;
  note(lane_records_[index].state, layout::kLaneOpen);
}

uint32_t Table::lane_named(uint64_t name) const {
  auto found = lanes_by_name_.find(name);
  return found != lanes_by_name_.end() ? found->second : kNone;
}

// As if its writer had ended the open episode, item and all; where the limiter admits no item, without.
void Table::cut_episode(uint32_t index) {
  Lane& lane = lanes_[index];
  if (lane.episode_steps() > 0 && end_episode(index, GEAR_TRUNCATED) != Admit::kDone) {
    finish_episode(lane, index, layout::kMarkTruncated);
  }
}

LaneRest Table::take_over_lane(uint32_t index) {
  Lane& lane = lanes_[index];
  LaneRest rest;
  // The writer may be about to store the cells of the episode that ends here.
  if (!lane.episodes.empty()) {
    hold_episode(lane.episodes.front());
    rest.episodes.push_back(lane.episodes.front());
  }
  cut_episode(index);
  // Blocks with room: whatever rows of theirs are not admitted are the writer's to fill.
  rest.blocks.assign(lane.blocks.begin() + lane.filling, lane.blocks.end());
  lane.blocks.resize(lane.filling);
  rest.episodes.insert(rest.episodes.end(), lane.episodes.begin(), lane.episodes.end());
  lane.episodes.clear();
  close_lane(index);
  return rest;
}

void Table::release(const LaneRest& rest) {
  for (uint32_t block : rest.blocks) pool_->drop(block);
  for (uint32_t slot : rest.episodes) drop_episode(slot);
  ++changes_;
}

}  // namespace gear
