/* What describe, stats, list and server info tell agrees with what was done. */
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

GEAR_TEST(DescribeAgreesWithTheOptions) {
  gear_table_options options = conform_options(1000);
  options.item_policy = GEAR_ITEMS_SEQUENCE;
  options.item_length = 8;
  options.item_period = 4;
  options.short_episodes = 1;
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.remover = GEAR_SELECT_UNIFORM;
  options.priority_alpha = .7;
  options.priority_epsilon = .01;
  options.max_times_sampled = 5;
  assert_ok(gear_rate_limiter_ratio(4, 100, 50, &options.limiter));
  options.capacity_steps = 6000;
  options.episode_steps_max = 500;
  options.lanes_max = 3;
  options.block_steps = 16;
  options.window_before_max = 5;
  options.window_after_max = 6;
  ConformTable table = conform_open(&options, 1);
  const gear_table_info info = conform_info(table.table);
  assert_string_equal(info.name, "steps");
  assert_int_equal(info.column_count, kColumns);
  assert_int_equal(info.capacity_items, 1000);
  assert_in_range(info.capacity_steps, 6000, 20000);
  assert_int_equal(info.episode_steps_max, 500);
  assert_int_equal(info.item_policy, GEAR_ITEMS_SEQUENCE);
  assert_int_equal(info.item_length, 8);
  assert_int_equal(info.item_period, 4);
  assert_int_equal(info.short_episodes, 1);
  assert_int_equal(info.sampler, GEAR_SELECT_PRIORITIZED);
  assert_int_equal(info.remover, GEAR_SELECT_UNIFORM);
  assert_true(info.priority_alpha == .7 && info.priority_epsilon == .01);
  assert_int_equal(info.max_times_sampled, 5);
  assert_int_equal(info.lanes_max, 3);
  assert_int_equal(info.block_steps, 16);
  assert_int_equal(info.window_before_max, 5);
  assert_int_equal(info.window_after_max, 6);
  assert_true(info.limiter.samples_per_insert == 4 && info.limiter.min_size == 100);
  assert_true(info.limiter.min_diff == 350 && info.limiter.max_diff == 450);
  assert_int_equal(info.direct, 0);
  conform_close(&table);
}

GEAR_TEST(DescribeTellsTheDefaultsThatWereTaken) {
  ConformTable table = conform_open_simple(1000);
  const gear_table_info info = conform_info(table.table);
  assert_int_equal(info.item_policy, GEAR_ITEMS_STEP);
  assert_int_equal(info.sampler, GEAR_SELECT_UNIFORM);
  assert_int_equal(info.remover, GEAR_SELECT_FIFO);
  assert_int_equal(info.limiter.min_size, 1);
  assert_int_equal(info.lanes_max, 64);
  assert_int_equal(info.window_before_max, 16);
  assert_int_equal(info.window_after_max, 16);
  assert_int_equal(info.memory, GEAR_MEMORY_MEMFD);
  assert_int_equal(info.direct, 1);
  conform_close(&table);
}

GEAR_TEST(DescribeTellsAlphaOfSixTenthsByDefault) {
  gear_table_options options = conform_options(1000);
  options.sampler = GEAR_SELECT_PRIORITIZED;
  ConformTable table = conform_open(&options, 1);
  assert_true(conform_info(table.table).priority_alpha == .6);
  conform_close(&table);
}

GEAR_TEST(DataMemoryHoldsTheCapacityInBlocks) {
  ConformTable table = conform_open_simple(1000);
  const gear_table_info info = conform_info(table.table);
  assert_true(info.capacity_steps >= 1000);
  assert_true((uint64_t)info.block_steps * info.block_count >= info.capacity_steps);
  assert_true(info.block_bytes >= (uint64_t)info.block_steps * (8 + 4 + kPayloadBytes));
  assert_true(info.data_bytes >= info.block_bytes * info.block_count);
  assert_true(info.directory_bytes > 0);
  conform_close(&table);
}

GEAR_TEST(ColumnsAreFoundByNameAndByIndex) {
  ConformTable table = conform_open_simple(10);
  uint32_t index = 77;
  assert_ok(gear_table_column_index(table.table, "payload", &index));
  assert_int_equal(index, kPayload);
  gear_column_info column = GEAR_COLUMN_INFO_INIT;
  assert_ok(gear_table_column(table.table, index, &column));
  assert_string_equal(column.name, "payload");
  assert_int_equal(column.dtype, GEAR_U8);
  assert_int_equal(column.rank, 1);
  assert_int_equal(column.shape[0], kPayloadBytes);
  assert_int_equal(column.cell_bytes, kPayloadBytes);
  assert_int_equal(column.flags, 0);
  conform_close(&table);
}

GEAR_TEST(StatsOfAFreshTableAreZero) {
  ConformTable table = conform_open_simple(10);
  const gear_table_stats stats = conform_stats(table.table);
  assert_int_equal(stats.state, 1);
  assert_int_equal(stats.items + stats.inserts + stats.samples + stats.deletes, 0);
  assert_int_equal(stats.steps + stats.episodes + stats.evictions, 0);
  assert_int_equal(stats.lanes_open, 1);
  conform_close(&table);
}

