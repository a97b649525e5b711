/* Batches without repetition. */
#include <math.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kSteps = 20 };

static ConformTable open_table(uint32_t selector, int steps) {
  gear_selector_options parts[2] = {GEAR_SELECTOR_OPTIONS_INIT, GEAR_SELECTOR_OPTIONS_INIT};
  parts[0].name = "last";
  parts[0].selector = GEAR_SELECT_LIFO;
  parts[0].proportion = 1;
  parts[1].name = "any";
  parts[1].selector = GEAR_SELECT_UNIFORM;
  parts[1].proportion = 1;
  gear_table_options options = conform_options(100);
  options.sampler = selector;
  options.selectors = parts;
  options.selector_count = 2;
  options.priority_alpha = 1;
  options.top_k = 3;
  options.half_life = 4;
  ConformTable table = conform_open(&options, 1);
  for (int step = 0; step < steps; ++step) conform_append_priority(table.writer, step, 1 + step % 3);
  conform_flush(table.writer);
  return table;
}

static gear_sampler* unique_sampler(gear_table* table, uint32_t mode) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.unique = 1;
  options.seed = 3;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* Steps of a batch, all different; returns how many. */
static uint32_t steps_of(gear_sampler* sampler, uint32_t rows, int64_t* steps) {
  gear_batch* batch = NULL;
  assert_ok(gear_sample(sampler, rows, CONFORM_PATIENCE_NS, &batch));
  const uint32_t got = gear_batch_rows(batch);
  const gear_tensor tensor = conform_tensor(batch, "step");
  bool seen[kSteps] = {false};
  for (uint32_t row = 0; row < got; ++row) {
    steps[row] = conform_i64(&tensor, row, 0);
    assert_in_range(steps[row], 0, kSteps - 1);
    assert_false(seen[steps[row]]);
    seen[steps[row]] = true;
  }
  conform_verify_batch(batch);
  assert_ok(gear_batch_release(batch));
  return got;
}

static void assert_unique(uint32_t selector, uint32_t mode) {
  ConformTable table = open_table(selector, kSteps);
  gear_sampler* sampler = unique_sampler(table.table, mode);
  int64_t steps[256];
  for (int i = 0; i < 30; ++i) assert_int_equal(steps_of(sampler, 7, steps), 7);
  for (int i = 0; i < 5; ++i) assert_int_equal(steps_of(sampler, kSteps, steps), kSteps);
  assert_int_equal(steps_of(sampler, kSteps + 1, steps), kSteps);
  assert_int_equal(steps_of(sampler, 256, steps), kSteps);
  assert_int_equal(steps_of(sampler, 1, steps), 1);
  conform_close(&table);
}

/* SEMANTICS 21 */
GEAR_TEST(UniqueBatchesHaveNoItemTwiceAndAtMostAllThereAreDirect) {
  assert_unique(GEAR_SELECT_UNIFORM, GEAR_SAMPLE_DIRECT);
  assert_unique(GEAR_SELECT_PRIORITIZED, GEAR_SAMPLE_DIRECT);
  assert_unique(GEAR_SELECT_RECENCY, GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 21 */
GEAR_TEST(UniqueBatchesHaveNoItemTwiceAndAtMostAllThereAreLeased) {
  for (uint32_t selector = GEAR_SELECT_UNIFORM; selector <= GEAR_SELECT_MIXTURE; ++selector) {
    assert_unique(selector, GEAR_SAMPLE_LEASED);
  }
}

/* SEMANTICS 21 */
GEAR_TEST(UniqueBatchesOfOrderedSelectorsAreLeasedByThemselves) {
  const uint32_t ordered[] = {GEAR_SELECT_FIFO,  GEAR_SELECT_LIFO, GEAR_SELECT_MAX_HEAP,
                              GEAR_SELECT_MIN_HEAP, GEAR_SELECT_TOP_K, GEAR_SELECT_MIXTURE};
  for (size_t i = 0; i < 6; ++i) {
    ConformTable table = open_table(ordered[i], kSteps);
    gear_sampler* sampler = unique_sampler(table.table, GEAR_SAMPLE_AUTO);
    gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
    assert_ok(gear_sampler_get_stats(sampler, &stats));
    assert_int_equal(stats.direct, 0);
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.unique = 1;
    options.mode = GEAR_SAMPLE_DIRECT;
    assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EUNSUPPORTED);
    assert_explained("unique");
    conform_close(&table);
  }
}

/* SEMANTICS 21 */
GEAR_TEST(UniqueBatchesOfOrderedSelectorsGoOnInOrder) {
  ConformTable table = open_table(GEAR_SELECT_FIFO, kSteps);
  int64_t steps[256];
  gear_sampler* sampler = unique_sampler(table.table, GEAR_SAMPLE_AUTO);
  for (int again = 0; again < 2; ++again) {
    assert_int_equal(steps_of(sampler, 8, steps), 8);
    for (int row = 0; row < 8; ++row) assert_int_equal(steps[row], row);
  }
  conform_close(&table);
  table = open_table(GEAR_SELECT_MAX_HEAP, kSteps);
  assert_int_equal(steps_of(unique_sampler(table.table, GEAR_SAMPLE_AUTO), 8, steps), 8);
  const int64_t best_first[8] = {2, 5, 8, 11, 14, 17, 1, 4};
  for (int row = 0; row < 8; ++row) assert_int_equal(steps[row], best_first[row]);
  conform_close(&table);
}

/* Pairs of a prioritized table of three: P(i, j) = p_i * p_j / (1 - p_i). */
static void assert_successive(uint32_t mode, uint32_t rows_asked) {
  ConformTable table = open_table(GEAR_SELECT_PRIORITIZED, 3); /* priorities 1, 2, 3 */
  gear_sampler* sampler = unique_sampler(table.table, mode);
  uint64_t counts[9] = {0};
  double expected[9] = {0};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const double first = (i + 1) / 6.0;
      const double second = (j + 1) / 6.0;
      if (i != j) expected[3 * i + j] = first * second / (1 - first);
    }
  }
  for (int i = 0; i < 20000; ++i) {
    int64_t steps[256];
    assert_true(steps_of(sampler, rows_asked, steps) >= 2);
    ++counts[3 * steps[0] + steps[1]];
  }
  conform_assert_distribution(counts, expected, 9);
  conform_close(&table);
}

