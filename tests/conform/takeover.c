/* Lanes that have names, and writers that take them over from others. */
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static gear_writer_options names_of(const uint64_t* names, uint32_t lanes, uint32_t take_over) {
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  options.lanes = lanes;
  options.lane_names = names;
  options.take_over = take_over;
  return options;
}

static gear_writer* open_named(gear_table* table, const uint64_t* names, uint32_t lanes,
                               uint32_t take_over) {
  const gear_writer_options options = names_of(names, lanes, take_over);
  gear_writer* writer = NULL;
  assert_ok(gear_writer_open(table, &options, &writer));
  return writer;
}

static void assert_open_refused(gear_table* table, const uint64_t* names, uint32_t lanes,
                                uint32_t take_over, int status, const char* fragment) {
  const gear_writer_options options = names_of(names, lanes, take_over);
  const uint64_t open = conform_stats(table).lanes_open;
  gear_writer* writer = NULL;
  assert_status(gear_writer_open(table, &options, &writer), status);
  assert_explained(fragment);
  assert_int_equal(conform_stats(table).lanes_open, open);
}

/* A table of which this test opens every writer itself; lanes_max lanes, small blocks. */
static ConformTable open_table(uint32_t lanes_max) {
  gear_table_options options = conform_options(1000);
  assert_ok(gear_table_options_queue(1000, &options));
  options.lanes_max = lanes_max;
  options.block_steps = 4;
  ConformTable table = conform_open(&options, 1);
  assert_ok(gear_writer_close(table.writer));
  wait_until(conform_stats(table.table).lanes_open == 0);
  return table;
}

static const uint64_t kNames[3] = {11, UINT64_MAX, 0};

/* SEMANTICS 39 */
GEAR_TEST(NameThatIsOpenElsewhereIsRefusedWithoutTakeOver) {
  ConformTable table = open_table(8);
  gear_writer* first = open_named(table.table, kNames, 3, 0);
  const uint64_t names[2] = {5, 0};
  assert_open_refused(table.table, names, 2, 0, GEAR_ELIMIT, "named 0");
  conform_append(first, 2, 0, 3);
  conform_flush(first);
  assert_int_equal(conform_stats(table.table).steps, 3);
  /* The other name was not taken by the call that failed. */
  open_named(table.table, names, 1, 0);
  conform_close(&table);
}

/* SEMANTICS 39 */
GEAR_TEST(NameGivenTwiceIsRefused) {
  ConformTable table = open_table(8);
  const uint64_t names[3] = {7, 8, 7};
  assert_open_refused(table.table, names, 3, 0, GEAR_EDUPLICATE, "7");
  assert_open_refused(table.table, names, 3, 1, GEAR_EDUPLICATE, "7");
  conform_close(&table);
}

GEAR_TEST(TakeOverWithoutNamesIsRefused) {
  ConformTable table = open_table(8);
  assert_open_refused(table.table, NULL, 1, 1, GEAR_EINVAL, "lane_names");
  assert_open_refused(table.table, kNames, 3, 2, GEAR_EINVAL, "take_over 2");
  conform_close(&table);
}

GEAR_TEST(MoreNamedLanesThanTheTableHasAreRefused) {
  ConformTable table = open_table(2);
  gear_writer* first = open_named(table.table, kNames, 2, 0);
  assert_open_refused(table.table, kNames, 3, 1, GEAR_ELIMIT, "lanes_max 2");
  conform_append(first, 0, 0, 1);
  conform_flush(first);
  conform_close(&table);
}

/* SEMANTICS 39 */
GEAR_TEST(NameOfAClosedWriterIsFreeAtOnce) {
  ConformTable table = open_table(8);
  gear_writer* first = open_named(table.table, kNames, 3, 0);
  conform_append(first, 0, 0, 5);
  assert_ok(gear_writer_close(first));
  gear_writer* second = open_named(table.table, kNames, 3, 0);
  conform_append(second, 0, 5, 5);
  conform_flush(second);
  wait_until(conform_stats(table.table).steps == 10);
  assert_int_equal(conform_stats(table.table).episodes, 1);
  conform_close(&table);
}

