// The items of a table in order of insertion, for those who walk them one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/directory.h"

namespace gear {

// Conductor only; private memory, kept from the first consumer group on. Every operation is O(1). The groups' segments have
// the numbers too, for the next server.
// Invariant: numbers grow along the list.
class ItemOrder {
 public:
  bool kept() const { return !numbers_.empty(); }
  void keep(uint32_t slots) {
    next_.assign(slots, layout::kNone);
    previous_.assign(slots, layout::kNone);
    numbers_.assign(slots, 0);
  }

  uint32_t first() const { return first_; }
  uint32_t next(uint32_t slot) const { return next_[slot]; }
  uint64_t number(uint32_t slot) const { return numbers_[slot]; }

  // Of the last insertion.
  uint64_t last_number() const { return number_; }
  void count_from(uint64_t number) { number_ = number; }

  void append(uint32_t slot) { append_as(slot, number_ + 1); }
  // Numbers only grow.
  void append_as(uint32_t slot, uint64_t number) {
    next_[slot] = layout::kNone;
    previous_[slot] = last_;
    number_ = number;
    numbers_[slot] = number;
    (last_ == layout::kNone ? first_ : next_[last_]) = slot;
    last_ = slot;
  }
  void remove(uint32_t slot) {
    uint32_t before = previous_[slot];
    uint32_t after = next_[slot];
    (before == layout::kNone ? first_ : next_[before]) = after;
    (after == layout::kNone ? last_ : previous_[after]) = before;
  }
  void clear() { first_ = last_ = layout::kNone; }

 private:
  uint32_t first_ = layout::kNone;
  uint32_t last_ = layout::kNone;
  uint64_t number_ = 0;
  std::vector<uint32_t> next_;
  std::vector<uint32_t> previous_;
  std::vector<uint64_t> numbers_;
};

}  // namespace gear
