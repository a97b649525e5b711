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

// fifo, lifo: a doubly linked list in order of insertion. number[slot] is the insertion's number, and stays while the
// item is out of the list, so that it can return to its place.
//   ListIndex | uint64_t number[capacity] | uint32_t next[capacity] | uint32_t previous[capacity]
struct ListIndex {
  uint64_t capacity;
  uint64_t count;       // release
  uint32_t head;        // oldest; kNone when empty
  uint32_t tail;        // newest
  uint64_t insertions;  // so far
  uint64_t reserved[4];
};
static_assert(sizeof(ListIndex) == 64);

// max_heap, min_heap: a heap of kHeapFanOut children a node; place 0 is the next pick. keys and slots are by place,
// order (number of the latest insertion or update, which settles ties) and position (place) by slot.
//   HeapIndex | double keys[capacity] | uint64_t order[capacity] | uint32_t slots[capacity] | uint32_t position[capacity]
// top_k: the same memory holds two heaps. Places [0, top_count) are the items of largest priority, the least of them
// first; places from top_places on are the rest, the largest first.
inline constexpr uint32_t kHeapFanOut = 4;
struct HeapIndex {
  uint64_t capacity;
  uint64_t count;       // release
  uint64_t changes;     // insertions and updates so far
  uint64_t top_count;   // top_k: release
  uint64_t top_places;  // top_k: min(k, capacity); constant
  uint64_t reserved[3];
};
static_assert(sizeof(HeapIndex) == 64);

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

// recency: a sum tree over 2^exponent, exponent = (number of the insertion - base) / half_life + offset. When exponents
// grow large every weight is scaled by one power of two, between an odd and the next even `epoch`: a reader that saw one
// even epoch before and after its draw drew from weights of one scale.
//   RecencyIndex | SumTreeIndex and its levels | uint64_t number[capacity]
struct RecencyIndex {
  uint64_t capacity;
  uint64_t epoch;       // odd while the weights are scaled
  uint64_t insertions;  // so far
  uint64_t base;
  double offset;
  uint64_t number_offset;  // of the numbers, from the start of this struct; constant
  uint64_t reserved[10];
};
static_assert(sizeof(RecencyIndex) == 128);

}  // namespace gear::layout
