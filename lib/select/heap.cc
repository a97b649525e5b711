#include "select/heap.h"

#include <algorithm>

#include "base/check.h"
#include "base/shared_word.h"

namespace gear {

using layout::HeapIndex;
using layout::kHeapFanOut;

HeapArrays::HeapArrays(HeapIndex* index)
    : keys(layout::at_offset<double>(index, sizeof(HeapIndex))),
      order(reinterpret_cast<uint64_t*>(keys + index->capacity)),
      slots(reinterpret_cast<uint32_t*>(order + index->capacity)),
      position(slots + index->capacity) {}

bool HeapRun::before(double key_a, uint32_t slot_a, double key_b, uint32_t slot_b) const {
  if (key_a != key_b) return (key_a > key_b) == (rank_ == HeapRank::kLargest);
  bool older = arrays_.order[slot_a] < arrays_.order[slot_b];
  return older != (rank_ == HeapRank::kLeastOfTop);
}

// A reader may meet an item twice, or not at all, while others move over it: the item's generation tells it.
void HeapRun::put(uint64_t node, uint32_t slot, double key) {
  note(arrays_.keys[base_ + node], key);
  note(arrays_.slots[base_ + node], slot);
  note(arrays_.position[slot], static_cast<uint32_t>(base_ + node));
}

void HeapRun::rise(uint64_t node, uint32_t slot, double key) {
  while (node > 0) {
    uint64_t parent = (node - 1) / kHeapFanOut;
    uint32_t parent_slot = arrays_.slots[base_ + parent];
    double parent_key = arrays_.keys[base_ + parent];
    if (!before(key, slot, parent_key, parent_slot)) break;
    put(node, parent_slot, parent_key);
    node = parent;
  }
  put(node, slot, key);
}

void HeapRun::sink(uint64_t node, uint32_t slot, double key, uint64_t count) {
  for (;;) {
    uint64_t child = node * kHeapFanOut + 1;
    if (child >= count) break;
    uint64_t end = std::min(child + kHeapFanOut, count);
    uint64_t best = child;
    while (++child < end) {
      if (before(arrays_.keys[base_ + child], arrays_.slots[base_ + child],
                 arrays_.keys[base_ + best], arrays_.slots[base_ + best])) {
        best = child;
      }
    }
    double best_key = arrays_.keys[base_ + best];
    uint32_t best_slot = arrays_.slots[base_ + best];
    if (!before(best_key, best_slot, key, slot)) break;
    put(node, best_slot, best_key);
    node = best;
  }
  put(node, slot, key);
}

void HeapRun::move_to(uint64_t node, uint32_t slot, double key, uint64_t count) {
  uint64_t parent = node == 0 ? 0 : (node - 1) / kHeapFanOut;
  bool up = node > 0 && before(key, slot, arrays_.keys[base_ + parent], arrays_.slots[base_ + parent]);
  if (up) {
    rise(node, slot, key);
  } else {
    sink(node, slot, key, count);
  }
}

void HeapRun::push(uint32_t slot, double key, uint64_t count) { rise(count, slot, key); }

void HeapRun::erase(uint64_t place, uint64_t count) {
  uint64_t last = count - 1;
  uint64_t node = place - base_;
  if (node == last) return;
  move_to(node, arrays_.slots[base_ + last], arrays_.keys[base_ + last], last);
}

void HeapRun::settle(uint64_t place, double key, uint64_t count) {
  move_to(place - base_, arrays_.slots[place], key, count);
}

uint64_t heap_index_bytes(uint64_t capacity) {
  return sizeof(HeapIndex) +
         capacity * (sizeof(double) + sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

void format_heap(HeapIndex* index, uint64_t capacity) { index->capacity = capacity; }

HeapSelector::HeapSelector(HeapIndex* index, HeapRank rank)
    : index_(index), arrays_(index), heap_(arrays_, 0, rank) {}

void HeapSelector::insert(uint32_t slot, double priority) {
  GEAR_ASSERT(slot < index_->capacity, "slot %u", slot);
  renew_order(arrays_, index_, slot);
  HeapSelector::restore(slot, priority);
}

void HeapSelector::restore(uint32_t slot, double priority) {
  GEAR_ASSERT(index_->count < index_->capacity, "slot %u, count %llu", slot,
              static_cast<unsigned long long>(index_->count));
  heap_.push(slot, priority, index_->count);
  // Release: a reader that sees the count sees an item in the first place.
  publish(index_->count, index_->count + 1);
}

void HeapSelector::remove(uint32_t slot) {
  uint32_t place = arrays_.position[slot];
  GEAR_ASSERT(place < index_->count && arrays_.slots[place] == slot, "slot %u is not in the index",
              slot);
  heap_.erase(place, index_->count);
  publish(index_->count, index_->count - 1);
}

void HeapSelector::update(uint32_t slot, double priority) {
  renew_order(arrays_, index_, slot);
  heap_.settle(arrays_.position[slot], priority, index_->count);
}

bool HeapSelector::pick(Rng&, Pick* pick) {
  if (index_->count == 0) return false;
  *pick = {arrays_.slots[0], 1.0};
  return true;
}

double HeapSelector::probability(uint32_t slot) const {
  return index_->count > 0 && arrays_.slots[0] == slot ? 1.0 : 0.0;
}

void HeapSelector::clear() { publish(index_->count, uint64_t{0}); }

void SmallestSelector::insert(uint32_t slot, double priority) {
  if (priority > 0) HeapSelector::insert(slot, priority);
}

void SmallestSelector::restore(uint32_t slot, double priority) {
  if (priority > 0) HeapSelector::restore(slot, priority);
}

void SmallestSelector::remove(uint32_t slot) {
  if (contains(slot)) HeapSelector::remove(slot);
}

void SmallestSelector::update(uint32_t slot, double priority) {
  if (!contains(slot)) {
    insert(slot, priority);
  } else if (priority > 0) {
    HeapSelector::update(slot, priority);
  } else {
    HeapSelector::remove(slot);
  }
}

namespace {

uint32_t first_slot(const HeapIndex* index, uint64_t capacity) {
  const char* slots = reinterpret_cast<const char*>(index + 1) + capacity * 16;
  return peek(*reinterpret_cast<const uint32_t*>(slots));
}

}  // namespace

uint32_t heap_direct_pick(const HeapIndex* index, uint64_t capacity, uint32_t count, Pick* picks) {
  if (observe(index->count) == 0) return 0;
  uint32_t slot = first_slot(index, capacity);
  if (slot >= capacity) return 0;
  for (uint32_t i = 0; i < count; ++i) picks[i] = {slot, 1.0};
  return count;
}

double heap_direct_probability(const HeapIndex* index, uint64_t capacity, uint32_t slot) {
  return observe(index->count) > 0 && first_slot(index, capacity) == slot ? 1.0 : 0.0;
}

bool heap_direct_first(const HeapIndex* index, double* priority) {
  if (observe(index->count) == 0) return false;
  *priority = peek(*layout::at_offset<double>(index, sizeof(HeapIndex)));
  return true;
}

}  // namespace gear
