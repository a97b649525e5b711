/* Versions: items of a policy that is too old are skipped, or dropped. */
#include "conform/conform.h"
#include "support/conform_table.h"

/* Ten steps of each version 0 .. versions-1: step s has version s / 10. */
static ConformTable open_versions(gear_table_options options, uint64_t versions) {
  options.versions = 1;
  ConformTable table = conform_open(&options, 1);
  for (uint64_t version = 0; version < versions; ++version) {
    assert_ok(gear_writer_set_version(table.writer, 0, version, CONFORM_PATIENCE_NS));
    conform_append(table.writer, 0, (int64_t)version * 10, 10);
  }
  conform_flush(table.writer);
  return table;
}

static gear_sampler* open_sampler(gear_table* table, uint32_t mode, uint32_t policy, uint64_t lag,
                                  const char* group) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.version_policy = policy;
  options.version_lag = lag;
  options.group = group;
  options.seed = 3;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

static void assert_versions_from(const gear_batch* batch, uint64_t oldest) {
  conform_verify_batch(batch);
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
    const uint64_t version = gear_batch_versions(batch)[row];
    assert_int_equal(version, conform_i64(&step, row, 0) / 10);
    assert_true(version >= oldest);
  }
}

static void assert_skipped(uint32_t mode) {
  ConformTable table = open_versions(conform_options(100), 6);
  gear_sampler* sampler = open_sampler(table.table, mode, GEAR_VERSION_SKIP, 2, NULL);
  gear_batch* batch = conform_sample(sampler, 64);
  assert_versions_from(batch, 0);
  assert_ok(gear_batch_release(batch));
  assert_ok(gear_table_set_version(table.table, 5));
  for (int round = 0; round < 20; ++round) {
    batch = conform_sample(sampler, 64);
    assert_versions_from(batch, 3);
    assert_ok(gear_batch_release(batch));
  }
  assert_int_equal(conform_stats(table.table).items, 60);
  assert_int_equal(conform_stats(table.table).version, 5);
  conform_close(&table);
}

GEAR_TEST(LeasedDrawsSkipItemsThatAreTooOld) { assert_skipped(GEAR_SAMPLE_LEASED); }

GEAR_TEST(DirectDrawsSkipItemsThatAreTooOld) { assert_skipped(GEAR_SAMPLE_DIRECT); }

GEAR_TEST(SkippingReachesTheNewerItemsOfAFifoTable) {
  gear_table_options options = conform_options(1000);
  options.sampler = GEAR_SELECT_FIFO;
  ConformTable table = open_versions(options, 20);
  assert_ok(gear_table_set_version(table.table, 19));
  gear_sampler* sampler =
      open_sampler(table.table, GEAR_SAMPLE_LEASED, GEAR_VERSION_SKIP, 1, NULL);
  gear_batch* batch = conform_sample(sampler, 1);
  const gear_tensor step = conform_tensor(batch, "step");
  assert_int_equal(conform_i64(&step, 0, 0), 180);
  assert_ok(gear_batch_release(batch));
  /* The old ones are where they were. */
  batch = conform_sample(open_sampler(table.table, GEAR_SAMPLE_LEASED, 0, 0, NULL), 1);
  const gear_tensor oldest = conform_tensor(batch, "step");
  assert_int_equal(conform_i64(&oldest, 0, 0), 0);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

GEAR_TEST(DroppingRemovesItemsThatAreTooOld) {
  gear_table_options options = conform_options(1000);
  options.sampler = GEAR_SELECT_FIFO;
  options.max_times_sampled = 1;
  ConformTable table = open_versions(options, 20);
  assert_ok(gear_table_set_version(table.table, 19));
  gear_sampler* sampler = open_sampler(table.table, GEAR_SAMPLE_AUTO, GEAR_VERSION_DROP, 1, NULL);
  gear_batch* batch = conform_sample(sampler, 5);
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 5; ++row) assert_int_equal(conform_i64(&step, row, 0), 180 + row);
  assert_ok(gear_batch_release(batch));
  wait_until(conform_stats(table.table).items == 15);
  assert_int_equal(conform_stats(table.table).deletes, 185);
  conform_close(&table);
}

