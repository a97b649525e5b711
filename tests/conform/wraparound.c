/* Tables that are overwritten ten times: nothing of the reuse of lanes, blocks or slots may show.
 */
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kStepsMax = 11000 };

/* What was appended so far, round robin over the lanes: begin[lane][step] is the first step of the
 * episode that the step belongs to. */
typedef struct Model {
  uint32_t lanes;
  uint32_t capacity;
  int64_t appended; /* a lane */
  int64_t begin[3][kStepsMax];
} Model;

static Model model;

static bool exists(int32_t lane, int64_t drawn, int64_t step) {
  return step >= 0 && step < model.appended && model.begin[lane][step] == model.begin[lane][drawn];
}

/* A drawn row is one of the newest `capacity` steps, and shows its neighbours exactly where its
 * episode has them. The window is -3 .. +1, so place 3 is the drawn step. */
static void verify_row(const gear_tensor* steps, int32_t lane, uint32_t row) {
  const int64_t drawn = conform_i64(steps, row, 3);
  const int64_t oldest = model.appended - (int64_t)(model.capacity / model.lanes);
  assert_true(drawn >= oldest && drawn < model.appended);
  for (uint32_t place = 0; place < 5; ++place) {
    const int64_t step = drawn - 3 + place;
    assert_int_equal(conform_mask(steps, row, place), exists(lane, drawn, step));
    if (exists(lane, drawn, step)) assert_int_equal(conform_i64(steps, row, place), step);
  }
}

static void verify_draws(gear_sampler* sampler) {
  gear_batch* batch = conform_sample(sampler, 64);
  conform_verify_batch(batch);
  const gear_tensor steps = conform_tensor(batch, "step");
  const gear_tensor lanes = conform_tensor(batch, "lane");
  for (uint32_t row = 0; row < 64; ++row) {
    int32_t lane = -1;
    memcpy(&lane, (const uint8_t*)lanes.data + row * lanes.strides[0] + 3 * lanes.strides[1],
           sizeof lane);
    assert_in_range(lane, 0, model.lanes - 1);
    verify_row(&steps, lane, row);
  }
  assert_ok(gear_batch_release(batch));
}

static gear_sampler* open_around(gear_table* table, uint32_t mode) {
  gear_window windows[kColumns];
  conform_windows(windows, -3, 5);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.windows = windows;
  options.window_count = kColumns;
  options.seed = 3;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

static void append_round(gear_writer* writer, int64_t begin[3], uint64_t* random) {
  for (uint32_t lane = 0; lane < model.lanes; ++lane) {
    conform_append(writer, lane, model.appended, 1);
    model.begin[lane][model.appended] = begin[lane];
    if (conform_random(random) % 12 != 0) continue;
    conform_end(writer, lane, GEAR_TRUNCATED);
    begin[lane] = model.appended + 1;
  }
  ++model.appended;
}

static void assert_wraps(uint32_t capacity, uint32_t block_steps, uint32_t lanes) {
  uint64_t random = conform_seed();
  gear_table_options options = conform_options(capacity);
  options.block_steps = block_steps;
  ConformTable table = conform_open(&options, lanes);
  gear_sampler* direct = open_around(table.table, GEAR_SAMPLE_DIRECT);
  gear_sampler* leased = open_around(table.table, GEAR_SAMPLE_LEASED);
  model.lanes = lanes;
  model.capacity = capacity;
  model.appended = 0;
  int64_t begin[3] = {0, 0, 0};
  const int64_t rounds = (int64_t)(11 * capacity / lanes);
  const int64_t look_every = rounds / 10 + 1;
  for (int64_t round = 0; round < rounds; ++round) {
    append_round(table.writer, begin, &random);
    if (round % look_every != 0 && round + 1 < rounds) continue;
    conform_flush(table.writer);
    verify_draws(direct);
    verify_draws(leased);
  }
  assert_int_equal(conform_stats(table.table).items, capacity);
  assert_int_equal(conform_stats(table.table).steps, (uint64_t)rounds * lanes);
  conform_close(&table);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfOneItemInBlocksOfOneStepWrapsUnseen) {
  assert_wraps(1, 1, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfOneItemInBlocksOfThreeStepsWrapsUnseen) {
  assert_wraps(1, 3, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfOneItemInDefaultBlocksWrapsUnseen) {
  assert_wraps(1, 0, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfSevenItemsInBlocksOfOneStepWrapsUnseen) {
  assert_wraps(7, 1, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfSevenItemsInBlocksOfThreeStepsWrapsUnseen) {
  assert_wraps(7, 3, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfSevenItemsInDefaultBlocksWrapsUnseen) {
  assert_wraps(7, 0, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfAHundredItemsInBlocksOfOneStepWrapsUnseen) {
  assert_wraps(100, 1, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfAHundredItemsInBlocksOfThreeStepsWrapsUnseen) {
  assert_wraps(100, 3, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfAHundredItemsInDefaultBlocksWrapsUnseen) {
  assert_wraps(100, 0, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfAThousandItemsInBlocksOfOneStepWrapsUnseen) {
  assert_wraps(1000, 1, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfAThousandItemsInBlocksOfThreeStepsWrapsUnseen) {
  assert_wraps(1000, 3, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfAThousandItemsInDefaultBlocksWrapsUnseen) {
  assert_wraps(1000, 0, 1);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfThreeLanesInBlocksOfThreeStepsWrapsUnseen) {
  assert_wraps(99, 3, 3);
}

/* SEMANTICS 34 */
GEAR_TEST(TableOfThreeLanesInDefaultBlocksWrapsUnseen) {
  assert_wraps(999, 0, 3);
}
