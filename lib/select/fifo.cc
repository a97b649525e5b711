#include "select/fifo.h"

#include "base/check.h"
#include "base/shared_word.h"

namespace gear {

using layout::FifoIndex;
using layout::kNone;

uint64_t fifo_index_bytes(uint64_t capacity) {
  return sizeof(FifoIndex) + 2 * capacity * sizeof(uint32_t);
}

void format_fifo(FifoIndex* index, uint64_t capacity) {
  index->capacity = capacity;
  index->head = kNone;
  index->tail = kNone;
}

FifoSelector::FifoSelector(FifoIndex* index)
    : index_(index),
      next_(layout::at_offset<uint32_t>(index, sizeof(FifoIndex))),
      previous_(next_ + index->capacity) {}

void FifoSelector::insert(uint32_t slot, double) {
  GEAR_ASSERT(slot < index_->capacity, "slot %u", slot);
  uint32_t tail = index_->tail;
  note(next_[slot], kNone);
  note(previous_[slot], tail);
  if (tail == kNone) {
    note(index_->head, slot);
  } else {
    note(next_[tail], slot);
  }
  note(index_->tail, slot);
  publish(index_->count, index_->count + 1);
}

void FifoSelector::restore(uint32_t slot, double) {
  uint32_t head = index_->head;
  note(previous_[slot], kNone);
  note(next_[slot], head);
  if (head == kNone) {
    note(index_->tail, slot);
  } else {
    note(previous_[head], slot);
  }
  note(index_->head, slot);
  publish(index_->count, index_->count + 1);
}

void FifoSelector::remove(uint32_t slot) {
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

bool FifoSelector::pick(Rng&, Pick* pick) {
  if (index_->count == 0) return false;
  *pick = {index_->head, 1.0};
  return true;
}

void FifoSelector::clear() {
  note(index_->head, kNone);
  note(index_->tail, kNone);
  publish(index_->count, uint64_t{0});
}

std::vector<uint32_t> fifo_slots(const layout::IndexRecord& record, const void* directory) {
  const auto* index = layout::at_offset<FifoIndex>(directory, record.offset);
  const auto* next = layout::at_offset<uint32_t>(index, sizeof(FifoIndex));
  std::vector<uint32_t> slots;
  slots.reserve(index->count);
  for (uint32_t slot = index->head; slot != kNone; slot = next[slot]) slots.push_back(slot);
  return slots;
}

uint32_t fifo_direct_pick(const FifoIndex* index, uint64_t capacity, uint32_t count,
                          Pick* picks) {
  if (observe(index->count) == 0) return 0;
  uint32_t head = peek(index->head);
  if (head >= capacity) return 0;
  for (uint32_t i = 0; i < count; ++i) picks[i] = {head, 1.0};
  return count;
}

}  // namespace gear
