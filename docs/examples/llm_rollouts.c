/* Rollouts of a language model for a trainer of the GRPO kind: 8 samples a prompt that are seen together, rewards beside the
 * tokens, weight versions that bound how far off policy the trainer may be, and a consumer group so that none is lost.
 * Shao et al., DeepSeekMath, 2024, section 4. Tokens follow from prompt and sample, so that the trainer can check them. */
#include <gear.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSamples = 8, kTokensMax = 8192, kRolloutsMax = 8192, kPrompts = 16, kVersions = 4, kTrained = 8 };
static const uint64_t kPayload = 64 << 20; /* bytes of tokens and log-probabilities that are kept */
static const int64_t kWaitNs = 10000000000;

static void check(int status) {
  if (status == GEAR_OK) return;
  fprintf(stderr, "llm_rollouts: %s: %s\n", gear_status_string(status), gear_last_error());
  exit(1);
}

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "llm_rollouts: what came back is wrong: %s\n", what);
  exit(1);
}

/* The toy model: answers of 32 to 8192 tokens. */
static int length_of(uint64_t prompt, int sample) {
  int rollout = (int)prompt * kSamples + sample, size = rollout % 9;
  return (32 << size) - (size == 0 ? 0 : rollout * 7 % 31);
}
static int32_t token_of(uint64_t prompt, int sample, int i) { return (int32_t)prompt * 131 + i * kSamples + sample; }
static float logprob_of(int i) { return -(float)(i % 64) / 64; }
static float reward_of(uint64_t prompt, int sample) { return (float)((prompt * 5 + (uint64_t)sample * 3) % 7); }

/* The sampler's side: all samples of one prompt, made with weights of one version; one lane a sample. */
static void generate(gear_writer* writer, uint64_t prompt, uint64_t version) {
  static int32_t tokens[kTokensMax];
  static float logprobs[kTokensMax];
  for (uint32_t lane = 0; lane < kSamples; ++lane) {
    int sample = (int)lane, length = length_of(prompt, sample);
    float reward = reward_of(prompt, sample);
    for (int i = 0; i < length; ++i) tokens[i] = token_of(prompt, sample, i), logprobs[i] = logprob_of(i);
    const gear_cell cells[2] = {{.column = 0, .dtype = GEAR_I32, .data = tokens},
                                {.column = 1, .dtype = GEAR_F32, .data = logprobs}};
    const gear_cell about[2] = {{.column = 2, .dtype = GEAR_F32, .data = &reward},
                                {.column = 3, .dtype = GEAR_U64, .data = &prompt}};
    size_t accepted;
    check(gear_writer_set_version(writer, lane, version, kWaitNs));
    check(gear_writer_set_prompt_group(writer, lane, prompt, kSamples, kWaitNs));
    check(gear_writer_episode_cells(writer, lane, about, 2, kWaitNs));
    check(gear_writer_append_many(writer, lane, cells, 2, (size_t)length, kWaitNs, &accepted));
    check(gear_writer_end_episode(writer, lane, GEAR_TERMINATED, NULL, 0, kWaitNs));
  }
}

