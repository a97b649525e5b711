/* Offline use: a table loaded once, and readers that have each row of it once an epoch among them. */
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kStepsMax = 4096, kSeed = 77 };

static gear_sampler_options epoch_options(uint32_t anchor, uint32_t rank, uint32_t world) {
  static gear_window window;
  window = conform_window("step", NULL, 0, 1);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.windows = &window;
  options.window_count = 1;
  options.anchor = anchor;
  options.seed = kSeed;
  options.order = GEAR_ORDER_EPOCH;
  options.rank = rank;
  options.world = world;
  return options;
}

static gear_sampler* open_epochs(gear_table* table, uint32_t anchor, uint32_t rank, uint32_t world) {
  const gear_sampler_options options = epoch_options(anchor, rank, world);
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* The contents of "step" in the order drawn, in batches of `rows`, until the epoch is over. */
static size_t draw_epoch(gear_sampler* sampler, uint32_t rows, int64_t* steps) {
  size_t count = 0;
  for (;;) {
    gear_batch* batch = NULL;
    const int status = gear_sample(sampler, rows, CONFORM_PATIENCE_NS, &batch);
    if (status == GEAR_EEPOCH) return count;
    assert_status(status, GEAR_OK);
    const gear_tensor tensor = conform_tensor(batch, "step");
    assert_in_range(gear_batch_rows(batch), 1, rows);
    for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
      assert_true(count < kStepsMax);
      assert_int_equal(tensor.mask[row], 1);
      steps[count++] = conform_i64(&tensor, row, 0);
    }
    assert_ok(gear_batch_release(batch));
  }
}

static ConformTable load_steps(int64_t count) {
  ConformTable table = conform_open_simple((uint64_t)count + 10);
  conform_append(table.writer, 0, 0, count);
  conform_flush(table.writer);
  return table;
}

/* Episodes of unlike lengths on several lanes; contents are numbered through. Returns how many steps. */
static int64_t load_episodes(ConformTable* table, int episodes) {
  gear_table_options options = conform_options(200);
  options.item_policy = GEAR_ITEMS_EPISODE;
  options.episode_steps_max = 20;
  options.block_steps = 4;
  *table = conform_open(&options, 3);
  int64_t next = 0;
  for (int episode = 0; episode < episodes; ++episode) {
    const uint32_t lane = (uint32_t)episode % 3;
    const int64_t length = 1 + (episode * 7) % 20;
    conform_append(table->writer, lane, next, length);
    next += length;
    conform_end(table->writer, lane, episode % 2 == 0 ? GEAR_TERMINATED : GEAR_TRUNCATED);
  }
  conform_flush(table->writer);
  return next;
}

/* Ranks 0 .. world-1 have contents 0 .. count-1 each once among them, in shares that differ by one row at most. */
static void assert_each_once(gear_table* table, uint32_t anchor, uint32_t world, int64_t count) {
  static int64_t steps[kStepsMax];
  static uint8_t seen[kStepsMax];
  memset(seen, 0, sizeof seen);
  for (uint32_t rank = 0; rank < world; ++rank) {
    gear_sampler* sampler = open_epochs(table, anchor, rank, world);
    uint64_t share = 0;
    assert_ok(gear_sampler_begin_epoch(sampler, 3, &share));
    const size_t drawn = draw_epoch(sampler, 7 + rank, steps);
    assert_int_equal(drawn, share);
    assert_in_range(drawn, count / world, (count + world - 1) / world);
    for (size_t i = 0; i < drawn; ++i) {
      assert_in_range(steps[i], 0, count - 1);
      assert_int_equal(seen[steps[i]]++, 0);
    }
    assert_ok(gear_sampler_close(sampler));
  }
  for (int64_t step = 0; step < count; ++step) assert_int_equal(seen[step], 1);
}

static const uint32_t kWorlds[4] = {1, 2, 3, 7};

GEAR_TEST(EveryItemIsDrawnOnceAnEpochByAllRanksTogether) {
  static const int64_t counts[10] = {1, 2, 3, 6, 7, 10, 64, 100, 255, 1025};
  for (int i = 0; i < 10; ++i) {
    ConformTable table = load_steps(counts[i]);
    for (int w = 0; w < 4; ++w) {
      assert_each_once(table.table, GEAR_ANCHOR_AUTO, kWorlds[w], counts[i]);
      assert_each_once(table.table, GEAR_ANCHOR_EVERY_STEP, kWorlds[w], counts[i]);
    }
    conform_close(&table);
  }
}

