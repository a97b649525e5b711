/* A DQN learner: prioritized replay of single frames, stacked by windows, with 3-step returns.
 * Van Hasselt et al., Deep Reinforcement Learning with Double Q-learning, 2016; Schaul et al., Prioritized Experience
 * Replay, 2016. The environment is a toy, so that the learner can check every byte it draws. */
#include <gear.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCapacity = 16384, kEnvironments = 8, kPixels = 84 * 84, kStack = 4, kReturn = 3, kRows = 32, kUpdates = 100 };
enum { kBeyond = kReturn + kStack - 1 }; /* frames that hold the stack after up to kReturn steps */
static const double kDiscount = 0.99;
static const int64_t kWaitNs = 10000000000;

static void check(int status) {
  if (status == GEAR_OK) return;
  fprintf(stderr, "dqn: %s: %s\n", gear_status_string(status), gear_last_error());
  exit(1);
}

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "dqn: what came back is wrong: %s\n", what);
  exit(1);
}

/* The toy: episode e has so many steps, and frame t of it shows e and t. Even episodes terminate, odd ones are cut off. */
static int length_of(int episode) { return 40 + episode * 37 % 160; }
static float reward_of(int step) { return (float)(1 + step % 3); }
static void draw_frame(int episode, int step, uint8_t* frame) {
  memset(frame, (episode * 31 + step * 7) & 0xff, kPixels);
  memcpy(frame, &episode, sizeof episode);
  memcpy(frame + sizeof episode, &step, sizeof step);
}
static int is_frame(const uint8_t* frame, int episode, int step) {
  uint8_t expected[kPixels];
  draw_frame(episode, step, expected);
  return memcmp(frame, expected, kPixels) == 0;
}

static void act(gear_table* table, int steps_wanted) {
  static const int64_t shape[2] = {84, 84};
  static uint8_t frame[kPixels];
  int32_t action;
  float reward;
  gear_cell cells[3] = {{.column = 0, .dtype = GEAR_U8, .rank = 2, .data = frame, .shape = shape},
                        {.column = 1, .dtype = GEAR_I32, .data = &action},
                        {.column = 2, .dtype = GEAR_F32, .data = &reward}};
  gear_writer_options options = {sizeof options, .lanes = kEnvironments};
  gear_writer* writer;
  check(gear_writer_open(table, &options, &writer));
  int episode[kEnvironments], step[kEnvironments] = {0}, next = 0, open = kEnvironments;
  for (int lane = 0; lane < kEnvironments; ++lane) episode[lane] = next++;
  for (int steps = 0; open > 0; ++steps) {
    uint32_t lane = (uint32_t)steps % kEnvironments;
    if (episode[lane] < 0) continue;
    draw_frame(episode[lane], step[lane], frame);
    action = step[lane] % 4, reward = reward_of(step[lane]);
    check(gear_writer_append(writer, lane, cells, 3, kWaitNs));
    if (++step[lane] < length_of(episode[lane])) continue;
    draw_frame(episode[lane], step[lane], frame); /* the final observation is no step of its own */
    gear_end end = episode[lane] % 2 == 0 ? GEAR_TERMINATED : GEAR_TRUNCATED;
    check(gear_writer_end_episode(writer, lane, end, cells, 1, kWaitNs));
    episode[lane] = steps < steps_wanted ? next++ : -1, step[lane] = 0;
    if (episode[lane] < 0) --open;
  }
  check(gear_writer_flush(writer, kWaitNs, NULL));
  check(gear_writer_close(writer));
}