GEAR_TEST(StatsCountStepsEpisodesInsertsAndEvictions) {
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 0, 8);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_append(table.writer, 0, 8, 17);
  conform_flush(table.writer);
  const gear_table_stats stats = conform_stats(table.table);
  assert_int_equal(stats.steps, 25);
  assert_int_equal(stats.episodes, 1);
  assert_int_equal(stats.inserts, 25);
  assert_int_equal(stats.evictions, 15);
  assert_int_equal(stats.deletes, 15);
  assert_int_equal(stats.items, 10);
  conform_close(&table);
}

GEAR_TEST(StatsCountLeasedDraws) {
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 0, 5);
  conform_flush(table.writer);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1);
  for (int i = 0; i < 3; ++i) assert_ok(gear_batch_release(conform_sample(sampler, 7)));
  wait_until(conform_stats(table.table).samples == 21);
  gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
  assert_ok(gear_sampler_get_stats(sampler, &stats));
  assert_int_equal(stats.direct, 0);
  assert_int_equal(stats.batches, 3);
  assert_int_equal(stats.rows, 21);
  conform_close(&table);
}

GEAR_TEST(BlocksComeBackWhenItemsAreEvicted) {
  gear_table_options options = conform_options(100);
  options.block_steps = 4;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 200);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  const uint64_t free_blocks = conform_stats(table.table).blocks_free;
  for (int64_t first = 200; first < 2000; first += 200) {
    conform_append(table.writer, 0, first, 200);
    conform_end(table.writer, 0, GEAR_TERMINATED);
  }
  conform_flush(table.writer);
  /* Grants ahead of need may have been under way at either time: 8 blocks at most. */
  wait_until(conform_stats(table.table).blocks_free + 8 >= free_blocks);
  conform_close(&table);
}

static void gather_names(const char* name, void* user) {
  strcat(user, name);
  strcat(user, " ");
}

GEAR_TEST(ListNamesTheTablesInOrderOfCreation) {
  gear_client* client = NULL;
  assert_ok(gear_connect("embedded:", NULL, &client));
  char names[64] = "";
  assert_ok(gear_table_list(client, gather_names, names));
  assert_string_equal(names, "");
  const char* wanted[4] = {"zebra", "ant", "mole", "bee"};
  for (int i = 0; i < 4; ++i) {
    gear_table_options options = conform_options(10);
    options.name = wanted[i];
    gear_table* table = NULL;
    assert_ok(gear_table_create(client, &options, &table));
  }
  assert_ok(gear_table_list(client, gather_names, names));
  assert_string_equal(names, "zebra ant mole bee ");
  assert_ok(gear_table_drop(client, "ant"));
  names[0] = '\0';
  assert_ok(gear_table_list(client, gather_names, names));
  assert_string_equal(names, "zebra mole bee ");
  assert_ok(gear_close(client));
}

static gear_server_info server_info(gear_client* client) {
  gear_server_info info = GEAR_SERVER_INFO_INIT;
  assert_ok(gear_get_server_info(client, &info));
  return info;
}

GEAR_TEST(ServerInfoCountsClientsTablesWritersAndSamplers) {
  gear_client* client = NULL;
  gear_client* other = NULL;
  assert_ok(gear_connect("embedded:counted", NULL, &client));
  assert_ok(gear_connect("embedded:counted", NULL, &other));
  const gear_table_options options = conform_options(10);
  gear_table* table = NULL;
  gear_writer* writer = NULL;
  assert_ok(gear_table_create(client, &options, &table));
  assert_ok(gear_writer_open(table, NULL, &writer));
  gear_sampler* sampler = conform_sampler(table, GEAR_SAMPLE_LEASED, 1);
  const gear_server_info info = server_info(other);
  assert_int_equal(info.clients, 2);
  assert_int_equal(info.tables, 1);
  assert_int_equal(info.writers, 1);
  assert_int_equal(info.samplers, 1);
  assert_int_equal(info.version, gear_version());
  assert_ok(gear_writer_close(writer));
  assert_ok(gear_sampler_close(sampler));
  assert_ok(gear_close(client));
  wait_until(server_info(other).clients == 1);
  wait_until(server_info(other).writers + server_info(other).samplers == 0);
  assert_ok(gear_close(other));
}

static void count_warnings(int level, const char* text, void* user) {
  (void)text;
  *(int*)user += level >= 2;
}

GEAR_TEST(OrdinaryUseLogsNoWarning) {
  int warnings = 0;
  assert_ok(gear_set_log(count_warnings, &warnings));
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 0, 50);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  assert_ok(gear_batch_release(conform_sample(sampler, 8)));
  conform_close(&table);
  assert_ok(gear_set_log(NULL, NULL));
  assert_int_equal(warnings, 0);
}
