/* What a batch shows of the steps around the drawn one. */
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

/* Four episodes of one lane: steps 1..4, 10..14, 20..22 and 30..31. No step is 0, so padding shows.
 */
static ConformTable open_episodes(void) {
  gear_table_options options = conform_options(100);
  options.block_steps = 4;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 1, 4);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_append(table.writer, 0, 10, 5);
  conform_end(table.writer, 0, GEAR_TRUNCATED);
  conform_append(table.writer, 0, 20, 3);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_append(table.writer, 0, 30, 2);
  conform_end(table.writer, 0, GEAR_TRUNCATED);
  conform_flush(table.writer);
  return table;
}

typedef struct Expected {
  int64_t drawn;
  int32_t offset;
  uint32_t pad;
  uint32_t fill;
  int64_t values[4];
  uint8_t mask[4];
} Expected;

static void assert_window_in_mode(gear_table* table, uint32_t mode, const Expected* expected) {
  gear_window windows[2] = {conform_window("step", "drawn", 0, 1),
                            conform_window("step", "window", expected->offset, 4)};
  windows[1].pad = expected->pad;
  windows[1].fill = expected->fill;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.windows = windows;
  options.window_count = 2;
  options.seed = 1;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(sampler, expected->drawn, &row);
  const gear_tensor window = conform_tensor(batch, "window");
  uint32_t exist = 0;
  for (uint32_t place = 0; place < 4; ++place) {
    assert_int_equal(conform_mask(&window, row, place), expected->mask[place]);
    assert_int_equal(conform_i64(&window, row, place), expected->values[place]);
    exist += expected->mask[place];
  }
  assert_int_equal(window.lengths[row], exist);
  assert_ok(gear_sampler_close(sampler));
}

static void assert_window(Expected expected) {
  ConformTable table = open_episodes();
  assert_window_in_mode(table.table, GEAR_SAMPLE_DIRECT, &expected);
  assert_window_in_mode(table.table, GEAR_SAMPLE_LEASED, &expected);
  conform_close(&table);
}

GEAR_TEST(WindowInsideAnEpisodeShowsItsStepsInOrder) {
  assert_window((Expected){12, -2, GEAR_PAD_NONE, GEAR_FILL_ZERO, {10, 11, 12, 13}, {1, 1, 1, 1}});
}

GEAR_TEST(FrameStackAtAnEpisodesStartIsPaddedInFront) {
  assert_window((Expected){10, -3, GEAR_PAD_NONE, GEAR_FILL_ZERO, {0, 0, 0, 10}, {0, 0, 0, 1}});
}

GEAR_TEST(FrameStackAtAnEpisodesStartRepeatsTheFirstFrameUnderEdgeFill) {
  assert_window((Expected){11, -3, GEAR_PAD_NONE, GEAR_FILL_EDGE, {10, 10, 10, 11}, {0, 0, 1, 1}});
}

GEAR_TEST(WindowPastAnEpisodesEndKeepsPlacesUnderPadNone) {
  assert_window((Expected){13, 0, GEAR_PAD_NONE, GEAR_FILL_ZERO, {13, 14, 0, 0}, {1, 1, 0, 0}});
}

GEAR_TEST(WindowPastAnEpisodesEndRepeatsTheLastStepUnderEdgeFill) {
  assert_window((Expected){13, 0, GEAR_PAD_NONE, GEAR_FILL_EDGE, {13, 14, 14, 14}, {1, 1, 0, 0}});
}

GEAR_TEST(PadLeftMovesStepsToTheWindowsEnd) {
  assert_window((Expected){13, 0, GEAR_PAD_LEFT, GEAR_FILL_ZERO, {0, 0, 13, 14}, {0, 0, 1, 1}});
}

GEAR_TEST(PadLeftRepeatsTheFirstStepThatExistsUnderEdgeFill) {
  assert_window((Expected){13, 0, GEAR_PAD_LEFT, GEAR_FILL_EDGE, {13, 13, 13, 14}, {0, 0, 1, 1}});
}

GEAR_TEST(PadRightMovesStepsToTheWindowsBegin) {
  assert_window((Expected){11, -3, GEAR_PAD_RIGHT, GEAR_FILL_ZERO, {10, 11, 0, 0}, {1, 1, 0, 0}});
}

GEAR_TEST(PadRightRepeatsTheLastStepThatExistsUnderEdgeFill) {
  assert_window((Expected){11, -3, GEAR_PAD_RIGHT, GEAR_FILL_EDGE, {10, 11, 11, 11}, {1, 1, 0, 0}});
}

