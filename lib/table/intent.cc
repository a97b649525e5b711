// What is written down before a step, so that who adopts the table can finish it. See layout::IntentRecord: every word it
// decides by is stored after the others that it then reads.

#include "base/shared_word.h"
#include "table/table.h"

namespace gear {

using layout::IntentOp;
using layout::IntentRecord;
using layout::kNone;

namespace {
constexpr uint64_t kNoRow = ~uint64_t{0} - 1;  // and none follows it
}  // namespace

void Table::begin_record(uint32_t channel, uint64_t position) {
  IntentRecord& intent = header_->intent;
  // The same once more: it waited, or this server adopted it.
  if (intent.channel == channel && intent.position == position) return;
  note(intent.done, uint64_t{0});
  order_for_adopter();
  note(intent.channel, channel);
  note(intent.position, position);
}

// Channels count from 1: without begin_record nothing is recognised.
bool Table::record_done() const {
  const IntentRecord& intent = header_->intent;
  return intent.channel != 0 && intent.done == intent.position + 1;
}

void Table::record_is_done() {
  IntentRecord& intent = header_->intent;
  if (intent.channel != 0) publish(intent.done, intent.position + 1);
}

// What is stored after this cannot be recognised by a server that finds it done in part.
void Table::begin_intent(IntentOp op) {
  publish(header_->intent.op, static_cast<uint32_t>(op));
  order_for_adopter();
}

void Table::end_intent() {
  publish(header_->intent.op, static_cast<uint32_t>(IntentOp::kNothing));
  order_for_adopter();
}

void Table::begin_rows(uint32_t lane) {
  IntentRecord& intent = header_->intent;
  note(intent.lane, lane);
  note(intent.row, kNoRow);
  note(intent.slot, kNone);
  note(intent.first_row, lanes_[lane].next_row);
  note(intent.steps, header_->counters.steps);
  begin_intent(IntentOp::kRow);
}

// The row first: it is not there yet, so that nothing is owed for it while the rest changes.
void Table::intend_item(uint64_t row, uint32_t length) {
  IntentRecord& intent = header_->intent;
  uint32_t slot = length == 0 || too_large(length) ? kNone : next_slot();
  note(intent.row, row);
  order_for_adopter();
  note(intent.slot, slot);
  note(intent.slot_generation, slot == kNone ? 0 : items_[slot].generation);
  note(intent.rejected, header_->counters.items_rejected);
}

void Table::intend_end(uint32_t index, uint64_t row, uint64_t bits) {
  const Lane& lane = lanes_[index];
  IntentRecord& intent = header_->intent;
  uint32_t cells = lane.episodes.empty() ? kNone : lane.episodes.front();
  bool makes_item = (bits & layout::kIntentMakesItem) != 0;
  note(intent.lane, index);
  intend_item(row, makes_item ? static_cast<uint32_t>(lane.episode_steps()) : 0);
  note(intent.first_row, lane.episode_row);
  note(intent.episodes, header_->counters.episodes);
  note(intent.number, bits | uint64_t{cells} << 32);
  begin_intent(IntentOp::kEnd);
}

void Table::intend_grant(IntentOp op, uint32_t lane, uint32_t slot, uint64_t generation, uint64_t wants) {
  IntentRecord& intent = header_->intent;
  note(intent.lane, lane);
  note(intent.slot, slot);
  note(intent.slot_generation, generation);
  note(intent.number, wants);
  begin_intent(op);
}

// A member of a prompt group that lacks others has its PromptRecord and no other generation.
bool Table::item_made() const {
  const IntentRecord& intent = header_->intent;
  return items_[intent.slot].generation != intent.slot_generation || hidden(intent.slot);
}

bool Table::hidden(uint32_t slot) const {
  const layout::PromptRecord* record = prompt_record(slot);
  return record != nullptr && items_[slot].generation % 2 == 0 && record->size != 0;
}

}  // namespace gear
