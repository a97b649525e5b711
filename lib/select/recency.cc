#include "select/recency.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/shared_word.h"

namespace gear {

using layout::RecencyIndex;
using layout::SumTreeIndex;

namespace {

// A scaling takes milliseconds for millions of items. A reader looks again this often, with so many pauses in between,
// before it says that nothing can be drawn for now; its caller waits then, within its own timeout.
constexpr uint32_t kScalingTries = 8;
constexpr uint32_t kScalingPauses = 64;

constexpr uint32_t kTogether = 64;
constexpr double kTotalMoves = 1.25;
constexpr uint32_t kMovesMax = 64;

SumTreeIndex* tree_of(RecencyIndex* index) {
  return layout::at_offset<SumTreeIndex>(index, sizeof(RecencyIndex));
}
const SumTreeIndex* tree_of(const RecencyIndex* index) {
  return layout::at_offset<SumTreeIndex>(index, sizeof(RecencyIndex));
}

}  // namespace

uint64_t recency_index_bytes(uint64_t capacity) {
  return sizeof(RecencyIndex) + sum_tree_bytes(capacity) + capacity * sizeof(uint64_t);
}

void format_recency(RecencyIndex* index, uint64_t capacity) {
  index->capacity = capacity;
  index->number_offset = sizeof(RecencyIndex) + sum_tree_bytes(capacity);
  format_sum_tree(tree_of(index), capacity);
}

RecencySelector::RecencySelector(RecencyIndex* index, double half_life)
    : index_(index),
      tree_(tree_of(index)),
      number_(layout::at_offset<uint64_t>(index, index->number_offset)),
      half_life_(half_life) {}

double RecencySelector::exponent(uint64_t number) const {
  auto since_base = static_cast<double>(static_cast<int64_t>(number - index_->base));
  return since_base / half_life_ + index_->offset;
}

double RecencySelector::weight(uint64_t number) const {
  return std::max(std::exp2(exponent(number)), kWeightMin);
}

void RecencySelector::insert(uint32_t slot, double) {
  GEAR_ASSERT(slot < index_->capacity, "slot %u", slot);
  uint64_t number = index_->insertions + 1;
  note(number_[slot], number);
  publish(index_->insertions, number);
  if (tree_.count() == 0) {
    note(index_->base, number);
    note(index_->offset, 0.0);
  } else if (exponent(number) > kRecencyExponentMost) {
    scale_to(number);
  }
  tree_.insert(slot, weight(number));
}

void RecencySelector::restore(uint32_t slot, double) {
  // After a scaling up in its absence it may be too heavy.
  if (exponent(number_[slot]) > kRecencyExponentMost) scale_to(number_[slot]);
  tree_.insert(slot, weight(number_[slot]));
}

void RecencySelector::remove(uint32_t slot) {
  tree_.remove(slot);
  if (tree_.count() == 0 || tree_.total() >= kRecencyTotalLeast) return;
  uint64_t newest = 0;
  for (uint64_t other = 0; other < index_->capacity; ++other) {
    if (tree_.leaves()[other] > 0) newest = std::max(newest, number_[other]);
  }
  scale_to(newest);
}

// Makes `number` the base: its exponent is in [0, 1) from here on. Leaves are scaled by a power of two, which is exact;
// those at the least weight are computed anew.
void RecencySelector::scale_to(uint64_t number) {
  double before = exponent(number);
  double shift = std::floor(before);
  // Odd, before any leaf changes; even again after all nodes did.
  note(index_->epoch, index_->epoch + 1);
  fence_generation_before_payload();
  note(index_->base, number);
  note(index_->offset, before - shift);
  double factor = std::exp2(std::clamp(-shift, -1022.0, 1022.0));
  double* leaves = tree_.leaves();
  for (uint64_t slot = 0; slot < index_->capacity; ++slot) {
    double leaf = leaves[slot];
    if (leaf == 0) continue;
    note(leaves[slot], leaf == kWeightMin ? weight(number_[slot]) : std::max(leaf * factor, kWeightMin));
  }
  tree_.settle_all();
  publish(index_->epoch, index_->epoch + 1);
}

namespace {

// Up to kTogether draws of one scale, and from a tree whose total did not move far meanwhile. Draws that met a scaling are
// all made again, so that what is drawn does not depend on whether it was met. So are those of a reader that was held up
// while new weights, larger than all it had added up, came in; though not for ever, where insertions are many half-lives
// fast.
uint32_t draw_of_one_scale(const RecencyIndex* index, uint64_t capacity, Rng& rng, uint32_t many,
                           Pick* picks) {
  const SumTreeIndex* tree = tree_of(index);
  uint32_t moves = 0;
  for (uint32_t tries = 0; tries < kScalingTries;) {
    uint64_t epoch = observe(index->epoch);
    if (epoch % 2 == 0) {
      double total = observe(tree->total);
      uint32_t made = sum_tree_direct_pick(tree, capacity, rng, many, picks);
      fence_copy_before_check();
      double total_after = peek(tree->total);
      bool near = total_after < total * kTotalMoves && total < total_after * kTotalMoves;
      bool one_scale = peek(index->epoch) == epoch;
      if (one_scale && (near || made == 0 || ++moves == kMovesMax)) return made;
      if (one_scale) continue;
    }
    ++tries;
    for (uint32_t i = 0; i < kScalingPauses; ++i) spin_pause();
  }
  return 0;
}

}  // namespace

uint32_t recency_direct_pick(const RecencyIndex* index, uint64_t capacity, Rng& rng, uint32_t count,
                             Pick* picks) {
  for (uint32_t made = 0; made < count;) {
    uint32_t many = std::min(kTogether, count - made);
    if (draw_of_one_scale(index, capacity, rng, many, picks + made) != many) return 0;
    made += many;
  }
  return count;
}

double recency_direct_probability(const RecencyIndex* index, uint32_t slot) {
  for (uint32_t tries = 0; tries < kScalingTries; ++tries) {
    uint64_t epoch = observe(index->epoch);
    if (epoch % 2 == 0) {
      double probability = sum_tree_direct_probability(tree_of(index), slot);
      fence_copy_before_check();
      if (peek(index->epoch) == epoch) return probability;
    }
    for (uint32_t i = 0; i < kScalingPauses; ++i) spin_pause();
  }
  return 0.0;
}

}  // namespace gear
