/* Windows that show what follows from the steps: their numbers, their ends, n-step returns; and
 * burn-in. */
#include <math.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kReward = 3, kWide = 4, kRewardColumns = 5 };

/* The standard columns, "reward" f32 [] and "wide" f32 [2]. */
static ConformTable open_rewards(void) {
  static const int64_t wide_shape[1] = {2};
  gear_column_options columns[kRewardColumns];
  gear_table_options options = conform_options(100);
  memcpy(columns, options.columns, kColumns * sizeof columns[0]);
  columns[kReward] = conform_column("reward", GEAR_F32, 0, NULL);
  columns[kWide] = conform_column("wide", GEAR_F32, 1, wide_shape);
  options.columns = columns;
  options.column_count = kRewardColumns;
  options.block_steps = 4;
  return conform_open(&options, 1);
}

static void append_reward(gear_writer* writer, int64_t step, float reward) {
  static const int64_t wide_shape[1] = {2};
  const ConformStep content = conform_step(0, step);
  const float wide[2] = {reward, reward};
  gear_cell cells[kRewardColumns];
  conform_cells(&content, cells);
  cells[kReward] = conform_cell(kReward, GEAR_F32, 0, NULL, &reward);
  cells[kWide] = conform_cell(kWide, GEAR_F32, 1, wide_shape, wide);
  assert_ok(gear_writer_append(writer, 0, cells, kRewardColumns, CONFORM_PATIENCE_NS));
}

/* Steps first .. first+count-1, the i-th of them with reward 2^i. */
static void append_powers(gear_writer* writer, int64_t first, int count) {
  for (int i = 0; i < count; ++i) append_reward(writer, first + i, (float)(1 << i));
}

/* Three episodes: steps 10..13 terminated, 20..23 truncated, 30..31 open. */
static ConformTable open_three_ends(void) {
  ConformTable table = open_rewards();
  append_powers(table.writer, 10, 4);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  append_powers(table.writer, 20, 4);
  conform_end(table.writer, 0, GEAR_TRUNCATED);
  append_powers(table.writer, 30, 2);
  conform_flush(table.writer);
  return table;
}

static gear_window computed(uint32_t compute, const char* name, int32_t offset, uint32_t length) {
  gear_window window = conform_window(NULL, name, offset, length);
  window.compute = compute;
  return window;
}

static gear_window n_step(uint32_t compute, const char* name, uint32_t steps, double discount) {
  gear_window window = computed(compute, name, 0, 1);
  if (compute == GEAR_COMPUTE_NSTEP_RETURN) window.column = "reward";
  window.steps = steps;
  window.discount = discount;
  return window;
}

static const void* cell_of(const gear_tensor* tensor, uint32_t row, uint32_t index) {
  const int64_t bytes = tensor->element_bytes;
  return (const uint8_t*)tensor->data + ((int64_t)row * tensor->length + index) * bytes;
}

static uint32_t u32_of(const gear_tensor* tensor, uint32_t row, uint32_t index) {
  assert_int_equal(tensor->dtype, GEAR_U32);
  uint32_t value;
  memcpy(&value, cell_of(tensor, row, index), sizeof value);
  return value;
}

static float f32_of(const gear_tensor* tensor, uint32_t row, uint32_t index) {
  assert_int_equal(tensor->dtype, GEAR_F32);
  float value;
  memcpy(&value, cell_of(tensor, row, index), sizeof value);
  return value;
}

static uint8_t bool_of(const gear_tensor* tensor, uint32_t row, uint32_t index) {
  assert_int_equal(tensor->dtype, GEAR_BOOL);
  return *(const uint8_t*)cell_of(tensor, row, index);
}

static gear_sampler* open_sampler(gear_table* table, uint32_t mode, const gear_window* windows,
                                  uint32_t count) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.windows = windows;
  options.window_count = count;
  options.seed = 1;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

typedef struct Ends {
  int64_t step;
  uint32_t number;
  uint8_t is_first, is_last, terminated, truncated;
} Ends;

