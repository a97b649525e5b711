#include "server/sampler_port.h"

#include <algorithm>
#include <bit>

#include "base/clock.h"
#include "base/shared_word.h"

namespace gear {

using layout::CompletionType;
using LeaseState = layout::LeaseRecordState;
using layout::SubmissionOp;
using layout::SubmissionRecord;

namespace {

constexpr uint64_t kRowsMax = 1u << 20;        // direct: of batches, which the client alone holds
constexpr uint64_t kLeasedRowsMax = 1u << 16;  // held and prefetched: at most 40 MiB of channel and leases, made in one go
constexpr uint32_t kSubmissionSlots = 256;
constexpr uint64_t kAheadAtOnce = 1024;  // draws of a sampler that prefetches

uint64_t rows_ahead(const layout::SamplerOpenRequest& request) {
  return uint64_t{request.prefetch} + request.batch_rows_max;
}

uint64_t lease_slots(const layout::SamplerOpenRequest& request, const ChannelPlan& plan) {
  return std::bit_ceil(uint64_t{request.batches_max} * request.batch_rows_max + plan.completion_slots);
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
                                                const ChannelPlace& place) {
  uint64_t rows = uint64_t{request.batches_max} * request.batch_rows_max + request.prefetch;
  uint64_t most = request.direct != 0 ? kRowsMax : kLeasedRowsMax;
  if (request.batch_rows_max < 1 || request.batches_max < 1 || rows > most) {
    return error(GEAR_EINVAL,
                 "open sampler on \"%s\": batch_rows_max %u, batches_max %u, prefetch %u; rows held (batches_max of batch_rows_max) and prefetched are together at most %llu",
                 table->name(), request.batch_rows_max, request.batches_max, request.prefetch,
                 static_cast<unsigned long long>(most));
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
  Result<Segment> channel = make_channel(plan, place.instance_id, place.id, place.memory);
  if (!channel.ok()) return channel.status();
  // Last: a group that is made stays.
  std::shared_ptr<ConsumerGroup> group;
  if (request.group[0] != '\0') {
    auto opened = table->open_group(request.group, request.group_from == 0);
    if (!opened.ok()) return opened.status();
    group = opened.take();
  }
  Leases leases;
  if (request.direct == 0) {
    uint64_t number = group ? group->ordinal() + 1 : 0;
    Result<Leases> made = Leases::create(lease_slots(request, plan), number, place.instance_id, place.id, place.memory);
    if (!made.ok()) return made.status();
    leases = made.take();
  }
  std::unique_ptr<SamplerPort> port(
      new SamplerPort(plan, channel.take(), std::move(table), place, request));
  port->leases_ = std::move(leases);
  port->group_ = std::move(group);
  if (port->group_) ++port->group_->consumers;
  return std::unique_ptr<Port>(std::move(port));
}

SamplerPort::SamplerPort(const ChannelPlan& plan, Segment segment, std::shared_ptr<Table> table,
                         const ChannelPlace& place, const layout::SamplerOpenRequest& request)
    : Port(plan, std::move(segment), std::move(table), place),
      rng_(request.seed),
      index_(request.index),
      unique_(request.unique != 0 && request.group[0] == '\0'),  // a group repeats nothing by itself
      prefetch_(request.prefetch),
      direct_(request.direct != 0),
      filter_{request.version_policy, request.version_lag} {
  if (unique_ && !direct_) aside_.reserve(plan.completion_slots);
}

SamplerPort::SamplerPort(layout::ChannelRecord* record, Segment segment, std::shared_ptr<Table> table)
    : Port(record, std::move(segment), std::move(table)),
      rng_(record->sampler.seed ^ static_cast<uint64_t>(now_ns())),
      index_(record->sampler.index),
      unique_(record->sampler.unique != 0 && record->sampler.group[0] == '\0'),
      prefetch_(record->sampler.prefetch),
      direct_(record->sampler.direct != 0),
      filter_{record->sampler.version_policy, record->sampler.version_lag} {
  if (direct_) watched_items_ = record->note;
  if (unique_ && !direct_) aside_.reserve(record->completion_slots);
}

Result<std::unique_ptr<Port>> SamplerPort::adopt(std::shared_ptr<Table> table, Segment channel,
                                                 layout::ChannelRecord* record) {
  const layout::SamplerOpenRequest& request = record->sampler;
  ChannelPlan plan = sampler_plan(request);
  if (plan.submission_slots != record->submission_slots || plan.completion_slots != record->completion_slots ||
      !draws_by(table->header(), request.index)) {
    return error(GEAR_EPROTOCOL, "sampler channel %u on \"%s\": %u and %u slots, index %u, do not fit what it was opened with; open it anew",
                 record->id, table->name(), record->submission_slots, record->completion_slots, request.index);
  }
  Leases leases;
  std::shared_ptr<ConsumerGroup> group;
  bool dropped = false;
  if (request.direct == 0) {
    Result<Segment> segment = Segment::adopt("adopt sampler", layout::SegmentKind::kLeases,
                                             table->header().segment.instance_id, record->id);
    if (!segment.ok()) return segment.status();
    Result<Leases> left = Leases::adopt(segment.take(), lease_slots(request, plan));
    if (!left.ok()) return left.status();
    leases = left.take();
    if (request.group[0] != '\0') group = table->find_group(request.group);
    dropped = request.group[0] != '\0' && (!group || group->ordinal() + 1 != leases.group());
    if (dropped) {
      group = std::make_shared<ConsumerGroup>(request.group);
      group->dropped = true;
    }
  }
  std::unique_ptr<SamplerPort> port(new SamplerPort(record, std::move(channel), std::move(table)));
  port->leases_ = std::move(leases);
  port->group_ = std::move(group);
  if (port->group_) ++port->group_->consumers;
  if (!port->direct_) port->adopt_leases();
  if (dropped && !port->failed()) port->fail(GEAR_EDROPPED);
  return std::unique_ptr<Port>(std::move(port));
}

void SamplerPort::adopt_leases() {
  uint64_t epoch = table().header().counters.epoch;
  for (Leases::Record& one : leases_) {
    LeaseState state = Leases::state(one);
    if (state == LeaseState::kNone) continue;
    bool again = group_ && one.record.type == static_cast<uint32_t>(CompletionType::kItemAgain);
    if (!table().adopt_draw(Leases::drawn(one), state == LeaseState::kPosted && !again)) {
      Leases::set_state(one, LeaseState::kNone);
      continue;
    }
    if (state != LeaseState::kTaken) continue;
    ++taken_;
    if (group_ && one.epoch == epoch) ++group_->counts.in_flight;
  }
  finish_step(table().header().intent);
  finish_revocation();
  for (const Leases::Record& one : leases_) {
    if (group_ && Leases::state(one) != LeaseState::kNone) table().adopt_lease(*group_, Leases::drawn(one));
  }
  post_again();
}

// One step of this channel may be done in part. A draw that no lease came of never was; the others are completed, and then
// recognised when their record is applied once more.
void SamplerPort::finish_step(const layout::IntentRecord& intent) {
  if (intent.channel != id()) return;
  auto op = static_cast<layout::IntentOp>(intent.op);
  Leases::Record& lease = leases_.at(intent.number);
  LeaseState state = lease.number == intent.number ? Leases::state(lease) : LeaseState::kNone;
  bool same_count = table().times_sampled(intent.slot) == intent.times_sampled;
  switch (op) {
    case layout::IntentOp::kDraw:
      if (state == LeaseState::kPosted) return table().end_intent();
      return group_ ? table().keep_draw_counted() : table().undo_draw();
    case layout::IntentOp::kTake:
      if (group_ && state == LeaseState::kPosted) {
        group_->counts.delivered = intent.steps;
        group_->counts.redelivered = intent.episodes;
      }
      if (state == LeaseState::kPosted) {
        return take_one(lease, now_ns(), table().header().counters.samples != intent.samples);
      }
      leases_.set_resolved(std::max(resolved(), intent.number + 1));
      return table().end_intent();
    case layout::IntentOp::kReturn:
      if (state == LeaseState::kPosted) return return_one(lease, !same_count);
      return table().end_intent();
    case layout::IntentOp::kRelease:
      if (state != LeaseState::kTaken) return table().end_intent();
      if (group_) group_->counts.acknowledged = intent.steps;
      return end_lease(lease, LeaseEnd::kReleased);
    default: return;
  }
}

// Draws that were being taken back when the other server died, newest first. A group has them to deliver again by this, and
// does not look for them any more.
void SamplerPort::finish_revocation() {
  uint64_t begin = resolved();
  uint64_t end = leases_.revoked();
  auto begun = [this](uint64_t number) { return Leases::state(leases_.at(number)) == LeaseState::kNone; };
  uint64_t number = begin;
  while (number < end && !begun(number)) ++number;
  if (number >= end) return;
  for (number = begin; group_ && number < end; ++number) {
    if (!begun(number)) table().adopt_waiting(*group_, Leases::drawn(leases_.at(number)));
  }
  return_through(end);
}

// The same bytes where they are already. Whatever the other server had not published is seen now.
void SamplerPort::post_again() {
  completions().go_back_to(resolved());
  for (uint64_t number = resolved(); number < leases_.posted(); ++number) {
    layout::CompletionRecord record;
    record.draw = leases_.at(number).record;
    completions().push(record);
  }
  publish(header()->draws_revoked, leases_.revoked());
  demand_new_ = true;
  publish_progress();
}

void SamplerPort::give_up() {
  if (direct_) return;
  return_through(completions().tail());
  while (oldest_taken() < resolved()) end_lease(leases_.at(oldest_), LeaseEnd::kUnacknowledged);
  if (group_) --group_->consumers;
}

Port::Step SamplerPort::apply(const SubmissionRecord& record) {
  auto op = static_cast<SubmissionOp>(record.op);
  if (op == SubmissionOp::kWatch) {
    // In a leased sampler's ring every completion is a lease: a notice among them would be given back as one.
    if (!direct_) return Step::kBroken;
    watched_items_ = record.argument;
    publish(this->record().note, watched_items_);
    return Step::kApplied;
  }
  if (direct_) return Step::kBroken;
  if (leases_.lapsed()) leases_.set_lapsed(false);
  switch (op) {
    case SubmissionOp::kDemand: return demand(record.argument, record.count);
    case SubmissionOp::kTake: return take(record.argument, record.count);
    case SubmissionOp::kReturn: return give_back(record.argument, record.count);
    case SubmissionOp::kRelease:
      return release(record.argument, record.count, LeaseEnd::kReleased);
    case SubmissionOp::kReject:
      if (!group_) return Step::kBroken;
      return release(record.argument, record.count, LeaseEnd::kUnacknowledged);
    default: return Step::kBroken;
  }
}

// A demand of before draws were revoked may end below them; its client has been told, and demands anew.
Port::Step SamplerPort::demand(uint64_t through, uint64_t least) {
  if (through < resolved() && through >= leases_.revoked()) return Step::kBroken;
  through = std::max(through, resolved());
  if (through - resolved() > completions().slots()) return Step::kBroken;
  leases_.set_demand(through, least);
  demand_new_ = true;
  return Step::kApplied;
}

// All of them or, when they were revoked, none. Applied a second time by the server that comes after a death in the middle,
// it goes on where it was: what is taken is passed over.
Port::Step SamplerPort::take(uint64_t first, uint64_t count) {
  if (first > completions().tail() || count > completions().tail() - first) return Step::kBroken;
  if (first < resolved()) {
    bool taken = is_taken(first);
    if (!taken && first >= leases_.revoked()) return Step::kBroken;
    if (!taken) {
      publish(header()->takes_void, first + 1);
      return Step::kApplied;
    }
  } else if (first > resolved()) {
    if (first > leases_.revoked()) return Step::kBroken;
    return_through(first);
  }
  int64_t now = now_ns();
  while (resolved() < first + count) {
    Leases::Record& next = leases_.at(resolved());
    if (Leases::state(next) == LeaseState::kPosted) {
      take_one(next, now, false);
    } else {
      leases_.set_resolved(resolved() + 1);  // adopted without its rows
    }
  }
  return Step::kApplied;
}

// counted: of the step, the table's count is done.
void SamplerPort::take_one(Leases::Record& lease, int64_t now_ns, bool counted) {
  Drawn drawn = Leases::drawn(lease);
  if (!counted) table().intend(layout::IntentOp::kTake, id(), lease.number, drawn, group_.get());
  if (group_) {
    table().take_for(*group_, drawn, counted);
  } else {
    table().take(drawn, counted);
  }
  lease.taken_ns = now_ns;
  Leases::set_state(lease, LeaseState::kTaken);
  leases_.set_resolved(lease.number + 1);
  table().end_intent();
  ++taken_;
}

Port::Step SamplerPort::give_back(uint64_t first, uint64_t count) {
  uint64_t end = first + count;
  if (first > completions().tail() || count > completions().tail() - first) return Step::kBroken;
  if (end <= resolved()) return Step::kApplied;
  bool follows = first <= leases_.revoked() || first == resolved();
  if (!follows) return Step::kBroken;
  return_through(end);
  return Step::kApplied;
}

// All that are untaken up to `end`. Newest first: a group has them in their old order again, and a list finds their places at
// its end. `resolved` goes last: until then the next server finds those that are left.
void SamplerPort::return_through(uint64_t end) {
  for (uint64_t number = end; number-- > resolved();) {
    Leases::Record& one = leases_.at(number);
    if (Leases::state(one) == LeaseState::kPosted) return_one(one, false);
  }
  leases_.set_resolved(std::max(end, resolved()));
}

void SamplerPort::return_one(Leases::Record& lease, bool uncounted) {
  Drawn drawn = Leases::drawn(lease);
  if (group_) {
    Leases::set_state(lease, LeaseState::kNone);
    return table().give_back_for(*group_, drawn);
  }
  if (!uncounted) table().intend(layout::IntentOp::kReturn, id(), lease.number, drawn, nullptr);
  table().give_back(drawn, uncounted);
  Leases::set_state(lease, LeaseState::kNone);
  table().end_intent();
  table().unpin(drawn.pin);
}

Port::Step SamplerPort::release(uint64_t first, uint64_t count, LeaseEnd how) {
  if (count > leases_.slots() || first > resolved() || count > resolved() - first) {
    return Step::kBroken;
  }
  // Where another number is in the place, or it is not taken, it expired, or was released before: nothing is left to end. So
  // a part that is applied once more ends nothing twice.
  uint64_t end = first + count;
  uint64_t from = std::min(std::max(first + part_done_, oldest_taken()), end);
  uint64_t to = std::min(end, from + std::max<uint64_t>(budget(), 1));
  for (uint64_t number = from; number < to; ++number) {
    if (is_taken(number)) end_lease(leases_.at(number), how);
  }
  spend(to - from);
  part_done_ = to < end ? to - first : 0;
  return to < end ? Step::kPart : Step::kApplied;
}

// Leases are taken in order; a slot holds no lease that is taken for longer than one round.
uint64_t SamplerPort::oldest_taken() {
  if (resolved() > leases_.slots()) oldest_ = std::max(oldest_, resolved() - leases_.slots());
  while (oldest_ < resolved() && !is_taken(oldest_)) ++oldest_;
  return oldest_;
}

void SamplerPort::end_lease(Leases::Record& lease, LeaseEnd how) {
  Drawn drawn = Leases::drawn(lease);
  --taken_;
  if (group_ && how == LeaseEnd::kReleased) {
    table().intend(layout::IntentOp::kRelease, id(), lease.number, drawn, group_.get());
    table().acknowledge(*group_, drawn);
    Leases::set_state(lease, LeaseState::kNone);
    table().end_intent();
    return table().unpin(drawn.pin);
  }
  Leases::set_state(lease, LeaseState::kNone);
  if (group_) return table().deliver_again(*group_, drawn);
  table().unpin(drawn.pin);
}

void SamplerPort::tick(int64_t now_ns) {
  if (direct_) return;
  if (taken_ > 0) end_expired(now_ns);
  if (untaken() > 0) revoke_untaken(now_ns);
}

// They were taken in order, so those that are due come first.
void SamplerPort::end_expired(int64_t now_ns) {
  auto due = [&] {
    uint64_t number = oldest_taken();
    return number < resolved() && now_ns - leases_.at(number).taken_ns > timeout_ns();
  };
  if (!due()) return;
  if (group_) drain();
  while (due()) end_lease(leases_.at(oldest_), LeaseEnd::kUnacknowledged);
}

// Word, fence, ring, and then the draws: see ChannelHeader::draws_revoked. They were posted in order, so those that are due
// come first.
void SamplerPort::revoke_untaken(int64_t now_ns) {
  uint64_t end = resolved();
  while (end < completions().tail() && now_ns - leases_.at(end).posted_ns > timeout_ns()) ++end;
  if (end == resolved()) return;
  leases_.set_lapsed(true);
  leases_.set_revoked(end);
  publish(header()->draws_revoked, end);
  fence_store_before_look();
  drain();
  if (end > resolved()) return_through(end);
  if (leases_.lapsed()) leases_.set_demand(resolved(), 0);
  publish_progress();
}

size_t SamplerPort::post_due() {
  size_t posted = 0;
  if (watched_items_ != 0) posted += post_watched();
  if (direct_) return posted;
  if (leases_.lapsed()) return posted;
  const uint64_t wanted = std::max(leases_.demand_through(), resolved() + prefetch_);
  if (completions().tail() >= wanted || (!demand_new_ && !table_changed())) return posted;
  bool asked_anew = demand_new_;
  demand_new_ = false;
  posting_ns_ = now_ns();

  uint64_t tail = completions().tail();
  if (prefetch_ == 0 && leases_.demand_through() > tail) {
    // All or nothing, so that two samplers never each hold a part that the other waits for; unless fewer will do.
    uint64_t missing = leases_.demand_through() - tail;
    if (unique_) {
      uint64_t left = table().drawable() - std::min(table().drawable(), tail - resolved());
      missing = std::min(missing, std::max<uint64_t>(left, 1));
    }
    bool fewer_will_do = leases_.demand_least() < leases_.demand_through() - resolved();
    if (!fewer_will_do && !ready(missing)) return posted;
  }
  if (unique_) return posted + post_unique(leases_.demand_through(), asked_anew);
  // In parts, so that others have their turns between; but a batch that is all or nothing at once.
  size_t drawn = post_draws(prefetch_ == 0 ? wanted : std::min(wanted, tail + kAheadAtOnce));
  demand_new_ = prefetch_ != 0 && drawn > 0 && completions().tail() < wanted;
  return posted + drawn;
}

// Draws without repetition within a batch, which are those posted and not resolved: each is made with the items of those
// before it out of the index. All are back in their places before anyone else draws from it.
size_t SamplerPort::post_unique(uint64_t through, bool asked_anew) {
  uint64_t tail = completions().tail();
  uint64_t end = std::min(through, tail + completions().room());
  // Before the posted ones are moved, at each change of the table: the demand was met with all there was, or nothing more can
  // be posted now.
  if (!asked_anew && untaken() > 0 && draws_end_ == tail) return 0;
  if (table().drawable() > 0 && (tail == end || !table().draws_ready(1))) return 0;
  aside_.clear();
  for (uint64_t number = resolved(); number < tail; ++number) {
    if (table().set_aside(index_, Leases::drawn(leases_.at(number)))) aside_.push_back(number);
  }
  uint64_t next = tail;
  bool nothing_left = false;
  while (next < end && Leases::state(leases_.at(next)) == LeaseState::kNone && table().draws_ready(1)) {
    nothing_left = !draw_unique(next);
    if (nothing_left) break;
    ++next;
  }
  for (; !aside_.empty(); aside_.pop_back()) table().put_back(index_, leases_.at(aside_.back()).slot);

  for (uint64_t number = tail; number < next; ++number) {
    Leases::Record& one = leases_.at(number);
    // As if it were the first of its batch; where that is never, as in order, as drawn.
    double probability = table().probability(index_, Leases::drawn(one));
    if (probability > 0) one.record.probability = probability;
    layout::CompletionRecord record;
    record.draw = one.record;
    completions().push(record);
  }
  if (table().drawable() == 0) nothing_left = true;
  if (!nothing_left || next == resolved() || draws_end_ == next) return next - tail;
  draws_end_ = next;
  publish(header()->draws_end, next);
  return next - tail + 1;
}

bool SamplerPort::draw_unique(uint64_t number) {
  Drawn drawn;
  table().begin_draw(id(), number);
  if (!table().draw(index_, rng_, filter_, &drawn)) return false;
  leases_.post(number, drawn, posting_ns_);
  table().end_intent();
  if (table().set_aside(index_, drawn)) aside_.push_back(number);
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
  if (Leases::state(leases_.at(number)) != LeaseState::kNone || !ready(1)) return false;
  Drawn drawn;
  table().begin_draw(id(), number);
  if (!draw(&drawn)) return false;
  leases_.post(number, drawn, posting_ns_);
  table().end_intent();
  layout::CompletionRecord record;
  record.draw = drawn.record;
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
