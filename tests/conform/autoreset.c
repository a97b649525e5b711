/* Vector environments that reset in the three styles of Gymnasium: the same steps, ends and final observations come to be
 * stored as from a plain loop over the environments, one by one. */
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kEnvs = 6, kEpisodes = 9, kRowsMax = 1024 };
enum { kObservation = 0, kAction = 1, kReward = 2 };

/* An environment whose every observation tells where it was made: environment, episode, step. */
typedef struct Env {
  int64_t index;
  int64_t episode;
  int64_t step;
} Env;

static int64_t observe(const Env* env) {
  return env->index * 1000000 + env->episode * 1000 + env->step;
}

static int64_t length_of(const Env* env) {
  return 1 + (3 * env->index + 5 * env->episode) % 7;
}

static int64_t policy(int64_t observation) {
  return observation * 7 + 1;
}

static float reward_of(int64_t observation, int64_t action) {
  return (float)(observation % 1000) + (float)(action % 10) / 16.0f;
}

/* Returns the reward of the step. */
static float advance(Env* env, int64_t action, uint8_t* terminated, uint8_t* truncated) {
  const float reward = reward_of(observe(env), action);
  ++env->step;
  const bool ended = env->step == length_of(env);
  *truncated = ended && (env->index + env->episode) % 3 == 0;
  *terminated = ended && !*truncated;
  return reward;
}

static void reset(Env* env) {
  ++env->episode;
  env->step = 0;
}

/* The vector environment: what its step gives. */
typedef struct Vector {
  Env envs[kEnvs];
  bool resets[kEnvs]; /* next_step: by the coming step */
  int64_t next[kEnvs];
  int64_t final_obs[kEnvs]; /* same_step: info["final_obs"] */
  float reward[kEnvs];
  uint8_t terminated[kEnvs];
  uint8_t truncated[kEnvs];
} Vector;

static void step_env(Vector* vector, uint32_t style, int i, int64_t action) {
  Env* env = &vector->envs[i];
  vector->terminated[i] = vector->truncated[i] = 0;
  vector->reward[i] = 0;
  vector->final_obs[i] = -1;
  if (vector->resets[i]) { /* the action is ignored */
    vector->resets[i] = false;
    reset(env);
    vector->next[i] = observe(env);
    return;
  }
  vector->reward[i] = advance(env, action, &vector->terminated[i], &vector->truncated[i]);
  vector->next[i] = observe(env);
  if (!vector->terminated[i] && !vector->truncated[i]) return;
  if (style == GEAR_AUTORESET_NEXT_STEP) vector->resets[i] = true;
  if (style == GEAR_AUTORESET_SAME_STEP) {
    vector->final_obs[i] = vector->next[i];
    reset(env);
    vector->next[i] = observe(env);
  }
}

typedef struct Row {
  int64_t observation;
  int64_t action;
  int64_t next; /* -1: none */
  float reward;
  uint32_t begins; /* 1: no step comes before it in its episode */
} Row;

static int by_observation(const void* left, const void* right) {
  const int64_t a = ((const Row*)left)->observation;
  const int64_t b = ((const Row*)right)->observation;
  return a < b ? -1 : a > b;
}

/* What a plain loop over each environment sees. */
static size_t plain_rows(Row* rows) {
  size_t count = 0;
  for (int i = 0; i < kEnvs; ++i) {
    Env env = {i, 0, 0};
    for (; env.episode < kEpisodes; reset(&env)) {
      uint8_t terminated = 0;
      uint8_t truncated = 0;
      while (!terminated && !truncated) {
        Row* row = &rows[count++];
        row->observation = observe(&env);
        row->action = policy(row->observation);
        row->begins = env.step == 0;
        row->reward = advance(&env, row->action, &terminated, &truncated);
        row->next = observe(&env);
      }
    }
  }
  qsort(rows, count, sizeof *rows, by_observation);
  return count;
}

static ConformTable open_table(uint32_t style) {
  gear_column_options columns[3] = {conform_column("observation", GEAR_I64, 0, NULL),
                                    conform_column("action", GEAR_I64, 0, NULL),
                                    conform_column("reward", GEAR_F32, 0, NULL)};
  gear_table_options options = conform_options(kRowsMax);
  options.columns = columns;
  options.column_count = 3;
  assert_ok(gear_table_options_queue(kRowsMax, &options));
  ConformTable table = {NULL, NULL, NULL};
  assert_ok(gear_connect("embedded:", NULL, &table.client));
  assert_ok(gear_table_create(table.client, &options, &table.table));
  gear_writer_options writer = GEAR_WRITER_OPTIONS_INIT;
  writer.lanes = kEnvs;
  writer.autoreset = style;
  assert_ok(gear_writer_open(table.table, &writer, &table.writer));
  return table;
}

static void append(gear_writer* writer, uint32_t style, const Vector* vector,
                   const int64_t* observation, const int64_t* action, const uint8_t* done) {
  gear_cell cells[3] = {conform_cell(kObservation, GEAR_I64, 0, NULL, observation),
                        conform_cell(kAction, GEAR_I64, 0, NULL, action),
                        conform_cell(kReward, GEAR_F32, 0, NULL, vector->reward)};
  const int64_t* last =
      style == GEAR_AUTORESET_SAME_STEP ? vector->final_obs : vector->next;
  const gear_cell final_cell = conform_cell(kObservation, GEAR_I64, 0, NULL, last);
  gear_vector_step step = GEAR_VECTOR_STEP_INIT;
  step.cells = cells;
  step.cell_count = 3;
  step.terminated = vector->terminated;
  step.truncated = vector->truncated;
  step.skip = done;
  step.final_cells = &final_cell;
  step.final_cell_count = 1;
  assert_ok(gear_writer_append_vector(writer, &step, CONFORM_PATIENCE_NS, NULL));
}

