/* Which items the policies make, how often each may be drawn, and what updates and deletions
 * answer. */
#include <math.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static ConformTable open_sequence(uint32_t length, uint32_t period, uint32_t short_episodes) {
  gear_table_options options = conform_item_options(GEAR_ITEMS_SEQUENCE);
  options.item_length = length;
  options.item_period = period;
  options.short_episodes = short_episodes;
  return conform_open(&options, 1);
}

static void append_episode(gear_writer* writer, int64_t first, int64_t count) {
  conform_append(writer, 0, first, count);
  conform_end(writer, 0, GEAR_TERMINATED);
}

/* SEMANTICS 24 */
GEAR_TEST(EveryStepIsAnItemUnderPolicyStep) {
  const gear_table_options options = conform_item_options(GEAR_ITEMS_STEP);
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  const ConformItem wanted[] = {{0, 1, 0, 0}, {1, 1, 0, 0}, {2, 1, 0, 0}};
  conform_assert_items(table.table, wanted, 3);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(SequencesOverlapWhenThePeriodIsShorterThanTheLength) {
  ConformTable table = open_sequence(4, 2, 0);
  append_episode(table.writer, 0, 10);
  conform_flush(table.writer);
  const ConformItem wanted[] = {{0, 4, 0, 0}, {2, 4, 0, 0}, {4, 4, 0, 0}, {6, 4, 0, 0}};
  conform_assert_items(table.table, wanted, 4);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(SequencesFollowEachOtherWhenNoPeriodIsGiven) {
  ConformTable table = open_sequence(4, 0, 0);
  append_episode(table.writer, 0, 8);
  conform_flush(table.writer);
  const ConformItem wanted[] = {{0, 4, 0, 0}, {4, 4, 0, 0}};
  conform_assert_items(table.table, wanted, 2);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(SequencesLeaveGapsWhenThePeriodIsLongerThanTheLength) {
  ConformTable table = open_sequence(2, 5, 0);
  append_episode(table.writer, 0, 12);
  conform_flush(table.writer);
  const ConformItem wanted[] = {{0, 2, 0, 0}, {5, 2, 0, 0}, {10, 2, 0, 0}};
  conform_assert_items(table.table, wanted, 3);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(SequenceIsAnItemAsSoonAsItsLastStepIsThere) {
  ConformTable table = open_sequence(4, 2, 0);
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 0);
  conform_append(table.writer, 0, 3, 1);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 1);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(SequencesStartAnewWithEveryEpisode) {
  ConformTable table = open_sequence(4, 4, 1);
  append_episode(table.writer, 0, 5);
  append_episode(table.writer, 5, 6);
  conform_flush(table.writer);
  const ConformItem wanted[] = {{0, 4, 0, 0}, {5, 4, 0, 0}};
  conform_assert_items(table.table, wanted, 2);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(EpisodeShorterThanASequenceGivesOneShortItem) {
  ConformTable table = open_sequence(4, 2, 0);
  append_episode(table.writer, 0, 3);
  conform_flush(table.writer);
  const ConformItem wanted[] = {{0, 3, 0, 0}};
  conform_assert_items(table.table, wanted, 1);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(ShortItemIsPaddedToTheLengthOfASequence) {
  ConformTable table = open_sequence(4, 2, 0);
  append_episode(table.writer, 0, 3);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 1);
  const gear_tensor tensor = conform_tensor(batch, "step");
  assert_int_equal(tensor.length, 4);
  assert_int_equal(tensor.lengths[0], 3);
  const uint8_t mask[4] = {1, 1, 1, 0};
  assert_memory_equal(tensor.mask, mask, 4);
  assert_int_equal(conform_i64(&tensor, 0, 3), 0);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(EpisodeShorterThanASequenceGivesNoItemWhereTheTableSaysSo) {
  ConformTable table = open_sequence(4, 2, 1);
  append_episode(table.writer, 0, 3);
  append_episode(table.writer, 3, 4);
  conform_flush(table.writer);
  const ConformItem wanted[] = {{3, 4, 0, 0}};
  conform_assert_items(table.table, wanted, 1);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(EveryEpisodeIsAnItemUnderPolicyEpisode) {
  const gear_table_options options = conform_item_options(GEAR_ITEMS_EPISODE);
  ConformTable table = conform_open(&options, 1);
  append_episode(table.writer, 0, 3);
  append_episode(table.writer, 3, 32);
  append_episode(table.writer, 35, 1);
  conform_flush(table.writer);
  const ConformItem wanted[] = {{0, 3, 0, 0}, {3, 32, 0, 0}, {35, 1, 0, 0}};
  conform_assert_items(table.table, wanted, 3);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(EpisodeIsNoItemBeforeItsEnd) {
  const gear_table_options options = conform_item_options(GEAR_ITEMS_EPISODE);
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 0);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(ExplicitItemsAreTheLastStepsAtTheTimeOfTheCall) {
  const gear_table_options options = conform_item_options(GEAR_ITEMS_EXPLICIT);
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 5);
  assert_ok(gear_writer_item(table.writer, 0, 2, 1, CONFORM_PATIENCE_NS));
  assert_ok(gear_writer_item(table.writer, 0, 5, 1, CONFORM_PATIENCE_NS));
  conform_append(table.writer, 0, 5, 1);
  assert_ok(gear_writer_item(table.writer, 0, 3, 1, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  const ConformItem wanted[] = {{3, 2, 0, 0}, {0, 5, 0, 0}, {3, 3, 0, 0}};
  conform_assert_items(table.table, wanted, 3);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(ExplicitItemLongerThanTheEpisodeSoFarIsRefused) {
  const gear_table_options options = conform_item_options(GEAR_ITEMS_EXPLICIT);
  ConformTable table = conform_open(&options, 1);
  append_episode(table.writer, 0, 5);
  conform_append(table.writer, 0, 5, 2);
  assert_status(gear_writer_item(table.writer, 0, 3, 1, CONFORM_PATIENCE_NS), GEAR_EINVAL);
  assert_explained("3", "2");
  assert_status(gear_writer_item(table.writer, 0, 0, 1, CONFORM_PATIENCE_NS), GEAR_EINVAL);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 0);
  conform_close(&table);
}

/* SEMANTICS 15 */
GEAR_TEST(ExplicitItemWithABadPriorityIsRefused) {
  const gear_table_options options = conform_item_options(GEAR_ITEMS_EXPLICIT);
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 2);
  const double bad[4] = {NAN, INFINITY, -INFINITY, -.5};
  for (int i = 0; i < 4; ++i) {
    assert_status(gear_writer_item(table.writer, 0, 1, bad[i], CONFORM_PATIENCE_NS),
                  GEAR_EPRIORITY);
  }
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 0);
  conform_close(&table);
}

/* SEMANTICS 24 */
GEAR_TEST(ExplicitItemIsRefusedUnderAnotherPolicy) {
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 0, 2);
  assert_status(gear_writer_item(table.writer, 0, 1, 1, CONFORM_PATIENCE_NS), GEAR_ESTATE);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 2);
  conform_close(&table);
}

static ConformTable open_counted(uint32_t max_times_sampled, int64_t steps) {
  gear_table_options options = conform_options(100);
  options.max_times_sampled = max_times_sampled;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, steps);
  conform_flush(table.writer);
  return table;
}

/* SEMANTICS 23 */
GEAR_TEST(KthDrawReportsTimesSampledKAndRemovesTheItem) {
  ConformTable table = open_counted(3, 1);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  for (uint32_t draw = 1; draw <= 3; ++draw) {
    assert_int_equal(conform_stats(table.table).items, 1);
    gear_batch* batch = conform_sample(sampler, 1);
    assert_int_equal(gear_batch_times_sampled(batch)[0], draw);
    assert_ok(gear_batch_release(batch));
  }
  wait_until(conform_stats(table.table).items == 0);
  assert_int_equal(conform_stats(table.table).deletes, 1);
  conform_close(&table);
}

/* SEMANTICS 23 */
GEAR_TEST(TwoItemsOfOneDrawEachNeverPromiseThree) {
  ConformTable table = open_counted(1, 2);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 3, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  assert_int_equal(conform_stats(table.table).items, 2);
  batch = conform_sample(sampler, 2);
  const gear_tensor tensor = conform_tensor(batch, "step");
  assert_int_equal(conform_i64(&tensor, 0, 0) + conform_i64(&tensor, 1, 0), 1);
  conform_close(&table);
}

/* SEMANTICS 23 */
GEAR_TEST(OneBatchMayTakeEveryDrawThatItsItemsHaveLeft) {
  ConformTable table = open_counted(3, 2);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 6);
  const gear_tensor tensor = conform_tensor(batch, "step");
  int64_t ones = 0;
  for (uint32_t row = 0; row < 6; ++row) ones += conform_i64(&tensor, row, 0);
  assert_int_equal(ones, 3);
  wait_until(conform_stats(table.table).items == 0);
  conform_close(&table);
}

/* SEMANTICS 23 */
GEAR_TEST(ItemWithoutALimitIsDrawnAnyNumberOfTimes) {
  ConformTable table = open_counted(0, 1);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1);
  for (uint32_t draw = 1; draw <= 100; ++draw) {
    gear_batch* batch = conform_sample(sampler, 1);
    assert_int_equal(gear_batch_times_sampled(batch)[0], draw);
    assert_ok(gear_batch_release(batch));
  }
  assert_int_equal(conform_stats(table.table).items, 1);
  conform_close(&table);
}

GEAR_TEST(DirectDrawsAreNotCounted) {
  ConformTable table = open_counted(0, 4);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_DIRECT, 1), 8);
  for (uint32_t row = 0; row < 8; ++row) {
    assert_int_equal(gear_batch_times_sampled(batch)[row], 0);
  }
  assert_int_equal(conform_stats(table.table).samples, 0);
  conform_close(&table);
}

/* SEMANTICS 17 */
GEAR_TEST(FifoRemoverKeepsTheNewestItems) {
  gear_table_options options = conform_item_options(GEAR_ITEMS_STEP);
  options.capacity_items = 10;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 15);
  conform_flush(table.writer);
  const gear_table_stats stats = conform_stats(table.table);
  assert_int_equal(stats.inserts, 15);
  assert_int_equal(stats.deletes, 5);
  assert_int_equal(stats.evictions, 5);
  ConformItem wanted[10];
  for (int i = 0; i < 10; ++i) wanted[i] = (ConformItem){5 + i, 1, 0, 0};
  conform_assert_items(table.table, wanted, 10);
  conform_close(&table);
}

GEAR_TEST(UniformRemoverKeepsTheCapacityAndNotOnlyTheNewest) {
  gear_table_options options = conform_options(10);
  options.remover = GEAR_SELECT_UNIFORM;
  options.capacity_steps = 200;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 100);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 10);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 256);
  const gear_tensor tensor = conform_tensor(batch, "step");
  bool older = false;
  for (uint32_t row = 0; row < 256; ++row) older |= conform_i64(&tensor, row, 0) < 90;
  assert_true(older);
  conform_close(&table);
}
