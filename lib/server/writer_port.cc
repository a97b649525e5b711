#include "server/writer_port.h"

#include <bit>

#include "base/shared_word.h"

namespace gear {

using layout::CompletionType;
using layout::GrantRecord;
using layout::kNone;
using layout::SubmissionOp;
using layout::SubmissionRecord;

namespace {
constexpr uint32_t kUnfilledMax = 16;  // blocks a lane may have that hold no row yet
constexpr uint32_t kEpisodesAheadMax = 2;
constexpr uint32_t kSubmissionSlots = 4096;

ChannelPlan writer_plan(uint32_t lanes) {
  // Every grant that may be outstanding has a slot, so posting one never waits for the client.
  uint32_t grants = lanes * (kUnfilledMax + kEpisodesAheadMax + 2);
  return {layout::ChannelKind::kWriter, kSubmissionSlots, std::bit_ceil(std::max(grants, 64u))};
}
}  // namespace

Result<std::unique_ptr<Port>> WriterPort::open(std::shared_ptr<Table> table, uint32_t lanes,
                                               uint64_t instance_id, uint32_t id, uint64_t session,
                                               const MemoryOptions& memory) {
  uint32_t lanes_max = table->header().lanes_max;
  uint32_t open = table->lanes_open();
  if (lanes < 1 || lanes > lanes_max - open) {
    return error(lanes < 1 ? GEAR_EINVAL : GEAR_ELIMIT,
                 "%u lanes asked, %u of lanes_max %u are open; create the table with a larger lanes_max, or close writers",
                 lanes, open, lanes_max);
  }
  ChannelPlan plan = writer_plan(lanes);
  Result<Segment> channel = make_channel(plan, instance_id, id, memory);
  if (!channel.ok()) return channel.status();
  std::unique_ptr<WriterPort> port(
      new WriterPort(plan, channel.take(), std::move(table), id, session));
  port->lanes_.reserve(lanes);
  port->waiting_lanes_.reserve(size_t{lanes} * 4);
  for (uint32_t i = 0; i < lanes; ++i) port->lanes_.push_back({port->table().open_lane(id)});
  return std::unique_ptr<Port>(std::move(port));
}

void WriterPort::give_up() {
  for (const LaneState& lane : lanes_) table().close_lane(lane.table_lane);
  lanes_.clear();
  waiting_lanes_.clear();
}

Port::Step WriterPort::apply(const SubmissionRecord& record) {
  if (record.lane >= lanes_.size()) return Step::kBroken;
  LaneState& lane = lanes_[record.lane];
  uint32_t table_lane = lane.table_lane;
  Admit admit = Admit::kBroken;
  switch (static_cast<SubmissionOp>(record.op)) {
    case SubmissionOp::kNeedBlock: return want_blocks(record.lane, record.count);
    case SubmissionOp::kNeedEpisode:
      if (lane.episodes_wanted + lane.episodes_granted >= kEpisodesAheadMax ||
          table().header().episode_slots == 0) {
        return Step::kBroken;
      }
      ++lane.episodes_wanted;
      waiting_lanes_.push_back(record.lane);
      return Step::kApplied;
    case SubmissionOp::kCommit: return commit(record.lane, record.count);
    case SubmissionOp::kEnd: admit = table().end_episode(table_lane, record.flags); break;
    case SubmissionOp::kEpisodeCells: admit = table().give_episode_cells(table_lane); break;
    case SubmissionOp::kItem:
      admit = table().make_item(table_lane, record.count, record.value);
      break;
    case SubmissionOp::kPriority:
      admit = table().set_priority(table_lane, record.flags != 0, record.value);
      break;
    case SubmissionOp::kVersion:
      admit = table().set_version(table_lane, record.argument);
      break;
    case SubmissionOp::kPromptGroup:
      admit = table().set_prompt_group(table_lane, record.argument, record.count);
      break;
    default: return Step::kBroken;
  }
  if (admit == Admit::kBlocked) return Step::kWait;
  if (admit == Admit::kBroken) return Step::kBroken;
  if (admit == Admit::kRejected) {
    ++items_rejected_;
    table().count_rejected_item();
  }
  if (static_cast<SubmissionOp>(record.op) == SubmissionOp::kEnd && lane.episodes_granted > 0) {
    --lane.episodes_granted;
  }
  return Step::kApplied;
}

Port::Step WriterPort::want_blocks(uint32_t index, uint32_t count) {
  LaneState& lane = lanes_[index];
  uint32_t unfilled = table().unfilled_blocks(lane.table_lane);
  if (count > kUnfilledMax || unfilled + lane.blocks_wanted + count > kUnfilledMax + 1) {
    return Step::kBroken;
  }
  if (count > 0 && lane.blocks_wanted == 0) waiting_lanes_.push_back(index);
  lane.blocks_wanted += count;
  lane.told_no_block = false;
  return Step::kApplied;
}

Port::Step WriterPort::commit(uint32_t index, uint32_t count) {
  if (count == 0 || count < committed_of_record_) return Step::kBroken;
  uint32_t done = 0;
  Admit admit =
      table().commit(lanes_[index].table_lane, count - committed_of_record_, &done);
  steps_admitted_ += done;
  committed_of_record_ += done;
  partly_ = partly_ || done > 0;
  if (admit == Admit::kBlocked) return Step::kWait;
  committed_of_record_ = 0;
  return admit == Admit::kBroken ? Step::kBroken : Step::kApplied;
}

size_t WriterPort::post_due() {
  size_t posted = partly_ ? 1 : 0;
  partly_ = false;
  if (waiting_lanes_.empty()) return posted;
  size_t kept = 0;
  for (size_t i = 0; i < waiting_lanes_.size(); ++i) {
    uint32_t index = waiting_lanes_[i];
    uint64_t before = completions().tail();
    bool served = grant(index);
    posted += completions().tail() - before;
    if (!served) waiting_lanes_[kept++] = index;
  }
  waiting_lanes_.resize(kept);
  return posted;
}

// Grants what the lane waits for, as far as there is; true when nothing is left to grant.
bool WriterPort::grant(uint32_t index) {
  LaneState& lane = lanes_[index];
  while (lane.blocks_wanted > 0) {
    GrantRecord record{};
    if (!table().grant_block(lane.table_lane, &record)) {
      if (!lane.told_no_block && completions().room() > 0) {
        post(CompletionType::kNoBlock, index, record);
        lane.told_no_block = true;
      }
      return false;
    }
    post(CompletionType::kBlock, index, record);
    --lane.blocks_wanted;
  }
  while (lane.episodes_wanted > 0) {
    GrantRecord record{};
    if (!table().grant_episode(lane.table_lane, &record.block)) return false;
    post(CompletionType::kEpisode, index, record);
    --lane.episodes_wanted;
    ++lane.episodes_granted;
  }
  return true;
}

void WriterPort::post(CompletionType type, uint32_t lane, const GrantRecord& grant) {
  layout::CompletionRecord record{};
  record.grant = grant;
  record.grant.type = static_cast<uint32_t>(type);
  record.grant.lane = lane;
  completions().push(record);
}

void WriterPort::before_publish() {
  note(header()->steps_admitted, steps_admitted_);
  note(header()->items_rejected, items_rejected_);
}

}  // namespace gear
