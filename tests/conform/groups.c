/* Consumer groups: who sees which item, how often, and what comes back. */
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static gear_sampler* join(gear_table* table, const char* group, uint32_t prefetch) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.group = group;
  options.prefetch = prefetch;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

static gear_group_stats group_stats(gear_table* table, const char* group) {
  gear_group_stats stats = GEAR_GROUP_STATS_INIT;
  assert_ok(gear_group_get_stats(table, group, &stats));
  return stats;
}

/* Rows are steps first .. first+rows-1, in this order, all redelivered or none. */
static void assert_steps(const gear_batch* batch, int64_t first, uint32_t rows,
                         uint8_t redelivered) {
  assert_int_equal(gear_batch_rows(batch), rows);
  conform_verify_batch(batch);
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < rows; ++row) {
    assert_int_equal(conform_i64(&step, row, 0), first + row);
    assert_int_equal(gear_batch_redelivered(batch)[row], redelivered);
  }
}

static void assert_nothing_left(gear_sampler* sampler) {
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
}

static ConformTable open_with(int64_t steps) {
  ConformTable table = conform_open_simple(1000);
  conform_append(table.writer, 0, 0, steps);
  conform_flush(table.writer);
  return table;
}

/* SEMANTICS 46 */
GEAR_TEST(EveryItemIsDrawnOnceByAllSamplersOfAGroupTogether) {
  ConformTable table = open_with(100);
  gear_sampler* samplers[2] = {join(table.table, "train", 0), join(table.table, "train", 0)};
  for (int64_t first = 0; first < 100; first += 10) {
    gear_batch* batch = conform_sample(samplers[first / 10 % 2], 10);
    assert_steps(batch, first, 10, 0);
    assert_ok(gear_batch_release(batch));
  }
  assert_nothing_left(samplers[0]);
  assert_nothing_left(samplers[1]);
  wait_until(group_stats(table.table, "train").acknowledged == 100);
  const gear_group_stats stats = group_stats(table.table, "train");
  assert_int_equal(stats.consumers, 2);
  assert_int_equal(stats.lag, 0);
  assert_int_equal(stats.in_flight, 0);
  assert_int_equal(stats.delivered, 100);
  assert_int_equal(stats.redelivered, 0);
  assert_int_equal(conform_stats(table.table).samples, 100);
  conform_close(&table);
}

/* SEMANTICS 46 */
GEAR_TEST(EachOfSeveralGroupsSeesAllItems) {
  ConformTable table = open_with(20);
  gear_sampler* train = join(table.table, "train", 0);
  gear_sampler* evaluate = join(table.table, "evaluate", 0);
  gear_batch* batch = conform_sample(train, 20);
  assert_steps(batch, 0, 20, 0);
  assert_ok(gear_batch_release(batch));
  assert_int_equal(group_stats(table.table, "evaluate").lag, 20);
  batch = conform_sample(evaluate, 20);
  assert_steps(batch, 0, 20, 0);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

/* SEMANTICS 46 */
GEAR_TEST(ItemsOfASamplerThatClosedWithoutAcknowledgingAreDrawnAgain) {
  ConformTable table = open_with(10);
  gear_sampler* first = join(table.table, "train", 0);
  gear_batch* held = conform_sample(first, 4);
  gear_sampler* second = join(table.table, "train", 0);
  assert_ok(gear_sampler_close(first));
  gear_batch* batch = conform_sample(second, 4);
  assert_steps(batch, 0, 4, 1);
  assert_status(gear_batch_release(held), GEAR_ESTALE);
  assert_explained("sampler was closed");
  assert_ok(gear_batch_release(batch));
  batch = conform_sample(second, 6);
  assert_steps(batch, 4, 6, 0);
  assert_ok(gear_batch_release(batch));
  wait_until(group_stats(table.table, "train").acknowledged == 10);
  assert_int_equal(group_stats(table.table, "train").redelivered, 4);
  conform_close(&table);
}

/* SEMANTICS 46, 47 */
GEAR_TEST(ItemsWhoseLeaseEndedAreDrawnAgainAndTheLateReleaseIsStale) {
  gear_table_options options = conform_options(1000);
  options.lease_timeout_ms = 30;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 4);
  conform_flush(table.writer);
  gear_sampler* slow = join(table.table, "train", 0);
  gear_sampler* other = join(table.table, "train", 0);
  gear_batch* held = conform_sample(slow, 4);
  gear_batch* batch = conform_sample(other, 4);
  assert_steps(batch, 0, 4, 1);
  conform_verify_batch(held);
  assert_status(gear_batch_release(held), GEAR_ESTALE);
  assert_explained("lease");
  (void)gear_batch_release(batch);
  conform_close(&table);
}

