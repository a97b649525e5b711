/* Which step of an item is the drawn one. */
#include "conform/conform.h"
#include "support/conform_table.h"

/* A table of policy episode with one episode of so many steps, content 0 and on. */
static ConformTable open_episode(int64_t steps) {
  gear_table_options options = conform_options(10);
  options.item_policy = GEAR_ITEMS_EPISODE;
  options.episode_steps_max = 16;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, steps);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  return table;
}

/* Draws 25,600 rows with a window of 4 steps and counts their anchors; what the window shows begins
 * there. */
static void count_anchors(gear_table* table, uint32_t mode, uint32_t anchor, uint64_t counts[16]) {
  gear_window windows[kColumns];
  conform_windows(windows, 0, 4);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.anchor = anchor;
  options.windows = windows;
  options.window_count = kColumns;
  options.seed = 17;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  for (int i = 0; i < 100; ++i) {
    gear_batch* batch = conform_sample(sampler, 256);
    conform_verify_batch(batch);
    const gear_tensor step = conform_tensor(batch, "step");
    for (uint32_t row = 0; row < 256; ++row) {
      const uint32_t at = gear_batch_anchors(batch)[row];
      assert_in_range(at, 0, 15);
      assert_int_equal(conform_i64(&step, row, 0), at);
      ++counts[at];
    }
    assert_ok(gear_batch_release(batch));
  }
  assert_ok(gear_sampler_close(sampler));
}

static void assert_anchors(int64_t steps, uint32_t mode, uint32_t anchor, size_t places) {
  ConformTable table = open_episode(steps);
  uint64_t counts[16] = {0};
  count_anchors(table.table, mode, anchor, counts);
  double probabilities[16] = {0};
  for (size_t place = 0; place < places; ++place) probabilities[place] = 1.0 / (double)places;
  for (size_t place = places; place < 16; ++place) assert_int_equal(counts[place], 0);
  if (places > 1) conform_assert_distribution(counts, probabilities, places);
  conform_close(&table);
}

/* SEMANTICS 33 */
GEAR_TEST(WindowsStartUniformlyWhereTheyFitTheEpisodeByDefault) {
  assert_anchors(10, GEAR_SAMPLE_DIRECT, GEAR_ANCHOR_AUTO, 7);
}

/* SEMANTICS 33 */
GEAR_TEST(LeasedWindowsStartUniformlyWhereTheyFitTheEpisode) {
  assert_anchors(10, GEAR_SAMPLE_LEASED, GEAR_ANCHOR_RANDOM_START, 7);
}

/* SEMANTICS 33 */
GEAR_TEST(WindowStartsAtTheFirstStepOfAnEpisodeShorterThanItself) {
  assert_anchors(3, GEAR_SAMPLE_AUTO, GEAR_ANCHOR_AUTO, 1);
}

/* SEMANTICS 33 */
GEAR_TEST(WindowStartsAtTheFirstStepOfAnEpisodeAsLongAsItself) {
  assert_anchors(4, GEAR_SAMPLE_AUTO, GEAR_ANCHOR_RANDOM_START, 1);
}

/* SEMANTICS 33 */
GEAR_TEST(RandomStepAnchorsAreUniformOverAllStepsOfTheEpisode) {
  assert_anchors(10, GEAR_SAMPLE_DIRECT, GEAR_ANCHOR_RANDOM_STEP, 10);
}

/* SEMANTICS 33 */
GEAR_TEST(LeasedRandomStepAnchorsAreUniformOverAllStepsOfTheEpisode) {
  assert_anchors(10, GEAR_SAMPLE_LEASED, GEAR_ANCHOR_RANDOM_STEP, 10);
}

/* SEMANTICS 33 */
GEAR_TEST(FirstAnchorIsAlwaysTheFirstStep) {
  assert_anchors(10, GEAR_SAMPLE_AUTO, GEAR_ANCHOR_FIRST, 1);
}

GEAR_TEST(SequenceItemsAreAnchoredAtTheirFirstStepByDefault) {
  gear_table_options options = conform_options(10);
  options.item_policy = GEAR_ITEMS_SEQUENCE;
  options.item_length = 8;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 8);
  conform_flush(table.writer);
  uint64_t counts[16] = {0};
  count_anchors(table.table, GEAR_SAMPLE_AUTO, GEAR_ANCHOR_AUTO, counts);
  assert_int_equal(counts[0], 25600);
  conform_close(&table);
}
