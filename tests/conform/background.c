// ctest: labels=tsan
/* Batches that a thread of the client fills ahead. */
#include <pthread.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kRows = 16 };

static gear_sampler_options ahead_options(uint32_t ahead) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.seed = 3;
  options.background = ahead;
  options.background_rows = kRows;
  return options;
}

static gear_sampler* open_ahead(gear_table* table, uint32_t ahead) {
  const gear_sampler_options options = ahead_options(ahead);
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

static ConformTable open_filled(int64_t steps) {
  ConformTable table = conform_open_simple(1000);
  conform_append(table.writer, 0, 0, steps);
  conform_flush(table.writer);
  return table;
}

/* SEMANTICS 20 */
GEAR_TEST(BatchesComeInTheOrderDrawnAsWithoutAThread) {
  ConformTable table = open_filled(100);
  gear_sampler* ahead = open_ahead(table.table, 3);
  gear_sampler* plain = conform_sampler(table.table, GEAR_SAMPLE_DIRECT, 3);
  for (int i = 0; i < 20; ++i) {
    gear_batch* a = conform_sample(ahead, kRows);
    gear_batch* b = conform_sample(plain, kRows);
    conform_verify_batch(a);
    assert_memory_equal(gear_batch_keys(a), gear_batch_keys(b), kRows * sizeof(uint64_t));
    assert_ok(gear_batch_release(a));
    assert_ok(gear_batch_release(b));
  }
  gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
  assert_ok(gear_sampler_get_stats(ahead, &stats));
  assert_int_equal(stats.batches, 20);
  assert_int_equal(stats.rows, 20 * kRows);
  conform_close(&table);
}

/* SEMANTICS 12 */
GEAR_TEST(BatchesFilledAheadAreNotCounted) {
  ConformTable table = open_filled(10);
  gear_sampler* sampler = open_ahead(table.table, 4);
  assert_ok(gear_batch_release(conform_sample(sampler, kRows)));
  gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
  assert_ok(gear_sampler_get_stats(sampler, &stats));
  assert_int_equal(stats.rows, kRows);
  assert_ok(gear_sampler_close(sampler));
  assert_int_equal(conform_stats(table.table).samples, 0);
  conform_close(&table);
}

/* SEMANTICS 45 */
GEAR_TEST(EmptyTableTimesOutAndServesOnceItHasItems) {
  ConformTable table = conform_open_simple(100);
  gear_sampler* sampler = open_ahead(table.table, 2);
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, kRows, 0, &batch), GEAR_ETIMEDOUT);
  assert_explained("steps", "0 items");
  assert_status(gear_sample(sampler, kRows, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  conform_append(table.writer, 0, 0, 5);
  conform_flush(table.writer);
  conform_verify_batch(conform_sample(sampler, kRows));
  conform_close(&table);
}

/* SEMANTICS 44 */
GEAR_TEST(AsManyBatchesAreHeldAsWithoutAThread) {
  ConformTable table = open_filled(10);
  gear_sampler_options options = ahead_options(2);
  options.batches_max = 3;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &options, &sampler));
  gear_batch* held[3];
  for (int i = 0; i < 3; ++i) held[i] = conform_sample(sampler, kRows);
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, kRows, CONFORM_PATIENCE_NS, &batch), GEAR_EBUSY);
  assert_explained("3");
  assert_ok(gear_batch_release(held[1]));
  conform_verify_batch(conform_sample(sampler, kRows));
  conform_verify_batch(held[0]);
  conform_close(&table);
}

/* SEMANTICS 27 */
GEAR_TEST(BatchesFromBeforeAResetAreNotHandedOut) {
  ConformTable table = open_filled(10);
  gear_sampler* sampler = open_ahead(table.table, 3);
  assert_ok(gear_batch_release(conform_sample(sampler, kRows)));
  assert_ok(gear_table_reset(table.table));
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, kRows, 0, &batch), GEAR_ETIMEDOUT);
  conform_append(table.writer, 0, 500, 5);
  conform_flush(table.writer);
  batch = conform_sample(sampler, kRows);
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < kRows; ++row) assert_true(conform_i64(&step, row, 0) >= 500);
  conform_close(&table);
}

GEAR_TEST(BatchesFromBeforeANewVersionAreNotHandedOutWhereOldOnesAreSkipped) {
  gear_table_options table_options = conform_options(1000);
  table_options.versions = 1;
  ConformTable table = conform_open(&table_options, 1);
  conform_append(table.writer, 0, 0, 10);
  assert_ok(gear_writer_set_version(table.writer, 0, 1, CONFORM_PATIENCE_NS));
  conform_append(table.writer, 0, 10, 10);
  conform_flush(table.writer);
  gear_sampler_options options = ahead_options(3);
  options.version_policy = GEAR_VERSION_SKIP;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &options, &sampler));
  assert_ok(gear_batch_release(conform_sample(sampler, kRows)));
  assert_ok(gear_table_set_version(table.table, 1));
  for (int i = 0; i < 5; ++i) {
    gear_batch* batch = conform_sample(sampler, kRows);
    const gear_tensor step = conform_tensor(batch, "step");
    for (uint32_t row = 0; row < kRows; ++row) assert_true(conform_i64(&step, row, 0) >= 10);
    assert_ok(gear_batch_release(batch));
  }
  conform_close(&table);
}

