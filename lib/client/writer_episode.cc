// Episodes and items of a writer: what is told about steps that are appended.

#include <cstring>

#include "client/table.h"
#include "client/text.h"
#include "client/writer.h"
#include "select/selector.h"

namespace gear::client {

using layout::SubmissionOp;

Status Writer::give_episode_cells(uint32_t index, const gear_cell* cells, size_t cell_count,
                                  int64_t timeout_ns) {
  const char* verb = "give episode cells to";
  GEAR_TRY(check_lane(index, verb));
  if (!has_episodes_) {
    return error(GEAR_ESTATE, "%s: the table has no columns per episode; create it with some",
                 tried(verb, index).c_str());
  }
  GEAR_TRY(check_cells(index, verb, cells, cell_count, CellSet::kEveryEpisodeColumn));
  WriterLane& lane = lanes_[index];
  if (lane.cells_given) {
    return error(GEAR_ESTATE,
                 "%s: this episode has its cells; end it before you give the next one's",
                 tried(verb, index).c_str());
  }
  GEAR_TRY(obtain(index, {.row = false, .episode_slot = true}, verb, timeout_ns));
  const layout::TableHeader& header = table_.header();
  char* slot = data_ + header.data_episodes_offset +
               uint64_t{lane.episodes.front()} * header.episode_cell_bytes;
  for (size_t i = 0; i < cell_count; ++i) {
    const CellSpec& spec = specs_[cells[i].column];
    store_cell(spec, cells[i], slot + spec.offset);
  }
  push(SubmissionOp::kEpisodeCells, index, 0);
  lane.cells_given = true;
  submit();
  return {};
}

Status Writer::end_episode(uint32_t index, uint32_t end, const gear_cell* cells, size_t cell_count,
                           int64_t timeout_ns) {
  const char* verb = "end episode of";
  GEAR_TRY(check_lane(index, verb));
  if (end != GEAR_TERMINATED && end != GEAR_TRUNCATED) {
    return error(GEAR_EINVAL, "%s: end is %u; give GEAR_TERMINATED or GEAR_TRUNCATED",
                 tried(verb, index).c_str(), end);
  }
  GEAR_TRY(check_cells(index, verb, cells, cell_count, CellSet::kSomeStepColumns));
  WriterLane& lane = lanes_[index];
  if (lane.episode_steps == 0) {
    return error(GEAR_ESTATE, "%s: the episode has no step; append one first",
                 tried(verb, index).c_str());
  }
  bool has_final = cell_count > 0;
  // The final observation takes the row that the caller may be writing.
  if (has_final) GEAR_TRY(check_unreserved(index, verb));
  GEAR_TRY(obtain(index, {.row = has_final, .episode_slot = false}, verb, timeout_ns));
  if (has_final) {
    store_final_row(lane, cells, cell_count);
    lane.fill_rows(1, block_steps_);
  }
  push_end(index, end, has_final);
  ask_ahead(index);
  submit();
  return {};
}

void Writer::push_end(uint32_t index, uint32_t end, bool has_final) {
  WriterLane& lane = lanes_[index];
  push(SubmissionOp::kEnd, index, 0, end | (has_final ? layout::kEndHasFinal : 0), 0, lane.rows);
  lane.episode_steps = 0;
  lane.cells_given = false;
  if (has_episodes_) lane.episodes.pop();
}

// Columns that were not given hold zeros, and their presence bits say that they hold nothing.
void Writer::store_final_row(const WriterLane& lane, const gear_cell* cells, size_t cell_count) {
  const layout::TableHeader& header = table_.header();
  char* bits =
      block_of(lane) + header.presence_offset + uint64_t{lane.position} * header.presence_bytes;
  memset(bits, 0, header.presence_bytes);
  for (size_t i = 0; i < cell_count; ++i) {
    uint32_t column = cells[i].column;
    bits[column / 8] = static_cast<char>(bits[column / 8] | 1 << column % 8);
  }
  store_row(lane, cells, cell_count);
  for (uint32_t column = 0; column < specs_.count(); ++column) {
    const CellSpec& spec = specs_[column];
    bool given = (bits[column / 8] >> column % 8 & 1) != 0;
    if (!spec.per_episode && !given) memset(row_of(lane, spec), 0, spec.cell_bytes);
  }
}

Status Writer::check_item(uint32_t index, uint32_t length, double priority) const {
  const layout::TableHeader& header = table_.header();
  constexpr const char* kVerb = "make item of";
  if (header.item_policy != GEAR_ITEMS_EXPLICIT) {
    return error(GEAR_ESTATE,
                 "%s: the table makes its items itself; create it with item_policy "
                 "GEAR_ITEMS_EXPLICIT",
                 tried(kVerb, index).c_str());
  }
  if (!priority_valid(priority)) {
    return error(GEAR_EPRIORITY, "%s: priority %g; give a finite number, 0 or more",
                 tried(kVerb, index).c_str(), priority);
  }
  uint64_t steps = lanes_[index].episode_steps;
  if (length == 0 || length > steps) {
    return error(GEAR_EINVAL,
                 "%s: length %u, the episode has %llu steps so far; give 1 to that many",
                 tried(kVerb, index).c_str(), length, static_cast<unsigned long long>(steps));
  }
  if (length > header.item_steps_max) {
    return error(GEAR_EINVAL,
                 "%s: length %u, items of the table have at most %u steps; give less, or "
                 "create it with a larger episode_steps_max",
                 tried(kVerb, index).c_str(), length, header.item_steps_max);
  }
  return {};
}

Status Writer::make_item(uint32_t index, uint32_t length, double priority, int64_t timeout_ns) {
  GEAR_TRY(check_lane(index, "make item of"));
  GEAR_TRY(check_item(index, length, priority));
  GEAR_TRY(obtain(index, {}, "make item of", timeout_ns));
  push(SubmissionOp::kItem, index, length, 0, priority);
  submit();
  return {};
}

Status Writer::set_priority(uint32_t index, const double* priority, int64_t timeout_ns) {
  GEAR_TRY(check_lane(index, "set priority of"));
  if (priority != nullptr && !priority_valid(*priority)) {
    return error(GEAR_EPRIORITY, "%s: priority %g; give a finite number, 0 or more",
                 tried("set priority of", index).c_str(), *priority);
  }
  GEAR_TRY(obtain(index, {}, "set priority of", timeout_ns));
  push(SubmissionOp::kPriority, index, 0, priority != nullptr ? 1 : 0,
       priority != nullptr ? *priority : 0);
  submit();
  return {};
}

Status Writer::set_version(uint32_t index, uint64_t version, int64_t timeout_ns) {
  constexpr const char* kVerb = "set version of";
  GEAR_TRY(check_lane(index, kVerb));
  if (table_.header().versions_offset == 0) {
    return error(GEAR_ESTATE, "%s: items of the table have no versions; create it with versions = 1",
                 tried(kVerb, index).c_str());
  }
  GEAR_TRY(obtain(index, {}, kVerb, timeout_ns));
  push(SubmissionOp::kVersion, index, 0, 0, 0, version);
  submit();
  return {};
}

Status Writer::set_prompt_group(uint32_t index, uint64_t group, uint32_t size,
                                int64_t timeout_ns) {
  constexpr const char* kVerb = "set prompt group of";
  const layout::TableHeader& header = table_.header();
  GEAR_TRY(check_lane(index, kVerb));
  if (header.prompt_groups_max == 0) {
    return error(GEAR_ESTATE, "%s: the table has no prompt groups; create it with prompt_groups_max",
                 tried(kVerb, index).c_str());
  }
  if (size > header.capacity_items) {
    return error(GEAR_EINVAL, "%s: size %u, the table has room for %llu items; give at most that",
                 tried(kVerb, index).c_str(), size,
                 static_cast<unsigned long long>(header.capacity_items));
  }
  GEAR_TRY(obtain(index, {}, kVerb, timeout_ns));
  push(SubmissionOp::kPromptGroup, index, size, 0, 0, group);
  submit();
  return {};
}

}  // namespace gear::client