/* SEMANTICS 39 */
GEAR_TEST(NameOfAClosedWriterIsFreeWhileItsLastStepsWaitForTheLimiter) {
  gear_table_options options = conform_options(100);
  assert_ok(gear_table_options_queue(2, &options));
  options.lanes_max = 2;
  ConformTable table = conform_open(&options, 1);
  gear_writer* first = open_named(table.table, kNames, 1, 0);
  for (int64_t step = 0; step < 4; ++step) {
    assert_ok(conform_try_append(first, 0, step, CONFORM_BLOCKED_NS));
  }
  assert_ok(gear_writer_close(first));
  /* Both lanes of the table are open until the first writer's last steps are in. */
  assert_open_refused(table.table, kNames, 1, 0, GEAR_ELIMIT, "lanes_max 2");
  assert_ok(gear_writer_close(table.writer));
  wait_until(conform_stats(table.table).lanes_open == 1);
  open_named(table.table, kNames, 1, 0);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  for (int i = 0; i < 4; ++i) assert_ok(gear_batch_release(conform_sample(sampler, 1)));
  assert_int_equal(conform_stats(table.table).steps, 4);
  conform_close(&table);
}

/* SEMANTICS 39 */
GEAR_TEST(TakenOverLaneEndsItsEpisodeAndBeginsAnother) {
  ConformTable table = open_table(3);
  gear_writer* first = open_named(table.table, kNames, 3, 0);
  conform_append(first, 0, 0, 5);
  conform_append(first, 1, 0, 2);
  conform_flush(first);
  const uint64_t name = kNames[0];
  gear_writer* second = open_named(table.table, &name, 1, 1);
  assert_int_equal(conform_stats(table.table).episodes, 1);
  assert_int_equal(conform_stats(table.table).lanes_open, 3);
  assert_int_equal(conform_stats(table.table).items, 7);
  conform_append(second, 0, 5, 6);
  conform_flush(second);

  const gear_window windows[3] = {conform_window("step", NULL, 0, 1),
                                  conform_window("step", "next", 1, 1),
                                  conform_window("lane", NULL, 0, 1)};
  gear_sampler* sampler = conform_window_sampler(table.table, windows, 3);
  for (int i = 0; i < 13; ++i) {
    gear_batch* batch = conform_sample(sampler, 1);
    const gear_tensor step = conform_tensor(batch, "step");
    const gear_tensor next = conform_tensor(batch, "next");
    const gear_tensor lane = conform_tensor(batch, "lane");
    const int64_t number = conform_i64(&step, 0, 0);
    const bool last = *(const int32_t*)lane.data == 1 ? number == 1 : number == 4 || number == 10;
    assert_int_equal(next.mask[0], !last);
    if (!last) assert_int_equal(conform_i64(&next, 0, 0), number + 1);
    assert_ok(gear_batch_release(batch));
  }
  conform_close(&table);
}

/* SEMANTICS 39 */
GEAR_TEST(FormerWriterIsToldAndItsOtherLanesGoOn) {
  ConformTable table = open_table(8);
  gear_writer* first = open_named(table.table, kNames, 3, 0);
  conform_append(first, 0, 0, 5);
  conform_append(first, 1, 0, 5);
  conform_flush(first);
  const uint64_t name = kNames[1];
  open_named(table.table, &name, 1, 1);
  const uint64_t steps = conform_stats(table.table).steps;

  void* places[kColumns];
  assert_status(conform_try_append(first, 1, 5, CONFORM_PATIENCE_NS), GEAR_ESTALE);
  assert_explained("lane 1", "took the lane over");
  assert_status(gear_writer_reserve(first, 1, CONFORM_PATIENCE_NS, places, kColumns), GEAR_ESTALE);
  assert_status(gear_writer_advance(first, 1, CONFORM_PATIENCE_NS), GEAR_ESTALE);
  assert_status(gear_writer_end_episode(first, 1, GEAR_TRUNCATED, NULL, 0, CONFORM_PATIENCE_NS),
                GEAR_ESTALE);
  assert_status(gear_writer_set_priority(first, 1, NULL, CONFORM_PATIENCE_NS), GEAR_ESTALE);
  conform_flush(first);
  assert_int_equal(conform_stats(table.table).steps, steps);

  conform_append(first, 0, 5, 20);
  conform_append(first, 2, 0, 20);
  conform_flush(first);
  assert_int_equal(conform_stats(table.table).steps, steps + 40);
  conform_close(&table);
}

