// ctest: labels=tsan
/* What the rate limiter admits, seen through append, flush and sample. */
#include <pthread.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

/* A limited table. A step that the limiter holds back may wait behind an append that accepted it,
 * or the append itself may time out; `pending` knows which. */
typedef struct Limited {
  ConformTable base;
  gear_sampler* sampler;
  int64_t appended;
  uint64_t pending;
  uint64_t drawn; /* rows of batches that were handed out */
} Limited;

static Limited open_limited(double samples_per_insert, int64_t min_size, double min_diff,
                            double max_diff) {
  gear_table_options options = conform_options(1000);
  options.limiter.samples_per_insert = samples_per_insert;
  options.limiter.min_size = min_size;
  options.limiter.min_diff = min_diff;
  options.limiter.max_diff = max_diff;
  Limited limited = {conform_open(&options, 1), NULL, 0, 0, 0};
  limited.sampler = conform_sampler(limited.base.table, GEAR_SAMPLE_AUTO, 1);
  return limited;
}

static Limited open_queue(uint64_t capacity) {
  gear_table_options options = conform_options(capacity);
  assert_ok(gear_table_options_queue(capacity, &options));
  Limited limited = {conform_open(&options, 1), NULL, 0, 0, 0};
  limited.sampler = conform_sampler(limited.base.table, GEAR_SAMPLE_AUTO, 1);
  return limited;
}

static void assert_insert_passes(Limited* limited) {
  if (limited->pending == 0) {
    conform_append(limited->base.writer, 0, limited->appended, 1);
    ++limited->appended;
  }
  conform_flush(limited->base.writer);
  limited->pending = 0;
}

static void assert_insert_blocks(Limited* limited) {
  const uint64_t inserts = conform_stats(limited->base.table).inserts;
  if (limited->pending == 0) {
    const int status =
        conform_try_append(limited->base.writer, 0, limited->appended, CONFORM_BLOCKED_NS);
    if (status == GEAR_OK) {
      ++limited->appended;
      limited->pending = 1;
    } else {
      assert_status(status, GEAR_ETIMEDOUT);
    }
  }
  if (limited->pending > 0) {
    uint64_t waiting = 0;
    assert_status(gear_writer_flush(limited->base.writer, CONFORM_BLOCKED_NS, &waiting),
                  GEAR_ETIMEDOUT);
    assert_int_equal(waiting, limited->pending);
  }
  assert_int_equal(conform_stats(limited->base.table).inserts, inserts);
}

/* The server hears of a batch a moment after it was handed out. */
static void wait_until_counted(const Limited* limited) {
  wait_until(conform_stats(limited->base.table).samples == limited->drawn);
}

static void assert_draw_passes(Limited* limited, uint32_t rows) {
  assert_ok(gear_batch_release(conform_sample(limited->sampler, rows)));
  limited->drawn += rows;
  wait_until_counted(limited);
}

