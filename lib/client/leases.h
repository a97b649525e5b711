// Leases: what the conductor pinned for a batch, and giving it back.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "client/channel.h"

namespace gear::client {

// Consecutive lease numbers.
struct LeaseRun {
  uint64_t first;
  uint32_t count;
};

enum class LeaseEnd { kReleased, kRejected };

// What a batch holds.
struct LeaseHold {
  static constexpr uint32_t kRunsMax = 8;
  LeaseRun runs[kRunsMax];
  uint32_t run_count = 0;
  int64_t drawn_ns = 0;
};

// The submission ring of a leased sampler, which two kinds of threads write: the sampler's own, and
// any that releases a batch, even after the sampler is closed. A mutex of this process makes them
// one producer; it is never held while waiting.
class LeaseLine {
 public:
  // acknowledges: the sampler is of a consumer group.
  LeaseLine(Channel& channel, uint32_t lease_timeout_ms, bool acknowledges = false);
  bool acknowledges() const { return acknowledges_; }

  // The sampler's thread. Waits for room in the ring up to the deadline.
  Status push(const layout::SubmissionRecord& record, Urgency urgency, int64_t deadline_ns);
  bool has_room();
  // Somebody waits for what was pushed before.
  void submit(Urgency urgency);
  // Records that the conductor has not taken yet.
  uint64_t waiting();
  // The channel goes; leases that batches still hold go with it.
  void close();

  // Any thread. Ends the leases; ESTALE when they had expired. With a group, OK means that the records are in the ring
  // before the conductor's clock reached the leases' end: what was acknowledged is never delivered again. Waits for
  // room in the ring, with a group only, no longer than the leases last.
  Status end(const LeaseHold& hold, LeaseEnd how = LeaseEnd::kReleased);

 private:
  bool push_pending();
  void reject_pending(const LeaseHold& hold);
  bool late(const LeaseHold& hold) const;

  std::mutex mutex_;
  Channel* channel_;               // nullptr once closed
  struct Ended {
    LeaseRun run;
    LeaseEnd how;
  };
  std::vector<Ended> pending_;  // ended while the ring was full
  bool acknowledges_;
  int64_t lease_timeout_ns_;
  uint32_t forks_;
};

}  // namespace gear::client
