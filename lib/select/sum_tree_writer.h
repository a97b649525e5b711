// The conductor's end of a sum tree; sum_tree.cc has the draws.
#pragma once

#include <memory>
#include <vector>

#include "base/shared_word.h"
#include "layout/index.h"
#include "select/selector.h"
#include "select/sum_tree.h"

namespace gear {

// set and pick are O(log n) with base kSumTreeFanOut; a run of updates recomputes a node once, however many leaves
// below it change (runs of more than some thousand are settled in parts). clear is O(items log n).
// See selector.h for concurrency.
//
// Invariant, outside a run of updates: every node equals sum_children of its children; so there is no drift, and a node is
// 0 exactly when all leaves below it are.
class SumTreeWriter {
 public:
  explicit SumTreeWriter(layout::SumTreeIndex* index);

  void insert(uint32_t slot, double weight);
  void remove(uint32_t slot);
  void set(uint32_t slot, double weight);
  void foresee(uint32_t slot) const {
    if (shape_.level_count < 2) return;
    prefetch_to_write(&nodes_[slot]);
    prefetch_to_write(&nodes_[shape_.offset[1] + (slot >> kFanOutBits)]);
  }
  void begin_updates() { running_ = true; }
  void end_updates();
  bool pick(Rng& rng, Pick* pick) const;
  double probability(uint32_t slot) const;
  uint64_t count() const { return index_->count; }
  double total() const { return index_->total; }
  void clear();

  // For a change of every leaf, which the caller makes: recomputes all nodes. O(capacity).
  double* leaves() { return nodes_; }
  void settle_all();
  // As Selector::rebuild; one weight a slot.
  void rebuild(const std::vector<double>& weights, uint64_t count);
  uint64_t capacity() const { return index_->capacity; }

 private:
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
double sum_tree_direct_probability(const layout::SumTreeIndex* index, uint32_t slot);

}  // namespace gear
