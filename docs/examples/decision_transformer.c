/* A Decision Transformer learner: whole episodes loaded once, contexts of 20 steps of return-to-go, observation and action.
 * Chen et al., Decision Transformer: Reinforcement Learning via Sequence Modeling, 2021.
 * The data set is a toy of the shape of D4RL's ant, so that the learner can check every number it draws. */
#include <gear.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kObservation = 111, kAction = 8, kContext = 20, kStepsMax = 1000, kEpisodes = 160, kRows = 64, kUpdates = 50 };
static const int64_t kWaitNs = 10000000000;

static void check(int status) {
  if (status == GEAR_OK) return;
  fprintf(stderr, "decision_transformer: %s: %s\n", gear_status_string(status), gear_last_error());
  exit(1);
}

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "decision_transformer: what came back is wrong: %s\n", what);
  exit(1);
}

/* The toy: three of four episodes run to the time limit, the fourth ends early, one even within a context. A step is worth 1. */
static int length_of(int episode) { return episode % 4 != 3 ? kStepsMax : 7 + episode * 13 % 900; }
static float observed(int episode, int step, int i) { return (float)(episode * kStepsMax + step) + (float)i / 128; }
static float acted(int episode, int step, int i) { return (float)((episode + step) % 50) - (float)i; }
static float to_go(int episode, int step) { return (float)(length_of(episode) - step); }

/* An episode of a data set is there as arrays; it is appended in one call. */
static void load(gear_writer* writer, int episode) {
  static const int64_t observation_shape[1] = {kObservation}, action_shape[1] = {kAction};
  static float observation[kStepsMax * kObservation], action[kStepsMax * kAction], returns[kStepsMax];
  int length = length_of(episode);
  for (int t = 0; t < length; ++t) {
    for (int i = 0; i < kObservation; ++i) observation[t * kObservation + i] = observed(episode, t, i);
    for (int i = 0; i < kAction; ++i) action[t * kAction + i] = acted(episode, t, i);
    returns[t] = to_go(episode, t);
  }
  const gear_cell number = {.column = 3, .dtype = GEAR_I32, .data = &episode};
  const gear_cell cells[3] = {
      {.column = 0, .dtype = GEAR_F32, .rank = 1, .data = observation, .shape = observation_shape},
      {.column = 1, .dtype = GEAR_F32, .rank = 1, .data = action, .shape = action_shape},
      {.column = 2, .dtype = GEAR_F32, .data = returns}};
  size_t accepted;
  check(gear_writer_episode_cells(writer, 0, &number, 1, kWaitNs));
  check(gear_writer_append_many(writer, 0, cells, 3, (size_t)length, kWaitNs, &accepted));
  gear_end end = length == kStepsMax ? GEAR_TRUNCATED : GEAR_TERMINATED;
  check(gear_writer_end_episode(writer, 0, end, NULL, 0, kWaitNs));
}

