#include "server/sampler_port.h"

#include <algorithm>
#include <bit>

#include "base/clock.h"
#include "base/shared_word.h"

namespace gear {

using layout::CompletionType;
using layout::SubmissionOp;
using layout::SubmissionRecord;

namespace {

constexpr uint64_t kRowsMax = 1u << 20;
constexpr uint32_t kSubmissionSlots = 256;

uint64_t rows_ahead(const layout::SamplerOpenRequest& request) {
  return uint64_t{request.prefetch} + request.batch_rows_max;
}

ChannelPlan sampler_plan(const layout::SamplerOpenRequest& request) {
  uint64_t records = request.direct != 0 ? 16 : rows_ahead(request) * 2;
  return {layout::ChannelKind::kSampler, kSubmissionSlots,
          static_cast<uint32_t>(std::bit_ceil(std::max<uint64_t>(records, 64)))};
}

Status check_sharing(const Table& table, const layout::SamplerOpenRequest& request) {
  if (request.version_policy > GEAR_VERSION_DROP || request.group_from > 1) {
    return error(GEAR_EINVAL, "version_policy %u, group_from %u; give a gear_version_policy, and 0 or 1",
                 request.version_policy, request.group_from);
  }
  if (request.version_policy != GEAR_VERSION_ANY && table.header().versions_offset == 0) {
    return error(GEAR_EUNSUPPORTED,
                 "items of table \"%s\" have no versions; create it with versions = 1", table.name());
  }
  bool counted = request.group[0] != '\0' || request.version_policy == GEAR_VERSION_DROP;
  if (counted && request.direct != 0) {
    return error(GEAR_EUNSUPPORTED, "groups, and version_policy drop, need mode leased or auto");
  }
  return {};
}

// The table's sampler, or one of its named selectors.
bool draws_by(const layout::TableHeader& table, uint32_t index) {
  return index == table.sampler_index ||
         (index >= table.named_index && index - table.named_index < table.named_count);
}

}  // namespace

Result<std::unique_ptr<Port>> SamplerPort::open(std::shared_ptr<Table> table,
                                                const layout::SamplerOpenRequest& request,
                                                uint64_t instance_id, uint32_t id,
                                                uint64_t session, const MemoryOptions& memory) {
  uint64_t held = uint64_t{request.batches_max} * request.batch_rows_max;
  if (request.batch_rows_max < 1 || request.batches_max < 1 || held > kRowsMax ||
      request.prefetch > kRowsMax) {
    return error(GEAR_EINVAL,
                 "open sampler on \"%s\": batch_rows_max %u, batches_max %u, prefetch %u; rows held and prefetched are each at most %llu",
                 table->name(), request.batch_rows_max, request.batches_max, request.prefetch,
                 static_cast<unsigned long long>(kRowsMax));
  }
  if (request.direct != 0 && table->header().direct_allowed == 0) {
    return error(GEAR_EUNSUPPORTED,
                 "open sampler on \"%s\": direct sampling needs a limiter of min_size only and no max_times_sampled; use mode leased",
                 table->name());
  }
  if (!draws_by(table->header(), request.index)) {
    return error(GEAR_EINVAL,
                 "open sampler on \"%s\": index %u is neither the table's sampler nor a named selector; give one of those",
                 table->name(), request.index);
  }
  if (request.unique != 0 && request.direct == 0 && request.prefetch != 0) {
    return error(GEAR_EINVAL,
                 "open sampler on \"%s\": unique draws with prefetch %u; set prefetch 0", table->name(),
                 request.prefetch);
  }
  GEAR_TRY(check_sharing(*table, request));
  ChannelPlan plan = sampler_plan(request);
  Result<Segment> channel = make_channel(plan, instance_id, id, memory);
  if (!channel.ok()) return channel.status();
  // Last: a group that is made stays.
  std::shared_ptr<ConsumerGroup> group;
  if (request.group[0] != '\0') {
    auto opened = table->open_group(request.group, request.group_from == 0);
    if (!opened.ok()) return opened.status();
    group = opened.take();
  }
  std::unique_ptr<SamplerPort> port(
      new SamplerPort(plan, channel.take(), std::move(table), id, session, request));
  port->group_ = std::move(group);
  if (port->group_) ++port->group_->consumers;
  return std::unique_ptr<Port>(std::move(port));
}

SamplerPort::SamplerPort(const ChannelPlan& plan, Segment segment, std::shared_ptr<Table> table,
                         uint32_t id, uint64_t session, const layout::SamplerOpenRequest& request)
    : Port(plan, std::move(segment), std::move(table), id, session),
      rng_(request.seed),
      index_(request.index),
      unique_(request.unique != 0 && request.group[0] == '\0'),  // a group repeats nothing by itself
      prefetch_(request.prefetch),
      direct_(request.direct != 0),
      filter_{request.version_policy, request.version_lag} {
  if (direct_) return;
  uint64_t held = uint64_t{request.batches_max} * request.batch_rows_max;
  leases_.resize(std::bit_ceil(held + plan.completion_slots));
  if (unique_) aside_.reserve(plan.completion_slots);
}

void SamplerPort::give_up() {
  if (direct_) return;
  uint64_t posted = completions().tail();
  if (posted > resolved_) give_back(posted - resolved_);
  for (Lease& lease : leases_) {
    if (lease.state == LeaseState::kTaken) end_lease(lease, LeaseEnd::kUnacknowledged);
  }
  if (group_) --group_->consumers;
}

Port::Step SamplerPort::apply(const SubmissionRecord& record) {
  auto op = static_cast<SubmissionOp>(record.op);
  if (op == SubmissionOp::kWatch) {
    // In a leased sampler's ring every completion is a lease: a notice among them would be given back as one.
    if (!direct_) return Step::kBroken;
    watched_items_ = record.argument;
    return Step::kApplied;
  }
  if (direct_) return Step::kBroken;
  switch (op) {
    case SubmissionOp::kDemand: return demand(record.argument, record.count);
    case SubmissionOp::kTake: return take(record.count);
    case SubmissionOp::kReturn: return give_back(record.count);
    case SubmissionOp::kRelease:
      return release(record.argument, record.count, LeaseEnd::kReleased);
    case SubmissionOp::kReject:
      if (!group_) return Step::kBroken;
      return release(record.argument, record.count, LeaseEnd::kUnacknowledged);
    default: return Step::kBroken;
  }
}

Port::Step SamplerPort::demand(uint64_t through, uint64_t least) {
  if (through < resolved_ || through - resolved_ > completions().slots()) return Step::kBroken;
  demand_through_ = through;
  demand_least_ = least;
  demand_new_ = true;
  return Step::kApplied;
}

Port::Step SamplerPort::take(uint64_t count) {
  if (count > completions().tail() - resolved_) return Step::kBroken;
  int64_t now = now_ns();
  for (uint64_t end = resolved_ + count; resolved_ < end; ++resolved_) {
    Lease& one = lease(resolved_);
    if (group_) {
      table().take_for(*group_, one.drawn);
    } else {
      table().take(one.drawn);
    }
    one.state = LeaseState::kTaken;
    one.taken_ns = now;
    ++taken_;
  }
  return Step::kApplied;
}

// Newest first: a group has them in their old order again, and a list finds their places at its end.
Port::Step SamplerPort::give_back(uint64_t count) {
  if (count > completions().tail() - resolved_) return Step::kBroken;
  for (uint64_t number = resolved_ + count; number-- > resolved_;) {
    Lease& one = lease(number);
    if (group_) {
      table().give_back_for(*group_, one.drawn);
    } else {
      table().give_back(one.drawn);
      table().unpin(one.drawn.pin);
    }
    one.state = LeaseState::kNone;
  }
  resolved_ += count;
  return Step::kApplied;
}

Port::Step SamplerPort::release(uint64_t first, uint64_t count, LeaseEnd how) {
  if (count > leases_.size() || first > resolved_ || count > resolved_ - first) {
    return Step::kBroken;
  }
  for (uint64_t number = first; number < first + count; ++number) {
    Lease& one = lease(number);
    // Another number, or not taken: it expired, or was released before; nothing is left to end.
    if (one.number == number && one.state == LeaseState::kTaken) end_lease(one, how);
  }
  return Step::kApplied;
}

void SamplerPort::end_lease(Lease& lease, LeaseEnd how) {
  if (!group_) {
    table().unpin(lease.drawn.pin);
  } else if (how == LeaseEnd::kReleased) {
    table().acknowledge(*group_, lease.drawn);
  } else {
    table().deliver_again(*group_, lease.drawn);
  }
  lease.state = LeaseState::kNone;
  --taken_;
}

void SamplerPort::tick(int64_t now_ns) {
  int64_t timeout_ns = int64_t{table().header().lease_timeout_ms} * 1'000'000;
  auto over = [&](const Lease& one) {
    return one.state == LeaseState::kTaken && now_ns - one.taken_ns > timeout_ns;
  };
  if (std::none_of(leases_.begin(), leases_.end(), over)) return;
  if (group_) drain();
  for (Lease& one : leases_) {
    if (over(one)) end_lease(one, LeaseEnd::kUnacknowledged);
  }
}

size_t SamplerPort::post_due() {
  size_t posted = 0;
  if (watched_items_ != 0) posted += post_watched();
  if (direct_) return posted;
  bool wanted = completions().tail() < std::max(demand_through_, resolved_ + prefetch_);
  if (!wanted || (!demand_new_ && !table_changed())) return posted;
  demand_new_ = false;

  uint64_t tail = completions().tail();
  if (prefetch_ == 0 && demand_through_ > tail) {
    // All or nothing, so that two samplers never each hold a part that the other waits for; unless fewer will do.
    uint64_t missing = demand_through_ - tail;
    if (unique_) {
      uint64_t left = table().drawable() - std::min(table().drawable(), tail - resolved_);
      missing = std::min(missing, std::max<uint64_t>(left, 1));
    }
    bool fewer_will_do = demand_least_ < demand_through_ - resolved_;
    if (!fewer_will_do && !ready(missing)) return posted;
  }
  if (unique_) return posted + post_unique(demand_through_);
  return posted + post_draws(std::max(demand_through_, resolved_ + prefetch_));
}

// Draws without repetition within a batch, which are those posted and not resolved: each is made with the items of those
// before it out of the index. All are back in their places before anyone else draws from it.
size_t SamplerPort::post_unique(uint64_t through) {
  uint64_t tail = completions().tail();
  uint64_t end = std::min(through, tail + completions().room());
  aside_.clear();
  for (uint64_t number = resolved_; number < tail; ++number) {
    if (table().set_aside(index_, lease(number).drawn)) aside_.push_back(number);
  }
  uint64_t next = tail;
  bool nothing_left = false;
  while (next < end && lease(next).state == LeaseState::kNone && table().draws_ready(1)) {
    nothing_left = !draw_unique(next);
    if (nothing_left) break;
    ++next;
  }
  for (; !aside_.empty(); aside_.pop_back()) table().put_back(index_, lease(aside_.back()).drawn.slot);

  for (uint64_t number = tail; number < next; ++number) {
    Drawn& drawn = lease(number).drawn;
    // As if it were the first of its batch; where that is never, as in order, as drawn.
    double probability = table().probability(index_, drawn);
    if (probability > 0) drawn.record.probability = probability;
    layout::CompletionRecord record;
    record.draw = drawn.record;
    completions().push(record);
  }
  if (table().drawable() == 0) nothing_left = true;
  if (!nothing_left || next == resolved_ || draws_end_ == next) return next - tail;
  draws_end_ = next;
  publish(header()->draws_end, next);
  return next - tail + 1;
}

bool SamplerPort::draw_unique(uint64_t number) {
  Lease& one = lease(number);
  if (!table().draw(index_, rng_, filter_, &one.drawn)) return false;
  one.number = number;
  one.state = LeaseState::kPosted;
  if (table().set_aside(index_, one.drawn)) aside_.push_back(number);
  return true;
}

size_t SamplerPort::post_draws(uint64_t through) {
  size_t posted = 0;
  uint64_t room = completions().room();
  while (completions().tail() < through && posted < room && post_one_draw()) ++posted;
  return posted;
}

bool SamplerPort::ready(uint64_t draws) {
  return group_ ? table().draws_ready_for(*group_, filter_, draws) : table().draws_ready(draws);
}

bool SamplerPort::draw(Drawn* drawn) {
  return group_ ? table().draw_for(*group_, filter_, drawn) : table().draw(index_, rng_, filter_, drawn);
}

bool SamplerPort::post_one_draw() {
  uint64_t number = completions().tail();
  Lease& one = lease(number);
  if (one.state != LeaseState::kNone || !ready(1)) return false;
  if (!draw(&one.drawn)) return false;
  one.number = number;
  one.state = LeaseState::kPosted;
  layout::CompletionRecord record;
  record.draw = one.drawn.record;
  completions().push(record);
  return true;
}

size_t SamplerPort::post_watched() {
  if (table().items() < watched_items_ || completions().room() == 0) return 0;
  watched_items_ = 0;
  layout::CompletionRecord record{};
  record.type = static_cast<uint32_t>(CompletionType::kWatched);
  completions().push(record);
  return 1;
}

}  // namespace gear
