#include "client/leases.h"

#include "client/fork_guard.h"
#include "client/text.h"

namespace gear::client {

using layout::SubmissionOp;
using layout::SubmissionRecord;

LeaseLine::LeaseLine(Channel& channel, uint32_t lease_timeout_ms)
    : channel_(&channel),
      lease_timeout_ns_(int64_t{lease_timeout_ms} * 1'000'000),
      forks_(fork_generation()) {
  pending_.reserve(LeaseHold::kRunsMax);
}

// Ended leases go before anything new; false while there is no room for them.
bool LeaseLine::push_pending() {
  SubmissionProducer& ring = channel_->submissions();
  while (!pending_.empty() && ring.has_room(1)) {
    SubmissionRecord record{};
    record.op = static_cast<uint32_t>(SubmissionOp::kRelease);
    record.argument = pending_.back().first;
    record.count = pending_.back().count;
    ring.push(record);
    pending_.pop_back();
  }
  return pending_.empty();
}

bool LeaseLine::has_room() {
  std::lock_guard lock(mutex_);
  return push_pending() && channel_->submissions().has_room(1);
}

uint64_t LeaseLine::waiting() {
  std::lock_guard lock(mutex_);
  return channel_->submissions().waiting();
}

Status LeaseLine::push(const SubmissionRecord& record, Urgency urgency, int64_t deadline_ns) {
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (push_pending() && channel_->submissions().has_room(1)) {
        channel_->submissions().push(record);
        channel_->submit(urgency);
        return {};
      }
      channel_->submit(Urgency::kAnswer);
    }
    GEAR_TRY(channel_->wait_until(deadline_ns, [this] { return has_room(); }));
  }
}

void LeaseLine::close() {
  std::lock_guard lock(mutex_);
  channel_ = nullptr;
}

Status LeaseLine::end(const LeaseHold& hold) {
  // The child of a fork holds copied rows but no lease, and the mutex may be its parent's.
  if (forks_ != fork_generation()) return {};
  {
    std::lock_guard lock(mutex_);
    if (channel_ == nullptr) return {};
    pending_.insert(pending_.end(), hold.runs, hold.runs + hold.run_count);
    push_pending();
    channel_->submit(Urgency::kCommit);
  }
  int64_t held_ns = now_ns() - hold.drawn_ns;
  if (held_ns <= lease_timeout_ns_) return {};
  return error(
      GEAR_ESTALE,
      "release batch: its lease ended after %s, it was held for %s (its rows were right all "
      "the same); release sooner, or create the table with a longer lease_timeout_ms",
      duration_text(lease_timeout_ns_).c_str(), duration_text(held_ns).c_str());
}

}  // namespace gear::client
