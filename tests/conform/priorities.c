/* Priorities that items take, weights that draws carry, and the FIFO selector's certainty. */
#include <math.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static gear_sampler* open_weighted(gear_table* table, double beta, uint32_t normalise) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.beta = beta;
  options.normalise = normalise;
  options.seed = 5;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* Steps 0, 1, 2 of priorities 1, 2, 3 and alpha 2. */
static ConformTable open_one_two_three(void) {
  gear_table_options options = conform_options(1000);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_alpha = 2;
  ConformTable table = conform_open(&options, 1);
  for (int step = 0; step < 3; ++step) conform_append_priority(table.writer, step, 1 + step);
  conform_flush(table.writer);
  return table;
}

/* SEMANTICS 29 */
GEAR_TEST(WeightsAreNTimesProbabilityToTheMinusBeta) {
  ConformTable table = open_one_two_three();
  gear_sampler* sampler = open_weighted(table.table, .4, GEAR_NORMALISE_NONE);
  gear_batch* batch = conform_sample(sampler, 64);
  for (uint32_t row = 0; row < 64; ++row) {
    const double wanted = pow(3 * gear_batch_probabilities(batch)[row], -.4);
    assert_true(fabs(gear_batch_weights(batch)[row] - wanted) < 1e-6 * wanted);
  }
  conform_close(&table);
}

/* SEMANTICS 29 */
GEAR_TEST(WeightsAreDividedByTheLargestOfTheBatch) {
  ConformTable table = open_one_two_three();
  gear_sampler* sampler = open_weighted(table.table, 1, GEAR_NORMALISE_BATCH);
  gear_batch* batch = conform_sample(sampler, 256);
  const gear_tensor tensor = conform_tensor(batch, "step");
  /* Of 256 draws with a chance of 1 in 14, the fixed seed shows step 0, whose weight is the
   * largest. */
  const double wanted[3] = {1, 1.0 / 4, 1.0 / 9};
  for (uint32_t row = 0; row < 256; ++row) {
    const int64_t step = conform_i64(&tensor, row, 0);
    assert_true(fabs(gear_batch_weights(batch)[row] - wanted[step]) < 1e-6);
  }
  conform_close(&table);
}

/* SEMANTICS 29 */
GEAR_TEST(WeightsAreAllOneWithoutBeta) {
  ConformTable table = open_one_two_three();
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 5), 64);
  for (uint32_t row = 0; row < 64; ++row) {
    assert_true(gear_batch_weights(batch)[row] == 1.0F);
  }
  conform_close(&table);
}

/* Raw priority of the only item that holds `step`, found by drawing. */
static double priority_of(gear_table* table, int64_t step) {
  gear_sampler* sampler = conform_sampler(table, GEAR_SAMPLE_AUTO, 9);
  for (int tries = 0; tries < 1000; ++tries) {
    gear_batch* batch = conform_sample(sampler, 64);
    const gear_tensor tensor = conform_tensor(batch, "step");
    for (uint32_t row = 0; row < 64; ++row) {
      if (conform_i64(&tensor, row, 0) == step) return gear_batch_priorities(batch)[row];
    }
    assert_ok(gear_batch_release(batch));
  }
  fail_msg("step %d was never drawn", (int)step);
  return 0;
}

/* SEMANTICS 28 */
GEAR_TEST(FirstItemTakesPriorityOne) {
  gear_table_options options = conform_options(10);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 1);
  conform_flush(table.writer);
  assert_true(priority_of(table.table, 0) == 1.0);
  conform_close(&table);
}

/* SEMANTICS 28 */
GEAR_TEST(ItemWithoutAPriorityTakesTheLargestSeen) {
  ConformTable table = open_one_two_three();
  assert_ok(gear_writer_set_priority(table.writer, 0, NULL, CONFORM_PATIENCE_NS));
  conform_append(table.writer, 0, 3, 1);
  conform_flush(table.writer);
  assert_true(priority_of(table.table, 3) == 3.0);
  conform_close(&table);
}

/* SEMANTICS 28 */
GEAR_TEST(PrioritySetOnALaneHoldsUntilItIsChanged) {
  ConformTable table = open_one_two_three();
  conform_append(table.writer, 0, 3, 1);
  conform_append_priority(table.writer, 4, .5);
  conform_append(table.writer, 0, 5, 1);
  conform_flush(table.writer);
  assert_true(priority_of(table.table, 3) == 3.0);
  assert_true(priority_of(table.table, 5) == .5);
  conform_close(&table);
}

GEAR_TEST(UniformDrawsCarryOneOverTheNumberOfItems) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 40);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 5), 64);
  for (uint32_t row = 0; row < 64; ++row) {
    assert_true(fabs(gear_batch_probabilities(batch)[row] - 1.0 / 40) < 1e-15);
  }
  conform_close(&table);
}

static void assert_fifo_draws_the_oldest(uint32_t mode) {
  gear_table_options options = conform_options(10);
  options.sampler = GEAR_SELECT_FIFO;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 15);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(conform_sampler(table.table, mode, 5), 8);
  const gear_tensor tensor = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 8; ++row) {
    assert_int_equal(conform_i64(&tensor, row, 0), 5);
    assert_true(gear_batch_probabilities(batch)[row] == 1.0);
  }
  conform_close(&table);
}

GEAR_TEST(FifoSamplerDrawsTheOldestForSureDirect) {
  assert_fifo_draws_the_oldest(GEAR_SAMPLE_DIRECT);
}

GEAR_TEST(FifoSamplerDrawsTheOldestForSureLeased) {
  assert_fifo_draws_the_oldest(GEAR_SAMPLE_LEASED);
}
