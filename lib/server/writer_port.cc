#include "server/writer_port.h"

#include <algorithm>
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
constexpr uint32_t kNoticesMax = 3;  // kNoBlock, kLaneLost, and one to spare
constexpr uint32_t kSubmissionSlots = 4096;

ChannelPlan writer_plan(uint32_t lanes) {
  // Room for a vector step of all lanes, and what it asks for ahead.
  uint32_t records = std::bit_ceil(std::max(lanes * 2, kSubmissionSlots));
  // Every grant that may be outstanding has a slot, so posting one never waits for the client.
  uint32_t grants = lanes * (kUnfilledMax + kEpisodesAheadMax + kNoticesMax);
  return {layout::ChannelKind::kWriter, records, std::bit_ceil(std::max(grants, 64u))};
}

Status check_names(const std::vector<uint64_t>& names) {
  std::vector<uint64_t> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return {};
  return error(GEAR_EDUPLICATE, "lane name %llu is given twice; give each lane a name of its own",
               static_cast<unsigned long long>(*twice));
}

// What becomes of the lanes that have the names wanted: names of leaving writers pass to the new lanes, lanes of others
// are taken over.
struct Succession {
  std::vector<uint32_t> passed;
  std::vector<uint32_t> taken;
};

Status plan_succession(const Table& table, const LanesWanted& wanted, Succession* succession) {
  GEAR_TRY(check_names(wanted.names));
  for (uint64_t name : wanted.names) {
    uint32_t lane = table.lane_named(name);
    if (lane == kNone) continue;
    if (table.lane_owner(lane).leaving()) {
      succession->passed.push_back(lane);
    } else if (wanted.take_over) {
      succession->taken.push_back(lane);
    } else {
      return error(GEAR_ELIMIT, "the lane named %llu is open in another writer; close that one, set take_over, or give another name",
                   static_cast<unsigned long long>(name));
    }
  }
  uint32_t lanes_max = table.header().lanes_max;
  uint32_t room = lanes_max - table.lanes_open() + static_cast<uint32_t>(succession->taken.size());
  if (wanted.take_over && wanted.lanes > room) {
    // Not even those of leaving writers can be waited for.
    room += static_cast<uint32_t>(succession->passed.size());
    succession->taken.insert(succession->taken.end(), succession->passed.begin(),
                             succession->passed.end());
    succession->passed.clear();
  }
  if (wanted.lanes <= room) return {};
  return error(GEAR_ELIMIT,
               "%u lanes asked, %u of lanes_max %u are open; create the table with a larger lanes_max, or close writers",
               wanted.lanes, table.lanes_open(), lanes_max);
}
}  // namespace

bool WriterPort::names_are_held(const Table& table, const std::vector<uint64_t>& names) {
  return std::any_of(names.begin(), names.end(), [&table](uint64_t name) {
    uint32_t lane = table.lane_named(name);
    return lane != kNone && !table.lane_owner(lane).leaving();
  });
}

Result<std::unique_ptr<Port>> WriterPort::open(std::shared_ptr<Table> table,
                                               const LanesWanted& wanted, const ChannelPlace& place) {
  uint32_t lanes = wanted.lanes;
  if (lanes < 1) return error(GEAR_EINVAL, "0 lanes asked; give 1 or more");
  Succession succession;
  GEAR_TRY(plan_succession(*table, wanted, &succession));
  ChannelPlan plan = writer_plan(lanes);
  Result<Segment> channel = make_channel(plan, place.instance_id, place.id, place.memory);
  if (!channel.ok()) return channel.status();
  std::unique_ptr<WriterPort> port(
      new WriterPort(plan, channel.take(), std::move(table), place));
  port->lanes_.reserve(lanes);
  port->waiting_lanes_.reserve(size_t{lanes} * 4);
  Table& lanes_of = port->table();
  if (lanes_of.parted()) {
    Result<uint32_t> part = lanes_of.take_part(place.id, place.uid);
    if (!part.ok()) return part.status();
  }
  for (uint32_t lane : succession.passed) lanes_of.release_name(lane);
  for (uint32_t lane : succession.taken) {
    lanes_of.lane_owner(lane).lose_lane(lanes_of.lane_owner_index(lane));
  }
  for (uint32_t i = 0; i < lanes; ++i) {
    uint32_t lane = lanes_of.open_lane(place.id, i);
    lanes_of.own_lane(lane, port.get());
    if (!wanted.names.empty()) lanes_of.name_lane(lane, wanted.names[i]);
    port->lanes_.emplace_back().table_lane = lane;
  }
  return std::unique_ptr<Port>(std::move(port));
}