/* SEMANTICS 46 */
GEAR_TEST(AcknowledgedItemsNeverComeAgain) {
  ConformTable table = open_with(8);
  gear_sampler* first = join(table.table, "train", 0);
  assert_ok(gear_batch_release(conform_sample(first, 8)));
  assert_ok(gear_sampler_close(first));
  assert_nothing_left(join(table.table, "train", 0));
  conform_close(&table);
}

GEAR_TEST(RejectedItemsComeAgainAtOnce) {
  ConformTable table = open_with(8);
  gear_sampler* sampler = join(table.table, "train", 0);
  assert_ok(gear_batch_reject(conform_sample(sampler, 3)));
  gear_batch* batch = conform_sample(sampler, 3);
  assert_steps(batch, 0, 3, 1);
  assert_ok(gear_batch_release(batch));
  assert_status(gear_batch_reject(batch), GEAR_ESTALE);
  conform_close(&table);
}

GEAR_TEST(RejectingABatchOfNoGroupIsAnErrorAndKeepsIt) {
  ConformTable table = open_with(8);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1), 2);
  assert_null(gear_batch_redelivered(batch));
  assert_status(gear_batch_reject(batch), GEAR_ESTATE);
  assert_explained("no group");
  conform_verify_batch(batch);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

/* SEMANTICS 12 */
GEAR_TEST(PrefetchedItemsThatWereNotUsedGoToOthersInOrderAndAreNotRedelivered) {
  ConformTable table = open_with(20);
  gear_sampler* first = join(table.table, "train", 8);
  gear_batch* batch = conform_sample(first, 2);
  assert_steps(batch, 0, 2, 0);
  assert_ok(gear_batch_release(batch));
  assert_ok(gear_sampler_close(first));
  batch = conform_sample(join(table.table, "train", 0), 18);
  assert_steps(batch, 2, 18, 0);
  assert_ok(gear_batch_release(batch));
  assert_int_equal(group_stats(table.table, "train").redelivered, 0);
  conform_close(&table);
}

/* SEMANTICS 26, 46 */
GEAR_TEST(ItemsToBeRedeliveredOutliveTheirEviction) {
  ConformTable table = conform_open_simple(4);
  conform_append(table.writer, 0, 0, 4);
  conform_flush(table.writer);
  gear_sampler* first = join(table.table, "train", 0);
  (void)conform_sample(first, 4);
  conform_append(table.writer, 0, 4, 4);
  conform_flush(table.writer);
  assert_ok(gear_sampler_close(first));
  gear_batch* batch = conform_sample(join(table.table, "train", 0), 4);
  assert_steps(batch, 0, 4, 1);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

GEAR_TEST(ItemsEvictedBeforeTheGroupSawThemAreCountedAsMissed) {
  ConformTable table = conform_open_simple(4);
  gear_sampler* sampler = join(table.table, "train", 0);
  conform_append(table.writer, 0, 0, 10);
  conform_flush(table.writer);
  assert_int_equal(group_stats(table.table, "train").missed, 6);
  assert_int_equal(group_stats(table.table, "train").lag, 4);
  gear_batch* batch = conform_sample(sampler, 4);
  assert_steps(batch, 6, 4, 0);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

GEAR_TEST(UnacknowledgedItemsOfAGroupWithoutSamplersHoldUpNoWriter) {
  gear_table_options options = conform_options(4);
  options.block_steps = 1;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 4);
  conform_flush(table.writer);
  for (int round = 0; round < 50; ++round) {
    gear_sampler* sampler = join(table.table, "train", 0);
    (void)conform_sample(sampler, 2);
    assert_ok(gear_sampler_close(sampler));
    conform_append(table.writer, 0, 4 + round * 4, 4);
    conform_flush(table.writer);
  }
  conform_append(table.writer, 0, 204, 1000);
  conform_flush(table.writer);
  conform_close(&table);
}

GEAR_TEST(ANewGroupMayBeginWithTheNextItem) {
  ConformTable table = open_with(5);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.group = "late";
  options.group_from = 1;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &options, &sampler));
  assert_nothing_left(sampler);
  conform_append(table.writer, 0, 5, 3);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(sampler, 3);
  assert_steps(batch, 5, 3, 0);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