GEAR_TEST(EveryStepOfEveryEpisodeIsDrawnOnceAnEpochByAllRanksTogether) {
  static const int episodes[5] = {1, 2, 5, 20, 100};
  for (int i = 0; i < 5; ++i) {
    ConformTable table;
    const int64_t count = load_episodes(&table, episodes[i]);
    for (int w = 0; w < 4; ++w) {
      assert_each_once(table.table, GEAR_ANCHOR_EVERY_STEP, kWorlds[w], count);
    }
    conform_close(&table);
  }
}

GEAR_TEST(EveryEpisodeIsDrawnOnceAnEpochByTheAnchorAsked) {
  ConformTable table;
  load_episodes(&table, 50);
  static int64_t first[kStepsMax];
  static int64_t again[kStepsMax];
  const uint32_t anchors[3] = {GEAR_ANCHOR_FIRST, GEAR_ANCHOR_RANDOM_START, GEAR_ANCHOR_RANDOM_STEP};
  for (int i = 0; i < 3; ++i) {
    gear_sampler* sampler = open_epochs(table.table, anchors[i], 0, 1);
    assert_int_equal(draw_epoch(sampler, 8, first), 50);
    /* The same again by batches of another size, random anchors too. */
    assert_ok(gear_sampler_begin_epoch(sampler, 0, NULL));
    assert_int_equal(draw_epoch(sampler, 50, again), 50);
    assert_memory_equal(first, again, 50 * sizeof *first);
  }
  conform_close(&table);
}

/* SEMANTICS 20 */
GEAR_TEST(SeedAndEpochDecideTheOrder) {
  ConformTable table = load_steps(100);
  static int64_t orders[4][kStepsMax];
  gear_sampler* sampler = open_epochs(table.table, GEAR_ANCHOR_AUTO, 0, 1);
  /* Epoch 0 begins by itself. */
  assert_int_equal(draw_epoch(sampler, 9, orders[0]), 100);
  assert_ok(gear_sampler_begin_epoch(sampler, 1, NULL));
  assert_int_equal(draw_epoch(sampler, 100, orders[1]), 100);
  gear_sampler_options options = epoch_options(GEAR_ANCHOR_AUTO, 0, 0);
  options.seed = kSeed + 1;
  gear_sampler* other = NULL;
  assert_ok(gear_sampler_open(table.table, &options, &other));
  assert_int_equal(draw_epoch(other, 100, orders[2]), 100);
  assert_memory_not_equal(orders[0], orders[1], 100 * sizeof(int64_t));
  assert_memory_not_equal(orders[0], orders[2], 100 * sizeof(int64_t));
  assert_ok(gear_sampler_begin_epoch(sampler, 0, NULL));
  assert_int_equal(draw_epoch(sampler, 31, orders[3]), 100);
  assert_memory_equal(orders[0], orders[3], 100 * sizeof(int64_t));
  conform_close(&table);
}

/* SEMANTICS 20. The steps are those of any machine. */
GEAR_TEST(EpochHasThisOrderForThisSeed) {
  ConformTable table = load_steps(12);
  static int64_t steps[kStepsMax];
  static const int64_t wanted[12] = {8, 1, 0, 10, 7, 3, 4, 2, 5, 9, 11, 6};
  assert_int_equal(draw_epoch(open_epochs(table.table, GEAR_ANCHOR_AUTO, 0, 1), 5, steps), 12);
  for (int i = 0; i < 12; ++i) assert_int_equal(steps[i], wanted[i]);
  conform_close(&table);
}

GEAR_TEST(RowsOfAnEpochAreEquallyLikelyAndWeighOne) {
  ConformTable table;
  const int64_t count = load_episodes(&table, 20);
  gear_sampler_options options = epoch_options(GEAR_ANCHOR_EVERY_STEP, 1, 2);
  options.beta = 0.5;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &options, &sampler));
  gear_batch* batch = conform_sample(sampler, 20);
  for (uint32_t row = 0; row < 20; ++row) {
    assert_true(gear_batch_probabilities(batch)[row] == 1.0 / (double)count);
    assert_true(gear_batch_weights(batch)[row] == 1.0f);
    assert_in_range(gear_batch_anchors(batch)[row], 0, gear_batch_item_lengths(batch)[row] - 1);
  }
  gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
  assert_ok(gear_sampler_get_stats(sampler, &stats));
  assert_int_equal(stats.direct, 1);
  conform_close(&table);
}

