// Top-k: uniform over the k items of largest priority; ties as in max_heap.
#pragma once

#include "select/heap.h"

namespace gear {

// pick is O(1): the top is a dense array, a heap with its least item first; the rest is a heap with its largest first.
// Other operations are O(log n). See selector.h for concurrency.
//
// Invariant: no item of the rest comes before one of the top, and the rest is empty unless the top is full.
class TopKSelector final : public Selector {
 public:
  explicit TopKSelector(layout::HeapIndex* index);

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

 private:
  uint64_t rest_count() const { return index_->count - index_->top_count; }
  bool in_top(uint32_t slot) const { return arrays_.position[slot] < index_->top_places; }
  void exchange_ends();

  layout::HeapIndex* index_;
  HeapArrays arrays_;
  HeapRun top_;
  HeapRun rest_;
};

void format_top_k(layout::HeapIndex* index, uint64_t capacity, uint32_t k);
uint32_t top_k_direct_pick(const layout::HeapIndex* index, uint64_t capacity, uint32_t k, Rng& rng,
                           uint32_t count, Pick* picks);
double top_k_direct_probability(const layout::HeapIndex* index, uint64_t capacity, uint32_t k,
                                uint32_t slot);

}  // namespace gear
