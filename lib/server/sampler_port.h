// The conductor's end of a sampler.
#pragma once

#include <vector>

#include "base/rng.h"
#include "layout/control.h"
#include "server/leases.h"
#include "server/port.h"

namespace gear {

// Conductor only. Draws for the client, ahead of need where it asked for that, and keeps what was drawn pinned.
//
// A lease's number is the position of its record in the completion ring. Life of a lease:
//   posted -> taken (the draw counts) -> released, or expired
//   posted -> returned (the draw never was), by the client, or revoked
// Leases [resolved(), completions().tail()) are posted and neither taken nor returned.
//
// What is posted and not taken within lease_timeout_ms is revoked, whoever the client is: one that is stopped must not pin
// blocks, nor keep the last draws of items, for longer. From then on nothing is drawn for the client, neither ahead nor for
// a demand of before, until it speaks again; so one that is alive and idle loses its prefetched draws once, which costs it
// one round trip when it comes back, and costs the conductor nothing meanwhile. One that waits for a demand is woken, and
// demands anew.
//
// With a consumer group a release acknowledges; a lease that is rejected, expires, or is taken when the port ends is
// delivered again. What a client was told it had acknowledged never is: it says so only while its own, earlier clock
// has not reached the lease's end, and expiry first takes all records that are in the ring.
class SamplerPort final : public Port {
 public:
  static Result<std::unique_ptr<Port>> open(std::shared_ptr<Table> table,
                                            const layout::SamplerOpenRequest& request,
                                            const ChannelPlace& place);
  // The end of a sampler of a server of this instance that died. The table and its groups are adopted already; its leases are
  // found by the channel's id. Pins what is posted and taken, completes the step of IntentRecord when it is this channel's,
  // and posts again what the client may not have seen. A port whose group was dropped has failed with EDROPPED.
  // Errors: those of Segment::adopt; EPROTOCOL when the segments are not what the record asks for.
  static Result<std::unique_ptr<Port>> adopt(std::shared_ptr<Table> table, Segment channel,
                                             layout::ChannelRecord* record);
  void give_up() override;
  bool direct() const { return direct_; }
  // Rows that may be leased at one time; 0 for direct samplers.
  uint64_t rows_leased_most() const { return rows_leased_most(record().sampler); }
  // Of a sampler opened so.
  static uint64_t rows_leased_most(const layout::SamplerOpenRequest& request) {
    if (request.direct != 0) return 0;
    return request.prefetch + uint64_t{request.batches_max} * request.batch_rows_max;
  }
  const ConsumerGroup* group() const { return group_.get(); }
  bool wants_tick() const override { return !direct_ && (taken_ > 0 || untaken() > 0); }
  void tick(int64_t now_ns) override;

 private:
  SamplerPort(const ChannelPlan& plan, Segment segment, std::shared_ptr<Table> table,
              const ChannelPlace& place, const layout::SamplerOpenRequest& request);
  SamplerPort(layout::ChannelRecord* record, Segment segment, std::shared_ptr<Table> table);
  Step apply(const layout::SubmissionRecord& record) override;
  // A lease is released once, so those of an honest ring are looked at within these.
  uint64_t parts_most() const override { return leases_.slots() / kWorkAtOnce; }
  size_t post_due() override;

  void adopt_leases();
  void finish_step(const layout::IntentRecord& intent);
  void finish_revocation();
  void post_again();

  Step demand(uint64_t through, uint64_t least);
  Step take(uint64_t first, uint64_t count);
  void take_one(Leases::Record& lease, int64_t now_ns, bool counted);
  Step give_back(uint64_t first, uint64_t count);
  void return_through(uint64_t end);
  void return_one(Leases::Record& lease, bool uncounted);
  enum class LeaseEnd { kReleased, kUnacknowledged };
  Step release(uint64_t first, uint64_t count, LeaseEnd how);
  size_t post_draws(uint64_t through);
  bool post_one_draw();
  size_t post_unique(uint64_t through, bool asked_anew);
  bool draw_unique(uint64_t number);
  size_t post_watched();

  void end_lease(Leases::Record& lease, LeaseEnd how);
  void end_expired(int64_t now_ns);
  void revoke_untaken(int64_t now_ns);
  int64_t timeout_ns() const { return int64_t{table().header().lease_timeout_ms} * 1'000'000; }
  uint64_t resolved() const { return leases_.resolved(); }
  bool is_taken(uint64_t number) const {
    const Leases::Record& one = leases_.at(number);
    return one.number == number && Leases::state(one) == Leases::State::kTaken;
  }
  uint64_t oldest_taken();
  uint64_t untaken() const { return completions().tail() - leases_.resolved(); }
  bool ready(uint64_t draws);
  bool draw(Drawn* drawn);

  Rng rng_;
  uint32_t index_;  // of the table's indexes
  bool unique_;
  uint64_t prefetch_;
  bool direct_;
  VersionFilter filter_;
  std::shared_ptr<ConsumerGroup> group_;  // nullptr: none
  Leases leases_;
  std::vector<uint64_t> aside_;  // unique: leases whose items are out of the index, while draws are made
  uint64_t draws_end_ = 0;
  int64_t posting_ns_ = 0;
  uint64_t taken_ = 0;         // leases in state taken
  uint64_t oldest_ = 0;        // none below is taken
  uint64_t part_done_ = 0;     // of the release that is first in the ring: leases looked at
  bool demand_new_ = false;
  uint64_t watched_items_ = 0;  // 0: not watching
};

}  // namespace gear