/* SEMANTICS 39 */
GEAR_TEST(VectorStepSkipsALaneThatWasTakenOverOrIsRefused) {
  ConformTable table = open_table(8);
  gear_writer* first = open_named(table.table, kNames, 3, 0);
  const uint64_t name = kNames[1];
  open_named(table.table, &name, 1, 1);
  const int64_t steps[3] = {0, 0, 0};
  const int32_t lanes[3] = {0, 1, 2};
  static const uint8_t payload[3][kPayloadBytes];
  static const int64_t shape[1] = {kPayloadBytes};
  const gear_cell cells[kColumns] = {conform_cell(kStep, GEAR_I64, 0, NULL, steps),
                                     conform_cell(kLane, GEAR_I32, 0, NULL, lanes),
                                     conform_cell(kPayload, GEAR_U8, 1, shape, payload)};
  gear_vector_step call = GEAR_VECTOR_STEP_INIT;
  call.cells = cells;
  call.cell_count = kColumns;
  uint32_t accepted = 99;
  assert_status(gear_writer_append_vector(first, &call, CONFORM_PATIENCE_NS, &accepted), GEAR_ESTALE);
  assert_int_equal(accepted, 0);
  assert_explained("lane 1");
  conform_flush(first);
  assert_int_equal(conform_stats(table.table).steps, 0);
  const uint8_t skip[3] = {0, 1, 0};
  call.skip = skip;
  assert_ok(gear_writer_append_vector(first, &call, CONFORM_PATIENCE_NS, NULL));
  conform_flush(first);
  assert_int_equal(conform_stats(table.table).steps, 2);
  conform_close(&table);
}

/* SEMANTICS 39 */
GEAR_TEST(StepsAcceptedAndNotAdmittedBeforeTheTakeOverAreRefusedAndFlushTells) {
  gear_table_options options = conform_options(100);
  assert_ok(gear_table_options_queue(2, &options));
  ConformTable table = conform_open(&options, 1);
  gear_writer* first = open_named(table.table, kNames, 2, 0);
  for (int64_t step = 0; step < 6; ++step) {
    assert_ok(conform_try_append(first, 0, step, CONFORM_BLOCKED_NS));
  }
  uint64_t waiting = 0;
  assert_status(gear_writer_flush(first, CONFORM_BLOCKED_NS, &waiting), GEAR_ETIMEDOUT);
  assert_int_equal(waiting, 4);
  const uint64_t name = kNames[0];
  open_named(table.table, &name, 1, 1);
  assert_status(gear_writer_flush(first, CONFORM_PATIENCE_NS, &waiting), GEAR_ESTALE);
  assert_int_equal(waiting, 4);
  assert_explained("4 steps", "took lanes");
  assert_int_equal(conform_stats(table.table).steps, 2);
  /* Told once; what follows is of the other lane. */
  assert_ok(gear_batch_release(conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 1)));
  conform_append(first, 1, 0, 1);
  assert_ok(gear_writer_flush(first, CONFORM_PATIENCE_NS, &waiting));
  assert_int_equal(waiting, 0);
  conform_close(&table);
}