static void assert_ends(gear_table* table, uint32_t mode, const Ends* expected) {
  const gear_window windows[6] = {conform_window("step", "drawn", 0, 1),
                                  computed(GEAR_COMPUTE_STEP, "number", 0, 1),
                                  computed(GEAR_COMPUTE_IS_FIRST, "is_first", 0, 1),
                                  computed(GEAR_COMPUTE_IS_LAST, "is_last", 0, 1),
                                  computed(GEAR_COMPUTE_TERMINATED, "terminated", 0, 1),
                                  computed(GEAR_COMPUTE_TRUNCATED, "truncated", 0, 1)};
  gear_sampler* sampler = open_sampler(table, mode, windows, 6);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(sampler, expected->step, &row);
  gear_tensor tensor = conform_tensor(batch, "number");
  assert_int_equal(u32_of(&tensor, row, 0), expected->number);
  assert_int_equal(tensor.mask[row], 1);
  assert_int_equal(tensor.rank, 1);
  tensor = conform_tensor(batch, "is_first");
  assert_int_equal(bool_of(&tensor, row, 0), expected->is_first);
  tensor = conform_tensor(batch, "is_last");
  assert_int_equal(bool_of(&tensor, row, 0), expected->is_last);
  tensor = conform_tensor(batch, "terminated");
  assert_int_equal(bool_of(&tensor, row, 0), expected->terminated);
  tensor = conform_tensor(batch, "truncated");
  assert_int_equal(bool_of(&tensor, row, 0), expected->truncated);
  assert_ok(gear_sampler_close(sampler));
}

/* SEMANTICS 31 */
GEAR_TEST(NumbersAndEndsOfStepsAreComputedFromTheirEpisode) {
  const Ends expected[6] = {{10, 0, 1, 0, 0, 0}, {12, 2, 0, 0, 0, 0}, {13, 3, 0, 1, 1, 0},
                            {20, 0, 1, 0, 0, 0}, {23, 3, 0, 1, 0, 1}, {31, 1, 0, 0, 0, 0}};
  ConformTable table = open_three_ends();
  for (int i = 0; i < 6; ++i) {
    assert_ends(table.table, GEAR_SAMPLE_DIRECT, &expected[i]);
    assert_ends(table.table, GEAR_SAMPLE_LEASED, &expected[i]);
  }
  conform_close(&table);
}

GEAR_TEST(StepOfAnOpenEpisodeBecomesItsLastWhenItEnds) {
  ConformTable table = open_three_ends();
  const Ends open = {31, 1, 0, 0, 0, 0};
  const Ends ended = {31, 1, 0, 1, 1, 0};
  assert_ends(table.table, GEAR_SAMPLE_DIRECT, &open);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  assert_ends(table.table, GEAR_SAMPLE_DIRECT, &ended);
  conform_close(&table);
}

/* SEMANTICS 39 */
GEAR_TEST(EpisodeOfAWriterThatClosesIsTruncatedAtItsLastStep) {
  ConformTable table = open_three_ends();
  assert_ok(gear_writer_close(table.writer));
  const Ends ended = {31, 1, 0, 1, 0, 1};
  assert_ends(table.table, GEAR_SAMPLE_DIRECT, &ended);
  conform_close(&table);
}

GEAR_TEST(ComputedWindowIsPaddedLikeAnyOther) {
  ConformTable table = open_three_ends();
  gear_window windows[3] = {conform_window("step", "drawn", 0, 1),
                            computed(GEAR_COMPUTE_STEP, "number", -2, 4),
                            computed(GEAR_COMPUTE_IS_FIRST, "first", -2, 4)};
  windows[1].fill = GEAR_FILL_EDGE;
  windows[2].pad = GEAR_PAD_LEFT;
  gear_sampler* sampler = conform_window_sampler(table.table, windows, 3);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(sampler, 11, &row);
  const gear_tensor number = conform_tensor(batch, "number");
  const uint32_t numbers[4] = {0, 0, 1, 2};
  const uint8_t mask[4] = {0, 1, 1, 1};
  const uint8_t firsts[4] = {0, 1, 0, 0};
  const gear_tensor first = conform_tensor(batch, "first");
  for (uint32_t place = 0; place < 4; ++place) {
    assert_int_equal(u32_of(&number, row, place), numbers[place]);
    assert_int_equal(conform_mask(&number, row, place), mask[place]);
    assert_int_equal(bool_of(&first, row, place), firsts[place]);
  }
  assert_int_equal(number.lengths[row], 3);
  conform_close(&table);
}

