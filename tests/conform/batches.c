// ctest: labels=tsan
/* What a batch is, how long it lives, and when there is none. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static ConformTable open_filled(int64_t steps) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, steps);
  conform_flush(table.writer);
  return table;
}

/* A queue that holds steps 0 .. 4. */
static ConformTable open_queue_of_five(void) {
  gear_table_options options = conform_options(10);
  assert_ok(gear_table_options_queue(10, &options));
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 5);
  conform_flush(table.writer);
  return table;
}

static gear_sampler* open_rows_min(gear_table* table, uint32_t rows_min) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.rows_min = rows_min;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* SEMANTICS 42 */
GEAR_TEST(SampleGivesAllRowsAskedForOrNone) {
  ConformTable table = open_queue_of_five();
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 6, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  assert_null(batch);
  assert_int_equal(conform_stats(table.table).items, 5);
  assert_int_equal(conform_stats(table.table).samples, 0);
  batch = conform_sample(sampler, 5);
  conform_verify_batch(batch);
  conform_close(&table);
}

/* SEMANTICS 42 */
GEAR_TEST(RowsMinAllowsFewerRowsOnceTheTimeEnds) {
  ConformTable table = open_queue_of_five();
  gear_batch* batch = NULL;
  assert_ok(gear_sample(open_rows_min(table.table, 3), 10, CONFORM_BLOCKED_NS, &batch));
  assert_int_equal(gear_batch_rows(batch), 5);
  const gear_tensor step = conform_tensor(batch, "step");
  assert_int_equal(step.shape[0], 5);
  for (uint32_t row = 0; row < 5; ++row) assert_int_equal(conform_i64(&step, row, 0), row);
  conform_close(&table);
}

/* SEMANTICS 42 */
GEAR_TEST(SampleOfFewerThanRowsMinTimesOutAndTakesNothing) {
  ConformTable table = open_queue_of_five();
  gear_batch* batch = NULL;
  assert_status(gear_sample(open_rows_min(table.table, 6), 10, CONFORM_BLOCKED_NS, &batch),
                GEAR_ETIMEDOUT);
  assert_int_equal(conform_stats(table.table).items, 5);
  conform_close(&table);
}

static void* append_three(void* user) {
  for (int64_t step = 0; step < 3; ++step) {
    if (conform_try_append(user, 0, step, CONFORM_PATIENCE_NS) != GEAR_OK) return NULL;
  }
  return user;
}

static void assert_waits_for_rows(uint32_t mode) {
  gear_table_options options = conform_options(100);
  assert_ok(gear_rate_limiter_min_size(3, &options.limiter));
  ConformTable table = conform_open(&options, 1);
  gear_sampler* sampler = conform_sampler(table.table, mode, 1);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, append_three, table.writer), 0);
  gear_batch* batch = conform_sample(sampler, 8);
  conform_verify_batch(batch);
  void* finished = NULL;
  assert_int_equal(pthread_join(thread, &finished), 0);
  assert_non_null(finished);
  conform_close(&table);
}

/* SEMANTICS 42 */
GEAR_TEST(DirectSampleWaitsUntilAnotherThreadAppendedEnough) {
  assert_waits_for_rows(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 42 */
GEAR_TEST(LeasedSampleWaitsUntilAnotherThreadAppendedEnough) {
  assert_waits_for_rows(GEAR_SAMPLE_LEASED);
}

/* SEMANTICS 43 */
GEAR_TEST(RowsAreInTheOrderDrawn) {
  ConformTable table = open_queue_of_five();
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 5);
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 5; ++row) assert_int_equal(conform_i64(&step, row, 0), row);
  conform_close(&table);
}

static void assert_rows_agree(uint32_t mode) {
  gear_table_options options = conform_options(100);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_alpha = 1;
  ConformTable table = conform_open(&options, 1);
  for (int step = 0; step < 10; ++step) conform_append_priority(table.writer, step, 1 + step);
  conform_flush(table.writer);
  uint64_t keys[10];
  conform_keys(table.table, keys, 10);

  gear_batch* batch = conform_sample(conform_sampler(table.table, mode, 1), 256);
  conform_verify_batch(batch);
  const gear_tensor tensor = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 256; ++row) {
    const int64_t step = conform_i64(&tensor, row, 0);
    const double off = gear_batch_probabilities(batch)[row] - (double)(1 + step) / 55;
    assert_true(gear_batch_keys(batch)[row] == keys[step]);
    assert_true(gear_batch_priorities(batch)[row] == (double)(1 + step));
    assert_true(off < 1e-12 && off > -1e-12);
    assert_int_equal(gear_batch_item_lengths(batch)[row], 1);
    assert_int_equal(gear_batch_anchors(batch)[row], 0);
    assert_int_equal(tensor.lengths[row], 1);
    assert_int_equal(tensor.mask[row], 1);
  }
  conform_close(&table);
}

