// Items: made, drawn, pinned, changed by key, removed.

#include <algorithm>

#include "base/check.h"
#include "base/shared_word.h"
#include "table/table.h"

namespace gear {

using layout::ItemRecord;
using layout::kNone;

double Table::coming_priority(const Lane& lane) const {
  if (lane.priority_given) return lane.priority;
  double largest = header_->counters.priority_max;
  if (largest_ != nullptr) {
    Rng unused(0);
    Pick pick;
    largest = largest_->pick(unused, &pick) ? items_[pick.slot].priority : 0.0;
  }
  return largest > 0 ? largest : 1.0;
}

// How many items become visible when the lane makes one.
uint64_t Table::items_coming(const Lane& lane) {
  if (lane.prompt_size == 0) return 1;
  const PromptGroups::Group* group = prompt_groups_.find(lane.prompt_group);
  uint64_t members = group != nullptr ? group->slots.size() : 0;
  uint64_t size = group != nullptr ? group->size : lane.prompt_size;
  return members + 1 >= size ? size : 0;
}

bool Table::items_blocked(const Lane& lane, uint32_t length) {
  uint64_t coming = items_coming(lane);
  if (coming > 0 && !limiter_.may_insert(coming)) return true;
  // Full of items that are drawn for the last time but not taken yet: none may be evicted.
  const layout::TableCounters& counters = header_->counters;
  if (indexed_ > 0 || prompt_groups_.count() > 0) return false;
  uint64_t bytes = item_bytes(length);
  // One that fits in no table at all is rejected, not waited for.
  bool no_bytes = header_->capacity_bytes != 0 && bytes <= header_->capacity_bytes &&
                  counters.bytes + bytes > header_->capacity_bytes;
  return no_bytes || counters.items >= header_->capacity_items;
}

// Makes the item, or counts it as rejected.
void Table::insert_item(Lane& lane, uint64_t first_row, uint32_t length, double priority,
                        uint32_t flags) {
  if (too_large(length)) return count_rejected_item();
  if (lane.prompt_size != 0) return hide_item(lane, first_row, length, priority, flags);
  show_item(fill_item(lane, first_row, length, priority, flags));
}

void Table::count_rejected_item() {
  note(header_->counters.items_rejected, header_->counters.items_rejected + 1);
}

// An item that is whole but that no one can find: in no index, and of an even generation.
uint32_t Table::fill_item(Lane& lane, uint64_t first_row, uint32_t length, double priority,
                          uint32_t flags) {
  uint32_t block = lane.tail;
  while (blocks_[block].start_row > first_row) {
    block = blocks_[block].previous;
    GEAR_ASSERT(block != kNone, "row %llu of an open episode has no block",
                static_cast<unsigned long long>(first_row));
  }
  auto position = static_cast<uint32_t>(first_row - blocks_[block].start_row);
  hold_range(block, position, length, true);

  uint32_t slot = items_used_;
  if (!free_items_.empty()) {
    slot = free_items_.back();
    free_items_.pop_back();
  } else {
    ++items_used_;
  }

  ItemRecord& item = items_[slot];
  for (auto& selector : selectors_) selector->expect(slot);
  fence_generation_before_payload();
  note(item.block, block);
  note(item.position, position);
  note(item.length, length);
  note(item.episode, lane.episodes.empty() ? kNone : lane.episodes.front());
  note(item.times_sampled, 0u);
  note(item.flags, flags);
  note(item.priority, priority);
  hold_episode(item.episode);
  if (versions_ != nullptr) note(versions_[slot], lane.version);
  note(header_->counters.bytes, header_->counters.bytes + item_bytes(length));
  return slot;
}

void Table::show_item(uint32_t slot) {
  ItemRecord& item = items_[slot];
  double priority = item.priority;
  for (const auto& group : groups_) group->coming(slot, order_.last_number() + 1);
  // The item is made by this; it is counted at once, so that a count behind the items is this one's.
  publish(item.generation, item.generation + 1);
  if (layout::PromptRecord* prompt = prompt_record(slot)) publish(prompt->size, 0u);
  layout::TableCounters& counters = header_->counters;
  note(counters.inserts, counters.inserts + 1);
  if (priority > counters.priority_max) note(counters.priority_max, priority);

  select(slot, priority);
  draws_left_ += header_->max_times_sampled;
  if (order_.kept()) {
    order_.append(slot);
    for (const auto& group : groups_) group->inserted(slot);
  }
  // The incoming item may be the one removed.
  make_room(1);
  limiter_.inserted(1);
  publish(counters.items, counters.items + 1);
  ++changes_;
}

// For `coming` items that are filled and not counted yet, as far as there is something to remove.
void Table::make_room(uint64_t coming) {
  const layout::TableCounters& counters = header_->counters;
  auto full = [&] {
    if (counters.items + counters.items_hidden + coming > header_->capacity_items) return true;
    return header_->capacity_bytes != 0 && counters.bytes > header_->capacity_bytes;
  };
  while (full() && remove_something()) {
  }
}

// An item by the remover, else the oldest incomplete prompt group; false when neither is there. An incoming item that is in
// the indexes but not counted yet does not give way to incomplete groups.
bool Table::remove_something() {
  bool only_incoming = header_->counters.items == 0;
  // Nor do visible items, to several incomplete groups that hold more than half of the table.
  bool crowded = header_->counters.items_hidden > header_->capacity_items / 2 && prompt_groups_.count() > 1;
  if (indexed_ > 0 && !((only_incoming || crowded) && prompt_groups_.count() > 0)) {
    evict_one();
    return true;
  }
  if (prompt_groups_.count() == 0) return false;
  drop_oldest_prompt_group();
  return true;
}

void Table::hold_range(uint32_t block, uint32_t position, uint32_t length, bool hold) {
  uint64_t rows_in_block = header_->block_steps - position;
  uint64_t left = length;
  for (;;) {
    // Read before the hold goes: a block that is let go leaves its chain.
    uint32_t next = blocks_[block].next;
    if (hold) {
      pool_->hold(block);
    } else {
      pool_->drop(block);
    }
    if (left <= rows_in_block) return;
    left -= rows_in_block;
    rows_in_block = header_->block_steps;
    block = next;
    GEAR_ASSERT(block != kNone, "a held range of %u rows breaks off", length);
  }
}

void Table::evict_one() {
  Pick victim;
  if (!remover_->pick(remover_rng_, &victim)) victim.slot = any_selectable();
  layout::TableCounters& counters = header_->counters;
  note(header_->intent.evictions, counters.evictions);
  note(header_->intent.deletes, counters.deletes);
  publish(header_->intent.evicting, 1u);
  order_for_adopter();
  remove_indexed(victim.slot);
  note(counters.evictions, counters.evictions + 1);
  publish(header_->intent.evicting, 0u);
  order_for_adopter();
}

void Table::remove_indexed(uint32_t slot) {
  if (header_->max_times_sampled != 0) {
    draws_left_ -= header_->max_times_sampled - items_[slot].times_sampled;
  }
  unselect(slot);
  remove_item(slot);
}

// What a prioritized remover removes when all weights are 0: the first item from a random slot on.
uint32_t Table::any_selectable() {
  GEAR_ASSERT(indexed_ > 0, "nothing to evict of %u slots", items_used_);
  auto slot = static_cast<uint32_t>(remover_rng_.below(items_used_));
  while (items_[slot].generation % 2 == 0 || !selectable(items_[slot])) slot = (slot + 1) % items_used_;
  return slot;
}

void Table::select(uint32_t slot, double priority) {
  for (auto& selector : selectors_) selector->insert(slot, priority);
  ++indexed_;
}

void Table::reselect(uint32_t slot, double priority) {
  for (auto& selector : selectors_) selector->restore(slot, priority);
  ++indexed_;
}

void Table::unselect(uint32_t slot) {
  for (auto& selector : selectors_) selector->remove(slot);
  --indexed_;
}

// Not so once it is drawn for the last time.
bool Table::selectable(const ItemRecord& item) const {
  return header_->max_times_sampled == 0 || item.times_sampled < header_->max_times_sampled;
}

void Table::remove_item(uint32_t slot) {
  ItemRecord& item = items_[slot];
  if (order_.kept()) {
    for (const auto& group : groups_) group->removed(slot, order_);
    order_.remove(slot);
  }
  // Even: whoever reads the item now draws again, and keys of it are stale.
  publish(item.generation, item.generation + 1);
  free_slot(slot);
  limiter_.deleted(1);
  layout::TableCounters& counters = header_->counters;
  note(counters.deletes, counters.deletes + 1);
  publish(counters.items, counters.items - 1);
  ++changes_;
}

// What fill_item took.
void Table::free_slot(uint32_t slot) {
  const ItemRecord& item = items_[slot];
  note(header_->counters.bytes, header_->counters.bytes - item_bytes(item.length));
  hold_range(item.block, item.position, item.length, false);
  drop_episode(item.episode);
  free_items_.push_back(slot);
}

bool Table::draws_ready(uint64_t n) const {
  if (indexed_ == 0 || !limiter_.may_sample(n + reserved_)) return false;
  return header_->max_times_sampled == 0 || draws_left_ >= n;
}

bool Table::draw(uint32_t index, Rng& rng, const VersionFilter& filter, Drawn* drawn) {
  Pick pick;
  if (!pick_item(index, rng, filter, &pick)) return false;
  pin_draw(pick.slot, pick.probability, drawn);
  if (header_->max_times_sampled != 0) {
    --draws_left_;
    // The last draw: nobody else may have it, but it comes back if this one is returned.
    if (!selectable(items_[pick.slot])) unselect(pick.slot);
  }
  return true;
}

void Table::begin_draw(uint32_t channel, uint64_t number) {
  note(header_->intent.channel, channel);
  note(header_->intent.number, number);
}

void Table::intend(layout::IntentOp op, uint32_t channel, uint64_t number, const Drawn& drawn,
                   const ConsumerGroup* group) {
  layout::IntentRecord& intent = header_->intent;
  note(intent.channel, channel);
  note(intent.number, number);
  note(intent.slot, drawn.slot);
  note(intent.slot_generation, drawn.item_generation);
  note(intent.times_sampled, items_[drawn.slot].times_sampled);
  note(intent.samples, header_->counters.samples);
  if (group != nullptr) {
    bool release = op == layout::IntentOp::kRelease;
    note(intent.steps, release ? group->counts.acknowledged : group->counts.delivered);
    note(intent.episodes, group->counts.redelivered);
  }
  begin_intent(op);
}

// A group walked past the item: it is returned, which leaves it counted.
void Table::keep_draw_counted() {
  const layout::IntentRecord& intent = header_->intent;
  if (intent.slot < items_used_) {
    ItemRecord& item = items_[intent.slot];
    bool missing = item.generation == intent.slot_generation && item.times_sampled == intent.times_sampled;
    if (missing) note(item.times_sampled, item.times_sampled + 1);
  }
  end_intent();
}

void Table::pin_draw(uint32_t slot, double probability, Drawn* drawn) {
  ItemRecord& item = items_[slot];
  layout::IntentRecord& intent = header_->intent;
  note(intent.slot, slot);
  note(intent.slot_generation, item.generation);
  note(intent.times_sampled, item.times_sampled);
  begin_intent(layout::IntentOp::kDraw);
  note(item.times_sampled, item.times_sampled + 1);
  *drawn = pinned(slot);
  drawn->record.probability = probability;
  ++reserved_;
}

// The slot's item as a draw; its rows are held.
Drawn Table::pinned(uint32_t slot) {
  const ItemRecord& item = items_[slot];
  hold_range(item.block, item.position, item.length, true);
  hold_episode(item.episode);
  return {{static_cast<uint32_t>(layout::CompletionType::kItem),
           item.length,
           versions_ != nullptr ? versions_[slot] : 0,
           layout::make_key(item.generation, slot, header_->slot_bits),
           item.block,
           item.position,
           blocks_[item.block].generation,
           item.episode,
           item.times_sampled,
           item.priority,
           1.0},
          {item.block, item.position, item.length, item.episode},
          slot,
          item.generation,
          header_->counters.epoch};
}

void Table::take(const Drawn& drawn, bool counted) {
  if (drawn.epoch != header_->counters.epoch) return;
  --reserved_;
  if (!counted) {
    limiter_.sampled(1);
    note(header_->counters.samples, header_->counters.samples + 1);
  }
  const ItemRecord& item = items_[drawn.slot];
  bool last = header_->max_times_sampled != 0 && item.generation == drawn.item_generation &&
              item.times_sampled >= header_->max_times_sampled;
  if (last) remove_item(drawn.slot);
  ++changes_;
}

void Table::give_back(const Drawn& drawn, bool uncounted) {
  if (drawn.epoch != header_->counters.epoch) return;
  --reserved_;
  ++changes_;
  if (items_[drawn.slot].generation == drawn.item_generation && !uncounted) uncount_draw(drawn.slot);
}

void Table::uncount_draw(uint32_t slot) {
  ItemRecord& item = items_[slot];
  if (item.times_sampled == 0) return;  // more draws are out than it tells: others changed it before it was adopted
  if (header_->max_times_sampled != 0) {
    ++draws_left_;
    if (!selectable(item)) reselect(slot, item.priority);
  }
  note(item.times_sampled, item.times_sampled - 1);
}

// The draw that the intent tells of has no lease.
void Table::undo_draw() {
  const layout::IntentRecord& intent = header_->intent;
  if (intent.slot >= items_used_) return;
  const ItemRecord& item = items_[intent.slot];
  bool counted = item.generation % 2 == 1 && item.generation == intent.slot_generation && item.times_sampled > 0 &&
                 item.times_sampled == intent.times_sampled + 1;
  if (counted) uncount_draw(intent.slot);
  end_intent();
}

void Table::unpin(const Pin& pin) {
  hold_range(pin.block, pin.position, pin.length, false);
  drop_episode(pin.episode);
  ++changes_;
}

void Table::begin_updates() {
  for (auto& selector : selectors_) selector->begin_updates();
}

void Table::end_updates() {
  for (auto& selector : selectors_) selector->end_updates();
}

bool Table::set_aside(uint32_t index, const Drawn& drawn) {
  const ItemRecord& item = items_[drawn.slot];
  if (item.generation != drawn.item_generation || !selectable(item)) return false;
  leave_out(index, drawn.slot);
  return true;
}

void Table::leave_out(uint32_t index, uint32_t slot) {
  if (header_->indexes[index].selector != GEAR_SELECT_MIXTURE) {
    selector_of_[index]->remove(slot);
    return;
  }
  for_each_named([&](Selector* selector) { selector->remove(slot); });
}

void Table::put_back(uint32_t index, uint32_t slot) {
  double priority = items_[slot].priority;
  if (header_->indexes[index].selector != GEAR_SELECT_MIXTURE) {
    selector_of_[index]->restore(slot, priority);
    return;
  }
  for_each_named([&](Selector* selector) { selector->restore(slot, priority); });
}

double Table::probability(uint32_t index, const Drawn& drawn) const {
  return selector_of_[index]->probability(drawn.slot);
}

// kApplied: the slot's item is the key's.
Table::KeyOutcome Table::find_item(uint64_t key, uint32_t* slot) const {
  *slot = layout::key_slot(key, header_->slot_bits);
  if (*slot >= items_used_) return KeyOutcome::kUnknown;
  uint64_t generation = items_[*slot].generation;
  uint64_t now = layout::make_key(generation, *slot, header_->slot_bits);
  if (key > now) return KeyOutcome::kUnknown;
  return key != now || generation % 2 == 0 ? KeyOutcome::kStale : KeyOutcome::kApplied;
}

Table::KeyOutcome Table::update_priority(uint64_t key, double priority) {
  uint32_t slot = 0;
  KeyOutcome found = find_item(key, &slot);
  if (found != KeyOutcome::kApplied) return found;
  if (!priority_valid(priority)) return KeyOutcome::kRejected;
  ItemRecord& item = items_[slot];
  note(item.priority, priority);
  if (priority > header_->counters.priority_max) note(header_->counters.priority_max, priority);
  for (auto& selector : selectors_) {
    if (selectable(item)) {
      selector->update(slot, priority);
    } else {
      selector->update_removed(slot);
    }
  }
  ++changes_;  // a table of weight 0 may be drawable now
  return KeyOutcome::kApplied;
}

Table::KeyOutcome Table::delete_item(uint64_t key) {
  uint32_t slot = 0;
  KeyOutcome found = find_item(key, &slot);
  if (found != KeyOutcome::kApplied) return found;
  if (selectable(items_[slot])) {
    remove_indexed(slot);
  } else {
    remove_item(slot);
  }
  return KeyOutcome::kApplied;
}

}  // namespace gear
