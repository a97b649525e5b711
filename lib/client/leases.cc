#include "client/leases.h"

#include <unistd.h>

#include "client/fork_guard.h"
#include "client/text.h"

namespace gear::client {

using layout::SubmissionOp;
using layout::SubmissionRecord;

LeaseLine::LeaseLine(Channel& channel, uint32_t lease_timeout_ms, bool acknowledges)
    : channel_(&channel),
      acknowledges_(acknowledges),
      lease_timeout_ns_(int64_t{lease_timeout_ms} * 1'000'000),
      forks_(fork_generation()) {
  pending_.reserve(LeaseHold::kRunsMax);
}

namespace {

constexpr unsigned kFullRingNapUs = 100;

Status sampler_closed() {
  return error(GEAR_ESTALE,
               "release batch: its sampler was closed before, so its group's items are delivered "
               "again; release batches before closing the sampler");
}

Status forked() {
  return error(GEAR_ESTALE,
               "release batch: this process is a fork of the one that drew it, which alone can "
               "acknowledge; release it there");
}

}  // namespace

// Ended leases go before anything new; false while there is no room for them.
bool LeaseLine::push_pending() {
  SubmissionProducer& ring = channel_->submissions();
  while (!pending_.empty() && ring.has_room(1)) {
    SubmissionRecord record{};
    const Ended& ended = pending_.back();
    bool released = ended.how == LeaseEnd::kReleased;
    record.op = static_cast<uint32_t>(released ? SubmissionOp::kRelease : SubmissionOp::kReject);
    record.argument = ended.run.first;
    record.count = ended.run.count;
    ring.push(record);
    pending_.pop_back();
  }
  return pending_.empty();
}

bool LeaseLine::late(const LeaseHold& hold) const {
  return now_ns() - hold.drawn_ns > lease_timeout_ns_;
}

void LeaseLine::reject_pending(const LeaseHold& hold) {
  for (Ended& ended : pending_) {
    for (uint32_t i = 0; i < hold.run_count; ++i) {
      if (ended.run.first == hold.runs[i].first) ended.how = LeaseEnd::kRejected;
    }
  }
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

void LeaseLine::submit(Urgency urgency) {
  std::lock_guard lock(mutex_);
  channel_->submit(urgency);
}

void LeaseLine::close() {
  std::lock_guard lock(mutex_);
  channel_ = nullptr;
}

Status LeaseLine::end(const LeaseHold& hold, LeaseEnd how) {
  // The child of a fork holds copied rows but no lease, and the mutex may be its parent's.
  if (forks_ != fork_generation()) return acknowledges_ ? forked() : Status();
  for (bool first = true;; first = false) {
    {
      std::lock_guard lock(mutex_);
      if (channel_ == nullptr) return acknowledges_ ? sampler_closed() : Status();
      if (first) {
        for (uint32_t i = 0; i < hold.run_count; ++i) pending_.push_back({hold.runs[i], how});
      }
      // Too late to acknowledge: whoever is told so may count on another delivery.
      if (acknowledges_ && late(hold)) reject_pending(hold);
      bool pushed = push_pending();
      channel_->submit(pushed ? Urgency::kCommit : Urgency::kAnswer);
      // Without a group nothing is lost when the record follows later.
      if (pushed || !acknowledges_ || late(hold)) break;
    }
    usleep(kFullRingNapUs);
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
