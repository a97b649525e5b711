// What a consumer group leaves to the next server of the instance.
#include "table/group.h"

#include <cstring>

namespace gear {

using layout::GroupHeader;
using layout::GroupProgress;
using layout::kNone;

uint64_t ConsumerGroup::bytes_for(uint64_t item_slots) {
  return sizeof(GroupHeader) + item_slots * (sizeof(uint64_t) + sizeof(uint8_t));
}

ConsumerGroup::ConsumerGroup(const char* name, uint64_t item_slots, Segment segment)
    : name_(name), segment_(std::move(segment)) {
  header_ = static_cast<GroupHeader*>(segment_.data());
  numbers_ = reinterpret_cast<uint64_t*>(header_ + 1);
  progress_ = reinterpret_cast<uint8_t*>(numbers_ + item_slots);
  ordinal_ = static_cast<uint32_t>(header_->segment.object_id % layout::kGroupObjects);
}

Result<std::shared_ptr<ConsumerGroup>> ConsumerGroup::adopt(uint64_t table_id, uint64_t item_slots,
                                                            Segment segment) {
  auto* header = static_cast<GroupHeader*>(segment.data());
  uint64_t of_table = header->segment.object_id / layout::kGroupObjects;
  bool sound = segment.size() >= bytes_for(item_slots) && header->item_slots == item_slots && of_table == table_id &&
               memchr(header->name, 0, sizeof header->name) != nullptr && header->name[0] != 0 &&
               header->first <= header->insertions;
  if (!sound) {
    return error(GEAR_EPROTOCOL,
                 "group segment %llx: of table %llu with %llu items in %zu bytes, table %llu with %llu wanted; drop it",
                 static_cast<unsigned long long>(header->segment.object_id),
                 static_cast<unsigned long long>(of_table),
                 static_cast<unsigned long long>(header->item_slots), segment.size(),
                 static_cast<unsigned long long>(table_id), static_cast<unsigned long long>(item_slots));
  }
  const std::string name = header->name;
  auto group = std::make_shared<ConsumerGroup>(name.c_str(), item_slots, std::move(segment));
  group->counts = {0, header->delivered, header->acknowledged, header->redelivered, 0, header->skipped};
  group->leased_.resize(item_slots);
  return group;
}

// Release: what a count tells was done before it.
void ConsumerGroup::keep_counts() {
  if (header_ == nullptr) return;
  publish(header_->delivered, counts.delivered);
  publish(header_->acknowledged, counts.acknowledged);
  publish(header_->redelivered, counts.redelivered);
  publish(header_->skipped, counts.skipped);
}

void ConsumerGroup::begin(const ItemOrder& order, uint64_t item_slots, uint64_t items, bool at_oldest) {
  memcpy(header_->name, name_.c_str(), name_.size() + 1);
  header_->item_slots = item_slots;
  GroupProgress progress = at_oldest ? GroupProgress::kNone : GroupProgress::kSettled;
  for (uint32_t slot = order.first(); slot != kNone; slot = order.next(slot)) {
    numbers_[slot] = order.number(slot);
    progress_[slot] = static_cast<uint8_t>(progress);
  }
  uint64_t last = order.last_number();
  header_->insertions = last;
  header_->first = at_oldest ? last - items : last;
  header_->cursor = last + 1;
  if (!at_oldest) return;
  cursor_ = order.first();
  lag_ = items;
  if (cursor_ != kNone) header_->cursor = order.number(cursor_);
}

void ConsumerGroup::coming(uint32_t slot, uint64_t number) {
  if (header_ == nullptr) return;
  note(numbers_[slot], number);
  note(progress_[slot], static_cast<uint8_t>(GroupProgress::kNone));
}

void ConsumerGroup::set_progress(uint32_t slot, GroupProgress progress) {
  if (header_ != nullptr) publish(progress_[slot], static_cast<uint8_t>(progress));
}

void ConsumerGroup::forget_undelivered(const ItemOrder& order) {
  cursor_ = kNone;
  lag_ = 0;
  if (header_ == nullptr) return;
  publish(header_->cursor, order.last_number() + 1);
  publish(header_->insertions, order.last_number());
  publish(header_->first, order.last_number());
}

void ConsumerGroup::forget_memory() {
  header_ = nullptr;
  numbers_ = nullptr;
  progress_ = nullptr;
  segment_ = Segment();
}

// An item that left the table meanwhile has no slot any more, but counts.
void ConsumerGroup::adopt_lease(uint32_t slot, bool same_item) {
  if (header_ == nullptr) return;
  ++drawn_left_;
  if (same_item) leased_[slot] = true;
}

ConsumerGroup::Left ConsumerGroup::place(uint32_t slot, uint64_t number) {
  if (number >= header_->cursor) {
    ++lag_;
    if (cursor_ == kNone) cursor_ = slot;
    return Left::kUndelivered;
  }
  if (leased_[slot]) return Left::kNothing;
  switch (static_cast<GroupProgress>(progress_[slot])) {
    case GroupProgress::kNone: return Left::kReturned;
    case GroupProgress::kDelivered: return Left::kAgain;
    default: return Left::kNothing;
  }
}

void ConsumerGroup::finish_adoption(uint64_t insertions) {
  leased_ = {};
  publish(header_->insertions, insertions);
  uint64_t known = lag_ + again_.size() + drawn_left_ + counts.acknowledged + counts.skipped;
  uint64_t all = insertions - header_->first;
  counts.missed = all > known ? all - known : 0;
  drawn_left_ = 0;
  keep_counts();
}

}  // namespace gear