static gear_sampler* open_sampler(gear_table* table) {
  /* The successor may be nearer than kReturn steps where the episode ended: padded on the left, it is always the last. */
  gear_window windows[7] = {
      {sizeof *windows, .column = "frame", .name = "observation", .offset = 1 - kStack, .length = kStack,
       .fill = GEAR_FILL_EDGE},
      {sizeof *windows, .column = "frame", .name = "beyond", .offset = 2 - kStack, .length = kBeyond,
       .pad = GEAR_PAD_LEFT, .fill = GEAR_FILL_EDGE},
      {sizeof *windows, .column = "action", .length = 1},
      {sizeof *windows, .column = "reward", .name = "return", .length = 1, .compute = GEAR_COMPUTE_NSTEP_RETURN},
      {sizeof *windows, .name = "steps", .length = 1, .compute = GEAR_COMPUTE_NSTEP_STEPS},
      {sizeof *windows, .name = "bootstrap", .length = 1, .compute = GEAR_COMPUTE_NSTEP_BOOTSTRAP},
      {sizeof *windows, .name = "t", .length = 1, .compute = GEAR_COMPUTE_STEP}};
  for (int i = 3; i < 6; ++i) windows[i].steps = kReturn, windows[i].discount = kDiscount;
  gear_sampler_options options = {sizeof options, .windows = windows, .window_count = 7, .beta = 0.4, .seed = 1};
  gear_sampler* sampler;
  check(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* Checks one row and gives its TD error; a real learner computes that with its networks. */
static double learn(const gear_tensor tensors[7], int row) {
  const uint8_t* observation = (uint8_t*)tensors[0].data + (size_t)row * kStack * kPixels;
  const uint8_t* next = (uint8_t*)tensors[1].data + ((size_t)row * kBeyond + kReturn - 1) * kPixels;
  int episode, t = (int)((uint32_t*)tensors[6].data)[row];
  memcpy(&episode, observation + (kStack - 1) * kPixels, sizeof episode);
  int length = length_of(episode), m = length - t < kReturn ? length - t : kReturn;
  /* Beside actors that still run, the newest steps of an open episode have no successor yet: fewer frames than this. Such rows
   * are to be left out; here every episode has ended. */
  int before = t < kStack - 2 ? t : kStack - 2;
  expect((int)tensors[1].lengths[row] == before + 1 + m, "the successor is there");
  for (int i = 0; i < kStack; ++i, observation += kPixels, next += kPixels) {
    expect(is_frame(observation, episode, t - kStack + 1 + i > 0 ? t - kStack + 1 + i : 0), "observation");
    expect(is_frame(next, episode, t + m - kStack + 1 + i > 0 ? t + m - kStack + 1 + i : 0), "next observation");
  }
  double sum = 0;
  for (int k = 0; k < m; ++k) sum += pow(kDiscount, k) * reward_of(t + k);
  double factor = t + m == length && episode % 2 == 0 ? 0 : pow(kDiscount, m);
  expect(((int32_t*)tensors[2].data)[row] == t % 4, "action");
  expect(fabs(((float*)tensors[3].data)[row] - sum) < 1e-5, "3-step return");
  expect((int)((uint32_t*)tensors[4].data)[row] == m, "steps summed");
  expect(fabs(((float*)tensors[5].data)[row] - factor) < 1e-6, "bootstrap factor");
  return 2 + t % 5;
}

static void report_memory(gear_table* table, double step_bytes) {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  check(gear_table_describe(table, &info));
  double payload = (double)info.capacity_steps * step_bytes;
  double data = (double)info.data_bytes, directory = (double)info.directory_bytes;
  printf("dqn: data %.3f x payload of %.0f MiB, with the directory %.3f x; directory %.0f B an item\n", data / payload,
         payload / 1048576, (data + directory) / payload, directory / (double)info.capacity_items);
  expect(data + directory <= 1.15 * payload, "memory overhead");
}

int main(void) {
  gear_column_options columns[3] = {
      {sizeof *columns, .dtype = GEAR_U8, .name = "frame", .rank = 2, .shape = {84, 84}},
      {sizeof *columns, .dtype = GEAR_I32, .name = "action"},
      {sizeof *columns, .dtype = GEAR_F32, .name = "reward"}};
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "dqn", options.columns = columns, options.column_count = 3;
  options.capacity_items = kCapacity, options.sampler = GEAR_SELECT_PRIORITIZED;
  options.lanes_max = kEnvironments; /* every lane may hold some blocks half filled */
  options.window_before_max = kStack - 1, options.window_after_max = kReturn;
  gear_client* client;
  gear_table* table;
  check(gear_connect("embedded:", NULL, &client));
  check(gear_table_create(client, &options, &table));
  act(table, kCapacity * 5 / 4);
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  check(gear_table_get_stats(table, &stats));
  expect(stats.items == kCapacity && stats.evictions > 0, "the table is not full");

  gear_sampler* sampler = open_sampler(table);
  int seen_again = 0;
  for (int update = 0; update < kUpdates; ++update) {
    gear_batch* batch;
    gear_tensor tensors[7];
    check(gear_sample(sampler, kRows, kWaitNs, &batch));
    for (uint32_t i = 0; i < 7; ++i) check(gear_batch_tensor(batch, i, &tensors[i]));
    const double *probability = gear_batch_probabilities(batch), *priority = gear_batch_priorities(batch);
    double errors[kRows], least = 1;
    for (int row = 0; row < kRows; ++row) least = fmin(least, probability[row]);
    for (int row = 0; row < kRows; ++row) {
      errors[row] = learn(tensors, row);
      expect(priority[row] == 1 || priority[row] == errors[row], "priority"); /* new, or as we last set it */
      seen_again += priority[row] == errors[row];
      expect(fabs(gear_batch_weights(batch)[row] - pow(probability[row] / least, -0.4)) < 1e-5, "importance weight");
    }
    gear_items_result result = GEAR_ITEMS_RESULT_INIT;
    check(gear_update_priorities(table, gear_batch_keys(batch), errors, kRows, kWaitNs, &result));
    expect(result.updated > 0 && result.stale + result.unknown + result.rejected == 0, "priority update");
    check(gear_batch_release(batch));
  }
  expect(seen_again > 0, "no updated priority was drawn");
  report_memory(table, kPixels + 8);
  return gear_close(client) == GEAR_OK ? 0 : 1;
}