/* SEMANTICS 43 */
GEAR_TEST(KeysPrioritiesProbabilitiesAndContentAgreeByRowDirect) {
  assert_rows_agree(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 43 */
GEAR_TEST(KeysPrioritiesProbabilitiesAndContentAgreeByRowLeased) {
  assert_rows_agree(GEAR_SAMPLE_LEASED);
}

/* Holds a batch while the table is overwritten ten times. */
static void assert_unchanged_while_overwritten(uint32_t mode) {
  gear_table_options options = conform_options(100);
  options.block_steps = 8;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 100);
  conform_flush(table.writer);
  gear_window windows[kColumns];
  conform_windows(windows, -1, 3);
  gear_sampler_options sampler_options = GEAR_SAMPLER_OPTIONS_INIT;
  sampler_options.mode = mode;
  sampler_options.windows = windows;
  sampler_options.window_count = kColumns;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &sampler_options, &sampler));
  gear_batch* batch = conform_sample(sampler, 64);
  const gear_tensor step = conform_tensor(batch, "step");
  const gear_tensor payload = conform_tensor(batch, "payload");
  void* steps_before = malloc(step.size_bytes);
  void* payload_before = malloc(payload.size_bytes);
  uint64_t keys_before[64];
  memcpy(steps_before, step.data, step.size_bytes);
  memcpy(payload_before, payload.data, payload.size_bytes);
  memcpy(keys_before, gear_batch_keys(batch), sizeof keys_before);

  conform_append(table.writer, 0, 100, 1000);
  conform_flush(table.writer);
  conform_verify_batch(batch);
  assert_memory_equal(step.data, steps_before, step.size_bytes);
  assert_memory_equal(payload.data, payload_before, payload.size_bytes);
  assert_memory_equal(gear_batch_keys(batch), keys_before, sizeof keys_before);
  assert_ok(gear_batch_release(batch));
  free(steps_before);
  free(payload_before);
  conform_close(&table);
}

/* SEMANTICS 44 */
GEAR_TEST(DirectBatchStaysUnchangedWhileTheTableIsOverwrittenTenTimes) {
  assert_unchanged_while_overwritten(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 44 */
GEAR_TEST(LeasedBatchStaysUnchangedWhileTheTableIsOverwrittenTenTimes) {
  assert_unchanged_while_overwritten(GEAR_SAMPLE_LEASED);
}

/* SEMANTICS 44 */
GEAR_TEST(SecondReleaseOfABatchIsStale) {
  ConformTable table = open_filled(10);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 4);
  assert_ok(gear_batch_release(batch));
  assert_status(gear_batch_release(batch), GEAR_ESTALE);
  assert_explained("release");
  conform_close(&table);
}

static void assert_shows_nothing(const gear_batch* batch) {
  gear_tensor tensor;
  assert_int_equal(gear_batch_rows(batch), 0);
  assert_int_equal(gear_batch_tensor_count(batch), 0);
  assert_status(gear_batch_tensor(batch, 0, &tensor), GEAR_ESTALE);
  assert_null(gear_batch_keys(batch));
  assert_null(gear_batch_priorities(batch));
  assert_null(gear_batch_probabilities(batch));
  assert_null(gear_batch_weights(batch));
  assert_null(gear_batch_times_sampled(batch));
  assert_null(gear_batch_item_lengths(batch));
  assert_null(gear_batch_anchors(batch));
}

/* SEMANTICS 44 */
GEAR_TEST(ReleasedBatchShowsNothing) {
  ConformTable table = open_filled(10);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 4);
  assert_ok(gear_batch_release(batch));
  assert_shows_nothing(batch);
  conform_close(&table);
}

/* SEMANTICS 44 */
GEAR_TEST(ReleasedBatchNeverShowsOrReleasesALaterOne) {
  ConformTable table = open_filled(10);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  gear_batch* old = conform_sample(sampler, 4);
  assert_ok(gear_batch_release(old));
  for (int i = 0; i < 20; ++i) {
    gear_batch* batch = conform_sample(sampler, 4);
    assert_shows_nothing(old);
    assert_status(gear_batch_release(old), GEAR_ESTALE);
    conform_verify_batch(batch);
    assert_ok(gear_batch_release(batch));
  }
  conform_close(&table);
}

/* SEMANTICS 44 */
GEAR_TEST(BatchOutlivesItsSampler) {
  ConformTable table = open_filled(10);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  gear_batch* batch = conform_sample(sampler, 4);
  assert_ok(gear_sampler_close(sampler));
  conform_verify_batch(batch);
  assert_ok(gear_batch_release(batch));
  assert_status(gear_batch_release(batch), GEAR_ESTALE);
  conform_close(&table);
}

static void assert_outlives_client(uint32_t mode) {
  ConformTable table = open_filled(10);
  gear_batch* batch = conform_sample(conform_sampler(table.table, mode, 1), 4);
  conform_close(&table);
  assert_int_equal(gear_batch_rows(batch), 4);
  conform_verify_batch(batch);
  assert_ok(gear_batch_release(batch));
  assert_status(gear_batch_release(batch), GEAR_ESTALE);
}

