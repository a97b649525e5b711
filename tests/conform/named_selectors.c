/* Named selectors, mixtures, removers, and what follows from a table's largest and smallest priority. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static gear_selector_options selector_of(const char* name, uint32_t selector, double proportion) {
  gear_selector_options options = GEAR_SELECTOR_OPTIONS_INIT;
  options.name = name;
  options.selector = selector;
  options.proportion = proportion;
  options.alpha = 1;
  return options;
}

/* Steps 0 .. count-1 with these priorities. */
static ConformTable open_steps(const gear_table_options* options, const double* priorities,
                               int count) {
  ConformTable table = conform_open(options, 1);
  for (int step = 0; step < count; ++step) {
    conform_append_priority(table.writer, step, priorities[step]);
  }
  conform_flush(table.writer);
  return table;
}

static gear_sampler* sampler_of(gear_table* table, const char* selector, uint32_t mode) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.selector = selector;
  options.seed = 7;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

static void assert_draws(gear_sampler* sampler, const double* probabilities, size_t count) {
  uint64_t counts[64] = {0};
  for (int i = 0; i < 200; ++i) {
    gear_batch* batch = conform_sample(sampler, 256);
    const gear_tensor tensor = conform_tensor(batch, "step");
    for (uint32_t row = 0; row < 256; ++row) {
      const int64_t step = conform_i64(&tensor, row, 0);
      assert_in_range(step, 0, count - 1);
      assert_true(fabs(gear_batch_probabilities(batch)[row] - probabilities[step]) < 1e-9);
      ++counts[step];
    }
    assert_ok(gear_batch_release(batch));
  }
  for (size_t step = 0; step < count; ++step) {
    if (probabilities[step] == 1) {
      assert_int_equal(counts[step], 200 * 256);
      return;
    }
  }
  conform_assert_distribution(counts, probabilities, count);
}

static const double kPriorities[5] = {2, 8, 1, 8, 1};

static void assert_by_name(uint32_t mode) {
  gear_selector_options selectors[4] = {
      selector_of("weighted", GEAR_SELECT_PRIORITIZED, 0), selector_of("last", GEAR_SELECT_LIFO, 0),
      selector_of("best", GEAR_SELECT_MAX_HEAP, 0), selector_of("worst", GEAR_SELECT_MIN_HEAP, 0)};
  gear_table_options options = conform_options(100);
  options.selectors = selectors;
  options.selector_count = 4;
  ConformTable table = open_steps(&options, kPriorities, 5);
  assert_int_equal(conform_info(table.table).selector_count, 4);
  const double uniform[5] = {.2, .2, .2, .2, .2};
  const double weighted[5] = {.1, .4, .05, .4, .05};
  const double last[5] = {0, 0, 0, 0, 1};
  const double best[5] = {0, 1, 0, 0, 0};
  const double worst[5] = {0, 0, 1, 0, 0};
  assert_draws(sampler_of(table.table, NULL, mode), uniform, 5);
  assert_draws(sampler_of(table.table, "weighted", mode), weighted, 5);
  assert_draws(sampler_of(table.table, "last", mode), last, 5);
  assert_draws(sampler_of(table.table, "best", mode), best, 5);
  assert_draws(sampler_of(table.table, "worst", mode), worst, 5);
  conform_close(&table);
}

GEAR_TEST(SamplersDrawByTheSelectorTheyNameDirect) { assert_by_name(GEAR_SAMPLE_DIRECT); }

GEAR_TEST(SamplersDrawByTheSelectorTheyNameLeased) { assert_by_name(GEAR_SAMPLE_LEASED); }

static void assert_top_and_recency(uint32_t mode) {
  gear_selector_options selectors[2] = {selector_of("top", GEAR_SELECT_TOP_K, 0),
                                        selector_of("recent", GEAR_SELECT_RECENCY, 0)};
  selectors[0].top_k = 3;
  selectors[1].half_life = 2;
  gear_table_options options = conform_options(100);
  options.selectors = selectors;
  options.selector_count = 2;
  ConformTable table = open_steps(&options, kPriorities, 5);
  const double top[5] = {1.0 / 3, 1.0 / 3, 0, 1.0 / 3, 0};
  assert_draws(sampler_of(table.table, "top", mode), top, 5);
  double recent[5];
  double sum = 0;
  for (int step = 0; step < 5; ++step) sum += recent[step] = pow(2, (step - 4) / 2.0);
  for (int step = 0; step < 5; ++step) recent[step] /= sum;
  assert_draws(sampler_of(table.table, "recent", mode), recent, 5);
  conform_close(&table);
}

