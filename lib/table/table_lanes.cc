// Lanes that have names, and lanes that change hands.

#include "base/check.h"
#include "base/shared_word.h"
#include "table/table.h"

namespace gear {

using layout::kNone;

void Table::own_lane(uint32_t index, LaneOwner* owner) { lanes_[index].owner = owner; }

void Table::name_lane(uint32_t index, uint64_t name) {
  Lane& lane = lanes_[index];
  bool added = lanes_by_name_.emplace(name, index).second;
  GEAR_ASSERT(added && lane.owner != nullptr, "lane %u named %llu", index,
              static_cast<unsigned long long>(name));
  lane.named = true;
  lane.name = name;
  note(lane_records_[index].name, name);
  order_for_adopter();
  note(lane_records_[index].state, layout::kLaneOpen | layout::kLaneNamed);
}

void Table::release_name(uint32_t index) {
  Lane& lane = lanes_[index];
  if (!lane.named) return;
  lanes_by_name_.erase(lane.name);
  lane.named = false;
  note(lane_records_[index].state, lane_records_[index].state & ~layout::kLaneNamed);
  // Before another lane has the name.
  order_for_adopter();
}

uint32_t Table::lane_named(uint64_t name) const {
  auto found = lanes_by_name_.find(name);
  return found != lanes_by_name_.end() ? found->second : kNone;
}

void Table::set_wants(uint32_t index, uint64_t wants) {
  lanes_[index].wants = wants;
  note(lane_records_[index].wants, wants);
}

void Table::note_wants(uint32_t index, uint32_t blocks, uint32_t episodes) {
  set_wants(index, layout::make_wants(blocks, episodes, static_cast<uint32_t>(header_->intent.position + 1)));
}

bool Table::wants_noted(uint32_t index) const {
  return layout::wants_record(lanes_[index].wants) == static_cast<uint32_t>(header_->intent.position + 1);
}

std::vector<layout::GrantRecord> Table::grants_out(uint32_t index) const {
  const Lane& lane = lanes_[index];
  std::vector<layout::GrantRecord> grants;
  for (size_t i = lane.filling; i < lane.blocks.size(); ++i) {
    layout::GrantRecord grant{};
    grant.block = lane.blocks[i];
    grant.generation = blocks_[grant.block].generation;
    grant.start_row = blocks_[grant.block].start_row;
    grants.push_back(grant);
  }
  return grants;
}

// As if its writer had ended the open episode, item and all; where the limiter admits no item, without.
void Table::cut_episode(uint32_t index) {
  Lane& lane = lanes_[index];
  if (lane.episode_steps() == 0 || try_end(index, GEAR_TRUNCATED, 0) == Admit::kDone) return;
  intend_end(index, lane.next_row, layout::kMarkTruncated);
  carry_out_end();
}

LaneRest Table::take_over_lane(uint32_t index) {
  Lane& lane = lanes_[index];
  LaneRest rest;
  // From here on the lane goes, whoever finishes it.
  note(lane_records_[index].state, lane_records_[index].state | layout::kLaneLeaving);
  // The writer may be about to store the cells of the episode that ends here.
  if (!lane.episodes.empty()) {
    hold_episode(lane.episodes.front());
    rest.episodes.push_back(lane.episodes.front());
  }
  cut_episode(index);
  // Blocks with room: whatever rows of theirs are not admitted are the writer's to fill. They keep its channel as theirs.
  rest.blocks.assign(lane.blocks.begin() + lane.filling, lane.blocks.end());
  lane.blocks.resize(lane.filling);
  rest.episodes.insert(rest.episodes.end(), lane.episodes.begin(), lane.episodes.end());
  lane.episodes.clear();
  close_lane(index);
  return rest;
}

void Table::release(const LaneRest& rest) {
  for (uint32_t block : rest.blocks) {
    pool_->leave(block);
    pool_->drop(block);
  }
  for (uint32_t slot : rest.episodes) {
    leave_episode(slot);
    drop_episode(slot);
  }
  ++changes_;
}

}  // namespace gear
