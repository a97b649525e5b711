// One step of every lane in one call.

#include "base/copy_bytes.h"
#include "client/table.h"
#include "client/text.h"
#include "client/writer.h"

namespace gear::client {

using layout::SubmissionOp;

namespace {

constexpr const char* kVerb = "append a vector step to";

bool marked(const uint8_t* mask, uint32_t lane) {
  return mask != nullptr && mask[lane] != 0;
}

// The end that the step brings to the lane, 0 for none.
uint32_t end_of(const gear_vector_step& step, uint32_t lane) {
  if (marked(step.terminated, lane)) return GEAR_TERMINATED;
  return marked(step.truncated, lane) ? static_cast<uint32_t>(GEAR_TRUNCATED) : 0;
}

int64_t lane_stride(const CellSpec& spec, const gear_cell& cell) {
  return cell.step_stride != 0 ? cell.step_stride : static_cast<int64_t>(spec.cell_bytes);
}

}  // namespace

// The row of a lane that is being reset carries no step: neither its cells nor its marks count.
bool Writer::takes_part(uint32_t lane, const gear_vector_step& step) const {
  return !marked(step.skip, lane) && !lanes_[lane].resetting;
}

Status Writer::check_vector(const gear_vector_step& step) const {
  GEAR_TRY(check_cells(0, kVerb, step.cells, step.cell_count, CellSet::kEveryStepColumn));
  GEAR_TRY(check_cells(0, kVerb, step.final_cells, step.final_cell_count, CellSet::kSomeStepColumns));
  uint64_t limit = layout::episode_limit(table_.header());
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    const WriterLane& state = lanes_[lane];
    bool fine = !state.lost && !state.reserved && state.episode_steps < limit;
    if (fine || !takes_part(lane, step)) continue;
    GEAR_TRY(check_held(lane, kVerb));
    GEAR_TRY(check_appendable(lane, 1));
  }
  return {};
}

void Writer::bind_cells(const gear_vector_step& step) {
  for (uint32_t i = 0; i < step.cell_count; ++i) {
    const gear_cell& cell = step.cells[i];
    const CellSpec& spec = specs_[cell.column];
    vector_cells_[i] = {&spec, &cell, static_cast<const char*>(cell.data), lane_stride(spec, cell),
                        contiguous(spec, cell)};
  }
  for (uint32_t i = 0; i < step.final_cell_count; ++i) final_cells_[i] = step.final_cells[i];
}

void Writer::store_vector_row(uint32_t index, const gear_vector_step& step) {
  const WriterLane& lane = lanes_[index];
  char* block = block_of(lane);
  for (uint32_t i = 0; i < step.cell_count; ++i) {
    const VectorCell& bound = vector_cells_[i];
    const CellSpec& spec = *bound.spec;
    const char* from = bound.data + index * bound.lane_stride;
    char* to = block + spec.offset + lane.position * spec.cell_bytes;
    if (bound.contiguous) {
      copy_bytes(to, from, spec.cell_bytes);
    } else {
      gear_cell cell = *bound.cell;
      cell.data = from;
      store_cell(spec, cell, to);
    }
  }
}

// The lane's row of the final cells becomes the row after its last step.
void Writer::store_vector_final(uint32_t index, const gear_vector_step& step) {
  for (uint32_t i = 0; i < step.final_cell_count; ++i) {
    const gear_cell& cell = step.final_cells[i];
    final_cells_[i].data =
        static_cast<const char*>(cell.data) + index * lane_stride(specs_[cell.column], cell);
  }
  store_final_row(lanes_[index], final_cells_.data(), step.final_cell_count);
  lanes_[index].fill_rows(1, block_steps_);
}

void Writer::append_lane(uint32_t index, const gear_vector_step& step, uint32_t end) {
  WriterLane& lane = lanes_[index];
  store_vector_row(index, step);
  if (has_optional_) mark_present(lane, step.cells, step.cell_count, 1);
  lane.fill_rows(1, block_steps_);
  push(SubmissionOp::kCommit, index, 1, 0, 0, lane.rows);
  ++lane.episode_steps;
  ++accepted_;
  if (end != 0) {
    bool has_final = step.final_cell_count > 0;
    if (has_final) store_vector_final(index, step);
    push_end(index, end, has_final);
    lane.resetting = autoreset_ == GEAR_AUTORESET_NEXT_STEP;
  }
  ask_ahead(index);
}

// Records are published once for all lanes; before a wait, those so far.
Status Writer::append_vector(const gear_vector_step& step, int64_t timeout_ns, uint32_t* accepted) {
  *accepted = 0;
  hear_of_lost_lanes();
  GEAR_TRY(check_vector(step));
  if (!channel_->table_is_open()) return within(tried(kVerb, 0), channel_->health());
  bind_cells(step);
  int64_t deadline_ns = 0;  // not looked up before the first wait
  auto count = static_cast<uint32_t>(lanes_.size());
  for (uint32_t index = 0; index < count; ++index) {
    if (!takes_part(index, step)) {
      // Asked for again after a part was dealt with, a lane that is skipped is still to be reset.
      if (!marked(step.skip, index)) lanes_[index].resetting = false;
      continue;
    }
    uint32_t end = end_of(step, index);
    Needs needs{.row = true,
                .episode_slot = has_episodes_,
                .final_row = end != 0 && step.final_cell_count > 0};
    if (!has(lanes_[index], needs)) {
      submit();
      if (deadline_ns == 0) deadline_ns = deadline_after(timeout_ns);
      *accepted = index;
      GEAR_TRY(obtain(index, needs, kVerb, left_until(deadline_ns)));
    }
    append_lane(index, step, end);
  }
  submit();
  *accepted = count;
  return {};
}

}  // namespace gear::client