/* SEMANTICS 44 */
GEAR_TEST(DirectBatchOutlivesItsClientAndServer) {
  assert_outlives_client(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 44 */
GEAR_TEST(LeasedBatchOutlivesItsClientAndServer) {
  assert_outlives_client(GEAR_SAMPLE_LEASED);
}

/* SEMANTICS 44 */
GEAR_TEST(BatchOutlivesItsTable) {
  ConformTable table = open_filled(10);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 4);
  assert_ok(gear_table_drop(table.client, "steps"));
  conform_verify_batch(batch);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

/* SEMANTICS 47 */
GEAR_TEST(ReleaseAfterTheLeaseExpiredIsStaleAndTheRowsWereRight) {
  gear_table_options options = conform_options(100);
  options.lease_timeout_ms = 10;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 10);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1), 4);
  const int64_t expired_ns = conform_now_ns() + INT64_C(100000000);
  wait_until(conform_now_ns() > expired_ns);
  conform_append(table.writer, 0, 10, 1000);
  conform_flush(table.writer);
  conform_verify_batch(batch);
  assert_status(gear_batch_release(batch), GEAR_ESTALE);
  assert_explained("lease");
  conform_close(&table);
}

static void assert_empty_times_out(uint32_t mode) {
  ConformTable table = conform_open_simple(10);
  gear_batch* batch = NULL;
  const int64_t begin_ns = conform_now_ns();
  assert_status(gear_sample(conform_sampler(table.table, mode, 1), 1, 0, &batch), GEAR_ETIMEDOUT);
  assert_true(conform_now_ns() - begin_ns < INT64_C(1000000000));
  assert_null(batch);
  conform_close(&table);
}

/* SEMANTICS 45 */
GEAR_TEST(DirectSampleOfAnEmptyTableTimesOutAtOnce) {
  assert_empty_times_out(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 45 */
GEAR_TEST(LeasedSampleOfAnEmptyTableTimesOutAtOnce) {
  assert_empty_times_out(GEAR_SAMPLE_LEASED);
}

static void assert_closed_at_once(uint32_t mode) {
  ConformTable table = open_filled(10);
  gear_sampler* sampler = conform_sampler(table.table, mode, 1);
  assert_ok(gear_table_close(table.table));
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, 0, &batch), GEAR_ECLOSED);
  assert_status(gear_sample(sampler, 1, CONFORM_PATIENCE_NS, &batch), GEAR_ECLOSED);
  assert_explained("steps");
  assert_null(batch);
  conform_close(&table);
}

/* SEMANTICS 45 */
GEAR_TEST(DirectSampleOfAClosedTableSaysSoAtOnce) {
  assert_closed_at_once(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 45 */
GEAR_TEST(LeasedSampleOfAClosedTableSaysSoAtOnce) {
  assert_closed_at_once(GEAR_SAMPLE_LEASED);
}

GEAR_TEST(SampleIsRefusedWhileEveryBatchIsHeld) {
  ConformTable table = open_filled(10);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.batches_max = 2;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &options, &sampler));
  gear_batch* first = conform_sample(sampler, 1);
  conform_sample(sampler, 1);
  gear_batch* third = NULL;
  assert_status(gear_sample(sampler, 1, CONFORM_PATIENCE_NS, &third), GEAR_EBUSY);
  assert_explained("2", "release");
  assert_ok(gear_batch_release(first));
  conform_sample(sampler, 1);
  conform_close(&table);
}

GEAR_TEST(SampleOfNoRowsOrOfMoreThanTheMostIsRefused) {
  ConformTable table = open_filled(10);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.batch_rows_max = 8;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &options, &sampler));
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 0, CONFORM_PATIENCE_NS, &batch), GEAR_EINVAL);
  assert_status(gear_sample(sampler, 9, CONFORM_PATIENCE_NS, &batch), GEAR_EINVAL);
  assert_explained("9", "8");
  conform_sample(sampler, 8);
  conform_close(&table);
}

GEAR_TEST(TensorBeyondTheLastIsRefused) {
  ConformTable table = open_filled(10);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 1);
  gear_tensor tensor;
  assert_status(gear_batch_tensor(batch, kColumns, &tensor), GEAR_EINVAL);
  assert_explained("3");
  conform_close(&table);
}

GEAR_TEST(SamplerCountsItsBatchesRowsAndBytes) {
  ConformTable table = open_filled(10);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_DIRECT, 1);
  for (int i = 0; i < 3; ++i) assert_ok(gear_batch_release(conform_sample(sampler, 8)));
  gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
  assert_ok(gear_sampler_get_stats(sampler, &stats));
  assert_int_equal(stats.direct, 1);
  assert_int_equal(stats.batches, 3);
  assert_int_equal(stats.rows, 24);
  assert_int_equal(stats.bytes, 24 * (8 + 4 + kPayloadBytes));
  conform_close(&table);
}