/* Any step may begin a context. What the episode lacks at its end is padded on the left, so that the newest step is last. */
static gear_sampler* open_sampler(gear_table* table) {
  gear_window windows[5] = {
      {sizeof *windows, .column = "observation", .length = kContext, .pad = GEAR_PAD_LEFT},
      {sizeof *windows, .column = "action", .length = kContext, .pad = GEAR_PAD_LEFT},
      {sizeof *windows, .column = "return_to_go", .length = kContext, .pad = GEAR_PAD_LEFT},
      {sizeof *windows, .name = "t", .length = kContext, .pad = GEAR_PAD_LEFT, .compute = GEAR_COMPUTE_STEP},
      {sizeof *windows, .column = "episode"}};
  gear_sampler_options options = {sizeof options, .windows = windows, .window_count = 5, .seed = 1};
  options.anchor = GEAR_ANCHOR_RANDOM_STEP;
  gear_sampler* sampler;
  check(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* Checks one row. Returns 1 where a context is padded though its episode is longer than one. */
static int learn(const gear_tensor tensors[5], uint32_t row, uint32_t anchor) {
  int episode = ((int32_t*)tensors[4].data)[row], start = (int)anchor, length = length_of(episode);
  int steps = length - start < kContext ? length - start : kContext, padding = kContext - steps;
  expect(start < length && (int)tensors[0].lengths[row] == steps, "length of the context");
  for (int place = 0; place < kContext; ++place) {
    size_t at = (size_t)row * kContext + (size_t)place;
    int t = start + place - padding, real = place >= padding;
    for (int window = 0; window < 4; ++window) expect(tensors[window].mask[at] == real, "mask");
    expect((int)((uint32_t*)tensors[3].data)[at] == (real ? t : 0), "time step");
    expect(((float*)tensors[2].data)[at] == (real ? to_go(episode, t) : 0), "return-to-go");
    for (int i = 0; i < kAction; ++i)
      expect(((float*)tensors[1].data)[at * kAction + (size_t)i] == (real ? acted(episode, t, i) : 0), "action");
    for (int i = 0; i < kObservation; ++i)
      expect(((float*)tensors[0].data)[at * kObservation + (size_t)i] == (real ? observed(episode, t, i) : 0), "observation");
  }
  return padding > 0 && length >= kContext;
}

/* One epoch: every step of every episode once, in a random order that follows from the seed. */
static void run_epoch(gear_table* table, uint64_t steps_stored) {
  gear_window windows[2] = {{sizeof *windows, .name = "t", .length = 1, .compute = GEAR_COMPUTE_STEP},
                            {sizeof *windows, .column = "episode"}};
  gear_sampler_options options = {sizeof options, .windows = windows, .window_count = 2, .seed = 7};
  options.order = GEAR_ORDER_EPOCH, options.anchor = GEAR_ANCHOR_EVERY_STEP;
  gear_sampler* sampler;
  gear_batch* batch;
  uint64_t rows, seen = 0;
  uint8_t* visited = calloc(kEpisodes, kStepsMax);
  check(gear_sampler_open(table, &options, &sampler));
  check(gear_sampler_begin_epoch(sampler, 0, &rows));
  int status;
  while ((status = gear_sample(sampler, 256, kWaitNs, &batch)) == GEAR_OK) {
    gear_tensor step, episode;
    check(gear_batch_tensor(batch, 0, &step));
    check(gear_batch_tensor(batch, 1, &episode));
    for (uint32_t row = 0; row < gear_batch_rows(batch); ++row, ++seen) {
      int e = ((int32_t*)episode.data)[row], t = (int)((uint32_t*)step.data)[row];
      expect(e >= 0 && e < kEpisodes && t < length_of(e), "step of the epoch");
      expect(visited[e * kStepsMax + t]++ == 0, "a step came twice in an epoch");
    }
    check(gear_batch_release(batch));
  }
  if (status != GEAR_EEPOCH) check(status);
  expect(rows == steps_stored && seen == steps_stored, "steps of the epoch");
  free(visited);
}

static void report_memory(gear_table* table, double step_bytes) {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  check(gear_table_describe(table, &info));
  double payload = (double)info.capacity_steps * step_bytes;
  double data = (double)info.data_bytes, directory = (double)info.directory_bytes;
  printf("decision_transformer: data %.3f x payload of %.0f MiB, with the directory %.3f x; "
         "directory %.0f B an item of up to %d steps\n", data / payload, payload / 1048576,
         (data + directory) / payload, directory / (double)info.capacity_items, kStepsMax);
  expect(data + directory <= 1.15 * payload, "memory overhead");
}

int main(void) {
  gear_column_options columns[4] = {
      {sizeof *columns, .dtype = GEAR_F32, .name = "observation", .rank = 1, .shape = {kObservation}},
      {sizeof *columns, .dtype = GEAR_F32, .name = "action", .rank = 1, .shape = {kAction}},
      {sizeof *columns, .dtype = GEAR_F32, .name = "return_to_go"},
      {sizeof *columns, .dtype = GEAR_I32, .name = "episode", .flags = GEAR_COLUMN_PER_EPISODE}};
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "ant", options.columns = columns, options.column_count = 4;
  options.item_policy = GEAR_ITEMS_EPISODE, options.episode_steps_max = kStepsMax, options.capacity_items = kEpisodes;
  options.lanes_max = 1; /* one loader */
  options.window_before_max = GEAR_REACH_NONE, options.window_after_max = GEAR_REACH_NONE; /* within the episode */
  gear_client* client;
  gear_table* table;
  gear_writer* writer;
  uint64_t steps = 0;
  check(gear_connect("embedded:", NULL, &client));
  check(gear_table_create(client, &options, &table));
  check(gear_writer_open(table, NULL, &writer));
  for (int episode = 0; episode < kEpisodes; ++episode) load(writer, episode), steps += (uint64_t)length_of(episode);
  check(gear_writer_flush(writer, kWaitNs, NULL));
  check(gear_writer_close(writer));

  gear_sampler* sampler = open_sampler(table);
  int padded = 0, whole = 0;
  for (int update = 0; update < kUpdates; ++update) {
    gear_batch* batch;
    gear_tensor tensors[5];
    check(gear_sample(sampler, kRows, kWaitNs, &batch));
    for (uint32_t i = 0; i < 5; ++i) check(gear_batch_tensor(batch, i, &tensors[i]));
    for (uint32_t row = 0; row < kRows; ++row)
      learn(tensors, row, gear_batch_anchors(batch)[row]) ? ++padded : ++whole;
    check(gear_batch_release(batch));
  }
  expect(padded > 0 && whole > padded, "contexts are padded at the end of an episode only");
  run_epoch(table, steps);
  report_memory(table, (kObservation + kAction + 1) * sizeof(float));
  return gear_close(client) == GEAR_OK ? 0 : 1;
}
