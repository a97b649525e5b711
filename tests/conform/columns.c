/* Columns of which an episode has one cell. */
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kGoal = 3, kName = 4, kEpisodeColumns = 5 };

/* The standard columns and two per episode: "goal" f32 [2] and "name" i64 []. */
static ConformTable open_per_episode(void) {
  static const int64_t goal_shape[1] = {2};
  gear_column_options columns[kEpisodeColumns];
  gear_table_options options = conform_options(100);
  memcpy(columns, options.columns, kColumns * sizeof columns[0]);
  columns[kGoal] = conform_column("goal", GEAR_F32, 1, goal_shape);
  columns[kGoal].flags = GEAR_COLUMN_PER_EPISODE;
  columns[kName] = conform_column("name", GEAR_I64, 0, NULL);
  columns[kName].flags = GEAR_COLUMN_PER_EPISODE;
  options.columns = columns;
  options.column_count = kEpisodeColumns;
  return conform_open(&options, 1);
}

static int give(gear_writer* writer, int64_t name) {
  static const int64_t goal_shape[1] = {2};
  const float goal[2] = {(float)name, (float)-name};
  const gear_cell cells[2] = {conform_cell(kName, GEAR_I64, 0, NULL, &name),
                              conform_cell(kGoal, GEAR_F32, 1, goal_shape, goal)};
  return gear_writer_episode_cells(writer, 0, cells, 2, CONFORM_PATIENCE_NS);
}

/* The name that an item of `step` shows; 0 where its mask says there is none. */
static int64_t name_of(gear_table* table, int64_t step) {
  const gear_window windows[3] = {conform_window("step", "drawn", 0, 1),
                                  conform_window("name", NULL, 0, 1),
                                  conform_window("goal", NULL, 0, 1)};
  gear_sampler* sampler = conform_window_sampler(table, windows, 3);
  uint32_t row = 0;
  gear_batch* batch = conform_draw_step(sampler, step, &row);
  const gear_tensor name = conform_tensor(batch, "name");
  const gear_tensor goal = conform_tensor(batch, "goal");
  const int64_t shown = conform_i64(&name, row, 0);
  float shown_goal[2];
  memcpy(shown_goal, (const uint8_t*)goal.data + row * goal.strides[0], sizeof shown_goal);
  assert_true(shown_goal[0] == (float)shown && shown_goal[1] == (float)-shown);
  assert_int_equal(name.mask[row], shown != 0);
  assert_int_equal(goal.mask[row], shown != 0);
  assert_int_equal(name.lengths[row], shown != 0);
  assert_ok(gear_sampler_close(sampler));
  return shown;
}

GEAR_TEST(EveryStepOfAnEpisodeShowsItsPerEpisodeCells) {
  ConformTable table = open_per_episode();
  assert_ok(give(table.writer, 7));
  conform_append(table.writer, 0, 0, 3);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  for (int64_t step = 0; step < 3; ++step) assert_int_equal(name_of(table.table, step), 7);
  conform_close(&table);
}

GEAR_TEST(PerEpisodeCellsBelongToTheirOwnEpisode) {
  ConformTable table = open_per_episode();
  for (int64_t episode = 0; episode < 5; ++episode) {
    assert_ok(give(table.writer, 100 + episode));
    conform_append(table.writer, 0, 2 * episode, 2);
    conform_end(table.writer, 0, GEAR_TERMINATED);
  }
  conform_flush(table.writer);
  for (int64_t step = 0; step < 10; ++step) {
    assert_int_equal(name_of(table.table, step), 100 + step / 2);
  }
  conform_close(&table);
}

GEAR_TEST(PerEpisodeCellsShowFromWhenTheyAreGiven) {
  ConformTable table = open_per_episode();
  conform_append(table.writer, 0, 0, 2);
  conform_flush(table.writer);
  assert_int_equal(name_of(table.table, 0), 0);
  assert_ok(give(table.writer, 9));
  conform_flush(table.writer);
  assert_int_equal(name_of(table.table, 0), 9);
  conform_close(&table);
}

