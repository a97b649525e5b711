#include "server/items_port.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

namespace gear {

using layout::SubmissionOp;

namespace {
constexpr uint64_t kUpdatesARecord = std::extent_v<decltype(layout::UpdateRecord::update)>;
}

Result<std::unique_ptr<Port>> ItemsPort::open(std::shared_ptr<Table> table, const ChannelPlace& place) {
  ChannelPlan plan{layout::ChannelKind::kItems, 2048, 64};
  Result<Segment> channel = make_channel(plan, place.instance_id, place.id, place.memory);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<Port>(
      new ItemsPort(plan, channel.take(), std::move(table), place));
}

std::unique_ptr<Port> ItemsPort::adopt(std::shared_ptr<Table> table, Segment channel,
                                       layout::ChannelRecord* record) {
  std::unique_ptr<ItemsPort> port(new ItemsPort(record, std::move(channel), std::move(table)));
  // Records at or before the run's first are not of it.
  if (record->note_position != layout::kNoPosition && record->applied > record->note_position) {
    uint64_t taken = (record->applied - record->note_position - 1) * kUpdatesARecord;
    port->updates_left_ = static_cast<uint32_t>(record->note - std::min(record->note, taken));
  }
  port->cut_ = static_cast<uint32_t>(record->applied) != record->answered;
  return port;
}

// Where the run begins is written before how long it is, and `applied` after both: a conductor that comes after a death
// between any two of them takes the record at `applied` for what it is.
Port::Step ItemsPort::begin_run(uint32_t count) {
  publish(record().note_position, position());
  publish(record().note, uint64_t{count});
  updates_left_ = count;
  return Step::kApplied;
}

Port::Step ItemsPort::apply(const layout::SubmissionRecord& record) {
  if (updates_left_ > 0) {
    layout::UpdateRecord updates;
    __builtin_memcpy(&updates, &record, sizeof updates);
    return keep_updates(updates);
  }
  switch (static_cast<SubmissionOp>(record.op)) {
    case SubmissionOp::kUpdates: return begin_run(record.count);
    case SubmissionOp::kDelete:
      settle();
      count(table().delete_item(record.argument));
      return Step::kApplied;
    case SubmissionOp::kAnswer:
      settle();
      return answer(record.argument);
    default: return Step::kBroken;
  }
}

Port::Step ItemsPort::keep_updates(const layout::UpdateRecord& record) {
  uint32_t here = std::min<uint32_t>(updates_left_, std::size(record.update));
  for (uint32_t i = 0; i < here; ++i) run_[run_length_++] = record.update[i];
  updates_left_ -= here;
  if (updates_left_ == 0 || run_length_ + std::size(record.update) > run_.size()) apply_run();
  return Step::kApplied;
}

// The items of all keys are asked for before the first is looked at: an index of many items is in no cache, and one miss after
// the other would be most of the time.
void ItemsPort::apply_run() {
  if (run_length_ > 0 && !updating_) {
    table().begin_updates();
    updating_ = true;
  }
  for (size_t i = 0; i < run_length_; ++i) table().foresee(run_[i].key);
  for (size_t i = 0; i < run_length_; ++i) {
    count(table().update_priority(run_[i].key, run_[i].priority));
  }
  run_length_ = 0;
}

// Called after each run of records, so that no other port ever sees an index with updates half settled.
size_t ItemsPort::post_due() {
  settle();
  return 0;
}

void ItemsPort::settle() {
  apply_run();
  if (updating_) table().end_updates();
  updating_ = false;
}

Port::Step ItemsPort::answer(uint64_t ticket) {
  // A client that lets 64 results pile up has none waiting for this one.
  if (!cut_ && completions().room() > 0) {
    layout::CompletionRecord record{};
    record.result = result_;
    record.result.type = static_cast<uint32_t>(layout::CompletionType::kResult);
    record.result.ticket = ticket;
    completions().push(record);
  }
  result_ = {};
  cut_ = false;
  publish(this->record().answered, static_cast<uint32_t>(position() + 1));
  return Step::kApplied;
}

void ItemsPort::count(Table::KeyOutcome outcome) {
  switch (outcome) {
    case Table::KeyOutcome::kApplied: ++result_.updated; break;
    case Table::KeyOutcome::kStale: ++result_.stale; break;
    case Table::KeyOutcome::kUnknown: ++result_.unknown; break;
    case Table::KeyOutcome::kRejected: ++result_.rejected; break;
  }
}

}  // namespace gear