/* SEMANTICS 22 */
GEAR_TEST(TopKAndRecencyDrawAsTheyPromiseDirect) { assert_top_and_recency(GEAR_SAMPLE_DIRECT); }

/* SEMANTICS 22 */
GEAR_TEST(TopKAndRecencyDrawAsTheyPromiseLeased) { assert_top_and_recency(GEAR_SAMPLE_LEASED); }

static void assert_mixture(uint32_t mode) {
  gear_selector_options selectors[3] = {selector_of("any", GEAR_SELECT_UNIFORM, 1),
                                        selector_of("weighted", GEAR_SELECT_PRIORITIZED, 2),
                                        selector_of("last", GEAR_SELECT_LIFO, 1)};
  gear_table_options options = conform_options(100);
  options.sampler = GEAR_SELECT_MIXTURE;
  options.selectors = selectors;
  options.selector_count = 3;
  ConformTable table = open_steps(&options, kPriorities, 5);
  const double expected[5] = {.05 + .05, .05 + .2, .05 + .025, .05 + .2, .05 + .025 + .25};
  assert_draws(sampler_of(table.table, NULL, mode), expected, 5);
  conform_close(&table);
}

/* SEMANTICS 22 */
GEAR_TEST(MixtureDrawsInProportionDirect) { assert_mixture(GEAR_SAMPLE_DIRECT); }

/* SEMANTICS 22 */
GEAR_TEST(MixtureDrawsInProportionLeased) { assert_mixture(GEAR_SAMPLE_LEASED); }

GEAR_TEST(UnknownSelectorNameIsNotFoundAndTheTextListsThoseThereAre) {
  gear_selector_options selectors[2] = {selector_of("one", GEAR_SELECT_LIFO, 0),
                                        selector_of("two", GEAR_SELECT_FIFO, 0)};
  gear_table_options options = conform_options(100);
  options.selectors = selectors;
  options.selector_count = 2;
  ConformTable table = open_steps(&options, kPriorities, 5);
  gear_sampler_options asked = GEAR_SAMPLER_OPTIONS_INIT;
  asked.selector = "three";
  gear_sampler* sampler = NULL;
  assert_status(gear_sampler_open(table.table, &asked, &sampler), GEAR_ENOTFOUND);
  assert_explained("\"three\"", "\"one\", \"two\"");
  conform_close(&table);

  table = conform_open_simple(100);
  assert_status(gear_sampler_open(table.table, &asked, &sampler), GEAR_ENOTFOUND);
  assert_explained("no named selectors");
  conform_close(&table);
}

/* ---------------------------------------------------------------- refusals */

static void assert_refused(const gear_table_options* options, int status, const char* fragment) {
  gear_client* client = NULL;
  gear_table* table = NULL;
  assert_ok(gear_connect("embedded:", NULL, &client));
  assert_status(gear_table_create(client, options, &table), status);
  assert_explained(fragment);
  assert_ok(gear_close(client));
}

static void assert_selector_refused(gear_selector_options selector, int status,
                                    const char* fragment) {
  gear_table_options options = conform_options(100);
  options.selectors = &selector;
  options.selector_count = 1;
  assert_refused(&options, status, fragment);
}

GEAR_TEST(SelectorsWithParametersOutOfTheirDomainAreRefused) {
  gear_selector_options selector = selector_of("s", GEAR_SELECT_RECENCY, 0);
  const double half_lives[] = {0, -1, NAN, INFINITY};
  for (size_t i = 0; i < 4; ++i) {
    selector.half_life = half_lives[i];
    assert_selector_refused(selector, GEAR_EINVAL, "half_life");
  }
  assert_selector_refused(selector_of("s", GEAR_SELECT_TOP_K, 0), GEAR_EINVAL, "top_k");
  assert_selector_refused(selector_of("s", GEAR_SELECT_UNIFORM, -1), GEAR_EINVAL, "proportion -1");
  assert_selector_refused(selector_of("s", GEAR_SELECT_UNIFORM, NAN), GEAR_EINVAL, "proportion");
  assert_selector_refused(selector_of("s", 17, 0), GEAR_EINVAL, "17");
  assert_selector_refused(selector_of("s", GEAR_SELECT_MIXTURE, 1), GEAR_EINVAL, "mixture");
  assert_selector_refused(selector_of("", GEAR_SELECT_UNIFORM, 1), GEAR_ENAME, "name");
  selector = selector_of("s", GEAR_SELECT_PRIORITIZED, 0);
  selector.alpha = -2;
  assert_selector_refused(selector, GEAR_EINVAL, "-2");
  selector.alpha = 1;
  selector.epsilon = -1;
  assert_selector_refused(selector, GEAR_EINVAL, "epsilon -1");
}

