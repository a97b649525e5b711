/* Capacity in bytes beside capacity in items. */
#include "conform/conform.h"
#include "support/conform_table.h"

/* step i64, lane i32, payload u8 [13] */
enum { kStepBytes = 8 + 4 + kPayloadBytes };

/* SEMANTICS 26 */
GEAR_TEST(OverflowOfBytesEvictsByTheRemover) {
  gear_table_options options = conform_options(1000);
  options.capacity_bytes = 10 * kStepBytes + 3;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 25);
  conform_flush(table.writer);
  const gear_table_stats stats = conform_stats(table.table);
  assert_int_equal(stats.items, 10);
  assert_int_equal(stats.bytes, 10 * kStepBytes);
  assert_int_equal(stats.evictions, 15);
  uint64_t keys[10];
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  for (int64_t step = 15; step < 25; ++step) {
    uint32_t row = 0;
    gear_window window = conform_window("step", "drawn", 0, 1);
    gear_sampler* by_step = conform_window_sampler(table.table, &window, 1);
    gear_batch* batch = conform_draw_step(by_step, step, &row);
    keys[step - 15] = gear_batch_keys(batch)[row];
    assert_ok(gear_batch_release(batch));
    assert_ok(gear_sampler_close(by_step));
  }
  gear_batch* batch = conform_sample(sampler, 64);
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 64; ++row) assert_true(conform_i64(&step, row, 0) >= 15);
  assert_ok(gear_batch_release(batch));
  assert_ok(gear_delete_items(table.table, keys, 4, CONFORM_PATIENCE_NS, NULL));
  assert_int_equal(conform_stats(table.table).bytes, 6 * kStepBytes);
  conform_close(&table);
}

/* SEMANTICS 26 */
GEAR_TEST(ALongEpisodeEvictsAsManyShortOnesAsItNeeds) {
  gear_table_options options = conform_options(1000);
  options.item_policy = GEAR_ITEMS_EPISODE;
  options.episode_steps_max = 64;
  options.capacity_bytes = 20 * kStepBytes;
  ConformTable table = conform_open(&options, 1);
  int64_t step = 0;
  for (int i = 0; i < 5; ++i, step += 4) {
    conform_append(table.writer, 0, step, 4);
    conform_end(table.writer, 0, GEAR_TERMINATED);
  }
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 5);
  conform_append(table.writer, 0, step, 9);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 3);
  assert_int_equal(conform_stats(table.table).bytes, 17 * kStepBytes);
  /* Larger than all there may be: not made, and counted. */
  conform_append(table.writer, 0, step + 9, 21);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 3);
  assert_int_equal(conform_stats(table.table).items_rejected, 1);
  conform_close(&table);
}

GEAR_TEST(BytesBoundTheStorage) {
  gear_table_options options = conform_options(1000000);
  options.capacity_bytes = 1000 * kStepBytes;
  ConformTable table = conform_open(&options, 1);
  const gear_table_info info = conform_info(table.table);
  assert_int_equal(info.capacity_bytes, 1000 * kStepBytes);
  assert_int_equal(info.capacity_steps, 1000);
  conform_append(table.writer, 0, 0, 5000);
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).items, 1000);
  conform_close(&table);
}

GEAR_TEST(BytesAloneSizeATableOfEpisodesOfAnyLength) {
  gear_table_options options = conform_options(1000);
  options.item_policy = GEAR_ITEMS_EPISODE;
  options.capacity_bytes = 500 * kStepBytes;
  ConformTable table = conform_open(&options, 1);
  assert_int_equal(conform_info(table.table).capacity_steps, 500);
  conform_close(&table);
}

GEAR_TEST(BytesBelowOneItemAreRefused) {
  gear_table_options options = conform_options(10);
  options.item_policy = GEAR_ITEMS_SEQUENCE;
  options.item_length = 8;
  options.capacity_bytes = 8 * kStepBytes - 1;
  gear_client* client = NULL;
  gear_table* table = NULL;
  assert_ok(gear_connect("embedded:", NULL, &client));
  assert_status(gear_table_create(client, &options, &table), GEAR_ESIZE);
  assert_explained("capacity_bytes", "8 steps");
  assert_null(table);
  assert_ok(gear_close(client));
}

/* SEMANTICS 23, 26: items that are drawn for the last time cannot be evicted; the next one waits. */
GEAR_TEST(BytesFullOfLastDrawsHoldTheNextItemBack) {
  gear_table_options options = conform_options(1000);
  options.max_times_sampled = 1;
  options.sampler = GEAR_SELECT_FIFO;
  options.capacity_bytes = 10 * kStepBytes;
  ConformTable table = conform_open(&options, 1);
  gear_sampler_options prefetching = GEAR_SAMPLER_OPTIONS_INIT;
  prefetching.prefetch = 32;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table.table, &prefetching, &sampler));
  conform_append(table.writer, 0, 0, 10);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(sampler, 1); /* the other nine are drawn ahead */
  conform_append(table.writer, 0, 10, 1);
  conform_flush(table.writer);
  conform_append(table.writer, 0, 11, 1);
  uint64_t waiting = 0;
  assert_status(gear_writer_flush(table.writer, CONFORM_BLOCKED_NS, &waiting), GEAR_ETIMEDOUT);
  assert_int_equal(conform_stats(table.table).evictions, 0);
  assert_ok(gear_batch_release(batch));
  for (int64_t step = 1; step < 12; ++step) {
    batch = conform_sample(sampler, 1);
    const gear_tensor tensor = conform_tensor(batch, "step");
    assert_int_equal(conform_i64(&tensor, 0, 0), step);
    assert_ok(gear_batch_release(batch));
  }
  conform_close(&table);
}
