/* Which items are drawn, with which probability. */
#include <math.h>
#include <stdlib.h>

#include "conform/conform.h"
#include "support/conform_table.h"

/* A prioritized table that holds steps 0 .. count-1 with these raw priorities. */
static ConformTable open_prioritized(double alpha, const double* priorities, int count) {
  gear_table_options options = conform_options(1000);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_alpha = alpha;
  ConformTable table = conform_open(&options, 1);
  for (int step = 0; step < count; ++step) {
    conform_append_priority(table.writer, step, priorities[step]);
  }
  conform_flush(table.writer);
  return table;
}

/* Counts, by step, rows of batches of 256; each row's probability is that of its step. */
static void count_draws(gear_sampler* sampler, int batches, const double* probabilities,
                        uint64_t* counts, int64_t count) {
  for (int i = 0; i < batches; ++i) {
    gear_batch* batch = conform_sample(sampler, 256);
    const gear_tensor tensor = conform_tensor(batch, "step");
    for (uint32_t row = 0; row < 256; ++row) {
      const int64_t step = conform_i64(&tensor, row, 0);
      assert_in_range(step, 0, count - 1);
      assert_true(fabs(gear_batch_probabilities(batch)[row] - probabilities[step]) < 1e-12);
      ++counts[step];
    }
    assert_ok(gear_batch_release(batch));
  }
}

static void assert_prioritized(uint32_t mode, double alpha, const double priorities[3],
                               const double probabilities[3]) {
  ConformTable table = open_prioritized(alpha, priorities, 3);
  gear_sampler* sampler = conform_sampler(table.table, mode, 7);
  uint64_t counts[3] = {0, 0, 0};
  count_draws(sampler, 200, probabilities, counts, 3);
  conform_assert_distribution(counts, probabilities, 3);
  conform_close(&table);
}

static const double kOneTwoThree[3] = {1, 2, 3};
static const double kSquares[3] = {1.0 / 14, 4.0 / 14, 9.0 / 14};

/* SEMANTICS 13 */
GEAR_TEST(AlphaTwoDrawsBySquaredPriorityDirect) {
  assert_prioritized(GEAR_SAMPLE_DIRECT, 2, kOneTwoThree, kSquares);
}

/* SEMANTICS 13 */
GEAR_TEST(AlphaTwoDrawsBySquaredPriorityLeased) {
  assert_prioritized(GEAR_SAMPLE_LEASED, 2, kOneTwoThree, kSquares);
}

/* SEMANTICS 13 */
GEAR_TEST(AlphaOneHalfDrawsByTheRootOfThePriority) {
  const double priorities[3] = {1, 4, 9};
  const double probabilities[3] = {1.0 / 6, 2.0 / 6, 3.0 / 6};
  assert_prioritized(GEAR_SAMPLE_AUTO, .5, priorities, probabilities);
}

/* SEMANTICS 13 */
GEAR_TEST(AlphaZeroDrawsNonzeroPrioritiesAlikeAndZeroNever) {
  const double priorities[3] = {0, 1, 5};
  const double probabilities[3] = {0, .5, .5};
  assert_prioritized(GEAR_SAMPLE_AUTO, GEAR_ALPHA_ZERO, priorities, probabilities);
}

static void assert_all_zeros_block(uint32_t mode) {
  const double zeros[100] = {0};
  ConformTable table = open_prioritized(1, zeros, 100);
  gear_sampler* sampler = conform_sampler(table.table, mode, 7);
  assert_int_equal(conform_stats(table.table).items, 100);
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, 0, &batch), GEAR_ETIMEDOUT);
  assert_status(gear_sample(sampler, 1, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  assert_null(batch);
  conform_close(&table);
}

/* SEMANTICS 13 */
GEAR_TEST(AHundredZeroPrioritiesAreAsAnEmptyTableDirect) {
  assert_all_zeros_block(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 13 */
GEAR_TEST(AHundredZeroPrioritiesAreAsAnEmptyTableLeased) {
  assert_all_zeros_block(GEAR_SAMPLE_LEASED);
}

GEAR_TEST(EpsilonIsAddedToEveryPriorityBeforeThePower) {
  gear_table_options options = conform_options(1000);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_alpha = 2;
  options.priority_epsilon = 1;
  ConformTable table = conform_open(&options, 1);
  for (int step = 0; step < 3; ++step) conform_append_priority(table.writer, step, step);
  conform_flush(table.writer);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 7);
  uint64_t counts[3] = {0, 0, 0};
  count_draws(sampler, 200, kSquares, counts, 3);
  conform_assert_distribution(counts, kSquares, 3);
  conform_close(&table);
}

/* SEMANTICS 14 */
GEAR_TEST(UpdateOfOnePriorityShiftsEveryProbability) {
  const double ones[3] = {1, 1, 1};
  ConformTable table = open_prioritized(1, ones, 3);
  uint64_t keys[3];
  conform_keys(table.table, keys, 3);
  const double half = .5;
  gear_items_result result = GEAR_ITEMS_RESULT_INIT;
  assert_ok(gear_update_priorities(table.table, &keys[2], &half, 1, CONFORM_PATIENCE_NS, &result));
  assert_int_equal(result.updated, 1);

  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 7);
  const double probabilities[3] = {.4, .4, .2};
  uint64_t counts[3] = {0, 0, 0};
  count_draws(sampler, 200, probabilities, counts, 3);
  conform_assert_distribution(counts, probabilities, 3);
  conform_close(&table);
}

GEAR_TEST(UpdatedRawPriorityIsShownByTheNextDraw) {
  const double one = 1;
  ConformTable table = open_prioritized(.6, &one, 1);
  uint64_t key;
  conform_keys(table.table, &key, 1);
  const double raised = 7.25;
  assert_ok(gear_update_priorities(table.table, &key, &raised, 1, CONFORM_PATIENCE_NS, NULL));
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 1);
  assert_true(gear_batch_priorities(batch)[0] == raised);
  assert_true(conform_stats(table.table).priority_max == raised);
  conform_close(&table);
}