GEAR_TEST(LastBatchIsShorterAndThenTheEpochIsOver) {
  ConformTable table = load_steps(10);
  gear_sampler* sampler = open_epochs(table.table, GEAR_ANCHOR_AUTO, 0, 1);
  assert_int_equal(gear_batch_rows(conform_sample(sampler, 8)), 8);
  gear_batch* batch = NULL;
  assert_ok(gear_sample(sampler, 8, 0, &batch));
  assert_int_equal(gear_batch_rows(batch), 2);
  batch = NULL;
  for (int i = 0; i < 2; ++i) {
    assert_status(gear_sample(sampler, 8, CONFORM_PATIENCE_NS, &batch), GEAR_EEPOCH);
    assert_explained("epoch 0 is over", "10 rows");
    assert_null(batch);
  }
  uint64_t rows = 0;
  assert_ok(gear_sampler_begin_epoch(sampler, 1, &rows));
  assert_int_equal(rows, 10);
  assert_int_equal(gear_batch_rows(conform_sample(sampler, 8)), 8);
  conform_close(&table);
}

GEAR_TEST(RankBeyondTheRowsHasAnEmptyShare) {
  ConformTable table = load_steps(2);
  gear_sampler* sampler = open_epochs(table.table, GEAR_ANCHOR_AUTO, 2, 3);
  uint64_t rows = 9;
  assert_ok(gear_sampler_begin_epoch(sampler, 0, &rows));
  assert_int_equal(rows, 0);
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, 0, &batch), GEAR_EEPOCH);
  conform_close(&table);
}

/* After a change neither this epoch goes on, nor is it over; another may begin. */
static void assert_changed(ConformTable* table, gear_sampler* sampler, uint64_t rows_now) {
  gear_batch* batch = NULL;
  for (int i = 0; i < 2; ++i) {
    assert_status(gear_sample(sampler, 1, CONFORM_PATIENCE_NS, &batch), GEAR_ESTATE);
    assert_explained("changed", "begin_epoch");
  }
  uint64_t rows = 0;
  static int64_t steps[kStepsMax];
  assert_ok(gear_sampler_begin_epoch(sampler, 5, &rows));
  assert_int_equal(rows, rows_now);
  assert_int_equal(draw_epoch(sampler, 16, steps), rows_now);
  assert_ok(gear_sampler_begin_epoch(sampler, 6, NULL));
  conform_close(table);
}

GEAR_TEST(StepAppendedDuringAnEpochIsToldAndNotMixedIn) {
  ConformTable table = load_steps(20);
  gear_sampler* sampler = open_epochs(table.table, GEAR_ANCHOR_AUTO, 0, 1);
  conform_sample(sampler, 3);
  conform_append(table.writer, 0, 20, 1);
  conform_flush(table.writer);
  assert_changed(&table, sampler, 21);
}

GEAR_TEST(ItemDeletedDuringAnEpochIsTold) {
  ConformTable table = load_steps(20);
  gear_sampler* sampler = open_epochs(table.table, GEAR_ANCHOR_AUTO, 0, 1);
  gear_batch* batch = conform_sample(sampler, 3);
  const uint64_t key = gear_batch_keys(batch)[0];
  assert_ok(gear_delete_items(table.table, &key, 1, CONFORM_PATIENCE_NS, NULL));
  assert_changed(&table, sampler, 19);
}

GEAR_TEST(TableResetAndLoadedAgainDuringAnEpochIsTold) {
  ConformTable table = load_steps(20);
  gear_sampler* sampler = open_epochs(table.table, GEAR_ANCHOR_AUTO, 0, 1);
  conform_sample(sampler, 3);
  assert_ok(gear_table_reset(table.table));
  conform_append(table.writer, 0, 0, 20);
  conform_flush(table.writer);
  assert_changed(&table, sampler, 20);
}

GEAR_TEST(PriorityChangedDuringAnEpochDoesNotMatter) {
  ConformTable table = load_steps(20);
  gear_sampler* sampler = open_epochs(table.table, GEAR_ANCHOR_AUTO, 0, 1);
  gear_batch* batch = conform_sample(sampler, 3);
  const double priority = 0;
  assert_ok(gear_update_priorities(table.table, gear_batch_keys(batch), &priority, 1,
                                   CONFORM_PATIENCE_NS, NULL));
  static int64_t steps[kStepsMax];
  assert_int_equal(draw_epoch(sampler, 16, steps), 17);
  conform_close(&table);
}

