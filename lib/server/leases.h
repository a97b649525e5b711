// The leases of a sampler, in memory that the next server of the instance finds.
#pragma once

#include <cstdint>

#include "layout/ledger.h"
#include "shm/segment.h"
#include "table/drawn.h"

namespace gear {

// Conductor only. A lease is found by its number, modulo the slots. What is written here is for the conductor that adopts it
// after a death: a lease is posted, taken or ended exactly when its state says so, which is stored last.
class Leases {
 public:
  using Record = layout::LeaseRecord;
  using State = layout::LeaseRecordState;

  Leases() = default;
  // `slots`: a power of two. `memory` as for channels. Errors: those of Segment::create.
  static Result<Leases> create(uint64_t slots, uint64_t group, uint64_t instance_id, uint32_t channel_id,
                               const MemoryOptions& memory);
  // Of a server that died. EPROTOCOL when it has not `slots`, or words that no server leaves.
  static Result<Leases> adopt(Segment segment, uint64_t slots);

  uint64_t slots() const { return slots_; }
  Record& at(uint64_t number) const { return records_[number & (slots_ - 1)]; }
  Record* begin() const { return records_; }
  Record* end() const { return records_ + slots_; }

  static State state(const Record& lease) { return static_cast<State>(lease.state); }
  static Drawn drawn(const Record& lease);
  // The lease is posted from here on.
  void post(uint64_t number, const Drawn& drawn, int64_t now_ns);
  static void set_state(Record& lease, State state);

  // Leases [resolved, posted) are posted, neither taken nor returned.
  uint64_t resolved() const { return header_->resolved; }
  void set_resolved(uint64_t number);
  uint64_t posted() const { return header_->posted; }
  uint64_t revoked() const { return header_->revoked; }
  void set_revoked(uint64_t number);
  bool lapsed() const { return header_->lapsed != 0; }
  void set_lapsed(bool lapsed);
  uint64_t demand_through() const { return header_->demand_through; }
  uint64_t demand_least() const { return header_->demand_least; }
  void set_demand(uint64_t through, uint64_t least);
  uint64_t group() const { return header_->group; }

 private:
  Segment segment_;
  layout::LeasesHeader* header_ = nullptr;
  Record* records_ = nullptr;
  uint64_t slots_ = 0;
};

}  // namespace gear