/* SEMANTICS 21 */
GEAR_TEST(UniqueRowsAreEachDrawnFromThoseLeftDirect) {
  assert_successive(GEAR_SAMPLE_DIRECT, 2);
  /* All there is: not by repeated draws but in one pass. */
  assert_successive(GEAR_SAMPLE_DIRECT, 3);
}

/* SEMANTICS 21 */
GEAR_TEST(UniqueRowsAreEachDrawnFromThoseLeftLeased) {
  assert_successive(GEAR_SAMPLE_LEASED, 2);
}

static void assert_zeros_stay_out(uint32_t mode) {
  gear_table_options options = conform_options(100);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  ConformTable table = conform_open(&options, 1);
  for (int step = 0; step < 10; ++step) conform_append_priority(table.writer, step, step % 2);
  conform_flush(table.writer);
  int64_t steps[256];
  gear_sampler* sampler = unique_sampler(table.table, mode);
  assert_int_equal(steps_of(sampler, 10, steps), 5);
  for (int row = 0; row < 5; ++row) assert_int_equal(steps[row] % 2, 1);
  conform_close(&table);
}

/* SEMANTICS 21 */
GEAR_TEST(UniqueBatchesEndWhereOnlyPriorityZeroIsLeft) {
  assert_zeros_stay_out(GEAR_SAMPLE_DIRECT);
  assert_zeros_stay_out(GEAR_SAMPLE_LEASED);
}

static void assert_whole_probabilities(uint32_t mode) {
  ConformTable table = open_table(GEAR_SELECT_PRIORITIZED, 3);
  gear_batch* batch = conform_sample(unique_sampler(table.table, mode), 3);
  for (uint32_t row = 0; row < 3; ++row) {
    const double priority = gear_batch_priorities(batch)[row];
    assert_true(fabs(gear_batch_probabilities(batch)[row] - priority / 6) < 1e-12);
  }
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

GEAR_TEST(UniqueRowsTellTheirProbabilityAsIfEachWereTheFirst) {
  assert_whole_probabilities(GEAR_SAMPLE_DIRECT);
  assert_whole_probabilities(GEAR_SAMPLE_LEASED);
}

GEAR_TEST(UniqueDrawsOfALimitedTableCountWhatTheyTake) {
  gear_table_options options = conform_options(100);
  options.sampler = GEAR_SELECT_UNIFORM;
  options.max_times_sampled = 2;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 6);
  conform_flush(table.writer);
  gear_sampler* sampler = unique_sampler(table.table, GEAR_SAMPLE_AUTO);
  int64_t steps[256];
  assert_int_equal(steps_of(sampler, 10, steps), 6);
  wait_until(conform_stats(table.table).samples == 6);
  assert_int_equal(conform_stats(table.table).items, 6);
  assert_int_equal(steps_of(sampler, 10, steps), 6);
  wait_until(conform_stats(table.table).items == 0);
  gear_batch* none = NULL;
  assert_status(gear_sample(sampler, 1, 0, &none), GEAR_ETIMEDOUT);
  conform_close(&table);
}

GEAR_TEST(UniqueWithPrefetchIsRefused) {
  ConformTable table = open_table(GEAR_SELECT_FIFO, kSteps);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.unique = 1;
  options.prefetch = 8;
  gear_sampler* sampler = NULL;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EINVAL);
  assert_explained("prefetch 8");
  options.prefetch = 0;
  options.unique = 2;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EINVAL);
  assert_explained("unique 2");
  conform_close(&table);
}