std::unique_ptr<Port> WriterPort::adopt(std::shared_ptr<Table> table, Segment channel,
                                        layout::ChannelRecord* record) {
  std::unique_ptr<WriterPort> port(new WriterPort(record, std::move(channel), std::move(table)));
  port->steps_admitted_ = record->steps_admitted;
  port->records_refused_ = record->records_refused;
  port->lanes_.resize(record->lanes);
  port->waiting_lanes_.reserve(record->lanes);
  port->adopt_lanes();
  return port;
}

void WriterPort::adopt_lanes() {
  for (LaneState& lane : lanes_) lane.lost = true;
  for (uint32_t i = 0; i < table().header().lanes_max; ++i) {
    const layout::LaneRecord& lane = table().lane_record(i);
    // One that was being taken over is lost, and goes when the adoption is finished.
    if (lane.state == 0 || (lane.state & layout::kLaneLeaving) != 0) continue;
    if (lane.channel != id() || lane.owner_index >= lanes_.size()) continue;
    lanes_[lane.owner_index].table_lane = i;
    lanes_[lane.owner_index].lost = false;
  }
  for (uint32_t index = 0; index < lanes_.size(); ++index) adopt_lane(index);
  rest_ = table().rest_of(id());
}

void WriterPort::adopt_lane(uint32_t index) {
  auto again = [&](CompletionType type, GrantRecord record) {
    record.type = static_cast<uint32_t>(type);
    record.lane = index;
    again_.push_back(record);
  };
  LaneState& lane = lanes_[index];
  if (lane.lost) return again(CompletionType::kLaneLost, {});
  table().own_lane(lane.table_lane, this);
  for (const GrantRecord& block : table().grants_out(lane.table_lane)) {
    again(CompletionType::kBlock, block);
  }
  for (uint32_t slot : table().episodes_out(lane.table_lane)) {
    again(CompletionType::kEpisode, episode_grant(slot));
  }
  if (table().blocks_wanted(lane.table_lane) + table().episodes_wanted(lane.table_lane) > 0) {
    await_grants(index);
  }
}

void WriterPort::await_grants(uint32_t index) {
  LaneState& lane = lanes_[index];
  if (!lane.waits) waiting_lanes_.push_back(index);
  lane.waits = true;
}

// All of it before new grants, so that a lane's come in their order.
size_t WriterPort::post_again() {
  size_t posted = 0;
  uint64_t room = completions().room();
  for (; again_posted_ < again_.size() && posted < room; ++posted) {
    layout::CompletionRecord record{};
    record.grant = again_[again_posted_++];
    completions().push(record);
  }
  if (again_posted_ == again_.size()) {
    again_ = {};
    again_posted_ = 0;
  }
  return posted;
}

void WriterPort::lose_lane(uint32_t index) {
  LaneState& lane = lanes_[index];
  lane.rest = table().take_over_lane(lane.table_lane);
  lane.lost = true;
  // A client without room took nothing for long, and hears it from the count of refused records.
  if (failed() || completions().room() == 0) return;
  post(CompletionType::kLaneLost, index, {});
  publish_progress();
}

// Nothing of it had an effect, but for the steps of a commit that were admitted before the lane was lost.
void WriterPort::refuse(const SubmissionRecord& record) {
  auto op = static_cast<SubmissionOp>(record.op);
  if (op == SubmissionOp::kNeedBlock || op == SubmissionOp::kNeedEpisode) return;
  records_refused_ = static_cast<uint32_t>(before_this(records_refused_, layout::kNoteRefused)) + 1;
  note(this->record().records_refused, records_refused_);
}

void WriterPort::give_up() {
  for (const LaneState& lane : lanes_) {
    if (lane.lost) {
      table().release(lane.rest);
    } else {
      table().close_lane(lane.table_lane);
    }
  }
  table().release(rest_);
  rest_ = {};
  table().leave_part(id());
  lanes_.clear();
  waiting_lanes_.clear();
}