/* SEMANTICS 39: the former writer may be storing into its blocks now. */
GEAR_TEST(BlocksOfTheFormerWriterAreReusedOnlyAfterItClosed) {
  ConformTable table = open_table(2);
  /* Nothing else holds a block: what was drawn is gone. */
  gear_writer* first = open_named(table.table, kNames, 1, 0);
  conform_append(first, 0, 0, 1);
  conform_flush(first);
  assert_ok(gear_batch_release(conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 1)));
  void* places[kColumns];
  assert_ok(gear_writer_reserve(first, 0, CONFORM_PATIENCE_NS, places, kColumns));

  const uint64_t name = kNames[0];
  gear_writer* second = open_named(table.table, &name, 1, 1);
  gear_window windows[kColumns];
  conform_windows(windows, 0, 1);
  gear_sampler* sampler = conform_window_sampler(table.table, windows, kColumns);
  /* Several times round all blocks of the table, while the former writer goes on scribbling. */
  const int64_t rounds = 8 * (int64_t)conform_info(table.table).block_count;
  for (int64_t step = 0; step < rounds; ++step) {
    conform_append(second, 0, step, 1);
    conform_flush(second);
    memset(places[kPayload], 0xee, kPayloadBytes);
    gear_batch* batch = conform_sample(sampler, 1);
    conform_verify_batch(batch);
    assert_ok(gear_batch_release(batch));
  }
  /* Both have let go: all blocks come back. */
  assert_ok(gear_writer_close(first));
  assert_ok(gear_writer_close(second));
  wait_until(conform_stats(table.table).blocks_free == conform_info(table.table).block_count);
  conform_close(&table);
}

/* SEMANTICS 39 */
GEAR_TEST(LanesChangeHandsManyTimes) {
  ConformTable table = open_table(2);
  gear_writer* writers[20];
  const uint64_t names[2] = {1, 2};
  for (int i = 0; i < 20; ++i) {
    writers[i] = open_named(table.table, names, 2, 1);
    conform_append(writers[i], 0, 2 * i, 2);
    conform_append(writers[i], 1, 2 * i, 2);
    conform_flush(writers[i]);
    if (i > 0) assert_status(conform_try_append(writers[i - 1], 0, 0, 0), GEAR_ESTALE);
  }
  const gear_table_stats stats = conform_stats(table.table);
  assert_int_equal(stats.steps, 80);
  assert_int_equal(stats.episodes, 38);
  assert_int_equal(stats.lanes_open, 2);
  for (int i = 0; i < 20; ++i) assert_ok(gear_writer_close(writers[i]));
  wait_until(conform_stats(table.table).lanes_open == 0);
  assert_int_equal(conform_stats(table.table).episodes, 40);
  conform_close(&table);
}

/* SEMANTICS 39: with columns per episode, whose cells the former writer may be storing too. */
GEAR_TEST(EpisodeCellsOfTheFormerWriterDoNotReachTheNewcomersEpisode) {
  gear_column_options columns[2] = {conform_column("step", GEAR_I64, 0, NULL),
                                    conform_column("prompt", GEAR_I64, 0, NULL)};
  columns[1].flags = GEAR_COLUMN_PER_EPISODE;
  gear_table_options options = conform_options(100);
  options.columns = columns;
  options.column_count = 2;
  ConformTable table = conform_open(&options, 1);
  gear_writer* first = open_named(table.table, kNames, 1, 0);
  int64_t value = 1;
  gear_cell step = conform_cell(0, GEAR_I64, 0, NULL, &value);
  gear_cell prompt = conform_cell(1, GEAR_I64, 0, NULL, &value);
  assert_ok(gear_writer_append(first, 0, &step, 1, CONFORM_PATIENCE_NS));
  conform_flush(first);
  gear_writer* second = open_named(table.table, kNames, 1, 1);
  assert_status(gear_writer_episode_cells(first, 0, &prompt, 1, CONFORM_PATIENCE_NS), GEAR_ESTALE);
  value = 2;
  assert_ok(gear_writer_append(second, 0, &step, 1, CONFORM_PATIENCE_NS));
  assert_ok(gear_writer_episode_cells(second, 0, &prompt, 1, CONFORM_PATIENCE_NS));
  conform_flush(second);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 32);
  const gear_tensor steps = conform_tensor(batch, "step");
  const gear_tensor prompts = conform_tensor(batch, "prompt");
  for (uint32_t row = 0; row < 32; ++row) {
    const int64_t of = conform_i64(&steps, row, 0);
    assert_int_equal(prompts.mask[row], of == 2);
    if (of == 2) assert_int_equal(conform_i64(&prompts, row, 0), 2);
  }
  assert_ok(gear_writer_close(first));
  conform_close(&table);
}
