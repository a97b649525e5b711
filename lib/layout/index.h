// The shared memory of the selectors' indexes. The conductor writes, direct samplers read without a lock: they check
// the item they arrive at (ItemRecord::generation) and draw again when it moved.
#pragma once

#include "layout/segment.h"

namespace gear::layout {

// uniform: slots[0, count) are the table's items in no order; position is its inverse.
//   UniformIndex | uint32_t slots[capacity] | uint32_t position[capacity]
struct UniformIndex {
  uint64_t capacity;
  uint64_t count;  // release
  uint64_t reserved[6];
};
static_assert(sizeof(UniformIndex) == 64);

// fifo: a doubly linked list in order of insertion.
//   FifoIndex | uint32_t next[capacity] | uint32_t previous[capacity]
struct FifoIndex {
  uint64_t capacity;
  uint64_t count;  // release
  uint32_t head;   // oldest; kNone when empty
  uint32_t tail;
  uint64_t reserved[5];
};
static_assert(sizeof(FifoIndex) == 64);

// prioritized: a tree of sums. Level 0 are the leaves, one an item slot, (p + epsilon)^alpha or 0; each node of
// level k+1 is the sum, recomputed and never adjusted by differences, of kSumTreeFanOut nodes of level k; the last
// level has at most kSumTreeFanOut nodes, and `total` is their sum.
//   SumTreeIndex | level 0 | level 1 | ... each padded with zeros to a multiple of kSumTreeFanOut doubles
inline constexpr uint32_t kSumTreeFanOut = 16;  // 128 bytes, two lines
inline constexpr uint32_t kSumTreeLevelsMax = 8;
struct SumTreeIndex {
  uint64_t capacity;
  uint64_t count;  // items, of any weight; release
  double total;
  uint32_t level_count;
  uint32_t reserved_levels;
  uint64_t level_offset[kSumTreeLevelsMax];  // in doubles, from the end of this struct
  uint64_t reserved[4];
};
static_assert(sizeof(SumTreeIndex) == 128);

}  // namespace gear::layout
