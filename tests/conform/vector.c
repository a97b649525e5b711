/* One step of every lane in one call: what is stored, what is refused, what a full table leaves undone. */
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kLanes = 5, kCalls = 40, kLanesMany = 4096 };

/* The arrays of one call, [lanes, ...]. */
typedef struct Arrays {
  int64_t step[kLanesMany];
  int32_t lane[kLanesMany];
  uint8_t payload[kLanesMany][kPayloadBytes];
  gear_cell cells[kColumns];
} Arrays;

static const int64_t kPayloadShape[1] = {kPayloadBytes};

/* Step `step` of every lane. */
static void fill_arrays(Arrays* arrays, int32_t lanes, int64_t step) {
  for (int32_t lane = 0; lane < lanes; ++lane) {
    const ConformStep content = conform_step(lane, step);
    arrays->step[lane] = content.step;
    arrays->lane[lane] = content.lane;
    memcpy(arrays->payload[lane], content.payload, kPayloadBytes);
  }
  arrays->cells[kStep] = conform_cell(kStep, GEAR_I64, 0, NULL, arrays->step);
  arrays->cells[kLane] = conform_cell(kLane, GEAR_I32, 0, NULL, arrays->lane);
  arrays->cells[kPayload] = conform_cell(kPayload, GEAR_U8, 1, kPayloadShape, arrays->payload);
}

static gear_vector_step step_of(const Arrays* arrays) {
  gear_vector_step step = GEAR_VECTOR_STEP_INIT;
  step.cells = arrays->cells;
  step.cell_count = kColumns;
  return step;
}

static Arrays arrays;
static Arrays finals;

/* A table whose steps can be drained in order, each once. */
static ConformTable open_lanes(uint32_t lanes, uint64_t capacity) {
  gear_table_options options = conform_options(capacity);
  assert_ok(gear_table_options_queue(capacity, &options));
  options.lanes_max = lanes;
  options.block_steps = 7;
  return conform_open(&options, lanes);
}

typedef struct Drained {
  int64_t next[64][kCalls]; /* content of the step after, -1 where there is none */
  uint32_t steps[64];       /* so many came, in order */
} Drained;

/* Every step once, whole, in its lane's order. */
static void drain(gear_table* table, Drained* drained) {
  const gear_window windows[4] = {
      conform_window("step", NULL, 0, 1), conform_window("lane", NULL, 0, 1),
      conform_window("payload", NULL, 0, 1), conform_window("step", "next", 1, 1)};
  gear_sampler* sampler = conform_window_sampler(table, windows, 4);
  memset(drained, 0, sizeof *drained);
  for (uint64_t left = conform_stats(table).items; left > 0; --left) {
    gear_batch* batch = conform_sample(sampler, 1);
    const gear_tensor step = conform_tensor(batch, "step");
    const gear_tensor lane = conform_tensor(batch, "lane");
    const gear_tensor payload = conform_tensor(batch, "payload");
    const gear_tensor next = conform_tensor(batch, "next");
    const int32_t of = *(const int32_t*)lane.data;
    assert_in_range(of, 0, 63);
    const int64_t number = conform_i64(&step, 0, 0);
    assert_int_equal(number, drained->steps[of]);
    assert_true(number < kCalls);
    const ConformStep wanted = conform_step(of, number);
    assert_memory_equal(payload.data, wanted.payload, kPayloadBytes);
    drained->next[of][number] = next.mask[0] ? conform_i64(&next, 0, 0) : -1;
    ++drained->steps[of];
    assert_ok(gear_batch_release(batch));
  }
  assert_ok(gear_sampler_close(sampler));
}

static void append_call(gear_writer* writer, int64_t step) {
  fill_arrays(&arrays, kLanes, step);
  const gear_vector_step call = step_of(&arrays);
  uint32_t accepted = 99;
  assert_ok(gear_writer_append_vector(writer, &call, CONFORM_PATIENCE_NS, &accepted));
  assert_int_equal(accepted, kLanes);
}

/* SEMANTICS 35, 37 */
GEAR_TEST(VectorStepIsAStepOfEveryLane) {
  ConformTable table = open_lanes(kLanes, 1000);
  for (int64_t step = 0; step < kCalls; ++step) append_call(table.writer, step);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).steps, kLanes * kCalls);
  static Drained drained;
  drain(table.table, &drained);
  for (int lane = 0; lane < kLanes; ++lane) {
    assert_int_equal(drained.steps[lane], kCalls);
    assert_int_equal(drained.next[lane][0], 1);
  }
  conform_close(&table);
}