Port::Step WriterPort::apply(const SubmissionRecord& record) {
  table().begin_record(id(), position());
  if (record.lane >= lanes_.size()) return Step::kBroken;
  LaneState& lane = lanes_[record.lane];
  if (lane.lost) {
    refuse(record);
    return Step::kApplied;
  }
  uint32_t table_lane = lane.table_lane;
  Admit admit = Admit::kBroken;
  switch (static_cast<SubmissionOp>(record.op)) {
    case SubmissionOp::kNeedBlock: return want_blocks(record.lane, record.count);
    case SubmissionOp::kNeedEpisode: return want_episode(record.lane);
    case SubmissionOp::kCommit: return commit(record.lane, record.count, record.argument);
    case SubmissionOp::kEnd: admit = table().end_episode(table_lane, record.flags, record.argument); break;
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
  return admit == Admit::kBroken ? Step::kBroken : Step::kApplied;
}

Port::Step WriterPort::want_blocks(uint32_t index, uint32_t count) {
  LaneState& lane = lanes_[index];
  uint32_t table_lane = lane.table_lane;
  if (table().wants_noted(table_lane)) return Step::kApplied;
  uint32_t wanted = table().blocks_wanted(table_lane);
  uint32_t unfilled = table().unfilled_blocks(table_lane);
  if (count > kUnfilledMax || unfilled + wanted + count > kUnfilledMax + 1) return Step::kBroken;
  table().note_wants(table_lane, wanted + count, table().episodes_wanted(table_lane));
  await_grants(index);
  lane.told_no_block = false;
  return Step::kApplied;
}

Port::Step WriterPort::want_episode(uint32_t index) {
  uint32_t lane = lanes_[index].table_lane;
  if (table().wants_noted(lane)) return Step::kApplied;
  uint32_t wanted = table().episodes_wanted(lane);
  size_t ahead = wanted + table().episodes_out(lane).size();
  if (ahead >= kEpisodesAheadMax || table().header().episode_slots == 0) return Step::kBroken;
  table().note_wants(lane, table().blocks_wanted(lane), wanted + 1);
  await_grants(index);
  return Step::kApplied;
}

// What the lane has of the record's rows already was admitted before the record had to wait, or by a conductor that died.
Port::Step WriterPort::commit(uint32_t index, uint32_t count, uint64_t rows_after) {
  uint32_t lane = lanes_[index].table_lane;
  uint64_t rows = table().lane_rows(lane);
  if (count == 0 || rows_after < rows || rows_after - rows > count) return Step::kBroken;
  uint64_t admitted = before_this(steps_admitted_);
  uint32_t done = 0;
  Admit admit = table().commit(lane, static_cast<uint32_t>(rows_after - rows), &done);
  steps_admitted_ = admitted + count - (rows_after - table().lane_rows(lane));
  note(record().steps_admitted, steps_admitted_);
  partly_ = partly_ || done > 0;
  if (admit == Admit::kBlocked) return Step::kWait;
  return admit == Admit::kBroken ? Step::kBroken : Step::kApplied;
}

size_t WriterPort::post_due() {
  size_t posted = partly_ ? 1 : 0;
  partly_ = false;
  if (!again_.empty()) posted += post_again();
  if (waiting_lanes_.empty() || !again_.empty()) return posted;
  size_t kept = 0;
  for (size_t i = 0; i < waiting_lanes_.size(); ++i) {
    uint32_t index = waiting_lanes_[i];
    uint64_t before = completions().tail();
    bool served = grant(index);
    posted += completions().tail() - before;
    lanes_[index].waits = !served;
    if (!served) waiting_lanes_[kept++] = index;
  }
  waiting_lanes_.resize(kept);
  return posted;
}

// Grants what the lane waits for, as far as there is; true when nothing is left to grant.
bool WriterPort::grant(uint32_t index) {
  LaneState& lane = lanes_[index];
  if (lane.lost) return true;
  // The ring has a place for every grant that is out, unless what was posted again takes it for a while.
  while (table().blocks_wanted(lane.table_lane) > 0) {
    GrantRecord record{};
    if (completions().room() == 0) return false;
    if (!table().grant_block(lane.table_lane, &record)) {
      if (!lane.told_no_block) {
        record.block = table().memory_may_come() ? 1 : 0;
        post(CompletionType::kNoBlock, index, record);
        lane.told_no_block = true;
      }
      return false;
    }
    post(CompletionType::kBlock, index, record);
  }
  while (table().episodes_wanted(lane.table_lane) > 0) {
    uint32_t slot = 0;
    if (completions().room() == 0) return false;
    if (!table().grant_episode(lane.table_lane, &slot)) return false;
    post(CompletionType::kEpisode, index, episode_grant(slot));
  }
  return true;
}

GrantRecord WriterPort::episode_grant(uint32_t slot) const {
  const auto* episodes = layout::at_offset<layout::EpisodeRecord>(table().directory().data(),
                                                                  table().header().episodes_offset);
  GrantRecord record{};
  record.block = slot;
  record.generation = episodes[slot].generation;
  record.start_row = episodes[slot].number;
  return record;
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
  note(header()->records_refused, records_refused_);
}

}  // namespace gear
