/* An R2D2 learner: prioritized sequences of 80 steps, one every 40, of which the first 40 only warm up the recurrent state.
 * Kapturowski et al., Recurrent Experience Replay in Distributed Reinforcement Learning, 2019.
 * The environment is a toy, so that the learner can check every byte it draws. */
#include <gear.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSequence = 80, kPeriod = 40, kBurnIn = 40, kTrained = kSequence - kBurnIn };
enum { kPixels = 84 * 84, kState = 2 * 512, kActors = 4, kRows = 16, kUpdates = 40 };
enum { kLong = 360, kShort = 50, kCapacity = 192, kSteps = kCapacity * kLong / 8 }; /* 8 sequences a long episode */
static const int64_t kWaitNs = 10000000000;

static void check(int status) {
  if (status == GEAR_OK) return;
  fprintf(stderr, "r2d2: %s: %s\n", gear_status_string(status), gear_last_error());
  exit(1);
}

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "r2d2: what came back is wrong: %s\n", what);
  exit(1);
}

/* The toy: most episodes are long, every 16th is shorter than a sequence; all content follows from episode and step. */
static int length_of(int episode) { return episode % 16 == 15 ? kShort : kLong; }
static float reward_of(int episode, int step) { return (float)(episode % 8) + (float)step / 1024; }
static void draw_frame(int episode, int step, uint8_t* frame) {
  memset(frame, (episode * 31 + step * 7) & 0xff, kPixels);
  memcpy(frame, &episode, sizeof episode);
}
static void recur(int episode, int step, float* state) { /* h and c of the actor's LSTM before this step */
  for (int i = 0; i < kState; ++i) state[i] = (float)(episode * 512 + step) + (float)i / 1024;
}

static void play(gear_writer* writer, uint32_t lane, int episode) {
  static const int64_t frame_shape[2] = {84, 84}, state_shape[2] = {2, 512};
  static uint8_t frame[kPixels];
  static float state[kState];
  int32_t action;
  float reward;
  gear_cell cells[4] = {{.column = 0, .dtype = GEAR_U8, .rank = 2, .data = frame, .shape = frame_shape},
                        {.column = 1, .dtype = GEAR_I32, .data = &action},
                        {.column = 2, .dtype = GEAR_F32, .data = &reward},
                        {.column = 3, .dtype = GEAR_F32, .rank = 2, .data = state, .shape = state_shape}};
  for (int step = 0; step < length_of(episode); ++step) {
    draw_frame(episode, step, frame);
    recur(episode, step, state);
    action = step % 18, reward = reward_of(episode, step);
    check(gear_writer_append(writer, lane, cells, 4, kWaitNs));
  }
  check(gear_writer_end_episode(writer, lane, GEAR_TERMINATED, NULL, 0, kWaitNs));
}

