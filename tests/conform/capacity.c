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