/* The actor's loop, as for any vector environment, until each environment has ended so many episodes. */
static void act(gear_writer* writer, uint32_t style) {
  Vector vector;
  memset(&vector, 0, sizeof vector);
  int64_t observation[kEnvs];
  int64_t action[kEnvs];
  uint8_t done[kEnvs] = {0};
  int64_t ended[kEnvs] = {0};
  int left = kEnvs;
  for (int i = 0; i < kEnvs; ++i) {
    vector.envs[i].index = i;
    observation[i] = observe(&vector.envs[i]);
  }
  while (left > 0) {
    for (int i = 0; i < kEnvs; ++i) {
      action[i] = policy(observation[i]);
      step_env(&vector, style, i, action[i]);
    }
    append(writer, style, &vector, observation, action, done);
    for (int i = 0; i < kEnvs; ++i) {
      observation[i] = vector.next[i];
      if (!vector.terminated[i] && !vector.truncated[i]) continue;
      if (style == GEAR_AUTORESET_DISABLED) {
        reset(&vector.envs[i]);
        observation[i] = observe(&vector.envs[i]);
      }
      if (++ended[i] != kEpisodes) continue;
      done[i] = 1;
      --left;
    }
  }
}

static size_t stored_rows(gear_table* table, Row* rows) {
  const gear_window windows[5] = {
      conform_window("observation", NULL, 0, 1), conform_window("action", NULL, 0, 1),
      conform_window("reward", NULL, 0, 1), conform_window("observation", "next", 1, 1),
      conform_window("observation", "previous", -1, 1)};
  gear_sampler* sampler = conform_window_sampler(table, windows, 5);
  const size_t count = conform_stats(table).items;
  assert_true(count <= kRowsMax);
  for (size_t i = 0; i < count; ++i) {
    gear_batch* batch = conform_sample(sampler, 1);
    const gear_tensor observation = conform_tensor(batch, "observation");
    const gear_tensor action = conform_tensor(batch, "action");
    const gear_tensor reward = conform_tensor(batch, "reward");
    const gear_tensor next = conform_tensor(batch, "next");
    const gear_tensor previous = conform_tensor(batch, "previous");
    rows[i].observation = conform_i64(&observation, 0, 0);
    rows[i].action = conform_i64(&action, 0, 0);
    rows[i].reward = *(const float*)reward.data;
    rows[i].next = next.mask[0] ? conform_i64(&next, 0, 0) : -1;
    rows[i].begins = !previous.mask[0];
    assert_ok(gear_batch_release(batch));
  }
  qsort(rows, count, sizeof *rows, by_observation);
  return count;
}

static void assert_stores_what_a_plain_loop_sees(uint32_t style) {
  static Row wanted[kRowsMax];
  static Row stored[kRowsMax];
  const size_t count = plain_rows(wanted);
  ConformTable table = open_table(style);
  act(table.writer, style);
  conform_flush(table.writer);
  const gear_table_stats stats = conform_stats(table.table);
  assert_int_equal(stats.steps, count);
  assert_int_equal(stats.episodes, kEnvs * kEpisodes);
  assert_int_equal(stored_rows(table.table, stored), count);
  for (size_t i = 0; i < count; ++i) assert_memory_equal(&stored[i], &wanted[i], sizeof wanted[i]);
  conform_close(&table);
}

/* SEMANTICS 36 */
GEAR_TEST(EnvironmentsThatTheCallerResetsStoreWhatAPlainLoopSees) {
  assert_stores_what_a_plain_loop_sees(GEAR_AUTORESET_DISABLED);
}

/* SEMANTICS 36 */
GEAR_TEST(EnvironmentsThatResetInTheNextStepStoreWhatAPlainLoopSees) {
  assert_stores_what_a_plain_loop_sees(GEAR_AUTORESET_NEXT_STEP);
}

/* SEMANTICS 36 */
GEAR_TEST(EnvironmentsThatResetInTheSameStepStoreWhatAPlainLoopSees) {
  assert_stores_what_a_plain_loop_sees(GEAR_AUTORESET_SAME_STEP);
}

/* SEMANTICS 36 */
GEAR_TEST(LaneThatIsSkippedAfterItsEndIsResetByTheNextCall) {
  ConformTable table = open_table(GEAR_AUTORESET_NEXT_STEP);
  Vector vector;
  memset(&vector, 0, sizeof vector);
  int64_t numbers[kEnvs] = {0};
  uint8_t skip[kEnvs] = {0};
  vector.terminated[2] = 1;
  append(table.writer, GEAR_AUTORESET_NEXT_STEP, &vector, numbers, numbers, skip);
  vector.terminated[2] = 0;
  skip[2] = 1;
  append(table.writer, GEAR_AUTORESET_NEXT_STEP, &vector, numbers, numbers, skip);
  skip[2] = 0;
  append(table.writer, GEAR_AUTORESET_NEXT_STEP, &vector, numbers, numbers, skip);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).steps, 3 * kEnvs - 2);
  append(table.writer, GEAR_AUTORESET_NEXT_STEP, &vector, numbers, numbers, skip);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).steps, 4 * kEnvs - 2);
  conform_close(&table);
}

/* SEMANTICS 36 */
GEAR_TEST(StyleThatIsNoneIsRefused) {
  ConformTable table = open_table(GEAR_AUTORESET_DISABLED);
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  options.autoreset = 3;
  gear_writer* writer = NULL;
  assert_status(gear_writer_open(table.table, &options, &writer), GEAR_EINVAL);
  assert_explained("autoreset 3");
  conform_close(&table);
}