GEAR_TEST(WindowLargerThanItsEpisodeIsPaddedOnBothSides) {
  assert_window((Expected){30, -1, GEAR_PAD_NONE, GEAR_FILL_ZERO, {0, 30, 31, 0}, {0, 1, 1, 0}});
}

GEAR_TEST(WindowLargerThanItsEpisodeRepeatsBothEdgesUnderEdgeFill) {
  assert_window((Expected){31, -2, GEAR_PAD_NONE, GEAR_FILL_EDGE, {30, 30, 31, 31}, {0, 1, 1, 0}});
}

GEAR_TEST(WindowWhollyPastAnEpisodesEndIsAllPadding) {
  assert_window((Expected){12, 5, GEAR_PAD_NONE, GEAR_FILL_ZERO, {0, 0, 0, 0}, {0, 0, 0, 0}});
}

GEAR_TEST(WindowWhollyBeforeAnEpisodesStartIsAllPadding) {
  assert_window((Expected){11, -9, GEAR_PAD_LEFT, GEAR_FILL_ZERO, {0, 0, 0, 0}, {0, 0, 0, 0}});
}

GEAR_TEST(OneColumnMayHaveSeveralWindowsUnderNamesOfTheirOwn) {
  ConformTable table = open_episodes();
  const gear_window windows[3] = {conform_window("step", "drawn", 0, 1),
                                  conform_window("step", "before", -1, 1),
                                  conform_window("step", "after", 1, 1)};
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(conform_window_sampler(table.table, windows, 3), 12, &row);
  assert_int_equal(gear_batch_tensor_count(batch), 3);
  const gear_tensor before = conform_tensor(batch, "before");
  const gear_tensor after = conform_tensor(batch, "after");
  assert_int_equal(conform_i64(&before, row, 0), 11);
  assert_int_equal(conform_i64(&after, row, 0), 13);
  conform_close(&table);
}

GEAR_TEST(WindowIsNamedAfterItsColumnUnlessItHasAName) {
  ConformTable table = open_episodes();
  const gear_window windows[2] = {conform_window("step", NULL, 0, 1),
                                  conform_window("lane", "who", 0, 1)};
  gear_batch* batch = conform_sample(conform_window_sampler(table.table, windows, 2), 1);
  gear_tensor tensor;
  assert_ok(gear_batch_tensor(batch, 0, &tensor));
  assert_string_equal(tensor.name, "step");
  assert_ok(gear_batch_tensor(batch, 1, &tensor));
  assert_string_equal(tensor.name, "who");
  conform_close(&table);
}

static void assert_shape(const gear_tensor* tensor, uint32_t rank, const int64_t* shape,
                         int64_t element_bytes) {
  assert_int_equal(tensor->rank, rank);
  int64_t stride = element_bytes;
  for (uint32_t axis = rank; axis-- > 0;) {
    assert_int_equal(tensor->shape[axis], shape[axis]);
    assert_int_equal(tensor->strides[axis], stride);
    stride *= shape[axis];
  }
  assert_int_equal(tensor->size_bytes, stride);
}

GEAR_TEST(SamplerWithoutWindowsShowsTheDrawnStepOfEveryColumn) {
  ConformTable table = open_episodes();
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 6);
  assert_int_equal(gear_batch_tensor_count(batch), kColumns);
  const int64_t scalar[1] = {6};
  const int64_t vector[2] = {6, kPayloadBytes};
  gear_tensor tensor;
  assert_ok(gear_batch_tensor(batch, kStep, &tensor));
  assert_string_equal(tensor.name, "step");
  assert_shape(&tensor, 1, scalar, 8);
  assert_ok(gear_batch_tensor(batch, kPayload, &tensor));
  assert_string_equal(tensor.name, "payload");
  assert_shape(&tensor, 2, vector, 1);
  conform_close(&table);
}

GEAR_TEST(TensorOfALongerWindowHasALengthAxis) {
  ConformTable table = open_episodes();
  gear_window windows[kColumns];
  conform_windows(windows, -1, 3);
  gear_batch* batch = conform_sample(conform_window_sampler(table.table, windows, kColumns), 6);
  const gear_tensor payload = conform_tensor(batch, "payload");
  const int64_t shape[3] = {6, 3, kPayloadBytes};
  assert_shape(&payload, 3, shape, 1);
  assert_int_equal(payload.length, 3);
  assert_int_equal(payload.dtype, GEAR_U8);
  conform_close(&table);
}

GEAR_TEST(TensorDataIsAlignedTo64BytesInHostMemory) {
  ConformTable table = open_episodes();
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 7);
  for (uint32_t index = 0; index < kColumns; ++index) {
    gear_tensor tensor;
    assert_ok(gear_batch_tensor(batch, index, &tensor));
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    assert_int_equal(tensor.device, 0);
  }
  conform_close(&table);
}

