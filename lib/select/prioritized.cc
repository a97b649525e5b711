#include "select/prioritized.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/shared_word.h"

namespace gear {
namespace {

using layout::SumTreeIndex;
constexpr uint32_t kFanOut = layout::kSumTreeFanOut;
constexpr uint32_t kFanOutBits = 4;
static_assert(1u << kFanOutBits == kFanOut);

// Draws worked on together: their cache misses overlap.
constexpr uint32_t kTogether = 64;

struct Shape {
  uint32_t level_count = 0;
  uint64_t offset[layout::kSumTreeLevelsMax] = {};
  uint64_t nodes = 0;  // of all levels
};

Shape shape_for(uint64_t capacity) {
  Shape shape;
  for (uint64_t level = capacity;; level = (level + kFanOut - 1) / kFanOut) {
    shape.offset[shape.level_count++] = shape.nodes;
    shape.nodes += (level + kFanOut - 1) / kFanOut * kFanOut;
    if (level <= kFanOut) return shape;
  }
}

// The one order of additions: the same sums on every machine, and by every reader.
double sum_children(const double* children) {
  double sum = 0;
  for (uint32_t i = 0; i < kFanOut; ++i) sum += peek(children[i]);
  return sum;
}

// The child in which `*target`, counted from the first child's begin, falls; *target becomes relative to that child. Never a
// child of weight 0 while any has more: rounding that runs past the end goes to the last child with weight.
uint32_t descend(const double* children, double* target) {
  double before = 0;
  uint32_t last = 0;
  double last_before = 0;
  for (uint32_t i = 0; i < kFanOut; ++i) {
    double weight = peek(children[i]);
    if (weight > 0) {
      last = i;
      last_before = before;
      if (*target < before + weight) break;
    }
    before += weight;
  }
  *target -= last_before;
  return last;
}

}  // namespace

uint64_t sum_tree_bytes(uint64_t capacity) {
  return sizeof(SumTreeIndex) + shape_for(capacity).nodes * sizeof(double);
}

void format_sum_tree(SumTreeIndex* index, uint64_t capacity) {
  Shape shape = shape_for(capacity);
  index->capacity = capacity;
  index->level_count = shape.level_count;
  memcpy(index->level_offset, shape.offset, sizeof shape.offset);
}

PrioritizedSelector::PrioritizedSelector(SumTreeIndex* index, double alpha, double epsilon)
    : index_(index),
      nodes_(layout::at_offset<double>(index, sizeof(SumTreeIndex))),
      alpha_(alpha),
      epsilon_(epsilon) {
  touched_.reserve(4096);
}

void PrioritizedSelector::insert(uint32_t slot, double priority) {
  GEAR_ASSERT(slot < index_->capacity, "slot %u", slot);
  set_leaf(slot, priority_weight(priority, alpha_, epsilon_));
  publish(index_->count, index_->count + 1);
}

void PrioritizedSelector::remove(uint32_t slot) {
  GEAR_ASSERT(index_->count > 0, "slot %u is not in the index", slot);
  set_leaf(slot, 0.0);
  publish(index_->count, index_->count - 1);
}

void PrioritizedSelector::update(uint32_t slot, double priority) {
  set_leaf(slot, priority_weight(priority, alpha_, epsilon_));
}

void PrioritizedSelector::set_leaf(uint32_t slot, double weight) {
  note(nodes_[slot], weight);
  if (!running_) return recompute_above(slot);
  if (touched_.size() == touched_.capacity()) {
    end_updates();
    running_ = true;
  }
  __builtin_prefetch(&nodes_[index_->level_offset[index_->level_count > 1] + slot / kFanOut], 1);
  touched_.push_back(slot);
}

void PrioritizedSelector::recompute_above(uint32_t slot) {
  uint64_t node = slot;
  for (uint32_t level = 1; level < index_->level_count; ++level) {
    node >>= kFanOutBits;
    double sum = sum_children(&nodes_[index_->level_offset[level - 1] + node * kFanOut]);
    note(nodes_[index_->level_offset[level] + node], sum);
  }
  recompute_total();
}

void PrioritizedSelector::recompute_total() {
  double total = sum_children(&nodes_[index_->level_offset[index_->level_count - 1]]);
  publish(index_->total, total);
}

// Level by level, each parent once where neighbours in the run share it.
void PrioritizedSelector::end_updates() {
  running_ = false;
  if (touched_.empty()) return;
  for (uint32_t level = 1; level < index_->level_count; ++level) {
    const double* below = &nodes_[index_->level_offset[level - 1]];
    double* here = &nodes_[index_->level_offset[level]];
    for (uint32_t& node : touched_) {
      node >>= kFanOutBits;
      __builtin_prefetch(&below[uint64_t{node} * kFanOut]);
      __builtin_prefetch(&below[uint64_t{node} * kFanOut + kFanOut / 2]);
    }
    if (level >= 3) {
      // Few nodes are left up here: the same parent came many times.
      std::sort(touched_.begin(), touched_.end());
      touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    }
    for (uint32_t node : touched_) {
      note(here[node], sum_children(&below[uint64_t{node} * kFanOut]));
    }
  }
  touched_.clear();
  recompute_total();
}

bool PrioritizedSelector::pick(Rng& rng, Pick* pick) {
  return sum_tree_direct_pick(index_, index_->capacity, rng, 1, pick) == 1;
}

void PrioritizedSelector::clear() {
  Shape shape = shape_for(index_->capacity);
  for (uint64_t i = 0; i < shape.nodes; ++i) note(nodes_[i], 0.0);
  note(index_->total, 0.0);
  publish(index_->count, uint64_t{0});
}

// Every draw descends one level before any descends the next, and asks for its children's lines meanwhile.
uint32_t sum_tree_direct_pick(const SumTreeIndex* index, uint64_t capacity, Rng& rng,
                              uint32_t count, Pick* picks) {
  double total = observe(index->total);
  uint32_t levels = index->level_count;
  if (!(total > 0) || levels == 0 || levels > layout::kSumTreeLevelsMax) return 0;
  const auto* nodes = layout::at_offset<double>(index, sizeof(SumTreeIndex));

  uint64_t node[kTogether];
  double target[kTogether];
  for (uint32_t done = 0; done < count; done += kTogether) {
    uint32_t many = std::min(kTogether, count - done);
    for (uint32_t i = 0; i < many; ++i) {
      node[i] = 0;
      target[i] = rng.unit() * total;
    }
    for (uint32_t level = levels; level-- > 0;) {
      const double* here = nodes + index->level_offset[level];
      const double* below = level > 0 ? nodes + index->level_offset[level - 1] : nullptr;
      for (uint32_t i = 0; i < many; ++i) {
        node[i] = node[i] * kFanOut + descend(here + node[i] * kFanOut, &target[i]);
        // A moving tree may lead past the last node; the padding there is 0 and the leaf no item.
        if (below != nullptr) {
          __builtin_prefetch(below + node[i] * kFanOut);
          __builtin_prefetch(below + node[i] * kFanOut + kFanOut / 2);
        }
      }
    }
    for (uint32_t i = 0; i < many; ++i) {
      uint64_t leaf = node[i] < capacity ? node[i] : 0;
      picks[done + i] = {static_cast<uint32_t>(leaf), peek(nodes[leaf]) / total};
    }
  }
  return count;
}

}  // namespace gear
