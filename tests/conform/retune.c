// ctest: labels=tsan
/* The limiter of a table in use is changed. */
#include <pthread.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static gear_rate_limiter limiter_of(double samples_per_insert, int64_t min_size, double min_diff,
                                    double max_diff) {
  const gear_rate_limiter limiter = {samples_per_insert, min_size, min_diff, max_diff};
  return limiter;
}

typedef struct Waiter {
  pthread_t thread;
  gear_sampler* sampler;
  gear_writer* writer;
  int status;
} Waiter;

static void* draw_one(void* argument) {
  Waiter* waiter = argument;
  gear_batch* batch = NULL;
  waiter->status = gear_sample(waiter->sampler, 1, CONFORM_PATIENCE_NS, &batch);
  if (waiter->status == GEAR_OK) waiter->status = gear_batch_release(batch);
  return NULL;
}

static void* flush_all(void* argument) {
  Waiter* waiter = argument;
  waiter->status = gear_writer_flush(waiter->writer, CONFORM_PATIENCE_NS, NULL);
  return NULL;
}

static ConformTable open_limited(gear_rate_limiter limiter) {
  gear_table_options options = conform_options(100);
  options.limiter = limiter;
  return conform_open(&options, 1);
}

/* SEMANTICS 11 */
GEAR_TEST(WaitingInsertionsAreLookedAtAgainAtOnce) {
  ConformTable table = open_limited(limiter_of(1, 1, 0, 2));
  conform_append(table.writer, 0, 0, 5);
  Waiter waiter = {0, NULL, table.writer, 1};
  uint64_t waiting = 0;
  assert_status(gear_writer_flush(table.writer, CONFORM_BLOCKED_NS, &waiting), GEAR_ETIMEDOUT);
  assert_int_equal(waiting, 3);
  assert_int_equal(pthread_create(&waiter.thread, NULL, flush_all, &waiter), 0);
  const gear_rate_limiter wider = limiter_of(1, 1, 0, 4);
  assert_ok(gear_table_retune(table.table, &wider));
  wait_until(conform_stats(table.table).inserts == 4);
  const gear_rate_limiter widest = limiter_of(1, 1, 0, 5);
  assert_ok(gear_table_retune(table.table, &widest));
  pthread_join(waiter.thread, NULL);
  assert_ok(waiter.status);
  assert_int_equal(conform_stats(table.table).inserts, 5);
  conform_close(&table);
}

/* SEMANTICS 11 */
GEAR_TEST(WaitingDrawsAreLookedAtAgainAtOnce) {
  ConformTable table = open_limited(limiter_of(1, 5, -100, 100));
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  Waiter waiter = {0, conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1), NULL, 1};
  gear_batch* batch = NULL;
  assert_status(gear_sample(waiter.sampler, 1, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  assert_int_equal(pthread_create(&waiter.thread, NULL, draw_one, &waiter), 0);
  const gear_rate_limiter lower = limiter_of(1, 3, -100, 100);
  assert_ok(gear_table_retune(table.table, &lower));
  pthread_join(waiter.thread, NULL);
  assert_ok(waiter.status);
  conform_close(&table);
}

/* SEMANTICS 11 */
GEAR_TEST(DirectDrawsFollowAChangedMinimumSize) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_DIRECT, 1);
  gear_rate_limiter limiter;
  assert_ok(gear_rate_limiter_min_size(4, &limiter));
  assert_ok(gear_table_retune(table.table, &limiter));
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  assert_ok(gear_rate_limiter_min_size(3, &limiter));
  assert_ok(gear_table_retune(table.table, &limiter));
  assert_ok(gear_batch_release(conform_sample(sampler, 1)));
  conform_close(&table);
}

GEAR_TEST(CountsGoOn) {
  ConformTable table = open_limited(limiter_of(1, 1, -100, 100));
  conform_append(table.writer, 0, 0, 6);
  conform_flush(table.writer);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1);
  assert_ok(gear_batch_release(conform_sample(sampler, 4)));
  wait_until(conform_stats(table.table).samples == 4);
  const gear_rate_limiter exact = limiter_of(1, 1, 0, 100);
  assert_ok(gear_table_retune(table.table, &exact));
  assert_ok(gear_batch_release(conform_sample(sampler, 2)));
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  conform_close(&table);
}

GEAR_TEST(ALimiterThatCountsIsRefusedWhileDirectSamplersAreOpen) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_DIRECT, 1);
  const gear_rate_limiter counting = limiter_of(1, 1, 0, 100);
  assert_status(gear_table_retune(table.table, &counting), GEAR_ESTATE);
  assert_explained("1 direct sampler");
  assert_ok(gear_batch_release(conform_sample(sampler, 1)));
  assert_ok(gear_sampler_close(sampler));
  wait_until(gear_table_retune(table.table, &counting) == GEAR_OK);
  assert_int_equal(conform_info(table.table).direct, 0);
  sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
  assert_ok(gear_sampler_get_stats(sampler, &stats));
  assert_int_equal(stats.direct, 0);
  conform_close(&table);
}

GEAR_TEST(UnusableLimitsAreRefusedAndNothingChanges) {
  ConformTable table = conform_open_simple(100);
  const gear_table_info before = conform_info(table.table);
  const gear_rate_limiter bad[4] = {limiter_of(0, 1, 0, 1), limiter_of(1, 0, 0, 1),
                                    limiter_of(1, 1, 2, 1), limiter_of(1, 101, 0, 1)};
  for (int i = 0; i < 4; ++i) {
    assert_status(gear_table_retune(table.table, &bad[i]), GEAR_EINVAL);
    assert_explained("rate limiter");
  }
  assert_status(gear_table_retune(table.table, NULL), GEAR_EINVAL);
  const gear_table_info after = conform_info(table.table);
  assert_memory_equal(&after.limiter, &before.limiter, sizeof before.limiter);
  conform_close(&table);
}