static void assert_draw_blocks(Limited* limited, uint32_t rows) {
  gear_batch* batch = NULL;
  wait_until_counted(limited);
  assert_status(gear_sample(limited->sampler, rows, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  assert_null(batch);
  assert_int_equal(conform_stats(limited->base.table).samples, limited->drawn);
}

static void delete_one(Limited* limited) {
  gear_batch* batch = conform_sample(limited->sampler, 1);
  ++limited->drawn;
  gear_items_result result = GEAR_ITEMS_RESULT_INIT;
  assert_ok(gear_delete_items(limited->base.table, gear_batch_keys(batch), 1, CONFORM_PATIENCE_NS,
                              &result));
  assert_int_equal(result.updated, 1);
  assert_ok(gear_batch_release(batch));
}

/* SEMANTICS 1 */
GEAR_TEST(ThirdInsertBlocksAtTheUpperBound) {
  Limited limited = open_limited(1.5, 1, -3, 3.1);
  assert_insert_passes(&limited);
  assert_insert_passes(&limited);
  assert_insert_blocks(&limited);
  conform_close(&limited.base);
}

/* SEMANTICS 1 */
GEAR_TEST(SixDrawsPassAndTheSeventhBlocksAtTheLowerBound) {
  Limited limited = open_limited(1.5, 1, -3, 3.1);
  assert_insert_passes(&limited);
  assert_insert_passes(&limited);
  for (int draw = 0; draw < 6; ++draw) assert_draw_passes(&limited, 1);
  assert_draw_blocks(&limited, 1);
  conform_close(&limited.base);
}

/* SEMANTICS 2 */
GEAR_TEST(BlockedInsertPassesAfterTheSecondDrawAndNotAfterTheFirst) {
  Limited limited = open_limited(1.5, 2, -1, 3);
  assert_insert_passes(&limited);
  assert_insert_passes(&limited);
  assert_insert_blocks(&limited);
  assert_draw_passes(&limited, 1);
  assert_insert_blocks(&limited);
  assert_draw_passes(&limited, 1);
  assert_insert_passes(&limited);
  conform_close(&limited.base);
}

/* SEMANTICS 3 */
GEAR_TEST(DrawOfTwoRowsPassesWhereThreeDoNot) {
  Limited limited = open_limited(1, 1, -1, 1);
  assert_insert_passes(&limited);
  assert_draw_blocks(&limited, 3);
  assert_draw_passes(&limited, 2);
  conform_close(&limited.base);
}

/* SEMANTICS 3 */
GEAR_TEST(DrawOfOneRowPassesTwiceAndThenBlocks) {
  Limited limited = open_limited(1, 1, -1, 1);
  assert_insert_passes(&limited);
  assert_draw_passes(&limited, 1);
  assert_draw_passes(&limited, 1);
  assert_draw_blocks(&limited, 1);
  conform_close(&limited.base);
}

/* SEMANTICS 4 */
GEAR_TEST(ThreeInsertsPassAndTheFourthBlocks) {
  Limited limited = open_limited(1.5, 2, 0, 5);
  for (int insert = 0; insert < 3; ++insert) assert_insert_passes(&limited);
  assert_insert_blocks(&limited);
  conform_close(&limited.base);
}

/* SEMANTICS 4 */
GEAR_TEST(OneInsertPassesAfterThreeInsertsAndTwoDraws) {
  Limited limited = open_limited(1.5, 2, 0, 5);
  for (int insert = 0; insert < 3; ++insert) assert_insert_passes(&limited);
  assert_draw_passes(&limited, 1);
  assert_draw_passes(&limited, 1);
  assert_insert_passes(&limited);
  assert_insert_blocks(&limited);
  conform_close(&limited.base);
}

/* SEMANTICS 5 */
GEAR_TEST(DeletionBelowMinSizeLetsABlockedInsertPass) {
  Limited limited = open_limited(5, 2, 0, 5);
  assert_insert_passes(&limited);
  assert_insert_passes(&limited);
  assert_insert_blocks(&limited);
  assert_draw_passes(&limited, 1);
  assert_insert_blocks(&limited);
  delete_one(&limited);
  assert_insert_passes(&limited);
  conform_close(&limited.base);
}

/* SEMANTICS 5 */
GEAR_TEST(DrawsBlockAfterADeletionBelowMinSizeUntilAnInsert) {
  Limited limited = open_limited(5, 2, 0, 5);
  assert_insert_passes(&limited);
  assert_insert_passes(&limited);
  delete_one(&limited);
  assert_draw_blocks(&limited, 1);
  assert_insert_passes(&limited);
  assert_draw_passes(&limited, 1);
  conform_close(&limited.base);
}

/* SEMANTICS 7 */
GEAR_TEST(RatioRefusesAnErrorBufferNarrowerThanOneInsertOrOneDraw) {
  gear_rate_limiter limiter;
  memset(&limiter, 0x5a, sizeof limiter);
  const gear_rate_limiter untouched = limiter;
  assert_status(gear_rate_limiter_ratio(5, 10, 4, &limiter), GEAR_EINVAL);
  assert_explained("4", "5");
  assert_status(gear_rate_limiter_ratio(.5, 10, .9, &limiter), GEAR_EINVAL);
  assert_memory_equal(&limiter, &untouched, sizeof limiter);
}

/* SEMANTICS 7 */
GEAR_TEST(RatioAcceptsAnErrorBufferJustWideEnough) {
  gear_rate_limiter limiter;
  assert_ok(gear_rate_limiter_ratio(.5, 10, 1.1, &limiter));
  assert_true(limiter.samples_per_insert == .5);
  assert_int_equal(limiter.min_size, 10);
  assert_true(limiter.min_diff == .5 * 10 - 1.1);
  assert_true(limiter.max_diff == .5 * 10 + 1.1);
}

/* SEMANTICS 7 */
GEAR_TEST(PresetsRefuseAMinSizeBelowOneAndARateThatIsNotPositive) {
  gear_rate_limiter limiter;
  assert_status(gear_rate_limiter_min_size(0, &limiter), GEAR_EINVAL);
  assert_status(gear_rate_limiter_ratio(1, 0, 5, &limiter), GEAR_EINVAL);
  assert_status(gear_rate_limiter_ratio(0, 10, 5, &limiter), GEAR_EINVAL);
  assert_status(gear_rate_limiter_ratio(-1, 10, 5, &limiter), GEAR_EINVAL);
}

/* SEMANTICS 8 */
GEAR_TEST(RatioAdmitsExactlyItsErrorBufferOfDrawsAtMinSize) {
  gear_rate_limiter ratio;
  assert_ok(gear_rate_limiter_ratio(4, 100, 50, &ratio));
  Limited limited =
      open_limited(ratio.samples_per_insert, ratio.min_size, ratio.min_diff, ratio.max_diff);
  conform_append(limited.base.writer, 0, 0, 99);
  conform_flush(limited.base.writer);
  assert_draw_blocks(&limited, 1);
  conform_append(limited.base.writer, 0, 99, 1);
  conform_flush(limited.base.writer);
  for (int draw = 0; draw < 50; ++draw) assert_draw_passes(&limited, 1);
  assert_draw_blocks(&limited, 1);
  conform_close(&limited.base);
}

/* SEMANTICS 9 */
GEAR_TEST(EleventhInsertOfAQueueOfTenBlocks) {
  Limited limited = open_queue(10);
  for (int insert = 0; insert < 10; ++insert) assert_insert_passes(&limited);
  assert_insert_blocks(&limited);
  conform_close(&limited.base);
}

static void assert_next_in_queue(Limited* limited, int64_t step) {
  gear_batch* batch = conform_sample(limited->sampler, 1);
  ++limited->drawn;
  const gear_tensor tensor = conform_tensor(batch, "step");
  assert_int_equal(conform_i64(&tensor, 0, 0), step);
  assert_ok(gear_batch_release(batch));
}

/* SEMANTICS 9 */
GEAR_TEST(QueueGivesItsItemsInOrderAndThenBlocks) {
  Limited limited = open_queue(10);
  for (int insert = 0; insert < 10; ++insert) assert_insert_passes(&limited);
  for (int64_t step = 0; step < 10; ++step) assert_next_in_queue(&limited, step);
  assert_draw_blocks(&limited, 1);
  conform_close(&limited.base);
}

/* SEMANTICS 9 */
GEAR_TEST(BlockedInsertEntersAQueueAsSoonAsADrawMakesRoom) {
  Limited limited = open_queue(10);
  for (int insert = 0; insert < 10; ++insert) assert_insert_passes(&limited);
  assert_insert_blocks(&limited);
  assert_next_in_queue(&limited, 0);
  assert_insert_passes(&limited);
  for (int64_t step = 1; step < 11; ++step) assert_next_in_queue(&limited, step);
  assert_draw_blocks(&limited, 1);
  conform_close(&limited.base);
}

enum { kQueueSteps = 2000 };

static void* append_to_queue(void* user) {
  gear_writer* writer = user;
  for (int64_t step = 0; step < kQueueSteps; ++step) {
    if (conform_try_append(writer, 0, step, CONFORM_PATIENCE_NS) != GEAR_OK) return NULL;
  }
  return user;
}

/* SEMANTICS 9 */
GEAR_TEST(QueueKeepsTheOrderBetweenAWriterThreadAndASamplerThread) {
  Limited limited = open_queue(10);
  pthread_t writer;
  assert_int_equal(pthread_create(&writer, NULL, append_to_queue, limited.base.writer), 0);
  for (int64_t step = 0; step < kQueueSteps; ++step) {
    assert_in_range(conform_stats(limited.base.table).items, 0, 10);
    assert_next_in_queue(&limited, step);
  }
  void* finished = NULL;
  assert_int_equal(pthread_join(writer, &finished), 0);
  assert_non_null(finished);
  conform_close(&limited.base);
}

static gear_sampler* open_prefetching(gear_table* table, uint32_t prefetch) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_LEASED;
  options.prefetch = prefetch;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* SEMANTICS 12 */
GEAR_TEST(PrefetchedItemsMakeNoRoomForInsertsBeforeTheyAreHandedOut) {
  Limited limited = open_queue(10);
  for (int insert = 0; insert < 10; ++insert) assert_insert_passes(&limited);
  limited.sampler = open_prefetching(limited.base.table, 8);
  assert_next_in_queue(&limited, 0);
  assert_insert_passes(&limited);
  assert_insert_blocks(&limited);
  assert_int_equal(conform_stats(limited.base.table).samples, 1);
  conform_close(&limited.base);
}

/* SEMANTICS 12 */
GEAR_TEST(PrefetchedItemsReturnUncountedAndInOrderWhenTheSamplerCloses) {
  Limited limited = open_queue(10);
  for (int insert = 0; insert < 10; ++insert) assert_insert_passes(&limited);
  limited.sampler = open_prefetching(limited.base.table, 8);
  assert_next_in_queue(&limited, 0);
  assert_ok(gear_sampler_close(limited.sampler));
  wait_until_counted(&limited);

  limited.sampler = conform_sampler(limited.base.table, GEAR_SAMPLE_AUTO, 1);
  for (int64_t step = 1; step < 10; ++step) assert_next_in_queue(&limited, step);
  assert_draw_blocks(&limited, 1);
  conform_close(&limited.base);
}

static void assert_waits_for_min_size(uint32_t mode) {
  gear_table_options options = conform_options(1000);
  assert_ok(gear_rate_limiter_min_size(5, &options.limiter));
  ConformTable table = conform_open(&options, 1);
  gear_sampler* sampler = conform_sampler(table.table, mode, 1);
  conform_append(table.writer, 0, 0, 4);
  conform_flush(table.writer);
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  conform_append(table.writer, 0, 4, 1);
  conform_flush(table.writer);
  assert_ok(gear_batch_release(conform_sample(sampler, 1)));
  conform_close(&table);
}

GEAR_TEST(DirectDrawsWaitForMinSizeItems) {
  assert_waits_for_min_size(GEAR_SAMPLE_DIRECT);
}

GEAR_TEST(LeasedDrawsWaitForMinSizeItems) {
  assert_waits_for_min_size(GEAR_SAMPLE_LEASED);
}

GEAR_TEST(MinSizeLimiterLetsInsertsPassThatNobodyDraws) {
  gear_table_options options = conform_options(10);
  assert_ok(gear_rate_limiter_min_size(5, &options.limiter));
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 1000);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).inserts, 1000);
  conform_close(&table);
}