GEAR_TEST(DeletedItemsAreSeenByNoGroup) {
  ConformTable table = open_with(6);
  uint64_t keys[6];
  conform_keys(table.table, keys, 6);
  gear_sampler* sampler = join(table.table, "train", 0);
  assert_ok(gear_delete_items(table.table, &keys[0], 1, CONFORM_PATIENCE_NS, NULL));
  assert_ok(gear_delete_items(table.table, &keys[3], 1, CONFORM_PATIENCE_NS, NULL));
  assert_int_equal(group_stats(table.table, "train").lag, 4);
  gear_batch* batch = conform_sample(sampler, 4);
  const int64_t wanted[4] = {1, 2, 4, 5};
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 4; ++row) assert_int_equal(conform_i64(&step, row, 0), wanted[row]);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

/* SEMANTICS 27 */
GEAR_TEST(ResetLeavesAGroupNothingToDeliver) {
  ConformTable table = open_with(10);
  gear_sampler* sampler = join(table.table, "train", 0);
  gear_batch* held = conform_sample(sampler, 3);
  assert_ok(gear_table_reset(table.table));
  assert_nothing_left(sampler);
  assert_ok(gear_batch_release(held));
  conform_append(table.writer, 0, 0, 2);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(sampler, 2);
  assert_steps(batch, 0, 2, 0);
  assert_ok(gear_batch_release(batch));
  wait_until(group_stats(table.table, "train").acknowledged == 2);
  assert_int_equal(group_stats(table.table, "train").in_flight, 0);
  conform_close(&table);
}

static void count_name(const char* name, void* user) {
  const char** names = user;
  while (*names != NULL) ++names;
  *names = strcmp(name, "a") == 0 ? "a" : "b";
}

GEAR_TEST(GroupsAreListedAndDropped) {
  ConformTable table = open_with(4);
  gear_sampler* sampler = join(table.table, "a", 0);
  (void)join(table.table, "b", 0);
  gear_batch* held = conform_sample(sampler, 2);
  const char* names[4] = {NULL, NULL, NULL, NULL};
  assert_ok(gear_group_list(table.table, count_name, names));
  assert_string_equal(names[0], "a");
  assert_string_equal(names[1], "b");
  assert_null(names[2]);

  assert_ok(gear_group_drop(table.table, "a"));
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, CONFORM_PATIENCE_NS, &batch), GEAR_EDROPPED);
  conform_verify_batch(held);
  (void)gear_batch_release(held);
  gear_group_stats stats = GEAR_GROUP_STATS_INIT;
  assert_status(gear_group_get_stats(table.table, "a", &stats), GEAR_ENOTFOUND);
  assert_explained("\"a\"");
  assert_status(gear_group_drop(table.table, "a"), GEAR_ENOTFOUND);
  /* The name is free: a new group sees everything. */
  batch = conform_sample(join(table.table, "a", 0), 4);
  assert_steps(batch, 0, 4, 0);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

