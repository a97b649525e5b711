#include "select/uniform.h"

#include <algorithm>

#include "base/check.h"
#include "base/shared_word.h"

namespace gear {

using layout::UniformIndex;

uint64_t uniform_index_bytes(uint64_t capacity) {
  return sizeof(UniformIndex) + 2 * capacity * sizeof(uint32_t);
}

void format_uniform(UniformIndex* index, uint64_t capacity) { index->capacity = capacity; }

UniformSelector::UniformSelector(UniformIndex* index)
    : index_(index),
      slots_(layout::at_offset<uint32_t>(index, sizeof(UniformIndex))),
      position_(slots_ + index->capacity) {}

void UniformSelector::insert(uint32_t slot, double) {
  uint64_t at = index_->count;
  GEAR_ASSERT(slot < index_->capacity && at < index_->capacity, "slot %u, count %llu", slot,
              static_cast<unsigned long long>(at));
  note(slots_[at], slot);
  note(position_[slot], static_cast<uint32_t>(at));
  // Release: a direct sampler that sees the count sees the slot below it.
  publish(index_->count, at + 1);
}

void UniformSelector::remove(uint32_t slot) {
  uint64_t last = index_->count - 1;
  uint32_t at = position_[slot];
  GEAR_ASSERT(at <= last && slots_[at] == slot, "slot %u is not in the index", slot);
  uint32_t moved = slots_[last];
  // A direct sampler may meet `moved` twice, or `slot` once more, for a moment: the item's generation tells it.
  note(slots_[at], moved);
  note(position_[moved], at);
  publish(index_->count, last);
}

bool UniformSelector::pick(Rng& rng, Pick* pick) {
  if (index_->count == 0) return false;
  *pick = {slots_[rng.below(index_->count)], 1.0 / static_cast<double>(index_->count)};
  return true;
}

double UniformSelector::probability(uint32_t slot) const {
  return uniform_direct_probability(index_, index_->capacity, slot);
}

void UniformSelector::clear() { publish(index_->count, uint64_t{0}); }

uint32_t uniform_direct_pick(const UniformIndex* index, uint64_t capacity, Rng& rng,
                             uint32_t count, Pick* picks) {
  uint64_t items = std::min(observe(index->count), capacity);
  if (items == 0) return 0;
  const auto* slots = layout::at_offset<uint32_t>(index, sizeof(UniformIndex));
  double probability = 1.0 / static_cast<double>(items);
  // First all positions, then all slots: the misses of one batch are under way together.
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t at = rng.below(items);
    __builtin_prefetch(&slots[at]);
    picks[i].slot = static_cast<uint32_t>(at);
    picks[i].probability = probability;
  }
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t slot = peek(slots[picks[i].slot]);
    picks[i].slot = slot < capacity ? slot : 0;
  }
  return count;
}

double uniform_direct_probability(const UniformIndex* index, uint64_t capacity, uint32_t slot) {
  uint64_t items = std::min(observe(index->count), capacity);
  const auto* slots = layout::at_offset<uint32_t>(index, sizeof(UniformIndex));
  uint32_t at = peek(slots[capacity + slot]);  // position follows slots
  return at < items && peek(slots[at]) == slot ? 1.0 / static_cast<double>(items) : 0.0;
}

}  // namespace gear
