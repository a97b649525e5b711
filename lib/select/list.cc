#include "select/list.h"

#include <algorithm>

#include "base/check.h"
#include "base/shared_word.h"

namespace gear {

using layout::kNone;
using layout::ListIndex;

uint64_t list_index_bytes(uint64_t capacity) {
  return sizeof(ListIndex) + capacity * (sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

void format_list(ListIndex* index, uint64_t capacity) {
  index->capacity = capacity;
  index->head = kNone;
  index->tail = kNone;
}

ListSelector::ListSelector(ListIndex* index, bool newest_first)
    : index_(index),
      number_(layout::at_offset<uint64_t>(index, sizeof(ListIndex))),
      next_(reinterpret_cast<uint32_t*>(number_ + index->capacity)),
      previous_(next_ + index->capacity),
      newest_first_(newest_first) {}

void ListSelector::expect(uint32_t slot) { note(number_[slot], uint64_t{0}); }

void ListSelector::insert(uint32_t slot, double) {
  GEAR_ASSERT(slot < index_->capacity, "slot %u", slot);
  // First the slot has its number, then it is counted.
  note(number_[slot], index_->insertions + 1);
  publish(index_->insertions, index_->insertions + 1);
  link_before(slot, kNone);
}

void ListSelector::restore(uint32_t slot, double) {
  GEAR_ASSERT(slot < index_->capacity, "slot %u", slot);
  link_before(slot, place_of(number_[slot]));
}

// The item that comes after `number` in order of insertion, looked for from the nearer end; kNone: at the end.
uint32_t ListSelector::place_of(uint64_t number) const {
  uint32_t older = index_->head;
  uint32_t newer = index_->tail;
  if (older == kNone) return kNone;
  uint64_t to_head = number - std::min(number, number_[older]);
  uint64_t to_tail = number_[newer] - std::min(number, number_[newer]);
  if (to_tail < to_head) {
    uint32_t after = kNone;
    for (; newer != kNone && number_[newer] > number; newer = previous_[newer]) after = newer;
    return after;
  }
  while (older != kNone && number_[older] < number) older = next_[older];
  return older;
}

void ListSelector::link_before(uint32_t slot, uint32_t after) {
  uint32_t before = after == kNone ? index_->tail : previous_[after];
  note(next_[slot], after);
  note(previous_[slot], before);
  if (before == kNone) {
    note(index_->head, slot);
  } else {
    note(next_[before], slot);
  }
  if (after == kNone) {
    note(index_->tail, slot);
  } else {
    note(previous_[after], slot);
  }
  publish(index_->count, index_->count + 1);
}

void ListSelector::remove(uint32_t slot) {
  uint32_t before = previous_[slot];
  uint32_t after = next_[slot];
  GEAR_ASSERT(index_->count > 0 && (before == kNone ? index_->head : next_[before]) == slot,
              "slot %u is not in the index", slot);
  if (before == kNone) {
    note(index_->head, after);
  } else {
    note(next_[before], after);
  }
  if (after == kNone) {
    note(index_->tail, before);
  } else {
    note(previous_[after], before);
  }
  publish(index_->count, index_->count - 1);
}

bool ListSelector::pick(Rng&, Pick* pick) {
  if (index_->count == 0) return false;
  *pick = {first(), 1.0};
  return true;
}

double ListSelector::probability(uint32_t slot) const {
  return index_->count > 0 && first() == slot ? 1.0 : 0.0;
}

void ListSelector::clear() {
  note(index_->head, kNone);
  note(index_->tail, kNone);
  publish(index_->count, uint64_t{0});
}

std::vector<uint32_t> list_slots(const layout::IndexRecord& record, const void* directory) {
  const auto* index = layout::at_offset<ListIndex>(directory, record.offset);
  const auto* numbers = layout::at_offset<uint64_t>(index, sizeof(ListIndex));
  const auto* next = reinterpret_cast<const uint32_t*>(numbers + index->capacity);
  std::vector<uint32_t> slots;
  slots.reserve(index->count);
  for (uint32_t slot = index->head; slot != kNone; slot = next[slot]) slots.push_back(slot);
  return slots;
}

uint32_t list_direct_pick(const ListIndex* index, uint64_t capacity, bool newest_first,
                          uint32_t count, Pick* picks) {
  if (observe(index->count) == 0) return 0;
  uint32_t slot = peek(newest_first ? index->tail : index->head);
  if (slot >= capacity) return 0;
  for (uint32_t i = 0; i < count; ++i) picks[i] = {slot, 1.0};
  return count;
}

double list_direct_probability(const ListIndex* index, bool newest_first, uint32_t slot) {
  return observe(index->count) > 0 && peek(newest_first ? index->tail : index->head) == slot ? 1.0
                                                                                              : 0.0;
}

}  // namespace gear