/* SEMANTICS 15 */
GEAR_TEST(SetPriorityRefusesNotFiniteAndNegativeAndKeepsTheOldOne) {
  const double two = 2;
  ConformTable table = open_prioritized(1, &two, 1);
  const double bad[4] = {NAN, INFINITY, -INFINITY, -1};
  for (int i = 0; i < 4; ++i) {
    assert_status(gear_writer_set_priority(table.writer, 0, &bad[i], CONFORM_PATIENCE_NS),
                  GEAR_EPRIORITY);
  }
  assert_explained("-1");
  conform_append(table.writer, 0, 1, 1);
  conform_flush(table.writer);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  const double probabilities[2] = {.5, .5};
  uint64_t counts[2] = {0, 0};
  count_draws(sampler, 1, probabilities, counts, 2);
  conform_close(&table);
}

/* SEMANTICS 15 */
GEAR_TEST(UpdateRefusesBadPrioritiesKeyByKeyAndAppliesTheOthers) {
  const double ones[6] = {1, 1, 1, 1, 1, 1};
  ConformTable table = open_prioritized(1, ones, 6);
  uint64_t keys[6];
  conform_keys(table.table, keys, 6);
  const double given[6] = {NAN, 3, INFINITY, 2, -INFINITY, -1};
  gear_items_result result = GEAR_ITEMS_RESULT_INIT;
  assert_ok(gear_update_priorities(table.table, keys, given, 6, CONFORM_PATIENCE_NS, &result));
  assert_int_equal(result.rejected, 4);
  assert_int_equal(result.updated, 2);

  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 7);
  const double probabilities[6] = {1.0 / 9, 3.0 / 9, 1.0 / 9, 2.0 / 9, 1.0 / 9, 1.0 / 9};
  uint64_t counts[6] = {0};
  count_draws(sampler, 200, probabilities, counts, 6);
  conform_assert_distribution(counts, probabilities, 6);
  conform_close(&table);
}

/* Deletes every item that is not step 0, by the keys that draws give. */
static void delete_all_but_step_zero(gear_table* table, gear_sampler* sampler) {
  while (conform_stats(table).items > 1) {
    gear_batch* batch = conform_sample(sampler, 256);
    const gear_tensor tensor = conform_tensor(batch, "step");
    uint64_t keys[256];
    size_t count = 0;
    for (uint32_t row = 0; row < 256; ++row) {
      if (conform_i64(&tensor, row, 0) != 0) keys[count++] = gear_batch_keys(batch)[row];
    }
    assert_ok(gear_delete_items(table, keys, count, CONFORM_PATIENCE_NS, NULL));
    assert_ok(gear_batch_release(batch));
  }
}

/* SEMANTICS 16 */
GEAR_TEST(TinyPriorityIsDrawnForSureOnceTenThousandLargeOnesAreDeleted) {
  gear_table_options options = conform_options(20000);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_alpha = 1;
  ConformTable table = conform_open(&options, 1);
  conform_append_priority(table.writer, 0, 1e-15);
  conform_append_priority(table.writer, 1, .3);
  conform_append(table.writer, 0, 2, 9999);
  conform_flush(table.writer);

  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 3);
  delete_all_but_step_zero(table.table, sampler);
  const double certain = 1;
  uint64_t count = 0;
  count_draws(sampler, 4, &certain, &count, 1);
  conform_close(&table);
}

/* SEMANTICS 16 */
GEAR_TEST(ItemSetToZeroIsNeverDrawnAgain) {
  double ones[100];
  for (int i = 0; i < 100; ++i) ones[i] = 1;
  ConformTable table = open_prioritized(1, ones, 100);
  uint64_t keys[100];
  conform_keys(table.table, keys, 100);
  const double zeros[99] = {0};
  assert_ok(gear_update_priorities(table.table, keys, zeros, 99, CONFORM_PATIENCE_NS, NULL));

  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 3);
  double probabilities[100] = {0};
  probabilities[99] = 1;
  uint64_t counts[100] = {0};
  count_draws(sampler, 40, probabilities, counts, 100);
  assert_int_equal(counts[99], 40 * 256);
  conform_close(&table);
}

