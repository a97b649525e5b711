// ctest: timeout=120
/* Token sequences: whole arrays in one call, next to the same tokens one by one. */
#include <stdlib.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kTokensMax = 8192, kSequences = 12 };

static const uint32_t kLengths[kSequences] = {32,  33,   8192, 1,    4095, 4096,
                                              4097, 8191, 100,  2048, 8192, 47};

static ConformTable open_sequences(void) {
  gear_column_options columns[2] = {conform_column("token", GEAR_I32, 0, NULL),
                                    conform_column("logprob", GEAR_F32, 0, NULL)};
  gear_table_options options = conform_options(kSequences);
  options.columns = columns;
  options.column_count = 2;
  options.item_policy = GEAR_ITEMS_EPISODE;
  options.episode_steps_max = kTokensMax;
  assert_ok(gear_table_options_queue(kSequences, &options));
  return conform_open(&options, 4);
}

static int32_t tokens[kTokensMax];
static float logprobs[kTokensMax];

static void fill_sequence(uint32_t sequence) {
  uint64_t state = sequence + 1;
  for (uint32_t i = 0; i < kTokensMax; ++i) {
    tokens[i] = (int32_t)conform_random(&state);
    logprobs[i] = (float)(conform_random(&state) % 1000) / -64.0f;
  }
}

static void end_sequence(gear_writer* writer, uint32_t lane) {
  assert_ok(gear_writer_end_episode(writer, lane, GEAR_TERMINATED, NULL, 0, CONFORM_PATIENCE_NS));
  conform_flush(writer);
}

static gear_sampler* open_whole(gear_table* table) {
  const gear_window windows[2] = {conform_window("token", NULL, 0, 0),
                                  conform_window("logprob", NULL, 0, 0)};
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.windows = windows;
  options.window_count = 2;
  options.anchor = GEAR_ANCHOR_FIRST;
  options.batch_rows_max = 1;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

/* SEMANTICS 41 */
GEAR_TEST(SequencesOfThousandsOfTokensAppendedAtOnceEqualThoseAppendedOneByOne) {
  ConformTable at_once = open_sequences();
  ConformTable singly = open_sequences();
  for (uint32_t sequence = 0; sequence < kSequences; ++sequence) {
    const uint32_t lane = sequence % 4;
    fill_sequence(sequence);
    gear_cell cells[2] = {conform_cell(0, GEAR_I32, 0, NULL, tokens),
                          conform_cell(1, GEAR_F32, 0, NULL, logprobs)};
    size_t accepted = 0;
    assert_ok(gear_writer_append_many(at_once.writer, lane, cells, 2, kLengths[sequence],
                                      CONFORM_PATIENCE_NS, &accepted));
    assert_int_equal(accepted, kLengths[sequence]);
    end_sequence(at_once.writer, lane);
    for (uint32_t i = 0; i < kLengths[sequence]; ++i) {
      cells[0].data = &tokens[i];
      cells[1].data = &logprobs[i];
      assert_ok(gear_writer_append(singly.writer, lane, cells, 2, CONFORM_PATIENCE_NS));
    }
    end_sequence(singly.writer, lane);
  }
  assert_int_equal(conform_stats(at_once.table).steps, conform_stats(singly.table).steps);

  gear_sampler* left = open_whole(at_once.table);
  gear_sampler* right = open_whole(singly.table);
  for (uint32_t sequence = 0; sequence < kSequences; ++sequence) {
    gear_batch* one = conform_sample(left, 1);
    gear_batch* other = conform_sample(right, 1);
    fill_sequence(sequence);
    assert_int_equal(gear_batch_item_lengths(one)[0], kLengths[sequence]);
    const gear_tensor token = conform_tensor(one, "token");
    assert_memory_equal(token.data, tokens, kLengths[sequence] * sizeof *tokens);
    for (uint32_t column = 0; column < 2; ++column) {
      gear_tensor a;
      gear_tensor b;
      assert_ok(gear_batch_tensor(one, column, &a));
      assert_ok(gear_batch_tensor(other, column, &b));
      assert_int_equal(a.lengths[0], kLengths[sequence]);
      assert_int_equal(a.size_bytes, b.size_bytes);
      assert_memory_equal(a.data, b.data, a.size_bytes);
      assert_memory_equal(a.mask, b.mask, kTokensMax);
    }
    assert_ok(gear_batch_release(one));
    assert_ok(gear_batch_release(other));
  }
  conform_close(&at_once);
  conform_close(&singly);
}
