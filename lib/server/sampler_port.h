// The conductor's end of a sampler.
#pragma once

#include <vector>

#include "base/rng.h"
#include "layout/control.h"
#include "server/port.h"

namespace gear {

// Conductor only. Draws for the client, ahead of need where it asked for that, and keeps what was drawn pinned.
//
// A lease's number is the position of its record in the completion ring. Life of a lease:
//   posted -> taken (the draw counts) -> released, or expired
//   posted -> returned (the draw never was)
// Leases [resolved_, posted_) are posted and neither taken nor returned.
//
// With a consumer group a release acknowledges; a lease that is rejected, expires, or is taken when the port ends is
// delivered again. What a client was told it had acknowledged never is: it says so only while its own, earlier clock
// has not reached the lease's end, and expiry first takes all records that are in the ring.
class SamplerPort final : public Port {
 public:
  static Result<std::unique_ptr<Port>> open(std::shared_ptr<Table> table,
                                            const layout::SamplerOpenRequest& request,
                                            uint64_t instance_id, uint32_t id, uint64_t session,
                                            const MemoryOptions& memory);
  void give_up() override;
  bool direct() const { return direct_; }
  const ConsumerGroup* group() const { return group_.get(); }
  bool wants_tick() const override { return taken_ > 0; }
  void tick(int64_t now_ns) override;

 private:
  SamplerPort(const ChannelPlan& plan, Segment segment, std::shared_ptr<Table> table, uint32_t id,
              uint64_t session, const layout::SamplerOpenRequest& request);
  Step apply(const layout::SubmissionRecord& record) override;
  size_t post_due() override;

  Step demand(uint64_t through, uint64_t least);
  Step take(uint64_t count);
  Step give_back(uint64_t count);
  enum class LeaseEnd { kReleased, kUnacknowledged };
  Step release(uint64_t first, uint64_t count, LeaseEnd how);
  size_t post_draws(uint64_t through);
  bool post_one_draw();
  size_t post_unique(uint64_t through);
  bool draw_unique(uint64_t number);
  size_t post_watched();

  enum class LeaseState : uint8_t { kNone, kPosted, kTaken };
  struct Lease {
    uint64_t number = 0;
    LeaseState state = LeaseState::kNone;
    int64_t taken_ns = 0;
    Drawn drawn{};
  };
  Lease& lease(uint64_t number) { return leases_[number & (leases_.size() - 1)]; }
  void end_lease(Lease& lease, LeaseEnd how);
  bool ready(uint64_t draws);
  bool draw(Drawn* drawn);

  Rng rng_;
  uint32_t index_;  // of the table's indexes
  bool unique_;
  uint64_t prefetch_;
  bool direct_;
  VersionFilter filter_;
  std::shared_ptr<ConsumerGroup> group_;  // nullptr: none
  std::vector<Lease> leases_;  // a power of two
  std::vector<uint64_t> aside_;  // unique: leases whose items are out of the index, while draws are made
  uint64_t draws_end_ = 0;
  uint64_t resolved_ = 0;
  uint64_t taken_ = 0;         // leases in state taken
  uint64_t demand_through_ = 0;
  uint64_t demand_least_ = 0;
  bool demand_new_ = false;
  uint64_t watched_items_ = 0;  // 0: not watching
};

}  // namespace gear
