#include "server/port.h"

#include <algorithm>

#include "base/shared_word.h"
#include "shm/doorbell.h"

namespace gear {

using layout::ChannelHeader;
using layout::SubmissionRecord;

namespace {

uint64_t submission_offset() { return sizeof(ChannelHeader); }
uint64_t completion_offset(const ChannelPlan& plan) {
  return submission_offset() + uint64_t{plan.submission_slots} * sizeof(SubmissionRecord);
}

}  // namespace

uint64_t channel_bytes(const ChannelPlan& plan) {
  return completion_offset(plan) + uint64_t{plan.completion_slots} * sizeof(layout::CompletionRecord);
}

Result<Segment> make_channel(const ChannelPlan& plan, uint64_t instance_id, uint32_t channel_id,
                             const MemoryOptions& memory) {
  Result<Segment> made = Segment::create("open channel", layout::SegmentKind::kChannel,
                                         channel_bytes(plan), instance_id, channel_id, memory);
  if (!made.ok()) return made.status();
  auto* header = static_cast<ChannelHeader*>(made.value().data());
  header->kind = static_cast<uint32_t>(plan.kind);
  header->submission_slots = plan.submission_slots;
  header->completion_slots = plan.completion_slots;
  header->submission_offset = submission_offset();
  header->completion_offset = completion_offset(plan);
  made.value().publish_magic();
  return made;
}

Port::Port(const ChannelPlan& plan, Segment segment, std::shared_ptr<Table> table, const ChannelPlace& place)
    : plan_(plan),
      segment_(std::move(segment)),
      watch_(segment_.data(), segment_.size()),
      table_(std::move(table)),
      id_(place.id),
      session_(place.session),
      submissions_(header(), submission_offset(), plan.submission_slots),
      completions_(header(), completion_offset(plan), plan.completion_slots) {
  unkept_.note_position = layout::kNoPosition;
  unkept_.uid = place.uid;
}

Port::Port(layout::ChannelRecord* record, Segment segment, std::shared_ptr<Table> table)
    : record_(record),
      plan_{static_cast<layout::ChannelKind>(record->kind), record->submission_slots,
            record->completion_slots},
      segment_(std::move(segment)),
      watch_(segment_.data(), segment_.size()),
      table_(std::move(table)),
      id_(record->id),
      session_(record->session),
      submissions_(header(), submission_offset(), plan_.submission_slots),
      completions_(header(), completion_offset(plan_), plan_.completion_slots),
      closing_(record->closing != 0) {
  bool sound = submissions_.resume(record->applied);
  sound = completions_.resume() && sound;
  tail_published_ = completions_.tail();
  if (!sound) fail(GEAR_EPROTOCOL);
}

layout::ChannelRecord Port::describe() const {
  layout::ChannelRecord record{};
  record.id = id_;
  record.kind = static_cast<uint32_t>(plan_.kind);
  record.session = session_;
  record.uid = uid();
  record.table_id = table_->id();
  record.submission_slots = plan_.submission_slots;
  record.completion_slots = plan_.completion_slots;
  record.note_position = layout::kNoPosition;
  return record;
}

uint64_t Port::before_this(uint64_t value, uint64_t which) {
  if (record_->note_position != (position() | which)) {
    publish(record_->note, value);
    publish(record_->note_position, position() | which);
  }
  return record_->note;
}

size_t Port::work() {
  if (failure_ != 0) return 0;
  size_t done = take_records();
  done += post_due();
  changes_seen_ = table_->changes();
  if (done > 0) publish_progress();
  if (cut_short() && failure_ == 0) {
    fail(GEAR_EPROTOCOL);
    ++done;
  }
  return done;
}

size_t Port::take_records() {
  if (waiting_ && !table_changed()) return 0;
  waiting_ = false;
  spent_ = 0;
  size_t taken = 0;
  SubmissionRecord record;
  const size_t most = records_at_once();
  while (taken < most && spent_ < kWorkAtOnce) {
    RingRead read = submissions_.read(&record);
    if (read == RingRead::kEmpty) break;
    Step step = read == RingRead::kBroken ? Step::kBroken : apply(record);
    if (step == Step::kBroken) {
      fail(GEAR_EPROTOCOL);
      return taken + 1;
    }
    if (step == Step::kPart) return taken + 1;
    if (step == Step::kWait) {
      waiting_ = true;
      break;
    }
    submissions_.advance();
    publish(record_->applied, submissions_.head());
    ++taken;
  }
  return taken;
}

// Samplers recognise what is done by their leases; of them the table's intent has the channel with a writer's position.
void Port::settle() {
  if (failure_ != 0) return;
  if (kind() == layout::ChannelKind::kWriter && table_->record_done(id_, position())) {
    publish(record_->applied, position() + 1);
    if (!submissions_.resume(record_->applied)) return fail(GEAR_EPROTOCOL);
  }
  publish_progress();
}

// A client that goes on pushing keeps nobody here for longer than one ring.
void Port::drain() {
  for (uint64_t left = plan_.submission_slots + parts_most(); failure_ == 0 && left > 0;) {
    uint64_t before = submissions_.head();
    if (work() == 0) break;
    left -= std::min(left, std::max<uint64_t>(submissions_.head() - before, 1));
  }
}

void Port::publish_progress() {
  before_publish();
  if (completions_.tail() != tail_published_) {
    tail_published_ = completions_.tail();
    completions_.publish_tail();
  }
  // Release: who sees the head has every effect of the records before it in the directory.
  submissions_.publish_head();
  wake_client_if_asleep(header());
}

void Port::end(int status) {
  if (failure_ != 0) return;
  drain();
  if (failure_ == 0) fail(status);
}

void Port::fail(int status) {
  failure_ = status;
  publish_progress();
  publish(header()->failure, static_cast<int32_t>(status));
  wake_client_if_asleep(header());
}

void end_channel(const Segment& channel, int status) {
  auto* header = static_cast<ChannelHeader*>(channel.data());
  publish(header->failure, static_cast<int32_t>(status));
  wake_client_if_asleep(header);
}

}  // namespace gear
