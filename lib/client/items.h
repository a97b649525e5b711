// Priorities and deletion of items by key, through a channel of the table's own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "client/channel.h"
#include "gear.h"

namespace gear::client {

class Table;

// Any thread; one call at a time, others wait their turn within their own timeout. The channel is
// opened by the first call.
//
// A call pushes its records, then kAnswer with a ticket, and waits for the result of that ticket.
// The conductor counts from answer to answer, so a call that gave up before its kAnswer leaves
// counts that the next call must discard first.
class Items {
 public:
  explicit Items(Table& table) : table_(table) {}

  // priorities: nullptr deletes. Errors: ETIMEDOUT (a part may have been applied), ECLOSED,
  // EDROPPED, EDISCONNECTED, EPROTOCOL, and those of opening the channel.
  Status change(const uint64_t* keys, const double* priorities, size_t count, int64_t timeout_ns,
                gear_items_result* result);
  // Calls end with ECLOSED from here on, those under way too.
  void end_calls();
  void accept_calls();

 private:
  // The right to use the channel, held by one call at a time.
  class Turn {
   public:
    Turn(Items& items, int64_t deadline_ns);
    ~Turn();
    bool taken() const { return taken_; }
    bool ended() const { return ended_; }

   private:
    Items& items_;
    bool taken_;
    bool ended_;
  };

  Status change_in_turn(const uint64_t* keys, const double* priorities, size_t count,
                        int64_t deadline_ns, gear_items_result* result);
  Status ask_once(const uint64_t* keys, const double* priorities, size_t count, int64_t deadline_ns,
                  layout::ResultRecord* found, bool* whole);
  Status open_channel();
  void push_updates(const uint64_t* keys, const double* priorities, size_t count);
  Status push_all(const uint64_t* keys, const double* priorities, size_t count,
                  int64_t deadline_ns);
  Status wait_for_room(uint64_t records, int64_t deadline_ns);
  Status discard_counts(int64_t deadline_ns);
  Status push_answer(int64_t deadline_ns);
  void drop_results();
  bool take_result(layout::ResultRecord* result);

  Table& table_;
  std::mutex mutex_;  // guards busy_ and ended_, and channel_ from being made while it is looked at
  std::condition_variable turn_ended_;
  bool busy_ = false;
  bool ended_ = false;

  // Of the call whose turn it is.
  std::unique_ptr<Channel> channel_;
  uint64_t ticket_ = 0;
  bool counts_left_ = false;  // records were pushed since the last kAnswer
};

}  // namespace gear::client