static gear_sampler* join(gear_table* table) {
  gear_window windows[4] = {{sizeof *windows, .column = "token"}, /* length 0: the whole rollout */
                            {sizeof *windows, .column = "logprob"},
                            {sizeof *windows, .column = "reward"},
                            {sizeof *windows, .column = "prompt"}};
  gear_sampler_options options = {sizeof options, .windows = windows, .window_count = 4};
  options.batch_rows_max = kSamples, options.group = "trainer", options.anchor = GEAR_ANCHOR_FIRST;
  options.version_policy = GEAR_VERSION_SKIP, options.version_lag = 1; /* at most one version old */
  gear_sampler* sampler;
  check(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* One prompt's samples: checks them, and the advantages that a trainer would weigh them with. */
static uint64_t train(gear_batch* batch, uint64_t version, int redelivered) {
  gear_tensor token, logprob, reward, prompt;
  check(gear_batch_tensor(batch, 0, &token));
  check(gear_batch_tensor(batch, 1, &logprob));
  check(gear_batch_tensor(batch, 2, &reward));
  check(gear_batch_tensor(batch, 3, &prompt));
  expect(gear_batch_rows(batch) == kSamples && token.length == kTokensMax, "shape of the batch");
  uint64_t asked = *(uint64_t*)prompt.data;
  double mean = 0, advantages = 0;
  int seen = 0;
  for (int row = 0; row < kSamples; ++row) mean += ((float*)reward.data)[row] / kSamples;
  for (int row = 0; row < kSamples; ++row) {
    const int32_t* tokens = (int32_t*)token.data + (size_t)row * kTokensMax;
    const float* logprobs = (float*)logprob.data + (size_t)row * kTokensMax;
    int sample = (tokens[0] - (int32_t)asked * 131) & (kSamples - 1), length = length_of(asked, sample);
    seen |= 1 << sample;
    expect(((uint64_t*)prompt.data)[row] == asked, "samples of another prompt in the batch");
    expect(((float*)reward.data)[row] == reward_of(asked, sample), "reward");
    expect(gear_batch_versions(batch)[row] == asked / kPrompts, "version of the rollout");
    expect(gear_batch_versions(batch)[row] + 1 >= version, "a rollout too old for the trainer");
    expect(gear_batch_redelivered(batch)[row] == redelivered, "redelivery");
    expect((int)token.lengths[row] == length, "length of the rollout");
    for (int i = 0; i < length; ++i)
      expect(tokens[i] == token_of(asked, sample, i) && logprobs[i] == logprob_of(i), "tokens");
    for (int i = 0; i < kTokensMax; ++i) expect(token.mask[row * kTokensMax + i] == (i < length), "mask");
    advantages += ((float*)reward.data)[row] - mean;
  }
  expect(seen == (1 << kSamples) - 1, "each sample of the prompt once");
  expect(fabs(advantages) < 1e-5, "advantages");
  return asked;
}

static void report_memory(gear_table* table) {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  check(gear_table_describe(table, &info));
  check(gear_table_get_stats(table, &stats));
  expect(stats.evictions > 0 && stats.bytes <= kPayload, "the table is not full");
  expect(stats.bytes > kPayload - kSamples * kTokensMax * 8, "payload kept");
  printf("llm_rollouts: data %.3f x payload of %.0f MiB, with the directory %.3f x; directory %.0f B an item\n",
         (double)info.data_bytes / (double)stats.bytes, (double)stats.bytes / 1048576,
         (double)(info.data_bytes + info.directory_bytes) / (double)stats.bytes,
         (double)info.directory_bytes / (double)info.capacity_items);
}

int main(void) {
  gear_column_options columns[4] = {
      {sizeof *columns, .dtype = GEAR_I32, .name = "token"},
      {sizeof *columns, .dtype = GEAR_F32, .name = "logprob"},
      {sizeof *columns, .dtype = GEAR_F32, .name = "reward", .flags = GEAR_COLUMN_PER_EPISODE},
      {sizeof *columns, .dtype = GEAR_U64, .name = "prompt", .flags = GEAR_COLUMN_PER_EPISODE}};
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "rollouts", options.columns = columns, options.column_count = 4;
  options.item_policy = GEAR_ITEMS_EPISODE, options.episode_steps_max = kTokensMax;
  options.capacity_items = kRolloutsMax, options.capacity_bytes = kPayload; /* whichever is reached first */
  options.versions = 1, options.prompt_groups_max = kPrompts, options.lanes_max = kSamples;
  options.window_before_max = GEAR_REACH_NONE, options.window_after_max = GEAR_REACH_NONE; /* within the rollout */
  gear_client* client;
  gear_table* table;
  gear_writer* writer;
  gear_writer_options lanes = {sizeof lanes, .lanes = kSamples};
  check(gear_connect("embedded:", NULL, &client));
  check(gear_table_create(client, &options, &table));
  check(gear_writer_open(table, &lanes, &writer));
  gear_sampler* sampler = join(table);
  gear_batch* batch;
  uint64_t prompt = 0, trained = 0;
  for (uint64_t version = 0; version < kVersions; ++version) {
    check(gear_table_set_version(table, version)); /* the trainer has new weights; the generator takes them up */
    for (int i = 0; i < kPrompts; ++i) generate(writer, prompt++, version);
    for (int i = 0; i < kTrained; ++i, ++trained) {
      check(gear_sample(sampler, kSamples, kWaitNs, &batch));
      int failed = trained == 0; /* a step of the trainer that failed: its prompt comes again, like that of one that died */
      uint64_t first = train(batch, version, 0);
      if (failed) {
        check(gear_batch_reject(batch));
        check(gear_sample(sampler, kSamples, kWaitNs, &batch));
        expect(train(batch, version, 1) == first, "the prompt that failed");
      }
      check(gear_batch_release(batch)); /* the acknowledgement */
    }
  }
  check(gear_sampler_close(sampler));
  gear_group_stats stats = GEAR_GROUP_STATS_INIT;
  check(gear_group_get_stats(table, "trainer", &stats));
  expect(stats.acknowledged == trained * kSamples && stats.redelivered == kSamples, "acknowledgements");
  expect(stats.skipped == kTrained * kSamples, "rollouts skipped"); /* the half of version 1 that the trainer was too slow for */
  for (int i = 0; i < 600; ++i) generate(writer, prompt++, kVersions); /* to capacity */
  check(gear_writer_flush(writer, kWaitNs, NULL));
  report_memory(table);
  return gear_close(client) == GEAR_OK ? 0 : 1;
}
