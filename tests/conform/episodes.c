/* Ends of episodes, their final observations, per-episode columns, and lanes that never mix. */
#include <pthread.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static void end_with(gear_writer* writer, gear_end end, int64_t final_step) {
  const ConformStep content = conform_step(0, final_step);
  gear_cell cells[kColumns];
  conform_cells(&content, cells);
  assert_ok(gear_writer_end_episode(writer, 0, end, cells, kColumns, CONFORM_PATIENCE_NS));
}

/* "drawn" is the drawn step, "next" the window of offset 1 and this length, "payload" likewise. */
static gear_sampler* open_next(gear_table* table, uint32_t length) {
  const gear_window windows[3] = {conform_window("step", "drawn", 0, 1),
                                  conform_window("step", "next", 1, length),
                                  conform_window("payload", NULL, 1, length)};
  return conform_window_sampler(table, windows, 3);
}

static void assert_final_observation_is_next(gear_end end) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 5);
  end_with(table.writer, end, 1000);
  conform_append(table.writer, 0, 5, 3);
  conform_flush(table.writer);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(open_next(table.table, 1), 4, &row);
  const gear_tensor next = conform_tensor(batch, "next");
  const gear_tensor payload = conform_tensor(batch, "payload");
  assert_int_equal(next.mask[row], 1);
  assert_int_equal(next.lengths[row], 1);
  assert_int_equal(conform_i64(&next, row, 0), 1000);
  const ConformStep wanted = conform_step(0, 1000);
  assert_memory_equal((const uint8_t*)payload.data + row * payload.strides[0], wanted.payload,
                      kPayloadBytes);
  conform_close(&table);
}

/* SEMANTICS 31 */
GEAR_TEST(FinalObservationFollowsTheLastStepOfATerminatedEpisode) {
  assert_final_observation_is_next(GEAR_TERMINATED);
}

/* SEMANTICS 31 */
GEAR_TEST(FinalObservationFollowsTheLastStepOfATruncatedEpisode) {
  assert_final_observation_is_next(GEAR_TRUNCATED);
}

/* SEMANTICS 31 */
GEAR_TEST(NothingFollowsTheLastStepWithoutAFinalObservation) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 5);
  conform_end(table.writer, 0, GEAR_TRUNCATED);
  conform_append(table.writer, 0, 5, 3);
  conform_flush(table.writer);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(open_next(table.table, 1), 4, &row);
  const gear_tensor next = conform_tensor(batch, "next");
  assert_int_equal(next.mask[row], 0);
  assert_int_equal(next.lengths[row], 0);
  assert_int_equal(conform_i64(&next, row, 0), 0);
  conform_close(&table);
}

/* SEMANTICS 31 */
GEAR_TEST(FinalObservationIsShownForTheColumnsGivenAndNoOthers) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 5);
  const int64_t final_step = 1000;
  const gear_cell cell = conform_cell(kStep, GEAR_I64, 0, NULL, &final_step);
  assert_ok(
      gear_writer_end_episode(table.writer, 0, GEAR_TERMINATED, &cell, 1, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(open_next(table.table, 1), 4, &row);
  const gear_tensor next = conform_tensor(batch, "next");
  assert_int_equal(next.mask[row], 1);
  assert_int_equal(conform_i64(&next, row, 0), 1000);
  assert_int_equal(conform_tensor(batch, "payload").mask[row], 0);
  conform_close(&table);
}

/* SEMANTICS 31 */
GEAR_TEST(NextObservationWithinAnEpisodeIsTheNextStep) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 5);
  end_with(table.writer, GEAR_TERMINATED, 1000);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(open_next(table.table, 1), 256);
  const gear_tensor drawn = conform_tensor(batch, "drawn");
  const gear_tensor next = conform_tensor(batch, "next");
  for (uint32_t row = 0; row < 256; ++row) {
    const int64_t step = conform_i64(&drawn, row, 0);
    assert_int_equal(conform_i64(&next, row, 0), step == 4 ? 1000 : step + 1);
  }
  conform_close(&table);
}

/* SEMANTICS 31 */
GEAR_TEST(LongWindowShowsTheFinalObservationOnceAndThenPadding) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 5);
  end_with(table.writer, GEAR_TRUNCATED, 1000);
  conform_append(table.writer, 0, 5, 3);
  conform_flush(table.writer);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(open_next(table.table, 4), 3, &row);
  const gear_tensor next = conform_tensor(batch, "next");
  const int64_t wanted[4] = {4, 1000, 0, 0};
  const uint8_t mask[4] = {1, 1, 0, 0};
  for (uint32_t i = 0; i < 4; ++i) {
    assert_int_equal(conform_mask(&next, row, i), mask[i]);
    assert_int_equal(conform_i64(&next, row, i), wanted[i]);
  }
  assert_int_equal(next.lengths[row], 2);
  conform_close(&table);
}

