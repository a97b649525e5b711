#include "server/leases.h"

#include <bit>

#include "base/shared_word.h"

namespace gear {

using layout::LeaseRecord;
using layout::LeasesHeader;

namespace {
// Of a slot that was never used: no lease gets as far.
constexpr uint64_t kNoNumber = ~uint64_t{0};
}  // namespace

Result<Leases> Leases::create(uint64_t slots, uint64_t group, uint64_t instance_id, uint32_t channel_id,
                              const MemoryOptions& memory) {
  uint64_t bytes = sizeof(LeasesHeader) + slots * sizeof(LeaseRecord);
  Result<Segment> made = Segment::create("open sampler", layout::SegmentKind::kLeases, bytes, instance_id,
                                         channel_id, memory);
  if (!made.ok()) return made.status();
  Leases leases;
  leases.segment_ = made.take();
  leases.slots_ = slots;
  leases.header_ = static_cast<LeasesHeader*>(leases.segment_.data());
  leases.records_ = reinterpret_cast<LeaseRecord*>(leases.header_ + 1);
  leases.header_->lease_slots = slots;
  leases.header_->group = group;
  for (LeaseRecord& lease : leases) lease.number = kNoNumber;
  leases.segment_.publish_magic();
  return leases;
}

Result<Leases> Leases::adopt(Segment segment, uint64_t slots) {
  auto* header = static_cast<LeasesHeader*>(segment.data());
  bool sound = segment.size() >= sizeof(LeasesHeader) + slots * sizeof(LeaseRecord) &&
               header->lease_slots == slots && header->resolved <= header->posted &&
               header->posted - header->resolved <= slots && header->revoked <= header->posted;
  if (!sound) {
    return error(GEAR_EPROTOCOL,
                 "leases of channel %llu: %llu slots, resolved %llu, posted %llu, revoked %llu in %zu bytes, %llu slots wanted; its sampler must be opened anew",
                 static_cast<unsigned long long>(header->segment.object_id),
                 static_cast<unsigned long long>(header->lease_slots),
                 static_cast<unsigned long long>(header->resolved),
                 static_cast<unsigned long long>(header->posted),
                 static_cast<unsigned long long>(header->revoked), segment.size(),
                 static_cast<unsigned long long>(slots));
  }
  Leases leases;
  leases.segment_ = std::move(segment);
  leases.slots_ = slots;
  leases.header_ = header;
  leases.records_ = reinterpret_cast<LeaseRecord*>(header + 1);
  // The state was stored, and the death came before the count.
  for (uint64_t next = header->posted; leases.at(next).number == next; ++next) {
    if (state(leases.at(next)) == State::kPosted) publish(header->posted, next + 1);
    else break;
  }
  return leases;
}

Drawn Leases::drawn(const LeaseRecord& lease) {
  return {lease.record,
          {lease.pin_block, lease.pin_position, lease.pin_length, lease.pin_episode},
          lease.slot,
          lease.item_generation,
          lease.epoch};
}

void Leases::post(uint64_t number, const Drawn& drawn, int64_t now_ns) {
  LeaseRecord& lease = at(number);
  lease.number = number;
  lease.slot = drawn.slot;
  lease.posted_ns = now_ns;
  lease.record = drawn.record;
  lease.pin_block = drawn.pin.block;
  lease.pin_position = drawn.pin.position;
  lease.pin_length = drawn.pin.length;
  lease.pin_episode = drawn.pin.episode;
  lease.item_generation = drawn.item_generation;
  lease.epoch = drawn.epoch;
  set_state(lease, State::kPosted);
  publish(header_->posted, number + 1);
}

// Release, here and below: the next server finds whatever was stored before it.
void Leases::set_state(LeaseRecord& lease, State state) { publish(lease.state, static_cast<uint32_t>(state)); }
void Leases::set_resolved(uint64_t number) { publish(header_->resolved, number); }
void Leases::set_revoked(uint64_t number) { publish(header_->revoked, number); }
void Leases::set_demand(uint64_t through, uint64_t least) {
  publish(header_->demand_least, least);
  publish(header_->demand_through, through);
}
void Leases::set_lapsed(bool lapsed) { publish(header_->lapsed, uint64_t{lapsed}); }

}  // namespace gear
