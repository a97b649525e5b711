// The baseline: a bare sum tree in private memory, of the same fan-out as the table's, without items or readers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "layout/index.h"

namespace gear::bench {

class BareSumTree {
 public:
  explicit BareSumTree(uint64_t leaves) {
    for (uint64_t count = leaves;; count = (count + kFanOut - 1) / kFanOut) {
      levels_.emplace_back((count + kFanOut - 1) / kFanOut * kFanOut, 0.0);
      if (count <= kFanOut) break;
    }
  }

  void update(uint64_t leaf, double weight) {
    levels_[0][leaf] = weight;
    uint64_t node = leaf;
    for (size_t level = 1; level < levels_.size(); ++level) {
      node /= kFanOut;
      levels_[level][node] = sum(level - 1, node);
    }
    total_ = sum(levels_.size() - 1, 0);
  }

  uint64_t pick(Rng& rng, double* probability) const {
    double target = rng.unit() * total_;
    uint64_t node = 0;
    for (size_t level = levels_.size(); level-- > 0;) {
      const double* child = &levels_[level][node * kFanOut];
      uint64_t i = 0;
      while (i + 1 < kFanOut && target >= child[i]) target -= child[i++];
      node = node * kFanOut + i;
    }
    *probability = levels_[0][node] / total_;
    return node;
  }

  double probability(uint64_t leaf) const { return levels_[0][leaf] / total_; }

 private:
  static constexpr uint64_t kFanOut = layout::kSumTreeFanOut;
  double sum(size_t level, uint64_t parent) const {
    const double* child = &levels_[level][parent * kFanOut];
    double total = 0;
    for (uint64_t i = 0; i < kFanOut; ++i) total += child[i];
    return total;
  }

  std::vector<std::vector<double>> levels_;  // leaves first
  double total_ = 0;
};

}  // namespace gear::bench
