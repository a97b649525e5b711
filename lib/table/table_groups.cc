// Consumer groups, prompt groups, versions: who may see which items, and when.

#include <algorithm>
#include <cfloat>
#include <new>

#include "base/shared_word.h"
#include "select/list.h"
#include "table/table.h"

namespace gear {

using layout::CompletionType;
using layout::GroupProgress;
using layout::kNone;

namespace {
constexpr size_t kGroupsMax = 64;
// Picks that may be too old before those are set aside.
constexpr uint32_t kVersionTries = 64;
constexpr uint32_t kVersionAside = 256;

bool delivered_before(const Drawn& drawn) {
  return drawn.record.type == static_cast<uint32_t>(CompletionType::kItemAgain);
}
}  // namespace

bool Table::too_old(uint32_t slot, const VersionFilter& filter) const {
  return versions_ != nullptr && version_too_old(versions_[slot], filter);
}

// The probability of a pick is that among all items, too old ones included.
bool Table::pick_item(uint32_t index, Rng& rng, const VersionFilter& filter, Pick* pick) {
  Selector& selector = *selector_of_[index];
  for (uint32_t tries = 0; tries < kVersionTries;) {
    if (!selector.pick(rng, pick)) return false;
    if (!too_old(pick->slot, filter)) return true;
    if (filter.policy == GEAR_VERSION_DROP) {
      remove_indexed(pick->slot);
    } else {
      ++tries;
    }
  }
  // A selector that would name the same ones for ever, or hardly any item that is new enough: set old ones aside, as many
  // as one draw may cost the others.
  uint32_t aside[kVersionAside];
  uint32_t count = 0;
  bool found = false;
  while (count < kVersionAside && selector.pick(rng, pick)) {
    found = !too_old(pick->slot, filter);
    if (found) break;
    aside[count++] = pick->slot;
    leave_out(index, pick->slot);
  }
  while (count > 0) put_back(index, aside[--count]);
  return found;
}

void Table::raise_version(uint64_t version) {
  if (version <= header_->counters.version) return;
  note(header_->counters.version, version);
  ++changes_;
}

void Table::retune(const gear_rate_limiter& limits) {
  limiter_.retune(limits);
  layout::LimiterRecord& record = header_->limiter;
  // Who adopts the table between two stores finds bounds in order, and none that keep samplers from making room for writers.
  note(record.min_diff, -DBL_MAX);
  order_for_adopter();
  note(record.samples_per_insert, limits.samples_per_insert);
  note(record.min_size, limits.min_size);
  note(record.max_diff, limits.max_diff);
  order_for_adopter();
  note(record.min_diff, limits.min_diff);
  note(header_->direct_allowed, uint32_t{direct_sampling_allowed(*header_)});
  ++changes_;
}

void Table::hide_item(Lane& lane, uint64_t first_row, uint32_t length, double priority,
                      uint32_t flags) {
  const PromptGroups::Group* known = prompt_groups_.find(lane.prompt_group);
  if (known != nullptr && known->size != lane.prompt_size) return count_rejected_item();
  uint32_t slot = fill_item(lane, first_row, length, priority, flags);
  // This may drop an incomplete group, also the one that the item belongs to.
  make_room(1);
  PromptGroups::Group* group = prompt_groups_.find(lane.prompt_group);
  if (group == nullptr) {
    while (prompt_groups_.count() >= header_->prompt_groups_max) drop_oldest_prompt_group();
    group = prompt_groups_.begin(lane.prompt_group, lane.prompt_size);
  }
  group->slots.push_back(slot);
  note(header_->counters.items_hidden, header_->counters.items_hidden + 1);
  layout::PromptRecord& record = *prompt_record(slot);
  note(record.group, group->id);
  note(record.number, group->number);
  publish(record.size, group->size);
  if (group->slots.size() < group->size) return;
  mark_members(*group, layout::kPromptWhole);
  show_prompt_group(group->id);
}

layout::PromptRecord* Table::prompt_record(uint32_t slot) const {
  if (header_->prompts_offset == 0) return nullptr;
  return layout::at_offset<layout::PromptRecord>(header_, header_->prompts_offset) + slot;
}

// All are told before the first is shown, or freed.
void Table::mark_members(const PromptGroups::Group& group, uint32_t bit) {
  for (uint32_t slot : group.slots) {
    layout::PromptRecord& record = *prompt_record(slot);
    publish(record.size, record.size | bit);
  }
  order_for_adopter();
}

void Table::show_prompt_group(uint64_t id) {
  for (uint32_t member : prompt_groups_.finish(id)) {
    note(header_->counters.items_hidden, header_->counters.items_hidden - 1);
    show_item(member);
  }
}

void Table::drop_oldest_prompt_group() {
  uint64_t id = prompt_groups_.oldest();
  mark_members(*prompt_groups_.find(id), layout::kPromptDropped);
  note(header_->counters.prompt_groups_dropped, header_->counters.prompt_groups_dropped + 1);
  free_prompt_group(id);
  ++changes_;
}

// Its members are told that it is dropped.
void Table::free_prompt_group(uint64_t id) {
  std::vector<uint32_t> slots = prompt_groups_.finish(id);
  note(header_->counters.items_hidden, header_->counters.items_hidden - slots.size());
  for (uint32_t slot : slots) {
    publish(prompt_record(slot)->size, 0u);
    free_slot(slot);
  }
}

// The groups that still lack members, in the order of their begin. Their items hold their rows already.
void Table::adopt_prompts() {
  if (header_->prompts_offset == 0) return;
  std::vector<uint32_t> slots;
  for (uint32_t slot = 0; slot < items_used_; ++slot) {
    layout::PromptRecord& record = *prompt_record(slot);
    // It was shown just before the other server died.
    if (items_[slot].generation % 2 == 1) publish(record.size, 0u);
    if (record.size != 0) slots.push_back(slot);
  }
  auto number = [this](uint32_t slot) { return prompt_record(slot)->number; };
  std::stable_sort(slots.begin(), slots.end(), [&](uint32_t one, uint32_t other) { return number(one) < number(other); });
  for (uint32_t slot : slots) {
    const layout::PromptRecord& record = *prompt_record(slot);
    PromptGroups::Group* group = prompt_groups_.find(record.group);
    if (group == nullptr) {
      group = prompt_groups_.begin_as(record.group, record.size & layout::kPromptSizeMask, record.number);
    }
    group->slots.push_back(slot);
  }
  note(header_->counters.items_hidden, uint64_t{slots.size()});
}

// Completes what the other server had begun: a group is shown whole, or freed whole.
void Table::finish_prompts() {
  std::vector<uint64_t> whole;
  std::vector<uint64_t> dropped;
  for (const PromptGroups::Group& group : prompt_groups_.groups()) {
    uint32_t bits = 0;
    for (uint32_t slot : group.slots) bits |= prompt_record(slot)->size;
    if ((bits & layout::kPromptDropped) != 0) dropped.push_back(group.id);
    else if ((bits & layout::kPromptWhole) != 0 || group.slots.size() >= group.size) whole.push_back(group.id);
  }
  for (uint64_t id : dropped) free_prompt_group(id);
  for (uint64_t id : whole) {
    mark_members(*prompt_groups_.find(id), layout::kPromptWhole);
    show_prompt_group(id);
  }
}

Result<std::shared_ptr<ConsumerGroup>> Table::open_group(const char* name, bool from_oldest) {
  std::shared_ptr<ConsumerGroup> group = find_group(name);
  if (group) return group;
  if (header_->max_times_sampled != 0) {
    return error(GEAR_EUNSUPPORTED,
                 "group \"%s\": table \"%s\" removes items after %u draws, so that not every group could see them; create it with max_times_sampled 0",
                 name, header_->name, header_->max_times_sampled);
  }
  if (groups_.size() >= kGroupsMax) {
    return error(GEAR_ELIMIT, "group \"%s\": table \"%s\" has its %zu groups; drop one", name,
                 header_->name, groups_.size());
  }
  try {
    keep_order();
  } catch (const std::bad_alloc&) {
    order_ = ItemOrder();
    return error(GEAR_ENOMEM, "group \"%s\": no memory for the order of %u items; free some", name,
                 header_->item_slots);
  }
  uint64_t object = layout::kGroupObjects * header_->table_id + free_ordinal();
  MemoryOptions memory;
  memory.memory = header_->memory == GEAR_MEMORY_POSIX ? GEAR_MEMORY_POSIX : GEAR_MEMORY_MEMFD;
  Result<Segment> made = Segment::create("open group", layout::SegmentKind::kGroup,
                                         ConsumerGroup::bytes_for(header_->item_slots),
                                         header_->segment.instance_id, object, memory);
  if (!made.ok()) return made.status();
  group = std::make_shared<ConsumerGroup>(name, header_->item_slots, made.take());
  group->begin(order_, header_->item_slots, header_->counters.items, from_oldest);
  group->publish_magic();
  groups_.push_back(group);
  return group;
}

// Not soon one that was used before: leases of a dropped group name it.
uint32_t Table::free_ordinal() {
  auto used = [this](uint32_t ordinal) {
    return std::any_of(groups_.begin(), groups_.end(),
                       [ordinal](const auto& group) { return group->ordinal() == ordinal; });
  };
  while (used(next_ordinal_)) next_ordinal_ = (next_ordinal_ + 1) % layout::kGroupObjects;
  uint32_t ordinal = next_ordinal_;
  next_ordinal_ = (next_ordinal_ + 1) % layout::kGroupObjects;
  return ordinal;
}

Status Table::adopt_group(Segment segment) {
  auto group = ConsumerGroup::adopt(header_->table_id, header_->item_slots, std::move(segment));
  if (!group.ok()) return group.status();
  next_ordinal_ = std::max(next_ordinal_, (group.value()->ordinal() + 1) % uint32_t{layout::kGroupObjects});
  groups_.push_back(group.take());
  return {};
}

void Table::adopt_lease(ConsumerGroup& group, const Drawn& drawn) {
  if (drawn.epoch == header_->counters.epoch) group.adopt_lease(drawn.slot, same_item(drawn));
}

void Table::adopt_waiting(ConsumerGroup& group, const Drawn& drawn) {
  if (drawn.epoch == header_->counters.epoch && same_item(drawn)) group.adopt_waiting(drawn.slot);
}

// The order of insertion from the numbers that any group left, then each group's place in it.
void Table::finish_groups() {
  if (groups_.empty()) return;
  std::vector<std::pair<uint64_t, uint32_t>> numbered;
  uint64_t insertions = 0;
  for (const auto& group : groups_) insertions = std::max(insertions, group->insertions_left());
  for (uint32_t slot = 0; slot < items_used_; ++slot) {
    if (items_[slot].generation % 2 == 1) numbered.push_back({groups_[0]->number_left(slot), slot});
  }
  std::sort(numbered.begin(), numbered.end());
  order_ = ItemOrder();
  order_.keep(header_->item_slots);
  for (auto [number, slot] : numbered) order_.append_as(slot, number);
  order_.count_from(std::max(insertions, order_.last_number()));
  for (const auto& group : groups_) {
    for (auto [number, slot] : numbered) {
      ConsumerGroup::Left left = group->place(slot, number);
      if (left == ConsumerGroup::Left::kReturned) group->put_back_last(pinned(slot));
      if (left == ConsumerGroup::Left::kAgain) group->deliver_again(pinned(slot));
    }
    group->finish_adoption(order_.last_number());
  }
  ++changes_;
}

// From here on the order of insertion is kept. That of items there already is known to a fifo or lifo index.
void Table::keep_order() {
  if (order_.kept()) return;
  order_.keep(header_->item_slots);
  for (uint32_t i = 0; i < header_->index_count; ++i) {
    uint32_t selector = header_->indexes[i].selector;
    if (selector != GEAR_SELECT_FIFO && selector != GEAR_SELECT_LIFO) continue;
    for (uint32_t slot : list_slots(header_->indexes[i], header_)) order_.append(slot);
    return;
  }
  for (uint32_t slot = 0; slot < items_used_; ++slot) {
    if (items_[slot].generation % 2 == 1) order_.append(slot);
  }
}

std::shared_ptr<ConsumerGroup> Table::find_group(const char* name) const {
  for (const auto& group : groups_) {
    if (group->name() == name) return group;
  }
  return nullptr;
}

void Table::drop_group(ConsumerGroup& group) {
  group.dropped = true;
  group.forget_memory();
  group.forget_undelivered(order_);
  while (group.has_again()) unpin(group.take_again().pin);
  std::erase_if(groups_, [&group](const auto& one) { return one.get() == &group; });
}

// What is delivered again was counted at its first delivery: the limiter is asked for the others alone.
bool Table::draws_ready_for(ConsumerGroup& group, const VersionFilter& filter, uint64_t n) {
  pass_over_old(group, filter);
  if (group.available() < n) return false;
  uint64_t first_ones = n - std::min(n, group.redeliveries());
  if (first_ones > 0 && !limiter_.may_sample(first_ones + reserved_)) return false;
  if (filter.policy == GEAR_VERSION_ANY || header_->counters.version == 0) return true;
  uint64_t found = group.available() - group.lag();
  for (uint32_t slot = group.cursor(); slot != kNone && found < n; slot = order_.next(slot)) {
    if (!too_old(slot, filter)) ++found;
  }
  return found >= n;
}

// Undelivered items that are too old, up to the first that is not. Versions never go down: each is passed once.
void Table::pass_over_old(ConsumerGroup& group, const VersionFilter& filter) {
  while (group.cursor() != kNone && too_old(group.cursor(), filter)) {
    // Before the cursor: what it walked past without a word was drawn.
    group.set_progress(group.cursor(), GroupProgress::kSettled);
    uint32_t slot = group.advance(order_);
    ++group.counts.skipped;
    group.keep_counts();
    if (filter.policy == GEAR_VERSION_DROP) remove_indexed(slot);
  }
}

bool Table::draw_for(ConsumerGroup& group, const VersionFilter& filter, Drawn* drawn) {
  while (group.has_again()) {
    *drawn = group.take_again();
    if (version_too_old(drawn->record.version, filter)) {
      settle(group, *drawn);
      ++group.counts.skipped;
      group.keep_counts();
      unpin(drawn->pin);
      continue;
    }
    if (!delivered_before(*drawn)) ++reserved_;
    return true;
  }
  pass_over_old(group, filter);
  uint32_t slot = group.advance(order_);
  if (slot == kNone) return false;
  pin_draw(slot, 1.0, drawn);
  return true;
}

void Table::take_for(ConsumerGroup& group, const Drawn& drawn, bool counted) {
  if (drawn.epoch != header_->counters.epoch) return;
  if (same_item(drawn)) group.set_progress(drawn.slot, GroupProgress::kDelivered);
  ++group.counts.delivered;
  ++group.counts.in_flight;
  if (delivered_before(drawn)) ++group.counts.redelivered;
  group.keep_counts();
  if (!delivered_before(drawn)) {
    take(drawn, counted);
  }
}

bool Table::same_item(const Drawn& drawn) const {
  return items_[drawn.slot].generation == drawn.item_generation;
}

// Never delivered again, by no server.
void Table::settle(ConsumerGroup& group, const Drawn& drawn) {
  if (same_item(drawn)) group.set_progress(drawn.slot, GroupProgress::kSettled);
}

void Table::give_back_for(ConsumerGroup& group, const Drawn& drawn) {
  if (drawn.epoch != header_->counters.epoch) return unpin(drawn.pin);
  if (!delivered_before(drawn)) --reserved_;
  ++changes_;
  if (group.dropped) return unpin(drawn.pin);
  group.put_back_first(drawn);
}

void Table::acknowledge(ConsumerGroup& group, const Drawn& drawn) {
  if (drawn.epoch == header_->counters.epoch) {
    --group.counts.in_flight;
    ++group.counts.acknowledged;
    group.keep_counts();
    settle(group, drawn);
  }
}

void Table::deliver_again(ConsumerGroup& group, const Drawn& drawn) {
  if (drawn.epoch != header_->counters.epoch) return unpin(drawn.pin);
  --group.counts.in_flight;
  if (group.dropped) return unpin(drawn.pin);
  group.deliver_again(drawn);
  ++changes_;
}

// What a group has still to deliver again keeps blocks; steps to come are worth more when nothing else is left.
bool Table::drop_redelivery() {
  for (const auto& group : groups_) {
    if (!group->has_again()) continue;
    Drawn drawn = group->take_again();
    settle(*group, drawn);
    unpin(drawn.pin);
    ++group->counts.missed;
    group->keep_counts();
    return true;
  }
  return false;
}

void Table::reset_groups() {
  for (const auto& group : groups_) {
    group->forget_undelivered(order_);
    group->counts = {};
    group->keep_counts();
    while (group->has_again()) unpin(group->take_again().pin);
  }
  while (prompt_groups_.count() > 0) drop_oldest_prompt_group();
}

}  // namespace gear
