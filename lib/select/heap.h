// Max-heap and min-heap: the item of largest, or smallest, priority; of equal ones the one least recently inserted or
// updated.
#pragma once

#include "base/shared_word.h"
#include "layout/index.h"
#include "select/selector.h"

namespace gear {

// The arrays of a HeapIndex.
struct HeapArrays {
  double* keys;        // by place
  uint64_t* order;     // by slot
  uint32_t* slots;     // by place
  uint32_t* position;  // by slot

  explicit HeapArrays(layout::HeapIndex* index);
};

// The slot's latest change is the newest of all. First the slot has its number, then it is counted.
inline void renew_order(const HeapArrays& arrays, layout::HeapIndex* index, uint32_t slot) {
  note(arrays.order[slot], index->changes + 1);
  publish(index->changes, index->changes + 1);
}

// What comes first in a heap.
enum class HeapRank {
  kLargest,     // ties: oldest change
  kSmallest,    // ties: oldest change
  kLeastOfTop   // smallest; ties: newest change. The reverse of kLargest
};

// A heap in the places [base, base + count), whose count its owner keeps. Conductor only; a reader sees whole words.
// Every operation is O(log count).
class HeapRun {
 public:
  HeapRun(const HeapArrays& arrays, uint64_t base, HeapRank rank)
      : arrays_(arrays), base_(base), rank_(rank) {}

  // `count` is that before the operation.
  void push(uint32_t slot, double key, uint64_t count);
  void erase(uint64_t place, uint64_t count);
  // The item at `place` has another key or order.
  void settle(uint64_t place, double key, uint64_t count);
  // Whether item a comes before item b.
  bool before(double key_a, uint32_t slot_a, double key_b, uint32_t slot_b) const;
  uint64_t base() const { return base_; }

 private:
  void put(uint64_t place, uint32_t slot, double key);
  void rise(uint64_t node, uint32_t slot, double key);
  void sink(uint64_t node, uint32_t slot, double key, uint64_t count);
  void move_to(uint64_t node, uint32_t slot, double key, uint64_t count);

  HeapArrays arrays_;
  uint64_t base_;
  HeapRank rank_;
};

// pick is O(1), the rest O(log n). See selector.h for concurrency.
class HeapSelector : public Selector {
 public:
  HeapSelector(layout::HeapIndex* index, HeapRank rank);

  void expect(uint32_t slot) override { note(arrays_.order[slot], uint64_t{0}); }
  void insert(uint32_t slot, double priority) override;
  void restore(uint32_t slot, double priority) override;
  void remove(uint32_t slot) override;
  void update(uint32_t slot, double priority) override;
  void update_removed(uint32_t slot) override { renew_order(arrays_, index_, slot); }
  bool pick(Rng& rng, Pick* pick) override;
  double probability(uint32_t slot) const override;
  uint64_t count() const override { return index_->count; }
  void clear() override;
  void rebuild(const std::vector<Rebuilt>& live, uint32_t newest) override;

 protected:
  bool contains(uint32_t slot) const {
    uint32_t place = arrays_.position[slot];
    return place < index_->count && arrays_.slots[place] == slot;
  }

 private:
  layout::HeapIndex* index_;
  HeapArrays arrays_;
  HeapRun heap_;
};

// A min-heap of the items of priority above 0 alone: what a table's largest weight follows from.
class SmallestSelector final : public HeapSelector {
 public:
  explicit SmallestSelector(layout::HeapIndex* index) : HeapSelector(index, HeapRank::kSmallest) {}

  void insert(uint32_t slot, double priority) override;
  void restore(uint32_t slot, double priority) override;
  void remove(uint32_t slot) override;
  void update(uint32_t slot, double priority) override;
  void rebuild(const std::vector<Rebuilt>& live, uint32_t newest) override;
};

uint64_t heap_index_bytes(uint64_t capacity);
void format_heap(layout::HeapIndex* index, uint64_t capacity);
uint32_t heap_direct_pick(const layout::HeapIndex* index, uint64_t capacity, uint32_t count,
                          Pick* picks);
double heap_direct_probability(const layout::HeapIndex* index, uint64_t capacity, uint32_t slot);
// The priority of the item that comes first; false when the heap is empty. Any thread.
bool heap_direct_first(const layout::HeapIndex* index, double* priority);

}  // namespace gear
