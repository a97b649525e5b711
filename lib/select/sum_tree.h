// The arithmetic of the sum tree of layout/index.h: where its nodes lie, how children are added, how a draw descends.
//
// The order of additions is fixed and has no product in it, so that writer and readers, on any machine, get the same bits.
// Sixteen children are four lanes: lane l holds the children l, l+4, l+8 and l+12 and is added in that order; then the
// lanes are. This lets four additions go at once, also without special instructions.
#pragma once

#include <cmath>

#include "layout/index.h"

namespace gear {

inline constexpr uint32_t kFanOut = layout::kSumTreeFanOut;
inline constexpr uint32_t kFanOutBits = 4;
inline constexpr uint32_t kLanes = 4;
static_assert(1u << kFanOutBits == kFanOut && kLanes * 4 == kFanOut);

// Follows from the capacity alone; level 0 are the leaves.
struct SumTreeShape {
  uint32_t level_count = 0;
  uint64_t offset[layout::kSumTreeLevelsMax] = {};  // in doubles
  uint64_t doubles = 0;                             // of all levels
  uint64_t capacity = 0;

  // No descent goes behind it, whatever the words of the tree hold.
  constexpr uint64_t last_node(uint32_t level) const {
    return (capacity - 1) >> (kFanOutBits * level);
  }
};

// level_count 0: no tree has that many leaves, or none.
constexpr SumTreeShape sum_tree_shape(uint64_t capacity) {
  SumTreeShape shape;
  if (capacity == 0 || capacity > uint64_t{1} << (kFanOutBits * layout::kSumTreeLevelsMax)) {
    return shape;
  }
  shape.capacity = capacity;
  for (uint64_t nodes = capacity;; nodes = (nodes + kFanOut - 1) / kFanOut) {
    shape.offset[shape.level_count++] = shape.doubles;
    shape.doubles += (nodes + kFanOut - 1) / kFanOut * kFanOut;
    if (nodes <= kFanOut) return shape;
  }
}

// Row i holds the children 4i to 4i+3.
using SumTreeRow = double
    __attribute__((vector_size(kLanes * sizeof(double)), aligned(8), may_alias));

// The sum of a node's children. A reader that races with the conductor sees whole words; TSan is not told of them.
__attribute__((no_sanitize("thread"))) inline double sum_children(const double* children) {
  const auto* row = reinterpret_cast<const SumTreeRow*>(children);
  SumTreeRow lanes = ((row[0] + row[1]) + row[2]) + row[3];
  return ((lanes[0] + lanes[1]) + lanes[2]) + lanes[3];
}

struct Descent {
  uint32_t child;
  double target;  // counted from the begin of that child
};

// Where a target goes that lies behind the children's sum, by rounding or because the tree moves: to the last child with
// weight of the lanes up to `lane`, and there again to the end.
__attribute__((noinline, cold, no_sanitize("thread"))) inline Descent descend_past_end(
    const double* children, uint32_t lane) {
  for (uint32_t left = (lane + 1) * 4; left-- > 0;) {
    uint32_t child = left % 4 * kLanes + left / 4;
    double weight = children[child];
    if (weight > 0) return {child, std::nextafter(weight, 0.0)};
  }
  return {0, 0.0};
}

// The child in which `target` falls, counted from the begin of the first child in the order of addition. While nothing
// changes and the children's sum is above 0, never a child of weight 0: the sums up to a child and with it differ.
// No branch depends on the target, but for the rare one behind the end. Whatever the words hold, child < kFanOut.
__attribute__((no_sanitize("thread"))) inline Descent descend(const double* children,
                                                              double target) {
  const auto* row = reinterpret_cast<const SumTreeRow*>(children);
  SumTreeRow lanes = ((row[0] + row[1]) + row[2]) + row[3];
  double begins[kLanes] = {0.0, lanes[0], lanes[0] + lanes[1], (lanes[0] + lanes[1]) + lanes[2]};
  uint32_t lane = uint32_t{target >= begins[1]} + uint32_t{target >= begins[2]} +
                  uint32_t{target >= begins[3]};
  target -= begins[lane];

  const double* of_lane = children + lane;
  double first = of_lane[0];
  double second = first + of_lane[kLanes];
  double third = second + of_lane[2 * kLanes];
  double end = third + of_lane[3 * kLanes];
  if (__builtin_expect(!(target < end), 0)) return descend_past_end(children, lane);
  double child_begins[4] = {0.0, first, second, third};
  uint32_t place =
      uint32_t{target >= first} + uint32_t{target >= second} + uint32_t{target >= third};
  return {place * kLanes + lane, target - child_begins[place]};
}

}  // namespace gear
