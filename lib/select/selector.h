// Selectors: which item is next. One file a selector, one line in registry.cc.
//
// Concurrency: a Selector is the conductor's end of an index in the directory; the conductor alone calls it. It writes
// the shared index so that a direct sampler (select/direct.h) that reads at the same time sees whole words, though
// perhaps from different moments; every slot it can arrive at is below the capacity.
//
// Slots are item slots of the table, below the index's capacity. A slot is inserted at most once at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "layout/directory.h"

namespace gear {

struct Pick {
  uint32_t slot;
  double probability;  // of this pick, under the index as it was
};

// An item that belongs in an index.
struct Rebuilt {
  uint32_t slot;
  double priority;
};

class Selector {
 public:
  virtual ~Selector() = default;

  // The slot's next insertion is that of a new item. What is kept of the item that was there before is forgotten.
  virtual void expect(uint32_t) {}
  // priority is raw: finite and not negative, which the caller has checked.
  virtual void insert(uint32_t slot, double priority) = 0;
  // Undoes a removal: the slot is where it would be had it not been removed. Of all removed and not yet inserted again,
  // in any order.
  virtual void restore(uint32_t slot, double priority) = 0;
  virtual void remove(uint32_t slot) = 0;
  virtual void update(uint32_t slot, double priority) = 0;
  // An update of a slot that is removed and may be restored: its place among equals is that of the latest change.
  virtual void update_removed(uint32_t) {}
  // An update of the slot comes soon: brings what it writes near.
  virtual void foresee(uint32_t) const {}
  // For many updates in a row: between begin and end, picks are not allowed and inner nodes may lag.
  virtual void begin_updates() {}
  virtual void end_updates() {}
  // False when nothing can be picked (no item, or all of weight 0). The item stays.
  virtual bool pick(Rng& rng, Pick* pick) = 0;
  // Of the next pick being this slot, which is below the capacity; 0 when it is not in the index. O(1).
  virtual double probability(uint32_t slot) const = 0;
  virtual uint64_t count() const = 0;
  virtual void clear() = 0;

  // What a conductor that died left becomes the index of exactly the `live` items, in no order, while direct samplers go on
  // drawing: what is right already stays, and the count is never 0 unless it was or becomes it. `newest`: the slot whose
  // insertion that conductor may not have finished, or kNone. O(capacity), fifo and lifo
  // O(n log n) as well; allocates.
  virtual void rebuild(const std::vector<Rebuilt>& live, uint32_t newest) = 0;
};

// Whether there is such a gear_selector; and whether it may remove: all but top_k, recency and mixture.
bool selector_known(uint32_t selector);
bool selector_removes(uint32_t selector);

// Bytes that the index of a gear_selector needs for `capacity` slots, a multiple of 128; 0 for an unknown selector and for
// a mixture, which has none.
uint64_t selector_index_bytes(uint32_t selector, uint64_t capacity);

// Writes an empty index into zeroed memory at record.offset of the directory.
void format_index(const layout::IndexRecord& record, void* directory, uint64_t capacity);

// The conductor's end of a formatted index. The directory must outlive it. The same index must not be opened twice: what
// is kept in step is one object an index.
std::unique_ptr<Selector> open_selector(const layout::IndexRecord& record, void* directory);

// That of TableHeader::smallest_index, a min_heap of the items of priority above 0 alone.
std::unique_ptr<Selector> open_smallest(const layout::IndexRecord& record, void* directory);

// (priority + epsilon)^alpha; 0 for priority 0 without epsilon, whatever alpha. Schaul et al. 2016, eq. 1.
// Other weights are kept between the two bounds: no priority above 0 becomes one that is never drawn, and the weights of
// 2^32 items have a finite sum.
inline constexpr double kWeightMin = 0x1.0p-960;
inline constexpr double kWeightMax = 0x1.0p+960;
double priority_weight(double priority, double alpha, double epsilon);

// Finite and not negative.
bool priority_valid(double priority);

}  // namespace gear
