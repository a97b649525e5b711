// Prioritized: P(i) = w_i / sum of w, w = (p + epsilon)^alpha, by a tree of sums over the item slots.
// Schaul et al., Prioritized Experience Replay, ICLR 2016, eq. 1.
#pragma once

#include <vector>

#include "layout/index.h"
#include "select/selector.h"

namespace gear {

// insert, remove, update and pick are O(log n) with base kSumTreeFanOut; a run of updates recomputes each touched node once.
// See selector.h for concurrency.
//
// Invariant, outside a run of updates: every node equals the sum of its children, added in order; so there is no drift, and
// a node is 0 exactly when all leaves below it are.
class PrioritizedSelector final : public Selector {
 public:
  PrioritizedSelector(layout::SumTreeIndex* index, double alpha, double epsilon);

  void insert(uint32_t slot, double priority) override;
  void restore(uint32_t slot, double priority) override { insert(slot, priority); }
  void remove(uint32_t slot) override;
  void update(uint32_t slot, double priority) override;
  void begin_updates() override { running_ = true; }
  void end_updates() override;
  bool pick(Rng& rng, Pick* pick) override;
  uint64_t count() const override { return index_->count; }
  void clear() override;

 private:
  void set_leaf(uint32_t slot, double weight);
  void recompute_above(uint32_t slot);
  void recompute_total();

  layout::SumTreeIndex* index_;
  double* nodes_;
  double alpha_;
  double epsilon_;
  bool running_ = false;
  std::vector<uint32_t> touched_;  // leaves set in a run of updates, then nodes of the level being settled
};

uint64_t sum_tree_bytes(uint64_t capacity);
void format_sum_tree(layout::SumTreeIndex* index, uint64_t capacity);
uint32_t sum_tree_direct_pick(const layout::SumTreeIndex* index, uint64_t capacity, Rng& rng,
                              uint32_t count, Pick* picks);

}  // namespace gear
