// The conductor's end of the sum tree; sum_tree.cc has the draws.

#include "select/sum_tree_writer.h"

#include <algorithm>

#include "base/check.h"
#include "base/shared_word.h"

namespace gear {
namespace {

using layout::SumTreeIndex;

// Nodes that may lag in a run of updates; the run is settled in between when there are more.
constexpr size_t kTouchedMax = 4096;
// How many nodes ahead their children are asked for.
constexpr size_t kAhead = 8;

}  // namespace

uint64_t sum_tree_bytes(uint64_t capacity) {
  return sizeof(SumTreeIndex) + sum_tree_shape(capacity).doubles * sizeof(double);
}

void format_sum_tree(SumTreeIndex* index, uint64_t capacity) {
  SumTreeShape shape = sum_tree_shape(capacity);
  index->capacity = capacity;
  index->level_count = shape.level_count;
  std::copy(std::begin(shape.offset), std::end(shape.offset), index->level_offset);
}

SumTreeWriter::SumTreeWriter(SumTreeIndex* index)
    : index_(index),
      nodes_(layout::at_offset<double>(index, sizeof(SumTreeIndex))),
      shape_(sum_tree_shape(index->capacity)) {
  GEAR_ASSERT(shape_.level_count > 0 && shape_.level_count == index->level_count,
              "%u levels for capacity %llu", index->level_count,
              static_cast<unsigned long long>(index->capacity));
  touched_.reserve(kTouchedMax);
  uint64_t above_leaves = shape_.doubles - shape_.offset[shape_.level_count > 1];
  marked_ = std::make_unique<uint64_t[]>(above_leaves / 64 + 1);
}

void SumTreeWriter::insert(uint32_t slot, double weight) {
  GEAR_ASSERT(slot < index_->capacity && index_->count < index_->capacity, "slot %u, count %llu",
              slot, static_cast<unsigned long long>(index_->count));
  set(slot, weight);
  publish(index_->count, index_->count + 1);
}

void SumTreeWriter::remove(uint32_t slot) {
  GEAR_ASSERT(slot < index_->capacity && index_->count > 0, "slot %u, count %llu", slot,
              static_cast<unsigned long long>(index_->count));
  set(slot, 0.0);
  publish(index_->count, index_->count - 1);
}

// A direct sampler may see the leaf before the nodes above it: it lands on a neighbour then, or draws again.
void SumTreeWriter::set(uint32_t slot, double weight) {
  GEAR_ASSERT(slot < index_->capacity, "slot %u", slot);
  note(nodes_[slot], weight);
  uint64_t node = slot;
  if (running_) {
    if (shape_.level_count > 1) touch(node >> kFanOutBits);
    return;
  }
  for (uint32_t level = 1; level < shape_.level_count; ++level) {
    node >>= kFanOutBits;
    recompute(level, node);
  }
  recompute_total();
}

// Puts a parent of leaves down for settle.
void SumTreeWriter::touch(uint64_t node) {
  __builtin_prefetch(&nodes_[node * kFanOut]);
  __builtin_prefetch(&nodes_[node * kFanOut + kFanOut / 2]);
  if (touched_.size() == kTouchedMax) settle();
  if (mark(1, node)) touched_.push_back(static_cast<uint32_t>(node));
}

void SumTreeWriter::recompute(uint32_t level, uint64_t node) {
  const double* children = &nodes_[shape_.offset[level - 1] + node * kFanOut];
  note(nodes_[shape_.offset[level] + node], sum_children(children));
}

void SumTreeWriter::recompute_total() {
  publish(index_->total, sum_children(&nodes_[shape_.offset[shape_.level_count - 1]]));
}

void SumTreeWriter::end_updates() {
  settle();
  running_ = false;
}

// Level by level, each touched node once.
void SumTreeWriter::settle() {
  for (uint32_t level = 1; level < shape_.level_count; ++level) settle_level(level);
  touched_.clear();
  recompute_total();
}

// Recomputes the touched nodes of a level; their parents are the touched ones then.
void SumTreeWriter::settle_level(uint32_t level) {
  const double* below = &nodes_[shape_.offset[level - 1]];
  bool top = level + 1 == shape_.level_count;
  size_t parents = 0;
  for (size_t i = 0; i < touched_.size(); ++i) {
    uint64_t soon = touched_[std::min(i + kAhead, touched_.size() - 1)];
    __builtin_prefetch(&below[soon * kFanOut]);
    __builtin_prefetch(&below[soon * kFanOut + kFanOut / 2]);
    uint64_t node = touched_[i];
    recompute(level, node);
    unmark(level, node);
    uint64_t parent = node >> kFanOutBits;
    if (!top && mark(level + 1, parent)) touched_[parents++] = static_cast<uint32_t>(parent);
  }
  touched_.resize(parents);
}

// True when the node was not marked before.
bool SumTreeWriter::mark(uint32_t level, uint64_t node) {
  uint64_t bit = shape_.offset[level] - shape_.offset[1] + node;
  uint64_t& word = marked_[bit / 64];
  bool fresh = (word >> bit % 64 & 1) == 0;
  word |= uint64_t{1} << bit % 64;
  return fresh;
}

void SumTreeWriter::unmark(uint32_t level, uint64_t node) {
  uint64_t bit = shape_.offset[level] - shape_.offset[1] + node;
  marked_[bit / 64] &= ~(uint64_t{1} << bit % 64);
}

bool SumTreeWriter::pick(Rng& rng, Pick* pick) const {
  GEAR_ASSERT(!running_, "pick in a run of updates, %zu nodes lag", touched_.size());
  return sum_tree_pick(index_, shape_, rng, 1, pick) == 1;
}

double SumTreeWriter::probability(uint32_t slot) const {
  return index_->total > 0 ? std::min(nodes_[slot] / index_->total, 1.0) : 0.0;
}

void SumTreeWriter::settle_all() {
  for (uint32_t level = 1; level < shape_.level_count; ++level) {
    for (uint64_t node = 0; node <= shape_.last_node(level); ++node) recompute(level, node);
  }
  recompute_total();
}

void SumTreeWriter::clear() {
  settle();
  clear_children(shape_.level_count - 1, 0);
  note(index_->total, 0.0);
  publish(index_->count, uint64_t{0});
}

// A node of 0 has nothing but zeros below: untouched parts of a large tree are not even read.
void SumTreeWriter::clear_children(uint32_t level, uint64_t node) {
  for (uint64_t child = node * kFanOut; child < (node + 1) * kFanOut; ++child) {
    double& value = nodes_[shape_.offset[level] + child];
    if (value == 0) continue;
    if (level > 0) clear_children(level - 1, child);
    note(value, 0.0);
  }
}

}  // namespace gear