/* SEMANTICS 45 */
GEAR_TEST(EpochOfATableThatIsNotLoadedDoesNotBegin) {
  gear_table_options options = conform_options(100);
  assert_ok(gear_rate_limiter_min_size(5, &options.limiter));
  ConformTable table = conform_open(&options, 1);
  gear_sampler* sampler = open_epochs(table.table, GEAR_ANCHOR_AUTO, 0, 1);
  conform_append(table.writer, 0, 0, 4);
  conform_flush(table.writer);
  uint64_t rows = 0;
  assert_status(gear_sampler_begin_epoch(sampler, 0, &rows), GEAR_ESTATE);
  assert_explained("4 items", "begin at 5");
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, 0, &batch), GEAR_ETIMEDOUT);
  assert_explained("4 items", "begin at 5");
  conform_append(table.writer, 0, 4, 1);
  conform_flush(table.writer);
  conform_sample(sampler, 5);
  assert_ok(gear_table_close(table.table));
  assert_status(gear_sample(sampler, 1, 0, &batch), GEAR_ECLOSED);
  assert_status(gear_sampler_begin_epoch(sampler, 0, &rows), GEAR_ECLOSED);
  conform_close(&table);
}

static void assert_refused(gear_table* table, const gear_sampler_options* options, int status,
                           const char* fragment) {
  gear_sampler* sampler = NULL;
  assert_status(gear_sampler_open(table, options, &sampler), status);
  assert_explained(fragment);
  assert_null(sampler);
}

GEAR_TEST(OptionsThatDoNotGoWithAnEpochAreRefused) {
  ConformTable table = load_steps(5);
  gear_sampler_options options = epoch_options(GEAR_ANCHOR_AUTO, 2, 2);
  assert_refused(table.table, &options, GEAR_EINVAL, "rank 2 of world 2");
  options = epoch_options(GEAR_ANCHOR_AUTO, 1, 0);
  assert_refused(table.table, &options, GEAR_EINVAL, "rank 1 of world 1");
  options = epoch_options(GEAR_ANCHOR_AUTO, 1, 2);
  options.seed = 0;
  assert_refused(table.table, &options, GEAR_EINVAL, "seed 0");
  options = epoch_options(GEAR_ANCHOR_AUTO, 0, 1);
  options.order = 2;
  assert_refused(table.table, &options, GEAR_EINVAL, "order 2");
  options.order = GEAR_ORDER_SELECTOR;
  options.world = 2;
  assert_refused(table.table, &options, GEAR_EINVAL, "without order epoch");
  options.world = 0;
  options.anchor = GEAR_ANCHOR_EVERY_STEP;
  assert_refused(table.table, &options, GEAR_EUNSUPPORTED, "every_step");
  options.anchor = GEAR_ANCHOR_EVERY_STEP + 1;
  assert_refused(table.table, &options, GEAR_EINVAL, "anchor 5");

  options = epoch_options(GEAR_ANCHOR_AUTO, 0, 1);
  options.group = "g";
  assert_refused(table.table, &options, GEAR_EUNSUPPORTED, "a group");
  options = epoch_options(GEAR_ANCHOR_AUTO, 0, 1);
  options.unique = 1;
  assert_refused(table.table, &options, GEAR_EUNSUPPORTED, "unique");
  options = epoch_options(GEAR_ANCHOR_AUTO, 0, 1);
  options.mode = GEAR_SAMPLE_LEASED;
  assert_refused(table.table, &options, GEAR_EUNSUPPORTED, "leased");
  options = epoch_options(GEAR_ANCHOR_AUTO, 0, 1);
  options.selector = "s";
  assert_refused(table.table, &options, GEAR_EUNSUPPORTED, "a selector");
  options = epoch_options(GEAR_ANCHOR_AUTO, 0, 1);
  options.version_policy = GEAR_VERSION_SKIP;
  assert_refused(table.table, &options, GEAR_EUNSUPPORTED, "version_policy");
  options = epoch_options(GEAR_ANCHOR_AUTO, 0, 1);
  options.background = 2;
  options.background_rows = 2;
  assert_refused(table.table, &options, GEAR_EUNSUPPORTED, "background");
  conform_close(&table);
}

GEAR_TEST(EpochOfATableThatCountsDrawsIsRefused) {
  gear_table_options options = conform_options(10);
  options.max_times_sampled = 3;
  ConformTable table = conform_open(&options, 1);
  const gear_sampler_options epochs = epoch_options(GEAR_ANCHOR_AUTO, 0, 1);
  assert_refused(table.table, &epochs, GEAR_EUNSUPPORTED, "counts draws");
  conform_close(&table);
}

GEAR_TEST(SamplerOfAnotherOrderHasNoEpochs) {
  ConformTable table = load_steps(5);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_DIRECT, 1);
  assert_status(gear_sampler_begin_epoch(sampler, 0, NULL), GEAR_ESTATE);
  assert_explained("GEAR_ORDER_EPOCH");
  sampler = conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1);
  assert_status(gear_sampler_begin_epoch(sampler, 0, NULL), GEAR_ESTATE);
  conform_close(&table);
}
