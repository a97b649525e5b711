// Draws from the sum tree: the conductor's, one at a time, and the direct samplers', many together.

#include "select/sum_tree.h"

#include <algorithm>
#include <cfloat>

#include "base/shared_word.h"
#include "select/sum_tree_writer.h"

namespace gear {
namespace {

using layout::SumTreeIndex;

// Draws worked on together: their cache misses overlap, and their nodes stay in the first-level cache.
constexpr uint32_t kTogether = 64;

// Rounds in a row of draws that end on leaves without weight, as can be while the tree moves.
constexpr uint32_t kBarrenRoundsMax = 16;

// The leaf of one draw.
uint64_t descend_alone(const double* nodes, const SumTreeShape& shape, double target) {
  uint64_t node = 0;
  for (uint32_t level = shape.level_count; level-- > 0;) {
    Descent step = descend(nodes + shape.offset[level] + node * kFanOut, target);
    target = step.target;
    node = std::min(node * kFanOut + step.child, shape.last_node(level));
  }
  return node;
}

// Every draw descends one level before any descends the next, and asks for its children's lines meanwhile.
void descend_together(const double* nodes, const SumTreeShape& shape, uint32_t many,
                      double* target, uint64_t* node) {
  for (uint32_t level = shape.level_count; level-- > 0;) {
    const double* here = nodes + shape.offset[level];
    const double* below = nodes + shape.offset[level > 0 ? level - 1 : 0];
    uint64_t last = shape.last_node(level);
    for (uint32_t i = 0; i < many; ++i) {
      Descent step = descend(here + node[i] * kFanOut, target[i]);
      target[i] = step.target;
      node[i] = std::min(node[i] * kFanOut + step.child, last);
      uint64_t next = level > 0 ? node[i] * kFanOut : node[i];
      __builtin_prefetch(below + next);
      __builtin_prefetch(below + next + kFanOut / 2);
    }
  }
}

// Makes up to kTogether draws, one number of the generator each. Returns how many found a leaf with weight: all, while
// the tree does not change.
uint32_t draw(const SumTreeIndex* index, const SumTreeShape& shape, Rng& rng, uint32_t many,
              Pick* picks) {
  double total = observe(index->total);
  if (!(total > 0 && total <= DBL_MAX)) return 0;
  const auto* nodes = layout::at_offset<double>(index, sizeof(SumTreeIndex));
  double target[kTogether];
  uint64_t node[kTogether];
  for (uint32_t i = 0; i < many; ++i) {
    target[i] = rng.unit() * total;
    node[i] = 0;
  }
  // The product is rounded here and now, never fused into a subtraction: the same draws on every machine.
  asm volatile("" : : "r"(target) : "memory");
  if (many == 1) {
    node[0] = descend_alone(nodes, shape, target[0]);
  } else {
    descend_together(nodes, shape, many, target, node);
  }

  uint32_t made = 0;
  for (uint32_t i = 0; i < many; ++i) {
    double weight = peek(nodes[node[i]]);
    picks[made] = {static_cast<uint32_t>(node[i]), std::min(weight / total, 1.0)};
    made += weight > 0;
  }
  return made;
}

}  // namespace

uint32_t sum_tree_pick(const SumTreeIndex* index, const SumTreeShape& shape, Rng& rng,
                       uint32_t count, Pick* picks) {
  uint32_t made = 0;
  for (uint32_t barren = 0; made < count;) {
    uint32_t fruitful = draw(index, shape, rng, std::min(kTogether, count - made), picks + made);
    made += fruitful;
    if (fruitful == 0 && ++barren == kBarrenRoundsMax) return 0;
  }
  return made;
}

uint32_t sum_tree_direct_pick(const SumTreeIndex* index, uint64_t capacity, Rng& rng,
                              uint32_t count, Pick* picks) {
  SumTreeShape shape = sum_tree_shape(capacity);
  return shape.level_count == 0 ? 0 : sum_tree_pick(index, shape, rng, count, picks);
}

double sum_tree_direct_probability(const SumTreeIndex* index, uint32_t slot) {
  double total = observe(index->total);
  if (!(total > 0 && total <= DBL_MAX)) return 0.0;
  double weight = peek(layout::at_offset<double>(index, sizeof(SumTreeIndex))[slot]);
  return weight > 0 ? std::min(weight / total, 1.0) : 0.0;
}

}  // namespace gear
