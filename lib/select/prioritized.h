// Prioritized: P(i) = w_i / sum of w, w = (p + epsilon)^alpha, by a tree of sums over the item slots.
// Schaul et al., Prioritized Experience Replay, ICLR 2016, eq. 1.
#pragma once

#include <memory>
#include <vector>

#include "layout/index.h"
#include "select/selector.h"
#include "select/sum_tree.h"

namespace gear {

// insert, remove, update and pick are O(log n) with base kSumTreeFanOut; a run of updates recomputes a node once, however
// many leaves below it change (runs of more than some thousand are settled in parts). clear is O(items log n).
// See selector.h for concurrency.
//
// Invariant, outside a run of updates: every node equals sum_children of its children; so there is no drift, and a node is
// 0 exactly when all leaves below it are.
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
  void touch(uint64_t node);
  void recompute(uint32_t level, uint64_t node);
  void recompute_total();
  void settle();
  void settle_level(uint32_t level);
  bool mark(uint32_t level, uint64_t node);
  void unmark(uint32_t level, uint64_t node);
  void clear_children(uint32_t level, uint64_t node);

  layout::SumTreeIndex* index_;
  double* nodes_;
  SumTreeShape shape_;
  double alpha_;
  double epsilon_;
  // A run of updates: the nodes of one level that lag behind their children, and one bit a node above the leaves, set
  // while the node is among them.
  bool running_ = false;
  std::vector<uint32_t> touched_;
  std::unique_ptr<uint64_t[]> marked_;
};

uint64_t sum_tree_bytes(uint64_t capacity);
void format_sum_tree(layout::SumTreeIndex* index, uint64_t capacity);
// As direct_pick. Any thread.
uint32_t sum_tree_pick(const layout::SumTreeIndex* index, const SumTreeShape& shape, Rng& rng,
                       uint32_t count, Pick* picks);
uint32_t sum_tree_direct_pick(const layout::SumTreeIndex* index, uint64_t capacity, Rng& rng,
                              uint32_t count, Pick* picks);

}  // namespace gear