GEAR_TEST(UnusableGroupsAreRefused) {
  ConformTable table = open_with(4);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  gear_sampler* sampler = NULL;
  options.group = "";
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_ENAME);
  char name[80];
  memset(name, 'x', 64);
  name[64] = '\0';
  options.group = name;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_ENAME);
  assert_explained("63");
  options.group = "train";
  options.group_from = 2;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EINVAL);
  options.group_from = 0;
  options.mode = GEAR_SAMPLE_DIRECT;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EUNSUPPORTED);
  assert_explained("leased");
  assert_null(sampler);
  const char* names[4] = {NULL, NULL, NULL, NULL};
  assert_ok(gear_group_list(table.table, count_name, names));
  assert_null(names[0]);
  conform_close(&table);
}

GEAR_TEST(ATableThatRemovesDrawnItemsHasNoGroups) {
  gear_table_options queue = conform_options(10);
  assert_ok(gear_table_options_queue(10, &queue));
  ConformTable table = conform_open(&queue, 1);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.group = "train";
  gear_sampler* sampler = NULL;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EUNSUPPORTED);
  assert_explained("max_times_sampled");
  conform_close(&table);
}

/* SEMANTICS 46: what is delivered again was counted before; the limiter is not asked again. */
GEAR_TEST(RedeliveryNeedsNoBudgetOfTheLimiter) {
  gear_table_options options = conform_options(100);
  options.limiter.samples_per_insert = 1;
  options.limiter.min_size = 1;
  options.limiter.min_diff = 0;
  options.limiter.max_diff = 100;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 10);
  conform_flush(table.writer);
  gear_sampler* sampler = join(table.table, "train", 0);
  assert_ok(gear_batch_reject(conform_sample(sampler, 10)));
  gear_batch* batch = conform_sample(sampler, 10);
  assert_steps(batch, 0, 10, 1);
  assert_ok(gear_batch_release(batch));
  wait_until(group_stats(table.table, "train").acknowledged == 10);
  assert_int_equal(conform_stats(table.table).samples, 10);
  conform_close(&table);
}

GEAR_TEST(DroppingAGroupGivesItsReservedDrawsBack) {
  gear_table_options options = conform_options(200);
  options.limiter.samples_per_insert = 1;
  options.limiter.min_size = 1;
  options.limiter.min_diff = 0;
  options.limiter.max_diff = 1000;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 100);
  conform_flush(table.writer);
  gear_sampler* sampler = join(table.table, "train", 60);
  assert_ok(gear_batch_release(conform_sample(sampler, 1)));
  assert_ok(gear_group_drop(table.table, "train"));
  assert_ok(gear_sampler_close(sampler));
  /* 99 draws are left of the 100 that the limiter admits. */
  gear_sampler* leased = conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1);
  assert_ok(gear_batch_release(conform_sample(leased, 99)));
  conform_close(&table);
}

/* SEMANTICS 46, 47: whoever is told that a release came too late may count on another delivery. */
GEAR_TEST(ItemsOfAReleaseThatCameTooLateAreDeliveredAgain) {
  gear_table_options options = conform_options(100);
  options.lease_timeout_ms = 20;
  ConformTable table = conform_open(&options, 1);
  gear_sampler* sampler = join(table.table, "train", 0);
  for (int64_t first = 0; first < 5; ++first) {
    conform_append(table.writer, 0, first, 1);
    conform_flush(table.writer);
    gear_batch* held = conform_sample(sampler, 1);
    const int64_t late_ns = conform_now_ns() + INT64_C(21000000);
    while (conform_now_ns() < late_ns) conform_pause();
    assert_status(gear_batch_release(held), GEAR_ESTALE);
    gear_batch* again = conform_sample(sampler, 1);
    assert_steps(again, first, 1, 1);
    if (gear_batch_release(again) != GEAR_OK) skip(); /* held up for 20 ms: not what this is about */
  }
  conform_close(&table);
}