GEAR_TEST(SamplersWithParametersOutOfTheirDomainAreRefused) {
  gear_table_options options = conform_options(100);
  options.sampler = GEAR_SELECT_RECENCY;
  assert_refused(&options, GEAR_EINVAL, "half_life 0");
  options.sampler = GEAR_SELECT_TOP_K;
  assert_refused(&options, GEAR_EINVAL, "top_k");
  options.sampler = GEAR_SELECT_UNIFORM;
  options.new_priority = 2;
  assert_refused(&options, GEAR_EINVAL, "new_priority 2");
  options.new_priority = 0;
  options.table_weights = 2;
  assert_refused(&options, GEAR_EINVAL, "table_weights 2");
}

GEAR_TEST(TwoSelectorsOfOneNameAreRefused) {
  gear_selector_options selectors[2] = {selector_of("same", GEAR_SELECT_LIFO, 0),
                                        selector_of("same", GEAR_SELECT_FIFO, 0)};
  gear_table_options options = conform_options(100);
  options.selectors = selectors;
  options.selector_count = 2;
  assert_refused(&options, GEAR_EDUPLICATE, "same");
}

GEAR_TEST(MixtureOfNothingIsRefused) {
  gear_table_options options = conform_options(100);
  options.sampler = GEAR_SELECT_MIXTURE;
  assert_refused(&options, GEAR_EINVAL, "mixture");
  gear_selector_options zero = selector_of("only by name", GEAR_SELECT_UNIFORM, 0);
  options.selectors = &zero;
  options.selector_count = 1;
  assert_refused(&options, GEAR_EINVAL, "proportion");
}

/* ---------------------------------------------------------------- removers */

static void assert_left(uint32_t remover, uint64_t capacity, const double* priorities, int count,
                        const double* left) {
  gear_table_options options = conform_options(capacity);
  options.remover = remover;
  ConformTable table = open_steps(&options, priorities, count);
  assert_draws(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 5), left, (size_t)count);
  assert_int_equal(conform_stats(table.table).items, capacity);
  assert_int_equal(conform_stats(table.table).inserts, count);
  assert_int_equal(conform_stats(table.table).deletes, (uint64_t)count - capacity);
  conform_close(&table);
}

/* SEMANTICS 17 */
GEAR_TEST(LifoRemoverRemovesTheIncomingItem) {
  const double ones[3] = {1, 1, 1};
  const double left[3] = {.5, .5, 0};
  assert_left(GEAR_SELECT_LIFO, 2, ones, 3, left);
}

/* SEMANTICS 17 */
GEAR_TEST(MinHeapRemoverKeepsTheLargestPriorities) {
  const double priorities[4] = {5, 1, 3, 0};
  const double left[4] = {.5, 0, .5, 0};
  assert_left(GEAR_SELECT_MIN_HEAP, 2, priorities, 4, left);
}

/* SEMANTICS 17 */
GEAR_TEST(FifoRemoverKeepsTheNewest) {
  double ones[15];
  double left[15];
  for (int i = 0; i < 15; ++i) {
    ones[i] = 1;
    left[i] = i < 5 ? 0 : .1;
  }
  assert_left(GEAR_SELECT_FIFO, 10, ones, 15, left);
}

/* SEMANTICS 22 */
GEAR_TEST(StackGivesTheNewestFirstAndBlocksWhenFull) {
  gear_table_options options = conform_options(100);
  assert_ok(gear_table_options_stack(3, &options));
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  assert_ok(conform_try_append(table.writer, 0, 3, CONFORM_PATIENCE_NS));
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  const int64_t wanted[] = {2, 3, 1, 0};
  for (int i = 0; i < 4; ++i) {
    gear_batch* batch = conform_sample(sampler, 1);
    const gear_tensor tensor = conform_tensor(batch, "step");
    assert_int_equal(conform_i64(&tensor, 0, 0), wanted[i]);
    assert_ok(gear_batch_release(batch));
    conform_flush(table.writer);
  }
  gear_batch* none = NULL;
  assert_status(gear_sample(sampler, 1, 0, &none), GEAR_ETIMEDOUT);
  conform_close(&table);
}