/* SEMANTICS 31: the final observation is shown, but is no step. */
GEAR_TEST(FinalObservationIsPaddingInComputedWindows) {
  ConformTable table = open_rewards();
  append_powers(table.writer, 10, 2);
  const int64_t beyond = 12;
  const gear_cell final_cell = conform_cell(kStep, GEAR_I64, 0, NULL, &beyond);
  assert_ok(gear_writer_end_episode(table.writer, 0, GEAR_TRUNCATED, &final_cell, 1,
                                    CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  const gear_window windows[3] = {conform_window("step", "drawn", 0, 1),
                                  conform_window("step", "next", 1, 1),
                                  computed(GEAR_COMPUTE_STEP, "number", 1, 1)};
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(conform_window_sampler(table.table, windows, 3), 11, &row);
  const gear_tensor next = conform_tensor(batch, "next");
  const gear_tensor number = conform_tensor(batch, "number");
  assert_int_equal(conform_i64(&next, row, 0), 12);
  assert_int_equal(number.mask[row], 0);
  assert_int_equal(u32_of(&number, row, 0), 0);
  conform_close(&table);
}

typedef struct Fold {
  int64_t step;
  float sum;
  uint32_t steps;
  float bootstrap;
} Fold;

static void assert_fold(gear_table* table, uint32_t mode, uint32_t n, const Fold* expected) {
  const gear_window windows[4] = {conform_window("step", "drawn", 0, 1),
                                  n_step(GEAR_COMPUTE_NSTEP_RETURN, NULL, n, .5),
                                  n_step(GEAR_COMPUTE_NSTEP_STEPS, "m", n, .5),
                                  n_step(GEAR_COMPUTE_NSTEP_BOOTSTRAP, "factor", n, .5)};
  gear_sampler* sampler = open_sampler(table, mode, windows, 4);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(sampler, expected->step, &row);
  const gear_tensor sum = conform_tensor(batch, "reward");
  const gear_tensor steps = conform_tensor(batch, "m");
  const gear_tensor factor = conform_tensor(batch, "factor");
  assert_true(f32_of(&sum, row, 0) == expected->sum);
  assert_int_equal(u32_of(&steps, row, 0), expected->steps);
  assert_true(f32_of(&factor, row, 0) == expected->bootstrap);
  assert_int_equal(sum.mask[row], 1);
  assert_ok(gear_sampler_close(sampler));
}

/* SEMANTICS 32. Rewards are 1, 2, 4, 8 and the discount .5, so every term is 2^t. */
GEAR_TEST(NStepReturnStopsAtTheEpisodesEndAndTellsItsFactor) {
  const Fold expected[9] = {{10, 3, 3, .125f}, {11, 6, 3, 0},  {12, 8, 2, 0},
                            {13, 8, 1, 0},     {20, 3, 3, .125f}, {21, 6, 3, .125f},
                            {22, 8, 2, .25f},  {23, 8, 1, .5f},   {30, 2, 2, .25f}};
  ConformTable table = open_three_ends();
  for (int i = 0; i < 9; ++i) {
    assert_fold(table.table, GEAR_SAMPLE_DIRECT, 3, &expected[i]);
    assert_fold(table.table, GEAR_SAMPLE_LEASED, 3, &expected[i]);
  }
  conform_close(&table);
}

/* SEMANTICS 32 */
GEAR_TEST(OneStepReturnIsTheReward) {
  const Fold expected[3] = {{11, 2, 1, .5f}, {13, 8, 1, 0}, {31, 2, 1, .5f}};
  ConformTable table = open_three_ends();
  for (int i = 0; i < 3; ++i) assert_fold(table.table, GEAR_SAMPLE_DIRECT, 1, &expected[i]);
  conform_close(&table);
}

/* SEMANTICS 32 */
GEAR_TEST(NStepWindowOfALengthFoldsFromEachOfItsSteps) {
  ConformTable table = open_three_ends();
  gear_window windows[2] = {conform_window("step", "drawn", 0, 1),
                            n_step(GEAR_COMPUTE_NSTEP_RETURN, "returns", 2, .5)};
  windows[1].offset = -1;
  windows[1].length = 5;
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(conform_window_sampler(table.table, windows, 2), 11, &row);
  const gear_tensor returns = conform_tensor(batch, "returns");
  const float wanted[5] = {2, 4, 8, 8, 0};
  for (uint32_t place = 0; place < 5; ++place) {
    assert_true(f32_of(&returns, row, place) == wanted[place]);
    assert_int_equal(conform_mask(&returns, row, place), place < 4);
  }
  conform_close(&table);
}

static int open_window(gear_table* table, gear_window window) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.windows = &window;
  options.window_count = 1;
  gear_sampler* sampler = NULL;
  return gear_sampler_open(table, &options, &sampler);
}

GEAR_TEST(NStepWindowMayReachAsFarAsTheTableKeepsAndNoFurther) {
  ConformTable table = open_rewards();
  gear_window window = n_step(GEAR_COMPUTE_NSTEP_RETURN, "returns", 16, .5);
  assert_ok(open_window(table.table, window));
  window.steps = 17;
  assert_status(open_window(table.table, window), GEAR_EWINDOW);
  assert_explained("returns", "steps 17", "keeps 16", "window_after_max >= 17");
  window.steps = UINT32_MAX;
  assert_status(open_window(table.table, window), GEAR_EWINDOW);
  conform_close(&table);
}

GEAR_TEST(NStepReturnWantsRewardsOfOneFloatEach) {
  ConformTable table = open_rewards();
  gear_window window = n_step(GEAR_COMPUTE_NSTEP_RETURN, "returns", 2, .5);
  window.column = "step";
  assert_status(open_window(table.table, window), GEAR_EDTYPE);
  assert_explained("step", "f32");
  window.column = "wide";
  assert_status(open_window(table.table, window), GEAR_ESHAPE);
  assert_explained("wide", "rank 1");
  window.column = NULL;
  assert_status(open_window(table.table, window), GEAR_EINVAL);
  assert_explained("returns", "column is NULL");
  window.column = "nothing";
  assert_status(open_window(table.table, window), GEAR_ENOCOLUMN);
  conform_close(&table);
}

GEAR_TEST(NStepWindowWantsItsStepsAndADiscountUpToOne) {
  const double discounts[3] = {-.1, 1.5, NAN};
  ConformTable table = open_rewards();
  assert_status(open_window(table.table, n_step(GEAR_COMPUTE_NSTEP_STEPS, "m", 0, .5)),
                GEAR_EINVAL);
  assert_explained("m", "steps 0");
  for (int i = 0; i < 3; ++i) {
    assert_status(
        open_window(table.table, n_step(GEAR_COMPUTE_NSTEP_STEPS, "m", 2, discounts[i])),
        GEAR_EINVAL);
    assert_explained("m", "discount", "0 to 1");
  }
  assert_ok(open_window(table.table, n_step(GEAR_COMPUTE_NSTEP_STEPS, "m", 2, 0)));
  conform_close(&table);
}

GEAR_TEST(ComputedWindowWithWhatItHasNoUseForIsRefused) {
  ConformTable table = open_rewards();
  gear_window window = computed(GEAR_COMPUTE_IS_LAST, "last", 0, 1);
  window.column = "step";
  assert_status(open_window(table.table, window), GEAR_EINVAL);
  assert_explained("last", "leave column NULL");
  window.column = NULL;
  window.name = NULL;
  assert_status(open_window(table.table, window), GEAR_EINVAL);
  assert_explained("give a name");
  window.name = "last";
  window.steps = 3;
  assert_status(open_window(table.table, window), GEAR_EINVAL);
  assert_explained("steps 3", "n-step");
  window.steps = 0;
  window.compute = 99;
  assert_status(open_window(table.table, window), GEAR_EINVAL);
  assert_explained("compute 99");
  conform_close(&table);
}

GEAR_TEST(BurnInStepsAreInTheMaskAndNotInTheLossMask) {
  ConformTable table = open_three_ends();
  gear_window windows[2] = {conform_window("step", "drawn", 0, 1),
                            conform_window("step", "sequence", -2, 6)};
  windows[1].burn_in = 3;
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(conform_window_sampler(table.table, windows, 2), 11, &row);
  const gear_tensor sequence = conform_tensor(batch, "sequence");
  const uint8_t mask[6] = {0, 1, 1, 1, 1, 0};
  const uint8_t loss[6] = {0, 0, 0, 1, 1, 0};
  assert_int_equal(sequence.burn_in, 3);
  assert_memory_equal(sequence.mask + (size_t)row * 6, mask, 6);
  assert_memory_equal(sequence.loss_mask + (size_t)row * 6, loss, 6);
  const gear_tensor drawn = conform_tensor(batch, "drawn");
  assert_int_equal(drawn.burn_in, 0);
  assert_null(drawn.loss_mask);
  conform_close(&table);
}

GEAR_TEST(BurnInMayTakeTheWholeWindowAndNoMore) {
  ConformTable table = open_three_ends();
  gear_window window = conform_window("step", NULL, 0, 2);
  window.burn_in = 2;
  assert_ok(open_window(table.table, window));
  window.burn_in = 3;
  assert_status(open_window(table.table, window), GEAR_EWINDOW);
  assert_explained("step", "burn_in 3", "2 steps");
  conform_close(&table);
}

/* SEMANTICS 33: a computed window counts for K like any other. */
GEAR_TEST(RandomStartLeavesRoomForTheLongestWindowComputedOnesAmongThem) {
  gear_table_options options = conform_options(10);
  options.item_policy = GEAR_ITEMS_EPISODE;
  options.episode_steps_max = 6;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 6);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  const gear_window window = computed(GEAR_COMPUTE_STEP, "number", 0, 4);
  gear_batch* batch = conform_sample(conform_window_sampler(table.table, &window, 1), 200);
  const gear_tensor number = conform_tensor(batch, "number");
  uint32_t seen[3] = {0, 0, 0};
  for (uint32_t row = 0; row < 200; ++row) {
    const uint32_t anchor = gear_batch_anchors(batch)[row];
    assert_true(anchor <= 2);
    ++seen[anchor];
    assert_int_equal(number.lengths[row], 4);
    assert_int_equal(u32_of(&number, row, 3), anchor + 3);
  }
  assert_true(seen[0] > 0 && seen[1] > 0 && seen[2] > 0);
  conform_close(&table);
}
