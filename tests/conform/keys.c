/* Updates and deletions by key: each key answers for itself, and an old one harms nobody. */
#include <math.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static ConformTable open_keys(uint64_t capacity, int64_t steps, uint64_t* keys) {
  gear_table_options options = conform_options(capacity);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.priority_alpha = 1;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, steps);
  conform_flush(table.writer);
  conform_keys(table.table, keys, (size_t)steps);
  return table;
}

static gear_items_result update(gear_table* table, const uint64_t* keys, const double* priorities,
                                size_t count) {
  gear_items_result result = GEAR_ITEMS_RESULT_INIT;
  assert_ok(gear_update_priorities(table, keys, priorities, count, CONFORM_PATIENCE_NS, &result));
  return result;
}

static gear_items_result remove_keys(gear_table* table, const uint64_t* keys, size_t count) {
  gear_items_result result = GEAR_ITEMS_RESULT_INIT;
  assert_ok(gear_delete_items(table, keys, count, CONFORM_PATIENCE_NS, &result));
  return result;
}

static double only_priority(gear_table* table) {
  gear_batch* batch = conform_sample(conform_sampler(table, GEAR_SAMPLE_AUTO, 1), 1);
  const double priority = gear_batch_priorities(batch)[0];
  assert_ok(gear_batch_release(batch));
  return priority;
}

/* SEMANTICS 25 */
GEAR_TEST(UpdateCountsUpdatedStaleUnknownAndRejectedKeysApart) {
  uint64_t keys[5];
  ConformTable table = open_keys(10, 5, keys);
  assert_int_equal(remove_keys(table.table, &keys[0], 1).updated, 1);
  const uint64_t given[6] = {keys[0], keys[1], UINT64_MAX, keys[2], keys[3], keys[4]};
  const double priorities[6] = {2, 2, 2, 2, NAN, 2};
  const gear_items_result result = update(table.table, given, priorities, 6);
  assert_int_equal(result.updated, 3);
  assert_int_equal(result.stale, 1);
  assert_int_equal(result.unknown, 1);
  assert_int_equal(result.rejected, 1);
  conform_close(&table);
}

/* SEMANTICS 25 */
GEAR_TEST(SameKeyTwiceInAnUpdateTakesTheLastPriority) {
  uint64_t key;
  ConformTable table = open_keys(10, 1, &key);
  const uint64_t keys[3] = {key, key, key};
  const double priorities[3] = {5, 2, 3};
  update(table.table, keys, priorities, 3);
  assert_true(only_priority(table.table) == 3.0);
  conform_close(&table);
}

/* SEMANTICS 25 */
GEAR_TEST(KeyOfAnEvictedItemIsStaleAndLeavesTheItemInItsPlaceAlone) {
  uint64_t key;
  ConformTable table = open_keys(1, 1, &key);
  conform_append(table.writer, 0, 1, 1);
  conform_flush(table.writer);
  const double nine = 9;
  const gear_items_result result = update(table.table, &key, &nine, 1);
  assert_int_equal(result.updated, 0);
  assert_int_equal(result.stale, 1);
  assert_true(only_priority(table.table) == 1.0);
  assert_int_equal(remove_keys(table.table, &key, 1).stale, 1);
  assert_int_equal(conform_stats(table.table).items, 1);
  conform_close(&table);
}

/* SEMANTICS 25 */
GEAR_TEST(DeletedItemIsNeverDrawnAgain) {
  uint64_t keys[4];
  ConformTable table = open_keys(10, 4, keys);
  const gear_items_result result = remove_keys(table.table, &keys[1], 2);
  assert_int_equal(result.updated, 2);
  assert_int_equal(conform_stats(table.table).items, 2);
  assert_int_equal(conform_stats(table.table).deletes, 2);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 256);
  const gear_tensor tensor = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 256; ++row) {
    const int64_t step = conform_i64(&tensor, row, 0);
    assert_true(step == 0 || step == 3);
  }
  conform_close(&table);
}

/* SEMANTICS 25 */
GEAR_TEST(SecondDeletionOfAKeyIsStale) {
  uint64_t keys[2];
  ConformTable table = open_keys(10, 2, keys);
  const uint64_t twice[2] = {keys[0], keys[0]};
  const gear_items_result result = remove_keys(table.table, twice, 2);
  assert_int_equal(result.updated, 1);
  assert_int_equal(result.stale, 1);
  assert_int_equal(remove_keys(table.table, &keys[0], 1).stale, 1);
  conform_close(&table);
}

GEAR_TEST(DeletionOfKeysTheTableNeverGaveCountsUnknown) {
  uint64_t key;
  ConformTable table = open_keys(10, 1, &key);
  const uint64_t never = UINT64_MAX;
  const gear_items_result result = remove_keys(table.table, &never, 1);
  assert_int_equal(result.unknown, 1);
  assert_int_equal(result.updated, 0);
  assert_int_equal(conform_stats(table.table).items, 1);
  conform_close(&table);
}

GEAR_TEST(UpdateOfNoKeysDoesNothing) {
  uint64_t key;
  ConformTable table = open_keys(10, 1, &key);
  const gear_items_result result = update(table.table, NULL, NULL, 0);
  assert_int_equal(result.updated + result.stale + result.unknown + result.rejected, 0);
  conform_close(&table);
}

GEAR_TEST(UpdateOfMoreKeysThanARingHoldsAppliesThemAll) {
  enum { kMany = 5000 };
  static uint64_t keys[kMany];
  static double priorities[kMany];
  ConformTable table = open_keys(kMany, kMany, keys);
  for (int i = 0; i < kMany; ++i) priorities[i] = i;
  assert_int_equal(update(table.table, keys, priorities, kMany).updated, kMany);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 256);
  const gear_tensor tensor = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 256; ++row) {
    assert_true(gear_batch_priorities(batch)[row] == (double)conform_i64(&tensor, row, 0));
  }
  conform_close(&table);
}

/* SEMANTICS 27 */
GEAR_TEST(ResetMakesEveryOlderKeyStale) {
  uint64_t keys[3];
  ConformTable table = open_keys(10, 3, keys);
  assert_ok(gear_table_reset(table.table));
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  const double nines[3] = {9, 9, 9};
  const gear_items_result result = update(table.table, keys, nines, 3);
  assert_int_equal(result.stale, 3);
  assert_int_equal(result.updated, 0);
  conform_close(&table);
}