GEAR_TEST(EpisodeWithoutItsCellsShowsNoneOfTheEpisodeBefore) {
  ConformTable table = open_per_episode();
  assert_ok(give(table.writer, 7));
  conform_append(table.writer, 0, 0, 2);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_append(table.writer, 0, 2, 2);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  assert_int_equal(name_of(table.table, 2), 0);
  conform_close(&table);
}

GEAR_TEST(PerEpisodeCellsAreGivenOnceAnEpisode) {
  ConformTable table = open_per_episode();
  assert_ok(give(table.writer, 7));
  assert_status(give(table.writer, 8), GEAR_ESTATE);
  conform_append(table.writer, 0, 0, 2);
  assert_status(give(table.writer, 8), GEAR_ESTATE);
  conform_flush(table.writer);
  assert_int_equal(name_of(table.table, 1), 7);
  conform_close(&table);
}

/* SEMANTICS 37 */
GEAR_TEST(PerEpisodeCellsAreCheckedAgainstTheTable) {
  ConformTable table = open_per_episode();
  const int64_t name = 7;
  const gear_cell wrong[2] = {conform_cell(kName, GEAR_I64, 0, NULL, &name),
                              conform_cell(kGoal, GEAR_I64, 0, NULL, &name)};
  assert_status(gear_writer_episode_cells(table.writer, 0, wrong, 1, 0), GEAR_ECOUNT);
  assert_status(gear_writer_episode_cells(table.writer, 0, wrong, 2, 0), GEAR_EDTYPE);
  assert_ok(give(table.writer, 8));
  conform_append(table.writer, 0, 0, 1);
  conform_flush(table.writer);
  assert_int_equal(name_of(table.table, 0), 8);
  conform_close(&table);
}

GEAR_TEST(AppendOfAPerEpisodeCellIsRefused) {
  ConformTable table = open_per_episode();
  const ConformStep content = conform_step(0, 0);
  gear_cell cells[kColumns + 1];
  conform_cells(&content, cells);
  cells[kColumns] = conform_cell(kName, GEAR_I64, 0, NULL, &content.step);
  assert_status(gear_writer_append(table.writer, 0, cells, kColumns + 1, 0), GEAR_ECOUNT);
  assert_ok(gear_writer_append(table.writer, 0, cells, kColumns, CONFORM_PATIENCE_NS));
  conform_close(&table);
}

GEAR_TEST(WindowOfAPerEpisodeColumnHasLengthOne) {
  ConformTable table = open_per_episode();
  const gear_window window = conform_window("name", NULL, 0, 2);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.windows = &window;
  options.window_count = 1;
  gear_sampler* sampler = NULL;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EWINDOW);
  assert_explained("name", "2");
  conform_close(&table);
}

GEAR_TEST(TableNeedsOneColumnPerStep) {
  gear_client* client = NULL;
  assert_ok(gear_connect("embedded:", NULL, &client));
  gear_column_options column = conform_column("name", GEAR_I64, 0, NULL);
  column.flags = GEAR_COLUMN_PER_EPISODE;
  gear_table_options options = conform_options(10);
  options.columns = &column;
  options.column_count = 1;
  gear_table* table = NULL;
  assert_status(gear_table_create(client, &options, &table), GEAR_EINVAL);
  assert_null(table);
  assert_ok(gear_close(client));
}

GEAR_TEST(ReserveGivesNoPlaceForPerEpisodeColumns) {
  ConformTable table = open_per_episode();
  void* places[kEpisodeColumns];
  assert_ok(gear_writer_reserve(table.writer, 0, CONFORM_PATIENCE_NS, places, kEpisodeColumns));
  for (int column = 0; column < kColumns; ++column) assert_non_null(places[column]);
  assert_null(places[kGoal]);
  assert_null(places[kName]);
  conform_close(&table);
}