static int open_window(gear_table* table, int32_t offset, uint32_t length) {
  const gear_window window = conform_window("step", NULL, offset, length);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.windows = &window;
  options.window_count = 1;
  gear_sampler* sampler = NULL;
  return gear_sampler_open(table, &options, &sampler);
}

GEAR_TEST(WindowMayReachAsFarAsTheTableKeepsAndNoFurther) {
  gear_table_options options = conform_options(100);
  options.window_before_max = 3;
  options.window_after_max = 2;
  ConformTable table = conform_open(&options, 1);
  assert_ok(open_window(table.table, -3, 6));
  assert_status(open_window(table.table, -4, 1), GEAR_EWINDOW);
  assert_explained("step", "-4", "3");
  assert_status(open_window(table.table, 0, 4), GEAR_EWINDOW);
  assert_status(open_window(table.table, 3, 1), GEAR_EWINDOW);
  conform_close(&table);
}

GEAR_TEST(WindowMayReachSixteenStepsEitherWayByDefault) {
  ConformTable table = conform_open_simple(100);
  assert_ok(open_window(table.table, -16, 33));
  assert_status(open_window(table.table, -17, 1), GEAR_EWINDOW);
  assert_status(open_window(table.table, 17, 1), GEAR_EWINDOW);
  conform_close(&table);
}

GEAR_TEST(WindowStaysWithinTheItemWhereTheTableKeepsNoReach) {
  gear_table_options options = conform_options(100);
  options.window_before_max = GEAR_REACH_NONE;
  options.window_after_max = GEAR_REACH_NONE;
  ConformTable table = conform_open(&options, 1);
  const gear_table_info info = conform_info(table.table);
  assert_int_equal(info.window_before_max, 0);
  assert_int_equal(info.window_after_max, 0);
  assert_status(open_window(table.table, -1, 1), GEAR_EWINDOW);
  assert_explained("step", "-1", "window_before_max >= 1");
  assert_status(open_window(table.table, 0, 2), GEAR_EWINDOW);
  assert_explained("step", "length 2", "window_after_max >= 1");
  conform_append(table.writer, 0, 7, 300);
  conform_flush(table.writer);
  const gear_window window = conform_window("step", NULL, 0, 1);
  gear_batch* batch = conform_sample(conform_window_sampler(table.table, &window, 1), 32);
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 32; ++row) {
    assert_int_equal(step.mask[row], 1);
    assert_in_range(conform_i64(&step, row, 0), 207, 306);
  }
  conform_close(&table);
}

GEAR_TEST(WindowMayReachOneWayOnly) {
  gear_table_options options = conform_options(100);
  options.window_before_max = GEAR_REACH_NONE;
  ConformTable table = conform_open(&options, 1);
  assert_ok(open_window(table.table, 0, 17));
  assert_status(open_window(table.table, -1, 1), GEAR_EWINDOW);
  conform_close(&table);
}

GEAR_TEST(WindowOfLengthZeroShowsTheItemsOwnSteps) {
  gear_table_options options = conform_item_options(GEAR_ITEMS_SEQUENCE);
  options.item_length = 4;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 1, 6);
  conform_flush(table.writer);
  const gear_window window = conform_window("step", NULL, 0, 0);
  gear_batch* batch = conform_sample(conform_window_sampler(table.table, &window, 1), 1);
  const gear_tensor step = conform_tensor(batch, "step");
  assert_int_equal(step.length, 4);
  for (uint32_t place = 0; place < 4; ++place) {
    assert_int_equal(conform_i64(&step, 0, place), 1 + place);
  }
  conform_close(&table);
}

GEAR_TEST(WindowOfLengthZeroIsAsLongAsTheLongestEpisodeDeclared) {
  gear_table_options options = conform_item_options(GEAR_ITEMS_EPISODE);
  options.episode_steps_max = 8;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 1, 3);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_append(table.writer, 0, 4, 8);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 2);
  conform_verify_batch(batch);
  const gear_tensor step = conform_tensor(batch, "step");
  assert_int_equal(step.length, 8);
  assert_int_equal(step.lengths[0], 3);
  assert_int_equal(step.lengths[1], 8);
  const uint8_t mask[8] = {1, 1, 1, 0, 0, 0, 0, 0};
  assert_memory_equal(step.mask, mask, 8);
  assert_int_equal(conform_i64(&step, 0, 2), 3);
  assert_int_equal(conform_i64(&step, 1, 7), 11);
  conform_close(&table);
}