GEAR_TEST(AGroupPassesOverOldItemsAndCountsThem) {
  ConformTable table = open_versions(conform_options(100), 4);
  assert_ok(gear_table_set_version(table.table, 3));
  gear_sampler* sampler =
      open_sampler(table.table, GEAR_SAMPLE_AUTO, GEAR_VERSION_SKIP, 1, "train");
  gear_batch* batch = conform_sample(sampler, 20);
  assert_versions_from(batch, 2);
  assert_ok(gear_batch_release(batch));
  gear_group_stats stats = GEAR_GROUP_STATS_INIT;
  assert_ok(gear_group_get_stats(table.table, "train", &stats));
  assert_int_equal(stats.skipped, 20);
  assert_int_equal(stats.lag, 0);
  assert_int_equal(conform_stats(table.table).items, 40);
  conform_close(&table);
}

GEAR_TEST(AGroupWithTooFewNewItemsWaitsForMore) {
  ConformTable table = open_versions(conform_options(100), 2);
  assert_ok(gear_table_set_version(table.table, 1));
  gear_sampler* sampler =
      open_sampler(table.table, GEAR_SAMPLE_AUTO, GEAR_VERSION_SKIP, 0, "train");
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 15, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  conform_append(table.writer, 0, 20, 5); /* still version 1 */
  conform_flush(table.writer);
  batch = conform_sample(sampler, 15);
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 15; ++row) assert_int_equal(conform_i64(&step, row, 0), 10 + row);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}

GEAR_TEST(OnlyOldItemsLeftIsATimeout) {
  static const uint32_t modes[2] = {GEAR_SAMPLE_LEASED, GEAR_SAMPLE_DIRECT};
  for (int i = 0; i < 2; ++i) {
    ConformTable table = open_versions(conform_options(100), 2);
    assert_ok(gear_table_set_version(table.table, 100));
    gear_batch* batch = NULL;
    gear_sampler* sampler = open_sampler(table.table, modes[i], GEAR_VERSION_SKIP, 5, NULL);
    assert_status(gear_sample(sampler, 4, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
    conform_close(&table);
  }
}

GEAR_TEST(TheVersionOfATableNeverGoesDown) {
  ConformTable table = open_versions(conform_options(100), 1);
  assert_ok(gear_table_set_version(table.table, 9));
  assert_ok(gear_table_set_version(table.table, 4));
  assert_int_equal(conform_stats(table.table).version, 9);
  conform_close(&table);
}

GEAR_TEST(PoliciesThatTheTableCannotServeAreRefused) {
  ConformTable table = conform_open_simple(10);
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  gear_sampler* sampler = NULL;
  options.version_policy = GEAR_VERSION_SKIP;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EUNSUPPORTED);
  assert_explained("versions = 1");
  options.version_policy = 3;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EINVAL);
  conform_append(table.writer, 0, 0, 4);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 2);
  assert_null(gear_batch_versions(batch));
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
  table = open_versions(conform_options(10), 1);
  options.version_policy = GEAR_VERSION_DROP;
  options.mode = GEAR_SAMPLE_DIRECT;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EUNSUPPORTED);
  conform_close(&table);
}

GEAR_TEST(SkippingInOrderOfInsertionIsLeftToTheServer) {
  gear_table_options table_options = conform_options(100);
  table_options.sampler = GEAR_SELECT_FIFO;
  ConformTable table = open_versions(table_options, 2);
  assert_ok(gear_table_set_version(table.table, 1));
  gear_sampler* sampler = open_sampler(table.table, GEAR_SAMPLE_AUTO, GEAR_VERSION_SKIP, 0, NULL);
  gear_batch* batch = conform_sample(sampler, 1);
  assert_versions_from(batch, 1);
  assert_ok(gear_batch_release(batch));
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_DIRECT;
  options.version_policy = GEAR_VERSION_SKIP;
  assert_status(gear_sampler_open(table.table, &options, &sampler), GEAR_EUNSUPPORTED);
  assert_explained("leased");
  conform_close(&table);
}

GEAR_TEST(RedeliveriesThatBecameTooOldAreSkipped) {
  ConformTable table = open_versions(conform_options(100), 1);
  gear_sampler* sampler =
      open_sampler(table.table, GEAR_SAMPLE_AUTO, GEAR_VERSION_SKIP, 0, "train");
  assert_ok(gear_batch_reject(conform_sample(sampler, 10)));
  assert_ok(gear_table_set_version(table.table, 1));
  gear_batch* batch = NULL;
  assert_status(gear_sample(sampler, 1, CONFORM_BLOCKED_NS, &batch), GEAR_ETIMEDOUT);
  gear_group_stats stats = GEAR_GROUP_STATS_INIT;
  assert_ok(gear_group_get_stats(table.table, "train", &stats));
  assert_int_equal(stats.skipped, 10);
  conform_close(&table);
}
