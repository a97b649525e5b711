#include "client/items.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "client/table.h"
#include "client/text.h"

namespace gear::client {

using layout::SubmissionOp;
using layout::SubmissionRecord;

namespace {

// What the conductor takes for a record, about; and how much of that is worth spinning for.
constexpr int64_t kNsARecord = 150;
constexpr int64_t kWorkNsMost = 100'000;
// Updates behind one kUpdates. They are published together, and a conductor that is awake begins meanwhile.
constexpr size_t kUpdatesEach = 64;
constexpr size_t kPerRecord = std::size(layout::UpdateRecord{}.update);

SubmissionRecord record_of(SubmissionOp op, uint64_t argument) {
  SubmissionRecord record{};
  record.op = static_cast<uint32_t>(op);
  record.argument = argument;
  return record;
}

}  // namespace

Items::Turn::Turn(Items& items, int64_t deadline_ns) : items_(items) {
  std::unique_lock lock(items_.mutex_);
  // steady_clock is CLOCK_MONOTONIC, that of our deadlines.
  std::chrono::steady_clock::time_point end{std::chrono::nanoseconds(deadline_ns)};
  items_.turn_ended_.wait_until(lock, end, [this] { return !items_.busy_ || items_.ended_; });
  ended_ = items_.ended_;
  taken_ = !items_.busy_ && !ended_;
  if (taken_) items_.busy_ = true;
}

Items::Turn::~Turn() {
  if (!taken_) return;
  {
    std::lock_guard lock(items_.mutex_);
    items_.busy_ = false;
  }
  items_.turn_ended_.notify_one();
}

void Items::end_calls() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  if (channel_ != nullptr) channel_->end_waits();
  turn_ended_.notify_all();
}

void Items::accept_calls() {
  std::lock_guard lock(mutex_);
  ended_ = false;
  if (channel_ != nullptr) channel_->accept_waits();
}

Status Items::change(const uint64_t* keys, const double* priorities, size_t count,
                     int64_t timeout_ns, gear_items_result* result) {
  *result = GEAR_ITEMS_RESULT_INIT;
  if (count == 0) return {};
  int64_t deadline_ns = deadline_after(std::max(timeout_ns, kRoundTripNs));
  Turn turn(*this, deadline_ns);
  if (turn.ended()) {
    return Status(GEAR_ECLOSED, "the table handle is being closed by another thread; open another");
  }
  if (!turn.taken()) {
    return Status(GEAR_ETIMEDOUT,
                  "another call on this table handle is not done; raise timeout_ns");
  }
  Status status = change_in_turn(keys, priorities, count, deadline_ns, result);
  if (status.code() == GEAR_EDISCONNECTED) {
    return Status(GEAR_EDISCONNECTED, status.text() + " (some items may be changed, or will be; ask again)");
  }
  if (status.code() != GEAR_ETIMEDOUT) return status;
  return error(GEAR_ETIMEDOUT,
               "the server did not answer in %s, some items may be changed; ask again, or raise "
               "timeout_ns",
               duration_text(std::max<int64_t>(timeout_ns, 0)).c_str());
}

Status Items::change_in_turn(const uint64_t* keys, const double* priorities, size_t count,
                             int64_t deadline_ns, gear_items_result* result) {
  GEAR_TRY(table_health(table_.header()));
  GEAR_TRY(open_channel());
  layout::ResultRecord found{};
  // A server that takes over has the records, but not what the one before had counted: it is all asked again.
  for (bool whole = false; !whole;) {
    GEAR_TRY(ask_once(keys, priorities, count, deadline_ns, &found, &whole));
  }
  result->updated = found.updated;
  result->stale = found.stale;
  result->unknown = found.unknown;
  result->rejected = found.rejected;
  return {};
}

