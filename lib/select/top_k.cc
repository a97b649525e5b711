#include "select/top_k.h"

#include <algorithm>

#include "base/check.h"
#include "base/shared_word.h"

namespace gear {

using layout::HeapIndex;

void format_top_k(HeapIndex* index, uint64_t capacity, uint32_t k) {
  index->capacity = capacity;
  index->top_places = std::min<uint64_t>(k, capacity);
}

TopKSelector::TopKSelector(HeapIndex* index)
    : index_(index),
      arrays_(index),
      top_(arrays_, 0, HeapRank::kLeastOfTop),
      rest_(arrays_, index->top_places, HeapRank::kLargest) {}

void TopKSelector::insert(uint32_t slot, double priority) {
  GEAR_ASSERT(slot < index_->capacity, "slot %u", slot);
  renew_order(arrays_, index_, slot);
  restore(slot, priority);
}

void TopKSelector::restore(uint32_t slot, double priority) {
  GEAR_ASSERT(index_->count < index_->capacity, "slot %u, count %llu", slot,
              static_cast<unsigned long long>(index_->count));
  if (index_->top_count < index_->top_places) {
    top_.push(slot, priority, index_->top_count);
    publish(index_->top_count, index_->top_count + 1);
    publish(index_->count, index_->count + 1);
    return;
  }
  rest_.push(slot, priority, rest_count());
  publish(index_->count, index_->count + 1);
  exchange_ends();
}

// When the largest of the rest comes before the least of the top they change places.
void TopKSelector::exchange_ends() {
  uint64_t base = rest_.base();
  if (rest_count() == 0 || index_->top_count == 0) return;
  uint32_t top_slot = arrays_.slots[0];
  uint32_t rest_slot = arrays_.slots[base];
  double top_key = arrays_.keys[0];
  double rest_key = arrays_.keys[base];
  if (!rest_.before(rest_key, rest_slot, top_key, top_slot)) return;
  note(arrays_.slots[0], rest_slot);
  note(arrays_.slots[base], top_slot);
  top_.settle(0, rest_key, index_->top_count);
  rest_.settle(base, top_key, rest_count());
}

void TopKSelector::remove(uint32_t slot) {
  uint32_t place = arrays_.position[slot];
  bool top = in_top(slot);
  uint64_t end = top ? index_->top_count : rest_.base() + rest_count();
  GEAR_ASSERT(place < end && arrays_.slots[place] == slot, "slot %u is not in the index", slot);
  uint64_t rest = rest_count();
  if (!top) {
    rest_.erase(place, rest);
  } else if (rest == 0) {
    top_.erase(place, index_->top_count);
    publish(index_->top_count, index_->top_count - 1);
  } else {
    // The largest of the rest takes the place that becomes free.
    uint32_t risen = arrays_.slots[rest_.base()];
    double risen_key = arrays_.keys[rest_.base()];
    rest_.erase(rest_.base(), rest);
    note(arrays_.slots[place], risen);
    top_.settle(place, risen_key, index_->top_count);
  }
  publish(index_->count, index_->count - 1);
}

void TopKSelector::update(uint32_t slot, double priority) {
  renew_order(arrays_, index_, slot);
  if (in_top(slot)) {
    top_.settle(arrays_.position[slot], priority, index_->top_count);
  } else {
    rest_.settle(arrays_.position[slot], priority, rest_count());
  }
  exchange_ends();
}

bool TopKSelector::pick(Rng& rng, Pick* pick) {
  uint64_t top = index_->top_count;
  if (top == 0) return false;
  *pick = {arrays_.slots[rng.below(top)], 1.0 / static_cast<double>(top)};
  return true;
}

double TopKSelector::probability(uint32_t slot) const {
  return top_k_direct_probability(index_, index_->capacity,
                                  static_cast<uint32_t>(index_->top_places), slot);
}

void TopKSelector::clear() {
  publish(index_->top_count, uint64_t{0});
  publish(index_->count, uint64_t{0});
}

namespace {

uint64_t top_of(const HeapIndex* index, uint64_t capacity, uint32_t k) {
  return std::min({observe(index->top_count), uint64_t{k}, capacity});
}

const uint32_t* slots_of(const HeapIndex* index, uint64_t capacity) {
  return reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(index + 1) +
                                           capacity * 16);
}

}  // namespace

uint32_t top_k_direct_pick(const HeapIndex* index, uint64_t capacity, uint32_t k, Rng& rng,
                           uint32_t count, Pick* picks) {
  uint64_t top = top_of(index, capacity, k);
  if (top == 0) return 0;
  const uint32_t* slots = slots_of(index, capacity);
  double probability = 1.0 / static_cast<double>(top);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t slot = peek(slots[rng.below(top)]);
    picks[i] = {slot < capacity ? slot : 0, probability};
  }
  return count;
}

double top_k_direct_probability(const HeapIndex* index, uint64_t capacity, uint32_t k,
                                uint32_t slot) {
  uint64_t top = top_of(index, capacity, k);
  const uint32_t* slots = slots_of(index, capacity);
  uint32_t place = peek(slots[capacity + slot]);  // position follows slots
  return place < top && peek(slots[place]) == slot ? 1.0 / static_cast<double>(top) : 0.0;
}

}  // namespace gear