/* SEMANTICS 31 */
GEAR_TEST(FinalObservationIsNeverDrawnAsAStep) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 5);
  end_with(table.writer, GEAR_TERMINATED, 1000);
  conform_flush(table.writer);
  const gear_table_stats stats = conform_stats(table.table);
  assert_int_equal(stats.items, 5);
  assert_int_equal(stats.steps, 5);
  assert_int_equal(stats.episodes, 1);
  conform_close(&table);
}

/* SEMANTICS 31 */
GEAR_TEST(FinalObservationIsKeptWhereverABlockEnds) {
  gear_table_options options = conform_options(100);
  options.block_steps = 4;
  ConformTable table = conform_open(&options, 1);
  int64_t step = 0;
  for (int64_t length = 1; length <= 9; ++length) {
    conform_append(table.writer, 0, step, length);
    step += length;
    end_with(table.writer, GEAR_TRUNCATED, 1000 + length);
  }
  conform_flush(table.writer);
  gear_sampler* sampler = open_next(table.table, 1);
  step = -1;
  for (int64_t length = 1; length <= 9; ++length) {
    step += length;
    uint32_t row = 0;
    gear_batch* batch = conform_draw_step(sampler, step, &row);
    const gear_tensor next = conform_tensor(batch, "next");
    assert_int_equal(conform_i64(&next, row, 0), 1000 + length);
    assert_ok(gear_batch_release(batch));
  }
  conform_close(&table);
}

GEAR_TEST(StepNotYetAppendedIsPaddingInAnOpenEpisode) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  gear_sampler* sampler = open_next(table.table, 1);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(sampler, 2, &row);
  assert_int_equal(conform_tensor(batch, "next").mask[row], 0);
  conform_append(table.writer, 0, 3, 1);
  conform_flush(table.writer);
  batch = conform_draw_step(sampler, 2, &row);
  const gear_tensor next = conform_tensor(batch, "next");
  assert_int_equal(next.mask[row], 1);
  assert_int_equal(conform_i64(&next, row, 0), 3);
  conform_close(&table);
}

GEAR_TEST(EpisodeWithoutAStepCannotEnd) {
  ConformTable table = conform_open_simple(100);
  assert_status(gear_writer_end_episode(table.writer, 0, GEAR_TERMINATED, NULL, 0, 0), GEAR_ESTATE);
  conform_append(table.writer, 0, 0, 1);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  assert_status(gear_writer_end_episode(table.writer, 0, GEAR_TERMINATED, NULL, 0, 0), GEAR_ESTATE);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).episodes, 1);
  conform_close(&table);
}

GEAR_TEST(EndWithABadFinalCellLeavesTheEpisodeOpen) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 2);
  const float wrong = 1.0F;
  const gear_cell cell = conform_cell(kStep, GEAR_F32, 0, NULL, &wrong);
  assert_status(gear_writer_end_episode(table.writer, 0, GEAR_TERMINATED, &cell, 1, 0),
                GEAR_EDTYPE);
  assert_status(gear_writer_end_episode(table.writer, 0, (gear_end)3, NULL, 0, 0), GEAR_EINVAL);
  conform_append(table.writer, 0, 2, 1);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).episodes, 0);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(open_next(table.table, 1), 1, &row);
  const gear_tensor next = conform_tensor(batch, "next");
  assert_int_equal(conform_i64(&next, row, 0), 2);
  conform_close(&table);
}

/* SEMANTICS 35 */
enum { kLanes = 16, kLaneSteps = 150 };

/* What was appended: begin[lane][step] is the first step of the episode that step belongs to, and
 * last[lane][step] its last. */
typedef struct Lanes {
  int64_t begin[kLanes][kLaneSteps];
  int64_t last[kLanes][kLaneSteps];
} Lanes;

static void assert_windows_stay_in_their_lane(gear_table* table, const Lanes* lanes) {
  gear_window windows[kColumns];
  conform_windows(windows, -2, 6);
  gear_sampler* sampler = conform_window_sampler(table, windows, kColumns);
  for (int i = 0; i < 40; ++i) {
    gear_batch* batch = conform_sample(sampler, 256);
    conform_verify_batch(batch);
    const gear_tensor steps = conform_tensor(batch, "step");
    const gear_tensor lane_of = conform_tensor(batch, "lane");
    for (uint32_t row = 0; row < 256; ++row) {
      const int64_t drawn = conform_i64(&steps, row, 2);
      int32_t lane = -1;
      memcpy(&lane,
             (const uint8_t*)lane_of.data + row * lane_of.strides[0] + 2 * lane_of.strides[1],
             sizeof lane);
      assert_in_range(lane, 0, kLanes - 1);
      for (uint32_t place = 0; place < 6; ++place) {
        const int64_t step = drawn - 2 + place;
        const bool inside = step >= lanes->begin[lane][drawn] && step <= lanes->last[lane][drawn];
        assert_int_equal(conform_mask(&steps, row, place), inside);
        if (inside) assert_int_equal(conform_i64(&steps, row, place), step);
      }
    }
    assert_ok(gear_batch_release(batch));
  }
}