/* SEMANTICS 37 */
GEAR_TEST(VectorStepIsReadByTheLaneStrideAndTheCellsStrides) {
  ConformTable table = open_lanes(kLanes, 1000);
  /* An array of structs backwards, and payloads of which every byte stands alone. */
  ConformStep steps[kLanes];
  static uint8_t wide[kLanes][kPayloadBytes][3];
  for (int64_t step = 0; step < 3; ++step) {
    for (int lane = 0; lane < kLanes; ++lane) {
      steps[kLanes - 1 - lane] = conform_step(lane, step);
      const ConformStep content = conform_step(lane, step);
      for (int byte = 0; byte < kPayloadBytes; ++byte) wide[lane][byte][0] = content.payload[byte];
    }
    gear_cell cells[kColumns];
    conform_cells(&steps[kLanes - 1], cells);
    cells[kStep].step_stride = -(int64_t)sizeof steps[0];
    cells[kLane].step_stride = -(int64_t)sizeof steps[0];
    const int64_t strides[1] = {3};
    cells[kPayload].data = wide;
    cells[kPayload].strides = strides;
    cells[kPayload].step_stride = sizeof wide[0];
    gear_vector_step call = GEAR_VECTOR_STEP_INIT;
    call.cells = cells;
    call.cell_count = kColumns;
    assert_ok(gear_writer_append_vector(table.writer, &call, CONFORM_PATIENCE_NS, NULL));
  }
  conform_flush(table.writer);
  static Drained drained;
  drain(table.table, &drained);
  for (int lane = 0; lane < kLanes; ++lane) assert_int_equal(drained.steps[lane], 3);
  conform_close(&table);
}

/* SEMANTICS 31 */
GEAR_TEST(MarkedLanesEndWithTheirRowsOfTheFinalCells) {
  ConformTable table = open_lanes(kLanes, 1000);
  for (int64_t step = 0; step < kCalls; ++step) {
    fill_arrays(&arrays, kLanes, step);
    fill_arrays(&finals, kLanes, 1000 + step);
    gear_vector_step call = step_of(&arrays);
    uint8_t terminated[kLanes];
    uint8_t truncated[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      terminated[lane] = step % (lane + 2) == 1;
      truncated[lane] = step % 11 == 3;
    }
    call.terminated = terminated;
    call.truncated = truncated;
    call.final_cells = finals.cells;
    call.final_cell_count = kColumns;
    assert_ok(gear_writer_append_vector(table.writer, &call, CONFORM_PATIENCE_NS, NULL));
  }
  conform_flush(table.writer);
  static Drained drained;
  drain(table.table, &drained);
  for (int lane = 0; lane < kLanes; ++lane) {
    assert_int_equal(drained.steps[lane], kCalls);
    for (int64_t step = 0; step < kCalls - 1; ++step) {
      const bool ends = step % (lane + 2) == 1 || step % 11 == 3;
      assert_int_equal(drained.next[lane][step], ends ? 1000 + step : step + 1);
    }
  }
  conform_close(&table);
}

/* SEMANTICS 31 */
GEAR_TEST(MarkedLanesEndWithoutAFinalObservationWhenNoneIsGiven) {
  ConformTable table = open_lanes(kLanes, 1000);
  const uint8_t truncated[kLanes] = {0, 1, 0, 1, 0};
  fill_arrays(&arrays, kLanes, 0);
  gear_vector_step call = step_of(&arrays);
  call.truncated = truncated;
  assert_ok(gear_writer_append_vector(table.writer, &call, CONFORM_PATIENCE_NS, NULL));
  append_call(table.writer, 1);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).episodes, 2);
  static Drained drained;
  drain(table.table, &drained);
  for (int lane = 0; lane < kLanes; ++lane) {
    assert_int_equal(drained.next[lane][0], truncated[lane] ? -1 : 1);
  }
  conform_close(&table);
}

GEAR_TEST(SkippedLanesTakeNoPart) {
  ConformTable table = open_lanes(kLanes, 1000);
  append_call(table.writer, 0);
  fill_arrays(&arrays, kLanes, 1);
  gear_vector_step call = step_of(&arrays);
  const uint8_t skip[kLanes] = {1, 0, 1, 0, 1};
  const uint8_t terminated[kLanes] = {1, 1, 0, 0, 0};
  call.skip = skip;
  call.terminated = terminated;
  assert_ok(gear_writer_append_vector(table.writer, &call, CONFORM_PATIENCE_NS, NULL));
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).steps, kLanes + 2);
  assert_int_equal(conform_stats(table.table).episodes, 1);
  static Drained drained;
  drain(table.table, &drained);
  for (int lane = 0; lane < kLanes; ++lane) assert_int_equal(drained.steps[lane], skip[lane] ? 1 : 2);
  conform_close(&table);
}