// *whole: one server counted all of it.
Status Items::ask_once(const uint64_t* keys, const double* priorities, size_t count,
                       int64_t deadline_ns, layout::ResultRecord* found, bool* whole) {
  uint64_t mark = channel_->server_mark();
  GEAR_TRY(discard_counts(deadline_ns));
  GEAR_TRY(push_all(keys, priorities, count, deadline_ns));
  GEAR_TRY(push_answer(deadline_ns));
  int64_t work_ns = spin_policy().longest_ns > 0
                        ? std::min(static_cast<int64_t>(count) * kNsARecord, kWorkNsMost)
                        : 0;
  auto another = [&] { return channel_->server_mark() != mark; };
  GEAR_TRY(channel_->wait_until(
      deadline_ns, [&] { return take_result(found) || another(); }, work_ns));
  *whole = !another();
  return {};
}

Status Items::open_channel() {
  if (channel_ != nullptr) return {};
  layout::TableIdRequest request{table_.id()};
  Result<std::unique_ptr<Channel>> opened =
      Channel::open(table_.session(), layout::ControlOp::kItemsOpen, request, "open items channel",
                    &table_.header());
  if (!opened.ok()) return opened.status();
  std::lock_guard lock(mutex_);
  channel_ = opened.take();
  if (ended_) channel_->end_waits();
  return {};
}

Status Items::push_all(const uint64_t* keys, const double* priorities, size_t count,
                       int64_t deadline_ns) {
  for (size_t pushed = 0; pushed < count;) {
    size_t part = std::min(count - pushed, kUpdatesEach);
    // All of a part or nothing: behind a kUpdates nothing else may come.
    GEAR_TRY(wait_for_room(1 + part, deadline_ns));
    if (priorities != nullptr) {
      push_updates(keys + pushed, priorities + pushed, part);
    } else {
      for (size_t i = 0; i < part; ++i) {
        channel_->submissions().push(record_of(SubmissionOp::kDelete, keys[pushed + i]));
      }
    }
    pushed += part;
    counts_left_ = true;
    // The last part goes with its kAnswer.
    if (pushed < count) channel_->submissions().publish_tail();
  }
  return {};
}

void Items::push_updates(const uint64_t* keys, const double* priorities, size_t count) {
  SubmissionProducer& ring = channel_->submissions();
  SubmissionRecord run = record_of(SubmissionOp::kUpdates, 0);
  run.count = static_cast<uint32_t>(count);
  ring.push(run);
  for (size_t i = 0; i < count; i += kPerRecord) {
    layout::UpdateRecord record{};
    for (size_t j = 0; j < kPerRecord && i + j < count; ++j) {
      record.update[j] = {keys[i + j], priorities[i + j]};
    }
    ring.push(record);
  }
}

Status Items::wait_for_room(uint64_t records, int64_t deadline_ns) {
  SubmissionProducer& ring = channel_->submissions();
  if (ring.has_room(records)) return {};
  channel_->submit(Urgency::kAnswer);
  return channel_->wait_until(deadline_ns, [&] { return ring.has_room(records); });
}

Status Items::discard_counts(int64_t deadline_ns) {
  return counts_left_ ? push_answer(deadline_ns) : Status();
}

Status Items::push_answer(int64_t deadline_ns) {
  GEAR_TRY(wait_for_room(1, deadline_ns));
  drop_results();
  channel_->submissions().push(record_of(SubmissionOp::kAnswer, ++ticket_));
  channel_->submit(Urgency::kAnswer);
  counts_left_ = false;
  return {};
}

// Results that nobody waits for must not fill the ring: the conductor drops what has no place
// there.
void Items::drop_results() {
  CompletionConsumer& results = channel_->completions();
  uint64_t available = results.available();
  if (available > 0) results.take(available);
}

// Takes what came; true once that was the result of the current ticket. Older ones are of calls
// that gave up.
bool Items::take_result(layout::ResultRecord* result) {
  CompletionConsumer& results = channel_->completions();
  uint64_t available = results.available();
  bool found = false;
  for (uint64_t i = 0; i < available; ++i) {
    *result = results.look(i).result;
    found = result->ticket == ticket_;
  }
  if (available > 0) results.take(available);
  return found;
}

}  // namespace gear::client
