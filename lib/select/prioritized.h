// Prioritized: P(i) = w_i / sum of w, w = (p + epsilon)^alpha, by a tree of sums over the item slots.
// Schaul et al., Prioritized Experience Replay, ICLR 2016, eq. 1.
#pragma once

#include "select/selector.h"
#include "select/sum_tree_writer.h"

namespace gear {

// O(log n), see SumTreeWriter. See selector.h for concurrency.
class PrioritizedSelector final : public Selector {
 public:
  PrioritizedSelector(layout::SumTreeIndex* index, double alpha, double epsilon)
      : tree_(index), alpha_(alpha), epsilon_(epsilon) {}

  void insert(uint32_t slot, double priority) override { tree_.insert(slot, weight(priority)); }
  void restore(uint32_t slot, double priority) override { insert(slot, priority); }
  void remove(uint32_t slot) override { tree_.remove(slot); }
  void update(uint32_t slot, double priority) override { tree_.set(slot, weight(priority)); }
  void foresee(uint32_t slot) const override { tree_.foresee(slot); }
  void begin_updates() override { tree_.begin_updates(); }
  void end_updates() override { tree_.end_updates(); }
  bool pick(Rng& rng, Pick* pick) override { return tree_.pick(rng, pick); }
  double probability(uint32_t slot) const override { return tree_.probability(slot); }
  uint64_t count() const override { return tree_.count(); }
  void clear() override { tree_.clear(); }
  void rebuild(const std::vector<Rebuilt>& live, uint32_t newest) override;

 private:
  double weight(double priority) const { return priority_weight(priority, alpha_, epsilon_); }

  SumTreeWriter tree_;
  double alpha_;
  double epsilon_;
};

}  // namespace gear