/* The call is refused with this status and changes nothing; another, right one goes through. */
static void assert_refused(ConformTable* table, const gear_vector_step* call, int status,
                           const char* fragment) {
  conform_flush(table->writer);
  const ConformSnapshot before = conform_snapshot(table);
  uint32_t accepted = 99;
  assert_status(gear_writer_append_vector(table->writer, call, CONFORM_PATIENCE_NS, &accepted), status);
  assert_int_equal(accepted, 0);
  assert_explained(fragment);
  conform_flush(table->writer);
  const ConformSnapshot after = conform_snapshot(table);
  assert_memory_equal(&after.stats, &before.stats, sizeof after.stats);
}

/* SEMANTICS 37 */
GEAR_TEST(VectorStepWhoseCellsDoNotFitStoresNothing) {
  ConformTable table = open_lanes(kLanes, 1000);
  fill_arrays(&arrays, kLanes, 0);
  gear_vector_step call = step_of(&arrays);
  call.cell_count = kColumns - 1;
  assert_refused(&table, &call, GEAR_ECOUNT, "payload");

  call = step_of(&arrays);
  arrays.cells[kLane].dtype = GEAR_I64;
  assert_refused(&table, &call, GEAR_EDTYPE, "lane");
  fill_arrays(&arrays, kLanes, 0);

  /* Also when no lane ends, so that the mistake shows at the first call. */
  fill_arrays(&finals, kLanes, 1);
  finals.cells[1] = finals.cells[0];
  call.final_cells = finals.cells;
  call.final_cell_count = 2;
  assert_refused(&table, &call, GEAR_EDUPLICATE, "step");

  call = step_of(&arrays);
  call.struct_size = 3;
  assert_refused(&table, &call, GEAR_ESTRUCT, "gear_vector_step");
  call = step_of(&arrays);
  call.cells = NULL;
  assert_refused(&table, &call, GEAR_EINVAL, "cells");
  call = step_of(&arrays);
  call.final_cell_count = 1;
  assert_refused(&table, &call, GEAR_EINVAL, "final_cells");
  append_call(table.writer, 0);
  conform_close(&table);
}

GEAR_TEST(VectorStepIsRefusedWhileALaneOfItIsReserved) {
  ConformTable table = open_lanes(kLanes, 1000);
  void* places[kColumns];
  assert_ok(gear_writer_reserve(table.writer, 3, CONFORM_PATIENCE_NS, places, kColumns));
  fill_arrays(&arrays, kLanes, 0);
  gear_vector_step call = step_of(&arrays);
  assert_refused(&table, &call, GEAR_ESTATE, "lane 3");
  const uint8_t skip[kLanes] = {0, 0, 0, 1, 0};
  call.skip = skip;
  assert_ok(gear_writer_append_vector(table.writer, &call, CONFORM_PATIENCE_NS, NULL));
  conform_close(&table);
}

GEAR_TEST(VectorStepBeyondALanesLongestEpisodeIsRefused) {
  gear_table_options options = conform_options(100);
  options.episode_steps_max = 2;
  ConformTable table = conform_open(&options, kLanes);
  conform_append(table.writer, 4, 0, 1);
  append_call(table.writer, 0);
  fill_arrays(&arrays, kLanes, 1);
  const gear_vector_step call = step_of(&arrays);
  assert_refused(&table, &call, GEAR_ESTATE, "lane 4");
  conform_close(&table);
}