/* SEMANTICS 35 */
GEAR_TEST(InterleavedLanesOfOneWriterNeverMix) {
  static Lanes lanes;
  uint64_t random = conform_seed();
  gear_table_options options = conform_options(kLanes * kLaneSteps);
  options.block_steps = 7;
  ConformTable table = conform_open(&options, kLanes);
  int64_t next[kLanes] = {0};
  int64_t begin[kLanes] = {0};
  for (int left = kLanes * kLaneSteps; left > 0;) {
    const uint32_t lane = (uint32_t)(conform_random(&random) % kLanes);
    if (next[lane] == kLaneSteps) continue;
    conform_append(table.writer, lane, next[lane], 1);
    lanes.begin[lane][next[lane]++] = begin[lane];
    --left;
    if (next[lane] < kLaneSteps && conform_random(&random) % 9 != 0) continue;
    conform_end(table.writer, lane, GEAR_TRUNCATED);
    for (int64_t step = begin[lane]; step < next[lane]; ++step) {
      lanes.last[lane][step] = next[lane] - 1;
    }
    begin[lane] = next[lane];
  }
  conform_flush(table.writer);
  assert_windows_stay_in_their_lane(table.table, &lanes);
  conform_close(&table);
}

enum { kWriters = 4, kLanesAWriter = kLanes / kWriters, kEpisodeSteps = 10 };

typedef struct WriterThread {
  gear_writer* writer;
  int32_t first_lane;
  int status;
} WriterThread;

static void* append_lanes(void* user) {
  WriterThread* thread = user;
  for (int64_t step = 0; step < kLaneSteps && thread->status == GEAR_OK; ++step) {
    for (uint32_t lane = 0; lane < kLanesAWriter && thread->status == GEAR_OK; ++lane) {
      const ConformStep content = conform_step(thread->first_lane + (int32_t)lane, step);
      gear_cell cells[kColumns];
      conform_cells(&content, cells);
      thread->status =
          gear_writer_append(thread->writer, lane, cells, kColumns, CONFORM_PATIENCE_NS);
      if (thread->status != GEAR_OK || (step + 1) % kEpisodeSteps != 0) continue;
      thread->status = gear_writer_end_episode(thread->writer, lane, GEAR_TERMINATED, NULL, 0,
                                               CONFORM_PATIENCE_NS);
    }
  }
  if (thread->status == GEAR_OK) {
    thread->status = gear_writer_flush(thread->writer, CONFORM_PATIENCE_NS, NULL);
  }
  return NULL;
}

/* SEMANTICS 35 */
GEAR_TEST(InterleavedLanesOfManyWritersNeverMix) {
  static Lanes lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int64_t step = 0; step < kLaneSteps; ++step) {
      lanes.begin[lane][step] = step - step % kEpisodeSteps;
      lanes.last[lane][step] = lanes.begin[lane][step] + kEpisodeSteps - 1;
    }
  }
  gear_table_options options = conform_options(kLanes * kLaneSteps);
  options.block_steps = 7;
  ConformTable table = conform_open(&options, 1);
  WriterThread threads[kWriters];
  pthread_t ids[kWriters];
  gear_writer_options writer_options = GEAR_WRITER_OPTIONS_INIT;
  writer_options.lanes = kLanesAWriter;
  for (int i = 0; i < kWriters; ++i) {
    threads[i] = (WriterThread){NULL, i * kLanesAWriter, GEAR_OK};
    assert_ok(gear_writer_open(table.table, &writer_options, &threads[i].writer));
  }
  for (int i = 0; i < kWriters; ++i) {
    assert_int_equal(pthread_create(&ids[i], NULL, append_lanes, &threads[i]), 0);
  }
  for (int i = 0; i < kWriters; ++i) assert_int_equal(pthread_join(ids[i], NULL), 0);
  for (int i = 0; i < kWriters; ++i) assert_ok(threads[i].status);
  assert_int_equal(conform_stats(table.table).steps, kLanes * kLaneSteps);
  assert_windows_stay_in_their_lane(table.table, &lanes);
  conform_close(&table);
}
