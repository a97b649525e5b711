// A table whose server died goes on: facts are checked and kept, all that follows from them is made anew.

#include <algorithm>
#include <new>

#include "base/shared_word.h"
#include "limit/rate_limiter.h"
#include "table/fsck.h"
#include "table/table.h"

namespace gear {

using layout::IntentOp;
using layout::IntentRecord;
using layout::ItemRecord;
using layout::kNone;
using layout::TableHeader;

Result<std::unique_ptr<Table>> Table::adopt(Segment directory, TableData data) try {
  Findings findings = find_contradictions(directory.data(), directory.size(), data.bytes(), CheckForm::kAdoption);
  if (!findings.texts.empty()) {
    return error(GEAR_ECORRUPT, "adopt table: %s%s", findings.texts.front().c_str(),
                 findings.texts.size() > 1 || findings.left_out > 0 ? " (and more)" : "");
  }
  uint32_t parts = static_cast<const TableHeader*>(directory.data())->parts;
  if (data.parts() != parts) {
    return error(GEAR_ECORRUPT, "adopt table: data of %u parts, the header says %u", data.parts(), parts);
  }
  std::unique_ptr<Table> table(new Table());
  table->directory_ = std::move(directory);
  table->data_ = std::move(data);
  table->header_ = static_cast<TableHeader*>(table->directory_.data());
  table->bind();
  table->pool_->adopt();
  Status lanes = table->adopt_lanes();
  if (lanes.ok()) lanes = table->check_intent();
  if (!lanes.ok()) {
    return error(lanes.code(), "adopt table \"%s\": %s", table->name(), lanes.text().c_str());
  }
  table->adopt_items();
  table->adopt_prompts();
  table->repair_counters();
  table->adopt_indexes();
  return table;
} catch (const std::bad_alloc&) {
  return error(GEAR_ENOMEM, "adopt table: no memory for what is kept beside it; free some, and start the server again");
}

// Whether an item more can be made: a table that is used up to its last slot has made the one that was coming.
bool Table::slot_left() const {
  for (uint32_t slot = 0; slot < header_->item_slots; ++slot) {
    if (items_[slot].generation % 2 == 0 && !hidden(slot)) return true;
  }
  return false;
}

// What is to be finished must fit the lane and the table: rows, and the item that is owed.
Status Table::check_intent() const {
  const IntentRecord& intent = header_->intent;
  auto op = static_cast<IntentOp>(intent.op);
  if (op != IntentOp::kRow && op != IntentOp::kEnd) return {};
  const Lane& lane = lanes_[intent.lane];
  bool final = op == IntentOp::kEnd && (intent.number & layout::kIntentFinal) != 0;
  bool owed = item_owed();
  bool sound = lane.open;
  if (op == IntentOp::kRow) {
    bool makes = header_->item_policy == GEAR_ITEMS_STEP || header_->item_policy == GEAR_ITEMS_SEQUENCE;
    bool last = intent.row + 1 == lane.next_row;
    bool room = makes && lane.episode_steps() >= policy_length();
    sound = sound && intent.first_row <= lane.next_row && (!last || !owed || (room && slot_left()));
  } else {
    uint64_t steps = intent.row - uint64_t{final} - intent.first_row;
    bool appended = lane.next_row == intent.row;
    bool to_append = final && lane.next_row + 1 == intent.row && lane.filling < lane.blocks.size();
    bool makes = (intent.number & layout::kIntentMakesItem) != 0;
    // Its episode is ended in the lane's record once the item is made.
    bool ended = appended && lane.episode_row == intent.row;
    sound = sound && (appended || to_append) && intent.first_row + uint64_t{final} <= intent.row &&
            steps <= layout::episode_limit(*header_) && (lane.episode_row == intent.first_row || ended);
    bool fits = steps >= 1 && steps <= header_->item_steps_max;
    sound = sound && (!makes || !owed || (fits && slot_left()));
  }
  if (sound) return {};
  return error(GEAR_ECORRUPT, "intent %u: lane %u from row %llu to %llu; it has rows up to %llu, its episode is from %llu on",
               intent.op, intent.lane, static_cast<unsigned long long>(intent.first_row),
               static_cast<unsigned long long>(intent.row), static_cast<unsigned long long>(lane.next_row),
               static_cast<unsigned long long>(lane.episode_row));
}

void Table::take_segments(Segment* directory, TableData* data) {
  *directory = std::move(directory_);
  *data = std::move(data_);
  header_ = nullptr;
}

// Slots, and what the items hold.
void Table::adopt_items() {
  const IntentRecord& intent = header_->intent;
  items_used_ = header_->item_slots;
  while (items_used_ > 0 && items_[items_used_ - 1].generation == 0 && !hidden(items_used_ - 1)) --items_used_;
  auto op = static_cast<IntentOp>(intent.op);
  // What is owed is made in the slot that was meant for it.
  bool meant = layout::makes_item(op) && intent.slot != kNone && items_[intent.slot].generation % 2 == 0 &&
               !hidden(intent.slot);
  if (meant) items_used_ = std::max(items_used_, intent.slot + 1);
  for (uint32_t slot = items_used_; slot-- > 0;) {
    const ItemRecord& item = items_[slot];
    if (item.generation % 2 == 0 && !hidden(slot)) {
      if (!meant || slot != intent.slot) free_items_.push_back(slot);
      continue;
    }
    hold_range(item.block, item.position, item.length, true);
    hold_episode(item.episode);
  }
  if (meant) free_items_.push_back(intent.slot);
}

// Some follow from the items; of the others the intent has what they were.
void Table::repair_counters() {
  layout::TableCounters& counters = header_->counters;
  IntentRecord& intent = header_->intent;
  auto op = static_cast<IntentOp>(intent.op);
  uint64_t items = 0;
  uint64_t bytes = 0;
  double largest = counters.priority_max;
  for (uint32_t slot = 0; slot < items_used_; ++slot) {
    const ItemRecord& item = items_[slot];
    bool live = item.generation % 2 == 1;
    if (!live && !hidden(slot)) continue;
    bytes += item_bytes(item.length);
    if (!live) continue;
    ++items;
    largest = std::max(largest, item.priority);
    if (header_->max_times_sampled != 0 && selectable(item)) {
      draws_left_ += header_->max_times_sampled - item.times_sampled;
    }
  }
  note(counters.bytes, bytes);
  if (op != IntentOp::kReset || intent.number != counters.epoch) {
    note(counters.priority_max, largest);
    auto lag = static_cast<int64_t>(items - (counters.inserts - counters.deletes));
    if (lag > 0) note(counters.inserts, counters.inserts + 1);
    if (lag < 0) note(counters.deletes, counters.deletes + 1);
  }
  if (intent.evicting != 0) {
    note(counters.evictions, intent.evictions + uint64_t{counters.deletes != intent.deletes});
    publish(intent.evicting, 0u);
  }
  publish(counters.items, items);
  const layout::LimiterRecord& limits = header_->limiter;
  limiter_ = RateLimiter({limits.samples_per_insert, limits.min_size, limits.min_diff, limits.max_diff},
                         {counters.inserts, counters.samples, counters.deletes});
  note(header_->direct_allowed, uint32_t{direct_sampling_allowed(*header_)});
}

void Table::adopt_indexes() {
  const IntentRecord& intent = header_->intent;
  std::vector<Rebuilt> live;
  live.reserve(header_->counters.items);
  for (uint32_t slot = 0; slot < items_used_; ++slot) {
    const ItemRecord& item = items_[slot];
    if (item.generation % 2 == 1 && selectable(item)) live.push_back({slot, item.priority});
  }
  indexed_ = live.size();
  auto op = static_cast<IntentOp>(intent.op);
  bool in_flight = layout::makes_item(op) && intent.slot < items_used_ &&
                   items_[intent.slot].generation == intent.slot_generation + 1;
  uint32_t newest = in_flight && items_[intent.slot].generation % 2 == 1 ? intent.slot : kNone;
  open_selectors(false);
  for (auto& selector : selectors_) selector->rebuild(live, newest);
}

bool Table::adopt_draw(const Drawn& drawn, bool posted) {
  // The range is looked at before it is held: a lease that ended just before the death may still be written down.
  uint64_t rows = 0;
  uint32_t block = drawn.pin.block;
  if (block >= header_->block_count || drawn.pin.position >= header_->block_steps || drawn.pin.length == 0 ||
      blocks_[block].generation != drawn.record.block_generation) {
    return false;
  }
  for (rows = header_->block_steps - drawn.pin.position; rows < drawn.pin.length; rows += header_->block_steps) {
    block = blocks_[block].next;
    if (block == kNone) return false;
  }
  if (drawn.pin.episode != kNone &&
      (drawn.pin.episode >= header_->episode_slots || episodes_[drawn.pin.episode].generation % 2 == 0)) {
    return false;
  }
  hold_range(drawn.pin.block, drawn.pin.position, drawn.pin.length, true);
  hold_episode(drawn.pin.episode);
  if (posted && drawn.epoch == header_->counters.epoch) ++reserved_;
  return true;
}

bool Table::claimed(uint32_t channel) const {
  return std::find(channels_claimed_.begin(), channels_claimed_.end(), channel) != channels_claimed_.end();
}

void Table::finish_adoption() {
  finish_groups();
  finish_prompts();
  finish_intent();
  finish_lanes();
  for (uint32_t block = 0; block < header_->block_count; ++block) {
    if (blocks_[block].writer != 0 && !claimed(blocks_[block].writer)) pool_->leave(block);
  }
  for (uint32_t slot = 0; slot < header_->episode_slots; ++slot) {
    if (episodes_[slot].writer != 0 && !claimed(episodes_[slot].writer)) leave_episode(slot);
  }
  finish_parts();
  free_unneeded();
  make_room(0);
  ++changes_;
}

void Table::free_unneeded() {
  pool_->finish_adoption();
  for (uint32_t slot = header_->episode_slots; slot-- > 0;) {
    if (episodes_[slot].generation % 2 == 0 || episode_holds_[slot] > 0) continue;
    episode_holds_[slot] = 1;
    drop_episode(slot);
  }
}

void Table::finish_intent() {
  IntentRecord& intent = header_->intent;
  layout::TableCounters& counters = header_->counters;
  switch (static_cast<IntentOp>(intent.op)) {
    case IntentOp::kRow: finish_rows(); break;
    case IntentOp::kEnd:
      // An item that is owed is made, or rejected, for the first time: also one that a prompt group refuses.
      if ((intent.number & layout::kIntentMakesItem) != 0 && item_owed()) {
        note(counters.items_rejected, intent.rejected);
      }
      carry_out_end();
      break;
    case IntentOp::kItem:
      if (!item_owed()) {
        record_is_done();
      } else if (!record_done()) {
        note(counters.items_rejected, intent.rejected);
      }
      break;
    case IntentOp::kCells:
      if (episodes_[intent.slot].given == 0) break;
      leave_episode(intent.slot);
      record_is_done();
      break;
    case IntentOp::kGrantBlock:
      if (blocks_[intent.slot].generation != intent.slot_generation) set_wants(intent.lane, intent.number);
      break;
    case IntentOp::kGrantEpisode:
      if (episodes_[intent.slot].generation != intent.slot_generation) set_wants(intent.lane, intent.number);
      break;
    case IntentOp::kReset:
      if (counters.epoch == intent.number) carry_out_reset();
      break;
    case IntentOp::kDraw: undo_draw(); break;  // no lease came of it, and its sampler is gone
    default: break;  // the others are finished by their leases
  }
  end_intent();
}

// Rows that are there are counted, and the last one has the item that the policy asks for.
void Table::finish_rows() {
  IntentRecord& intent = header_->intent;
  layout::TableCounters& counters = header_->counters;
  Lane& lane = lanes_[intent.lane];
  if (lane.open && intent.row + 1 == lane.next_row && item_owed()) {
    uint32_t length = policy_length();
    note(counters.items_rejected, intent.rejected);
    insert_item(lane, lane.next_row - length, length, coming_priority(lane), 0);
  }
  note(counters.steps, intent.steps + lane.next_row - intent.first_row);
  sync_lane(lane, intent.lane);
}

}  // namespace gear