/* SEMANTICS 38 */
GEAR_TEST(VectorStepTellsHowManyLanesWereDealtWithWhenSpaceRunsOut) {
  gear_table_options options = conform_options(10);
  assert_ok(gear_table_options_queue(10, &options));
  options.block_steps = 1;
  ConformTable table = conform_open(&options, kLanes);
  int64_t call_number = 0;
  uint32_t accepted = kLanes;
  int status = GEAR_OK;
  for (; call_number < 10000; ++call_number) {
    fill_arrays(&arrays, kLanes, call_number);
    const gear_vector_step call = step_of(&arrays);
    status = gear_writer_append_vector(table.writer, &call, CONFORM_BLOCKED_NS, &accepted);
    if (status != GEAR_OK) break;
  }
  assert_status(status, GEAR_ETIMEDOUT);
  assert_explained("limiter");
  assert_in_range(accepted, 0, kLanes - 1);

  /* The leading lanes have the step, the others get it from a call that skips those. */
  static Drained drained;
  memset(&drained, 0, sizeof drained);
  gear_window windows[2] = {conform_window("step", NULL, 0, 1), conform_window("lane", NULL, 0, 1)};
  gear_sampler* sampler = conform_window_sampler(table.table, windows, 2);
  uint8_t skip[kLanes];
  for (uint32_t lane = 0; lane < kLanes; ++lane) skip[lane] = lane < accepted;
  const uint64_t total = (uint64_t)(call_number + 1) * kLanes;
  bool appended = false;
  for (uint64_t drawn = 0; drawn < total;) {
    if (!appended) {
      gear_vector_step rest = step_of(&arrays);
      rest.skip = skip;
      uint32_t more = 0;
      status = gear_writer_append_vector(table.writer, &rest, CONFORM_BLOCKED_NS, &more);
      appended = status == GEAR_OK;
      if (!appended) assert_status(status, GEAR_ETIMEDOUT);
      for (uint32_t lane = 0; lane < more; ++lane) skip[lane] = 1;
    }
    gear_batch* batch = conform_sample(sampler, 1);
    const gear_tensor step = conform_tensor(batch, "step");
    const gear_tensor lane = conform_tensor(batch, "lane");
    const int32_t of = *(const int32_t*)lane.data;
    assert_int_equal(conform_i64(&step, 0, 0), drained.steps[of]);
    ++drained.steps[of];
    assert_ok(gear_batch_release(batch));
    ++drawn;
  }
  assert_true(appended);
  conform_flush(table.writer);
  for (int lane = 0; lane < kLanes; ++lane) assert_int_equal(drained.steps[lane], call_number + 1);
  conform_close(&table);
}

GEAR_TEST(VectorStepOnAClosedTableIsRefused) {
  ConformTable table = open_lanes(kLanes, 100);
  append_call(table.writer, 0);
  conform_flush(table.writer);
  assert_ok(gear_table_close(table.table));
  fill_arrays(&arrays, kLanes, 1);
  const gear_vector_step call = step_of(&arrays);
  uint32_t accepted = 99;
  assert_status(gear_writer_append_vector(table.writer, &call, CONFORM_PATIENCE_NS, &accepted),
                GEAR_ECLOSED);
  assert_int_equal(accepted, 0);
  conform_close(&table);
}

/* SEMANTICS 35 */
GEAR_TEST(ThousandsOfLanesShareOneWriter) {
  enum { kSteps = 9 };
  gear_table_options options = conform_options((uint64_t)kLanesMany * kSteps);
  options.lanes_max = kLanesMany;
  ConformTable table = conform_open(&options, kLanesMany);
  assert_int_equal(conform_stats(table.table).lanes_open, kLanesMany);
  static uint8_t terminated[kLanesMany];
  for (int64_t step = 0; step < kSteps; ++step) {
    fill_arrays(&arrays, kLanesMany, step);
    fill_arrays(&finals, kLanesMany, 1000 + step);
    for (int lane = 0; lane < kLanesMany; ++lane) terminated[lane] = (lane + step) % 4 == 3;
    gear_vector_step call = step_of(&arrays);
    call.terminated = terminated;
    call.final_cells = finals.cells;
    call.final_cell_count = kColumns;
    uint32_t accepted = 0;
    assert_ok(gear_writer_append_vector(table.writer, &call, CONFORM_PATIENCE_NS, &accepted));
    assert_int_equal(accepted, kLanesMany);
  }
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).steps, (uint64_t)kLanesMany * kSteps);
  assert_int_equal(conform_stats(table.table).evictions, 0);

  const gear_window windows[4] = {
      conform_window("step", NULL, 0, 1), conform_window("lane", NULL, 0, 1),
      conform_window("payload", NULL, 0, 1), conform_window("step", "next", 1, 1)};
  gear_batch* batch = conform_sample(conform_window_sampler(table.table, windows, 4), 256);
  const gear_tensor steps = conform_tensor(batch, "step");
  const gear_tensor lanes = conform_tensor(batch, "lane");
  const gear_tensor payload = conform_tensor(batch, "payload");
  const gear_tensor next = conform_tensor(batch, "next");
  for (uint32_t row = 0; row < 256; ++row) {
    const int64_t step = conform_i64(&steps, row, 0);
    const int32_t lane = ((const int32_t*)lanes.data)[row];
    const ConformStep wanted = conform_step(lane, step);
    assert_memory_equal((const uint8_t*)payload.data + row * payload.strides[0], wanted.payload,
                        kPayloadBytes);
    const bool ends = (lane + step) % 4 == 3;
    if (ends || step < kSteps - 1) {
      assert_int_equal(conform_i64(&next, row, 0), ends ? 1000 + step : step + 1);
    }
  }
  conform_close(&table);
}
