#include "table/table.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/shared_word.h"

namespace gear {

using layout::BlockRecord;
using layout::ColumnRecord;
using layout::EpisodeRecord;
using layout::ItemRecord;
using layout::kNone;
using layout::LaneRecord;
using layout::SegmentKind;
using layout::TableHeader;
using layout::TableState;

namespace {
constexpr uint32_t kGrantsAheadMax = 16;
}

Result<std::unique_ptr<Table>> Table::create(const Geometry& geometry, uint64_t instance_id,
                                             uint64_t table_id, const MemoryOptions& memory) {
  std::unique_ptr<Table> table(new Table());
  std::string purpose = format("create table \"%s\"", geometry.header.name);
  Result<Segment> directory =
      Segment::create(purpose, SegmentKind::kDirectory, geometry.header.directory_bytes,
                      instance_id, table_id, memory);
  if (!directory.ok()) return directory.status();
  Result<TableData> data = TableData::create(purpose, geometry.header, instance_id, table_id, memory);
  if (!data.ok()) return data.status();
  table->directory_ = directory.take();
  table->data_ = data.take();
  table->lay_out(geometry, table_id);
  return table;
}

void Table::lay_out(const Geometry& geometry, uint64_t table_id) {
  void* base = directory_.data();
  header_ = static_cast<TableHeader*>(base);
  layout::SegmentHeader segment = header_->segment;
  *header_ = geometry.header;
  header_->segment = segment;
  header_->table_id = table_id;
  header_->directory_bytes = directory_.size();
  header_->data_bytes = data_.bytes();
  header_->state = static_cast<uint32_t>(TableState::kOpen);

  memcpy(layout::at_offset<ColumnRecord>(base, header_->columns_offset), geometry.columns.data(),
         geometry.columns.size() * sizeof(ColumnRecord));
  bind();
  pool_->format();
  for (uint32_t slot = header_->episode_slots; slot-- > 0;) free_episodes_[layout::part_of_slot(*header_, slot)].push_back(slot);
  open_selectors(true);
  data_.publish_magic();
  directory_.publish_magic();  // last: a table is whole when this is
}

// Where everything is, and room for what is kept beside it.
void Table::bind() {
  void* base = directory_.data();
  lane_records_ = layout::at_offset<LaneRecord>(base, header_->lanes_offset);
  blocks_ = layout::at_offset<BlockRecord>(base, header_->blocks_offset);
  marks_ = layout::at_offset<uint32_t>(base, header_->marks_offset);
  items_ = layout::at_offset<ItemRecord>(base, header_->items_offset);
  episodes_ = layout::at_offset<EpisodeRecord>(base, header_->episodes_offset);

  parts_ = layout::at_offset<layout::PartRecord>(base, header_->parts_offset);

  pool_ = std::make_unique<BlockPool>(header_, blocks_, &data_);
  lanes_.resize(header_->lanes_max);
  free_items_.reserve(header_->item_slots);
  episode_holds_.assign(header_->episode_slots, 0);
  free_episodes_.resize(std::max(header_->parts, 1u));
  for (auto& free : free_episodes_) free.reserve(header_->episode_slots / free_episodes_.size());
  if (header_->versions_offset != 0) {
    versions_ = layout::at_offset<uint64_t>(base, header_->versions_offset);
  }
  limiter_ = RateLimiter({header_->limiter.samples_per_insert, header_->limiter.min_size,
                          header_->limiter.min_diff, header_->limiter.max_diff});
}

void Table::open_selectors(bool format) {
  for (uint32_t i = 0; i < header_->index_count; ++i) {
    const layout::IndexRecord& record = header_->indexes[i];
    for (uint32_t before = 0; before < i && record.bytes > 0; ++before) {
      // Like records share one index.
      bool same = header_->indexes[before].bytes > 0 && header_->indexes[before].offset == record.offset;
      if (same) selector_of_[i] = selector_of_[before];
    }
    if (selector_of_[i] != nullptr) continue;
    if (format) format_index(record, header_, header_->item_slots);
    selectors_.push_back(i == header_->smallest_index ? open_smallest(record, header_)
                                                      : open_selector(record, header_));
    selector_of_[i] = selectors_.back().get();
  }
  remover_ = selector_of_[header_->remover_index];
  if (header_->largest_index != kNone) largest_ = selector_of_[header_->largest_index];
}

void Table::set_state(TableState state) {
  publish(header_->state, static_cast<uint32_t>(state));
  ++changes_;
}

uint32_t Table::open_lane(uint32_t channel, uint32_t owner_index) {
  for (uint32_t index = lowest_free_lane_; index < header_->lanes_max; ++index) {
    Lane& lane = lanes_[index];
    if (lane.open) continue;
    lowest_free_lane_ = index + 1;
    lane = Lane{};
    lane.open = true;
    lane.blocks.reserve(kGrantsAheadMax + 4);
    lane.channel = channel;
    lane.part = part_of(channel);
    GEAR_ASSERT(lane.part != kNone, "channel %u has no part", channel);
    lane.owner_index = owner_index;
    LaneRecord& record = lane_records_[index];
    note(record.channel, channel);
    note(record.owner_index, owner_index);
    note(record.wants, uint64_t{0});
    note(record.priority_given, 0u);
    note(record.version, uint64_t{0});
    note(record.prompt_size, 0u);
    note(record.episodes_granted, 0u);
    sync_lane(lane, index);
    // Last: an open lane is whole.
    publish(record.state, layout::kLaneOpen);
    ++lanes_open_;
    note(header_->counters.lanes_open, uint64_t{lanes_open_});
    return index;
  }
  return kNone;
}

void Table::close_lane(uint32_t index) {
  Lane& lane = lanes_[index];
  GEAR_ASSERT(lane.open, "lane %u", index);
  uint32_t cells = lane.episodes.empty() ? kNone : lane.episodes.front();
  cut_episode(index);
  release_name(index);
  // Before its blocks go: an open lane has all of them.
  publish(lane_records_[index].state, 0u);
  lane.open = false;
  lane.owner = nullptr;
  lowest_free_lane_ = std::min(lowest_free_lane_, index);
  if (cells != kNone) leave_episode(cells);
  LaneRest all{std::move(lane.blocks), std::move(lane.episodes)};
  lane.blocks.clear();
  lane.episodes.clear();
  release(all);
  --lanes_open_;
  note(header_->counters.lanes_open, uint64_t{lanes_open_});
  ++changes_;
}

bool Table::grant_block(uint32_t index, layout::GrantRecord* grant) {
  Lane& lane = lanes_[index];
  while (!pool_->provide(lane.part)) {
    // Free blocks of other parts: their memory moves, if not now.
    if (pool_->free_count() > 0 || !(remove_something() || drop_redelivery())) return false;
  }
  uint32_t block = pool_->next_free(lane.part);
  uint64_t wants = lane.wants - uint64_t{layout::wanted_blocks(lane.wants) > 0};
  intend_grant(layout::IntentOp::kGrantBlock, index, block, blocks_[block].generation, wants);
  pool_->take(lane.part, index, lane.channel, lane.granted_row);
  set_wants(index, wants);
  end_intent();
  lane.blocks.push_back(block);
  grant->block = block;
  grant->generation = blocks_[block].generation;
  grant->start_row = lane.granted_row;
  lane.granted_row += header_->block_steps;
  return true;
}

bool Table::grant_episode(uint32_t index, uint32_t* slot) {
  Lane& lane = lanes_[index];
  std::vector<uint32_t>& free = free_episodes_[lane.part];
  while (free.empty() && (remove_something() || drop_redelivery())) {
  }
  if (free.empty()) return false;
  *slot = free.back();
  free.pop_back();
  EpisodeRecord& record = episodes_[*slot];
  uint64_t one = uint64_t{layout::wanted_episodes(lane.wants) > 0} << 16;
  intend_grant(layout::IntentOp::kGrantEpisode, index, *slot, record.generation, lane.wants - one);
  note(record.given, 0u);
  note(record.lane, index);
  note(record.writer, lane.channel);
  note(record.number, lane.episodes_granted++);
  publish(record.generation, record.generation + 1);
  note(lane_records_[index].episodes_granted, lane.episodes_granted);
  set_wants(index, lane.wants - one);
  end_intent();
  episode_holds_[*slot] = 1;
  lane.episodes.push_back(*slot);
  return true;
}

// Nobody stores the cells any more.
void Table::leave_episode(uint32_t slot) {
  if (episodes_[slot].writer != 0) note(episodes_[slot].writer, 0u);
}

void Table::drop_episode(uint32_t slot) {
  if (slot == kNone) return;
  GEAR_ASSERT(episode_holds_[slot] > 0, "episode %u dropped once too often", slot);
  if (--episode_holds_[slot] > 0) return;
  // As for blocks: the generation turns before a writer may store into the slot's cells again.
  publish(episodes_[slot].generation, episodes_[slot].generation + 1);
  free_episodes_[layout::part_of_slot(*header_, slot)].push_back(slot);
}

void Table::sync_lane(const Lane& lane, uint32_t index) {
  LaneRecord& record = lane_records_[index];
  note(record.tail_block, lane.tail);
  note(record.open_episode, lane.episodes.empty() ? kNone : lane.episodes.front());
  publish(record.episode_row, lane.episode_row);
}

void Table::reset() {
  note(header_->intent.number, header_->counters.epoch);
  begin_intent(layout::IntentOp::kReset);
  carry_out_reset();
  end_intent();
}

// Also from anywhere in the middle.
void Table::carry_out_reset() {
  reset_groups();
  for (uint32_t slot = 0; slot < items_used_; ++slot) {
    if (items_[slot].generation % 2 == 1) remove_item(slot);
  }
  for (auto& selector : selectors_) selector->clear();
  indexed_ = 0;
  for (uint32_t index = 0; index < header_->lanes_max; ++index) {
    Lane& lane = lanes_[index];
    if (!lane.open) continue;
    lane.episode_row = lane.next_row;
    sync_lane(lane, index);
    forget_past_rows(lane);
  }
  limiter_ = RateLimiter(limiter_.limits());
  reserved_ = 0;
  draws_left_ = 0;
  layout::TableCounters& counters = header_->counters;
  note(counters.inserts, uint64_t{0});
  note(counters.samples, uint64_t{0});
  note(counters.deletes, uint64_t{0});
  note(counters.steps, uint64_t{0});
  note(counters.episodes, uint64_t{0});
  note(counters.evictions, uint64_t{0});
  note(counters.priority_max, 0.0);
  note(counters.prompt_groups_dropped, uint64_t{0});
  note(counters.items_rejected, uint64_t{0});
  publish(counters.items, uint64_t{0});
  publish(counters.epoch, counters.epoch + 1);
  ++changes_;
}

}  // namespace gear