/* ---------------------------------------------------------------- priorities of the table */

/* SEMANTICS 28 */
GEAR_TEST(NewItemsTakeTheLargestPriorityNowInTheTable) {
  gear_table_options options = conform_options(100);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_alpha = 1;
  options.new_priority = GEAR_NEW_PRIORITY_TABLE_MAX;
  ConformTable table = conform_open(&options, 1);
  conform_append_priority(table.writer, 0, 8);
  conform_append_priority(table.writer, 1, 2);
  conform_flush(table.writer);
  uint64_t keys[2];
  conform_keys(table.table, keys, 2);
  assert_ok(gear_delete_items(table.table, &keys[0], 1, CONFORM_PATIENCE_NS, NULL));
  assert_ok(gear_writer_set_priority(table.writer, 0, NULL, CONFORM_PATIENCE_NS));
  conform_append(table.writer, 0, 2, 1);
  conform_flush(table.writer);
  const double halves[3] = {0, .5, .5};
  assert_draws(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 3), halves, 3);
  assert_true(conform_stats(table.table).priority_max == 8);
  conform_close(&table);
}

static void assert_table_weights(uint32_t mode) {
  gear_table_options options = conform_options(100);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_alpha = 1;
  options.table_weights = 1;
  const double priorities[4] = {0, 8, 1, 4};
  ConformTable table = open_steps(&options, priorities, 4);
  gear_sampler_options asked = GEAR_SAMPLER_OPTIONS_INIT;
  asked.mode = mode;
  asked.beta = .5;
  asked.normalise = GEAR_NORMALISE_TABLE;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &asked, &sampler));
  for (int i = 0; i < 20; ++i) {
    /* One row: by the batch's largest its weight would always be 1. */
    gear_batch* batch = conform_sample(sampler, 1);
    const double priority = gear_batch_priorities(batch)[0];
    assert_true(fabs(gear_batch_weights(batch)[0] - pow(priority, -.5)) < 1e-6);
    assert_ok(gear_batch_release(batch));
  }
  conform_close(&table);
}

/* SEMANTICS 29 */
GEAR_TEST(WeightsAreDividedByTheLargestOfTheTableDirect) {
  assert_table_weights(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 29 */
GEAR_TEST(WeightsAreDividedByTheLargestOfTheTableLeased) {
  assert_table_weights(GEAR_SAMPLE_LEASED);
}

/* SEMANTICS 29 */
GEAR_TEST(UniformWeightsNormalisedByTheTableAreOne) {
  ConformTable table = conform_open_simple(100);
  conform_append(table.writer, 0, 0, 10);
  conform_flush(table.writer);
  gear_sampler_options asked = GEAR_SAMPLER_OPTIONS_INIT;
  asked.beta = 1;
  asked.normalise = GEAR_NORMALISE_TABLE;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &asked, &sampler));
  gear_batch* batch = conform_sample(sampler, 8);
  for (int row = 0; row < 8; ++row) assert_true(gear_batch_weights(batch)[row] == 1.0f);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

static void assert_normalise_refused(uint32_t selector, const char* fragment) {
  gear_selector_options recent = selector_of("recent", GEAR_SELECT_RECENCY, 1);
  recent.half_life = 5;
  gear_table_options options = conform_options(100);
  options.sampler = selector;
  options.half_life = 5;
  options.selectors = &recent;
  options.selector_count = 1;
  ConformTable table = conform_open(&options, 1);
  gear_sampler_options asked = GEAR_SAMPLER_OPTIONS_INIT;
  asked.beta = 1;
  asked.normalise = GEAR_NORMALISE_TABLE;
  gear_sampler* sampler = NULL;
  assert_status(gear_sampler_open(table.table, &asked, &sampler), GEAR_EUNSUPPORTED);
  assert_explained(fragment);
  asked.normalise = 3;
  assert_status(gear_sampler_open(table.table, &asked, &sampler), GEAR_EINVAL);
  conform_close(&table);
}

/* SEMANTICS 29 */
GEAR_TEST(NormaliseByTheTableIsRefusedWhereItsLargestWeightIsNotKept) {
  assert_normalise_refused(GEAR_SELECT_PRIORITIZED, "table_weights");
  assert_normalise_refused(GEAR_SELECT_RECENCY, "recency");
  assert_normalise_refused(GEAR_SELECT_MIXTURE, "mixture");
}
