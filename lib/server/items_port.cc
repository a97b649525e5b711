#include "server/items_port.h"

namespace gear {

using layout::SubmissionOp;

// How many keys ahead their items are brought near.
static constexpr uint64_t kAhead = 12;

Result<std::unique_ptr<Port>> ItemsPort::open(std::shared_ptr<Table> table, uint64_t instance_id,
                                              uint32_t id, uint64_t session,
                                              const MemoryOptions& memory) {
  ChannelPlan plan{layout::ChannelKind::kItems, 2048, 64};
  Result<Segment> channel = make_channel(plan, instance_id, id, memory);
  if (!channel.ok()) return channel.status();
  return std::unique_ptr<Port>(
      new ItemsPort(plan, channel.take(), std::move(table), id, session));
}

Port::Step ItemsPort::apply(const layout::SubmissionRecord& record) {
  switch (static_cast<SubmissionOp>(record.op)) {
    case SubmissionOp::kUpdate:
      if (!updating_) table().begin_updates();
      updating_ = true;
      table().foresee(argument_ahead(kAhead));
      count(table().update_priority(record.argument, record.value));
      return Step::kApplied;
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

// Called after each run of records, so that no other port ever sees an index with updates half settled.
size_t ItemsPort::post_due() {
  settle();
  return 0;
}

void ItemsPort::settle() {
  if (updating_) table().end_updates();
  updating_ = false;
}

Port::Step ItemsPort::answer(uint64_t ticket) {
  // A client that lets 64 results pile up has none waiting for this one.
  if (completions().room() > 0) {
    layout::CompletionRecord record{};
    record.result = result_;
    record.result.type = static_cast<uint32_t>(layout::CompletionType::kResult);
    record.result.ticket = ticket;
    completions().push(record);
  }
  result_ = {};
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
