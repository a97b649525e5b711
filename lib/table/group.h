// A consumer group: samplers that together see every item of a table once.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "table/drawn.h"
#include "table/item_order.h"

namespace gear {

// Conductor only; private memory. Life of an item in a group:
//
//   undelivered -> drawn -> in flight -> acknowledged
//                    |          |
//                    v          v  its holder died, rejected it, or its lease ended
//                  returned   again       both keep their pin and are drawn before undelivered items
//
// or undelivered -> missed (it left the table first), or skipped (too old, see VersionFilter).
// Invariants: the undelivered items are those of the order from `cursor` on, `lag` is how many; an item in `again`, drawn
// or in flight is pinned, so its rows outlive its eviction.
class ConsumerGroup {
 public:
  struct Counts {
    uint64_t in_flight = 0;
    uint64_t delivered = 0;
    uint64_t acknowledged = 0;
    uint64_t redelivered = 0;
    uint64_t missed = 0;
    uint64_t skipped = 0;
  };

  explicit ConsumerGroup(std::string name, uint32_t ordinal = 0) : name_(std::move(name)), ordinal_(ordinal) {}

  const std::string& name() const { return name_; }
  uint32_t ordinal() const { return ordinal_; }
  Counts counts;
  uint32_t consumers = 0;
  bool dropped = false;  // nothing is delivered again

  uint64_t lag() const { return lag_; }
  // Draws that could be made now, before any version is looked at.
  uint64_t available() const { return lag_ + again_.size(); }
  // Of them, those that a consumer had before.
  uint64_t redeliveries() const { return redeliveries_; }

  // Begins with the oldest item.
  void begin_at_first(const ItemOrder& order, uint64_t items) {
    cursor_ = order.first();
    lag_ = items;
  }
  // Called after the item is appended to the order, and before it is removed from it.
  void inserted(uint32_t slot) {
    ++lag_;
    if (cursor_ == layout::kNone) cursor_ = slot;
  }
  void removed(uint32_t slot, const ItemOrder& order) {
    if (cursor_ == layout::kNone || order.number(slot) < order.number(cursor_)) return;
    ++counts.missed;
    --lag_;
    if (cursor_ == slot) cursor_ = order.next(slot);
  }

  // The next undelivered item, which it is no more after this; kNone when there is none.
  uint32_t advance(const ItemOrder& order) {
    uint32_t slot = cursor_;
    if (slot == layout::kNone) return slot;
    cursor_ = order.next(slot);
    --lag_;
    return slot;
  }
  uint32_t cursor() const { return cursor_; }

  // What comes back. CompletionType of the record says whether a consumer had it: kItemAgain.
  void put_back_first(const Drawn& drawn) {
    again_.push_front(drawn);
    if (drawn.record.type == kAgain) ++redeliveries_;
  }
  void deliver_again(Drawn drawn) {
    drawn.record.type = kAgain;
    again_.push_back(drawn);
    ++redeliveries_;
  }
  bool has_again() const { return !again_.empty(); }
  Drawn take_again() {
    Drawn drawn = again_.front();
    again_.pop_front();
    if (drawn.record.type == kAgain) --redeliveries_;
    return drawn;
  }

  void forget_undelivered() {
    cursor_ = layout::kNone;
    lag_ = 0;
  }

 private:
  static constexpr auto kAgain = static_cast<uint32_t>(layout::CompletionType::kItemAgain);

  std::string name_;
  uint32_t ordinal_;
  uint64_t redeliveries_ = 0;
  uint32_t cursor_ = layout::kNone;
  uint64_t lag_ = 0;
  std::deque<Drawn> again_;
};

}  // namespace gear