static gear_sampler* open_sampler(gear_table* table) {
  gear_window windows[5] = {
      {sizeof *windows, .column = "frame", .length = kSequence, .burn_in = kBurnIn},
      {sizeof *windows, .column = "action", .length = kSequence, .burn_in = kBurnIn},
      {sizeof *windows, .column = "reward", .length = kSequence, .burn_in = kBurnIn},
      {sizeof *windows, .column = "state", .length = 1}, /* stored state, where the sequence begins */
      {sizeof *windows, .name = "t", .length = 1, .compute = GEAR_COMPUTE_STEP}};
  gear_sampler_options options = {sizeof options, .windows = windows, .window_count = 5, .seed = 1};
  options.batch_rows_max = kRows, options.batches_max = 2, options.beta = 0.6;
  gear_sampler* sampler;
  check(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* Checks one row and gives the TD errors of its trained steps; a real learner computes these with its networks. Returns
 * how many there are. */
static uint32_t learn(const gear_tensor tensors[5], int row, float* errors) {
  static float expected[kState];
  static uint8_t shown[kPixels];
  const uint8_t* frames = (uint8_t*)tensors[0].data + (size_t)row * kSequence * kPixels;
  int episode, t = (int)((uint32_t*)tensors[4].data)[row];
  memcpy(&episode, frames, sizeof episode);
  int steps = length_of(episode) - t < kSequence ? length_of(episode) - t : kSequence;
  expect(t % kPeriod == 0 && (steps == kSequence || t == 0), "begin of the sequence");
  expect((int)tensors[0].lengths[row] == steps, "length of the sequence");
  recur(episode, t, expected);
  expect(memcmp((float*)tensors[3].data + (size_t)row * kState, expected, sizeof expected) == 0, "recurrent state");
  for (int i = 0; i < kSequence; ++i) {
    size_t at = (size_t)row * kSequence + (size_t)i;
    expect(tensors[0].mask[at] == (i < steps), "mask");
    expect(tensors[0].loss_mask[at] == (i >= kBurnIn && i < steps), "loss mask");
    if (i < steps) draw_frame(episode, t + i, shown);
    else memset(shown, 0, sizeof shown);
    expect(memcmp(frames + (size_t)i * kPixels, shown, kPixels) == 0, "frame");
    expect(((int32_t*)tensors[1].data)[at] == (i < steps ? (t + i) % 18 : 0), "action");
    expect(((float*)tensors[2].data)[at] == (i < steps ? reward_of(episode, t + i) : 0), "reward");
    if (i >= kBurnIn) errors[i - kBurnIn] = i < steps ? 2 + reward_of(episode, t + i) : 0;
  }
  return steps > kBurnIn ? (uint32_t)(steps - kBurnIn) : 0;
}

static void report_memory(gear_table* table, double step_bytes) {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  check(gear_table_describe(table, &info));
  double payload = (double)info.capacity_steps * step_bytes;
  double data = (double)info.data_bytes, directory = (double)info.directory_bytes;
  printf("r2d2: data %.3f x payload of %.0f MiB, with the directory %.3f x; directory %.0f B an item\n", data / payload,
         payload / 1048576, (data + directory) / payload, directory / (double)info.capacity_items);
  expect(data + directory <= 1.15 * payload, "memory overhead");
}

int main(void) {
  gear_column_options columns[4] = {
      {sizeof *columns, .dtype = GEAR_U8, .name = "frame", .rank = 2, .shape = {84, 84}},
      {sizeof *columns, .dtype = GEAR_I32, .name = "action"},
      {sizeof *columns, .dtype = GEAR_F32, .name = "reward"},
      {sizeof *columns, .dtype = GEAR_F32, .name = "state", .rank = 2, .shape = {2, 512}}};
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "r2d2", options.columns = columns, options.column_count = 4;
  options.item_policy = GEAR_ITEMS_SEQUENCE, options.item_length = kSequence, options.item_period = kPeriod;
  options.capacity_items = kCapacity, options.capacity_steps = kSteps;
  options.sampler = GEAR_SELECT_PRIORITIZED, options.priority_alpha = 0.9, options.lanes_max = kActors;
  options.window_before_max = GEAR_REACH_NONE, options.window_after_max = GEAR_REACH_NONE; /* within the sequence */
  gear_client* client;
  gear_table* table;
  gear_writer* writer;
  gear_writer_options actors = {sizeof actors, .lanes = kActors};
  check(gear_connect("embedded:", NULL, &client));
  check(gear_table_create(client, &options, &table));
  check(gear_writer_open(table, &actors, &writer));
  for (int episode = 0; episode < kSteps / kLong * 3 / 2; ++episode) play(writer, (uint32_t)episode % kActors, episode);
  check(gear_writer_flush(writer, kWaitNs, NULL));
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  check(gear_table_get_stats(table, &stats));
  expect(stats.items == kCapacity && stats.evictions > 0, "the table is not full");

  gear_sampler* sampler = open_sampler(table);
  int seen_again = 0, seen_short = 0;
  for (int update = 0; update < kUpdates; ++update) {
    gear_batch* batch;
    gear_tensor tensors[5];
    check(gear_sample(sampler, kRows, kWaitNs, &batch));
    for (uint32_t i = 0; i < 5; ++i) check(gear_batch_tensor(batch, i, &tensors[i]));
    float errors[kRows * kTrained];
    uint32_t trained[kRows];
    double priorities[kRows];
    for (int row = 0; row < kRows; ++row) trained[row] = learn(tensors, row, errors + row * kTrained);
    check(gear_sequence_priorities(errors, kRows, kTrained, trained, 0.9, priorities)); /* eta of the paper */
    for (int row = 0; row < kRows; ++row) {
      double largest = 0, sum = 0, before = gear_batch_priorities(batch)[row];
      const float* error = errors + row * kTrained;
      for (uint32_t i = 0; i < trained[row]; ++i) largest = fmax(largest, error[i]), sum += error[i];
      expect(fabs(priorities[row] - 0.9 * largest - 0.1 * sum / trained[row]) < 1e-5, "priority of a sequence");
      expect(before == 1 || before == priorities[row], "priority"); /* new, or as we last set it */
      seen_again += before == priorities[row], seen_short += trained[row] < kTrained;
    }
    gear_items_result result = GEAR_ITEMS_RESULT_INIT;
    check(gear_update_priorities(table, gear_batch_keys(batch), priorities, kRows, kWaitNs, &result));
    expect(result.updated > 0 && result.stale + result.unknown + result.rejected == 0, "priority update");
    check(gear_batch_release(batch));
  }
  expect(seen_again > 0 && seen_short > 0, "no updated priority, or no short episode was drawn");
  report_memory(table, kPixels + 8 + 4 * kState);
  return gear_close(client) == GEAR_OK ? 0 : 1;
}
