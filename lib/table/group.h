// A consumer group: samplers that together see every item of a table once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/shared_word.h"
#include "base/status.h"
#include "layout/ledger.h"
#include "shm/segment.h"
#include "table/drawn.h"
#include "table/item_order.h"

namespace gear {

// Conductor only. Life of an item in a group:
//
//   undelivered -> drawn -> in flight -> acknowledged
//                    |          |
//                    v          v  its holder died, rejected it, or its lease ended
//                  returned   again       both keep their pin and are drawn before undelivered items
//
// or undelivered -> missed (it left the table first), or skipped (too old, see VersionFilter).
// Invariants: the undelivered items are those of the order from `cursor` on, `lag` is how many; an item in `again`, drawn
// or in flight is pinned, so its rows outlive its eviction.
//
// What the next server of the instance must know is in a segment of kind kGroup (layout/ledger.h): the order's numbers, what
// became of each item, the cursor, the counts. The rest is derived from it, from the items and from the samplers' leases.
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

  // One without memory, that keeps nothing.
  explicit ConsumerGroup(std::string name) : name_(std::move(name)) {}
  // A segment that is zero but for its header, of bytes_for(item_slots): begin it, then publish its magic.
  ConsumerGroup(const char* name, uint64_t item_slots, Segment segment);
  // One that a server left. EPROTOCOL when it is not of this table.
  static Result<std::shared_ptr<ConsumerGroup>> adopt(uint64_t table_id, uint64_t item_slots, Segment segment);
  static uint64_t bytes_for(uint64_t item_slots);
  void publish_magic() { segment_.publish_magic(); }

  const std::string& name() const { return name_; }
  uint32_t ordinal() const { return ordinal_; }
  Counts counts;
  uint32_t consumers = 0;
  bool dropped = false;  // nothing is delivered again
  // After `counts` changed.
  void keep_counts();

  uint64_t lag() const { return lag_; }
  // Draws that could be made now, before any version is looked at.
  uint64_t available() const { return lag_ + again_.size(); }
  // Of them, those that a consumer had before.
  uint64_t redeliveries() const { return redeliveries_; }

  // Fills the segment: begins with the oldest item, or after the newest.
  void begin(const ItemOrder& order, uint64_t item_slots, uint64_t items, bool at_oldest);
  // Before the item is in the table.
  void coming(uint32_t slot, uint64_t number);
  // Called after the item is appended to the order, and before it is removed from it.
  void inserted(uint32_t slot) {
    if (header_ != nullptr) publish(header_->insertions, numbers_[slot]);
    ++lag_;
    if (cursor_ == layout::kNone) cursor_ = slot;
  }
  void removed(uint32_t slot, const ItemOrder& order) {
    if (cursor_ == layout::kNone || order.number(slot) < order.number(cursor_)) return;
    ++counts.missed;
    keep_counts();
    --lag_;
    if (cursor_ == slot) cursor_ = order.next(slot);
  }

  // The next undelivered item, which it is no more after this; kNone when there is none.
  uint32_t advance(const ItemOrder& order) {
    uint32_t slot = cursor_;
    if (slot == layout::kNone) return slot;
    cursor_ = order.next(slot);
    --lag_;
    if (header_ != nullptr) publish(header_->cursor, order.number(slot) + 1);
    return slot;
  }
  uint32_t cursor() const { return cursor_; }

  // What became of the slot's item, if it is still the same.
  void set_progress(uint32_t slot, layout::GroupProgress progress);

  // What comes back. CompletionType of the record says whether a consumer had it: kItemAgain.
  void put_back_first(const Drawn& drawn) {
    again_.push_front(drawn);
    if (drawn.record.type == kAgain) ++redeliveries_;
  }
  void put_back_last(const Drawn& drawn) { again_.push_back(drawn); }
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

  // The table is reset, or the group dropped.
  void forget_undelivered(const ItemOrder& order);
  // The segment goes with the group's last consumer otherwise.
  void forget_memory();

  // Adoption: the leases first, then the walk through the items in their order.
  uint64_t number_left(uint32_t slot) const { return numbers_[slot]; }
  uint64_t insertions_left() const { return header_->insertions; }
  void adopt_lease(uint32_t slot, bool same_item);
  void adopt_waiting(uint32_t slot) {
    if (header_ != nullptr) leased_[slot] = true;
  }
  // Whether the item, which is in no lease, is to be delivered, and how: kUndelivered is counted and made the cursor.
  enum class Left { kUndelivered, kReturned, kAgain, kNothing };
  Left place(uint32_t slot, uint64_t number);
  void finish_adoption(uint64_t insertions);

 private:
  static constexpr auto kAgain = static_cast<uint32_t>(layout::CompletionType::kItemAgain);

  std::string name_;
  uint32_t ordinal_ = 0;
  Segment segment_;
  layout::GroupHeader* header_ = nullptr;
  uint64_t* numbers_ = nullptr;   // by item slot, as is progress_
  uint8_t* progress_ = nullptr;
  std::vector<bool> leased_;      // adoption: by item slot
  uint64_t drawn_left_ = 0;       // adoption: leases that are posted
  uint64_t redeliveries_ = 0;
  uint32_t cursor_ = layout::kNone;
  uint64_t lag_ = 0;
  std::deque<Drawn> again_;
};

}  // namespace gear