/* A table of 100 steps and, by step, whether it should still be drawn. */
static void assert_uniform(uint32_t mode, int batches, bool delete_tenths) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 100);
  conform_flush(table.writer);
  double probabilities[100];
  for (int step = 0; step < 100; ++step) probabilities[step] = 1.0 / 100;
  if (delete_tenths) {
    uint64_t keys[100];
    conform_keys(table.table, keys, 100);
    for (int step = 0; step < 100; ++step) probabilities[step] = step % 10 == 0 ? 0 : 1.0 / 90;
    for (int step = 0; step < 100; step += 10) {
      assert_ok(gear_delete_items(table.table, &keys[step], 1, CONFORM_PATIENCE_NS, NULL));
    }
  }
  uint64_t counts[100] = {0};
  count_draws(conform_sampler(table.table, mode, 11), batches, probabilities, counts, 100);
  conform_assert_distribution(counts, probabilities, 100);
  conform_close(&table);
}

/* SEMANTICS 19 */
GEAR_TEST(MillionUniformDrawsOverAHundredItemsAreUniform) {
  assert_uniform(GEAR_SAMPLE_DIRECT, 3907, false);
}

/* SEMANTICS 19 */
GEAR_TEST(MillionUniformDrawsStayUniformAfterEveryTenthIsDeleted) {
  assert_uniform(GEAR_SAMPLE_DIRECT, 3907, true);
}

/* SEMANTICS 19 */
GEAR_TEST(LeasedUniformDrawsAreUniform) {
  assert_uniform(GEAR_SAMPLE_LEASED, 400, false);
}

/* SEMANTICS 19 */
GEAR_TEST(LeasedUniformDrawsStayUniformAfterEveryTenthIsDeleted) {
  assert_uniform(GEAR_SAMPLE_LEASED, 400, true);
}

enum { kSequence = 1024 };

static void draw_sequence(gear_table* table, uint32_t mode, uint64_t seed, int64_t* steps) {
  gear_sampler* sampler = conform_sampler(table, mode, seed);
  for (int first = 0; first < kSequence; first += 64) {
    gear_batch* batch = conform_sample(sampler, 64);
    const gear_tensor tensor = conform_tensor(batch, "step");
    for (int row = 0; row < 64; ++row) {
      steps[first + row] = conform_i64(&tensor, (uint32_t)row, 0);
    }
    assert_ok(gear_batch_release(batch));
  }
  assert_ok(gear_sampler_close(sampler));
}

static ConformTable open_hundred(uint32_t selector) {
  gear_table_options options = conform_options(100);
  options.sampler = selector;
  ConformTable table = conform_open(&options, 1);
  for (int step = 0; step < 100; ++step) {
    conform_append_priority(table.writer, step, 1 + step % 7);
  }
  conform_flush(table.writer);
  return table;
}

static void assert_reproducible(uint32_t selector, uint32_t mode) {
  ConformTable table = open_hundred(selector);
  int64_t once[kSequence];
  int64_t again[kSequence];
  draw_sequence(table.table, mode, 42, once);
  draw_sequence(table.table, mode, 42, again);
  assert_memory_equal(once, again, sizeof once);
  conform_close(&table);
}

/* SEMANTICS 20 */
GEAR_TEST(SameSeedGivesTheSameUniformDrawsDirect) {
  assert_reproducible(GEAR_SELECT_UNIFORM, GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 20 */
GEAR_TEST(SameSeedGivesTheSameUniformDrawsLeased) {
  assert_reproducible(GEAR_SELECT_UNIFORM, GEAR_SAMPLE_LEASED);
}

/* SEMANTICS 20 */
GEAR_TEST(SameSeedGivesTheSamePrioritizedDrawsDirect) {
  assert_reproducible(GEAR_SELECT_PRIORITIZED, GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 20 */
GEAR_TEST(SameSeedGivesTheSamePrioritizedDrawsLeased) {
  assert_reproducible(GEAR_SELECT_PRIORITIZED, GEAR_SAMPLE_LEASED);
}

/* SEMANTICS 20 */
GEAR_TEST(SameSeedGivesTheSameDrawsFromTwoTablesFilledAlike) {
  ConformTable one = open_hundred(GEAR_SELECT_PRIORITIZED);
  ConformTable other = open_hundred(GEAR_SELECT_PRIORITIZED);
  int64_t once[kSequence];
  int64_t again[kSequence];
  draw_sequence(one.table, GEAR_SAMPLE_AUTO, 42, once);
  draw_sequence(other.table, GEAR_SAMPLE_AUTO, 42, again);
  assert_memory_equal(once, again, sizeof once);
  conform_close(&one);
  conform_close(&other);
}

/* SEMANTICS 20 */
GEAR_TEST(DifferentSeedsGiveDifferentDraws) {
  ConformTable table = open_hundred(GEAR_SELECT_UNIFORM);
  int64_t once[kSequence];
  int64_t again[kSequence];
  draw_sequence(table.table, GEAR_SAMPLE_AUTO, 42, once);
  draw_sequence(table.table, GEAR_SAMPLE_AUTO, 43, again);
  assert_memory_not_equal(once, again, sizeof once);
  conform_close(&table);
}