/* SEMANTICS 45 */
GEAR_TEST(ClosedAndDroppedTablesAnswerAtOnceThoughBatchesAreReady) {
  ConformTable table = open_filled(10);
  gear_sampler* sampler = open_ahead(table.table, 2);
  assert_ok(gear_batch_release(conform_sample(sampler, kRows)));
  assert_ok(gear_table_close(table.table));
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, kRows, CONFORM_PATIENCE_NS, &batch), GEAR_ECLOSED);
  assert_ok(gear_table_drop(table.client, "steps"));
  assert_status(gear_sample(sampler, kRows, CONFORM_PATIENCE_NS, &batch), GEAR_EDROPPED);
  conform_close(&table);
}

static void* close_soon(void* table) {
  conform_pause();
  return (void*)(intptr_t)gear_table_close(table);
}

GEAR_TEST(ClosingTheTableEndsAWaitForTheFirstBatch) {
  ConformTable table = conform_open_simple(100);
  gear_sampler* sampler = open_ahead(table.table, 2);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, close_soon, table.table), 0);
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, kRows, CONFORM_PATIENCE_NS, &batch), GEAR_ECLOSED);
  void* closed = NULL;
  pthread_join(thread, &closed);
  assert_ptr_equal(closed, NULL);
  conform_close(&table);
}

GEAR_TEST(SamplersCloseWhileTheirThreadWaitsOrIsBusy) {
  ConformTable table = conform_open_simple(1000);
  for (int i = 0; i < 5; ++i) {
    assert_ok(gear_sampler_close(open_ahead(table.table, 2)));
    conform_append(table.writer, 0, 100 * i, 100);
    conform_flush(table.writer);
    gear_sampler* sampler = open_ahead(table.table, 2);
    gear_batch* batch = conform_sample(sampler, kRows);
    assert_ok(gear_sampler_close(sampler));
    conform_verify_batch(batch);
    assert_ok(gear_batch_release(batch));
  }
  open_ahead(table.table, 2); /* goes with its client */
  conform_close(&table);
}

GEAR_TEST(BatchFilledAheadIsCopiedToTheCallersMemory) {
  ConformTable table = open_filled(50);
  const gear_window windows[2] = {conform_window("step", NULL, 0, 2),
                                  conform_window("payload", NULL, 0, 2)};
  gear_sampler_options options = ahead_options(2);
  options.windows = windows;
  options.window_count = 2;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &options, &sampler));
  int64_t steps[kRows][2];
  uint8_t payloads[kRows][2][16];
  gear_destination places[2] = {GEAR_DESTINATION_INIT, GEAR_DESTINATION_INIT};
  places[0].data = steps;
  places[1].data = payloads;
  places[1].step_stride = 16;
  gear_batch* batch = NULL;
  for (int i = 0; i < 10; ++i) {
    assert_ok(gear_sample_into(sampler, kRows, CONFORM_PATIENCE_NS, places, 2, &batch));
    const gear_tensor step = conform_tensor(batch, "step");
    assert_ptr_equal(step.data, steps);
    for (uint32_t row = 0; row < kRows; ++row) {
      for (uint32_t place = 0; place < step.lengths[row]; ++place) {
        const ConformStep wanted = conform_step(0, steps[row][place]);
        assert_memory_equal(payloads[row][place], wanted.payload, kPayloadBytes);
      }
    }
    assert_ok(gear_batch_release(batch));
  }
  conform_close(&table);
}

static void assert_refused(gear_table* table, gear_sampler_options options, int status) {
  gear_sampler* sampler = NULL;
  assert_status(gear_sampler_open(table, &options, &sampler), status);
}

GEAR_TEST(WhatAThreadCannotFillAheadIsRefused) {
  ConformTable table = open_filled(10);
  gear_sampler_options options = ahead_options(2);
  options.mode = GEAR_SAMPLE_LEASED;
  assert_refused(table.table, options, GEAR_EUNSUPPORTED);
  assert_explained("background 2", "prefetch");
  options = ahead_options(2);
  options.rows_min = 3;
  assert_refused(table.table, options, GEAR_EINVAL);
  assert_explained("rows_min 3");
  options = ahead_options(2);
  options.background_rows = 257;
  assert_refused(table.table, options, GEAR_EINVAL);
  assert_explained("background_rows 257", "256");
  options = ahead_options(0);
  assert_refused(table.table, options, GEAR_EINVAL);
  options = ahead_options(UINT32_MAX);
  assert_refused(table.table, options, GEAR_EINVAL);
  gear_sampler* sampler = open_ahead(table.table, 2);
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, kRows - 1, CONFORM_PATIENCE_NS, &batch), GEAR_EINVAL);
  assert_explained("15 rows", "16");
  conform_close(&table);
}

static void* append_steps(void* writer) {
  intptr_t failed = 0;
  for (int64_t step = 0; step < 20000 && failed == 0; ++step) {
    failed = conform_try_append(writer, 0, step, CONFORM_PATIENCE_NS);
  }
  return (void*)failed;
}

/* SEMANTICS 34 */
GEAR_TEST(RowsFilledAheadAreRightWhileTheTableTurnsOver) {
  ConformTable table = conform_open_simple(50);
  gear_sampler* sampler = open_ahead(table.table, 2);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, append_steps, table.writer), 0);
  for (int i = 0; i < 300; ++i) {
    gear_batch* batch = conform_sample(sampler, kRows);
    conform_verify_batch(batch);
    assert_ok(gear_batch_release(batch));
  }
  void* failed = NULL;
  pthread_join(thread, &failed);
  assert_ptr_equal(failed, NULL);
  conform_close(&table);
}
