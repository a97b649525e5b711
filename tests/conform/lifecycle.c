/* Servers, clients and tables from their begin to their end. */
#include <stdio.h>
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static gear_client* connect_to(const char* endpoint) {
  gear_client* client = NULL;
  assert_ok(gear_connect(endpoint, NULL, &client));
  return client;
}

static gear_table* create(gear_client* client, const char* name) {
  gear_table_options options = conform_options(10);
  options.name = name;
  gear_table* table = NULL;
  assert_ok(gear_table_create(client, &options, &table));
  return table;
}

static gear_writer* open_writer(gear_table* table) {
  gear_writer* writer = NULL;
  assert_ok(gear_writer_open(table, NULL, &writer));
  return writer;
}

static void assert_draws_step(gear_table* table, int64_t step) {
  gear_batch* batch = conform_sample(conform_sampler(table, GEAR_SAMPLE_AUTO, 1), 1);
  conform_verify_batch(batch);
  const gear_tensor tensor = conform_tensor(batch, "step");
  assert_int_equal(conform_i64(&tensor, 0, 0), step);
}

GEAR_TEST(EmbeddedServersWithoutANameAreApart) {
  gear_client* one = connect_to("embedded:");
  gear_client* other = connect_to("embedded:");
  create(one, "here");
  gear_table* table = NULL;
  assert_status(gear_table_open(other, "here", &table), GEAR_ENOTFOUND);
  create(other, "here");
  assert_ok(gear_close(one));
  assert_ok(gear_close(other));
}

GEAR_TEST(EmbeddedServerOfANameIsSharedByAllWhoNameIt) {
  gear_client* one = connect_to("embedded:shared");
  gear_client* other = connect_to("embedded:shared");
  gear_writer* writer = open_writer(create(one, "here"));
  gear_table* table = NULL;
  assert_ok(gear_table_open(other, "here", &table));
  conform_append(writer, 0, 5, 1);
  conform_flush(writer);
  assert_draws_step(table, 5);
  assert_ok(gear_close(one));
  assert_ok(gear_close(other));
}

GEAR_TEST(EmbeddedServerLivesAsLongAsItsLastClient) {
  gear_client* one = connect_to("embedded:shared");
  gear_client* other = connect_to("embedded:shared");
  create(one, "here");
  assert_ok(gear_close(one));
  gear_table* table = NULL;
  assert_ok(gear_table_open(other, "here", &table));
  assert_ok(gear_close(other));
  gear_client* later = connect_to("embedded:shared");
  assert_status(gear_table_open(later, "here", &table), GEAR_ENOTFOUND);
  assert_ok(gear_close(later));
}

GEAR_TEST(EmbeddedServerCanBeStartedAndEndedManyTimes) {
  for (int i = 0; i < 20; ++i) {
    ConformTable table = conform_open_simple(10);
    conform_append(table.writer, 0, i, 1);
    conform_flush(table.writer);
    assert_draws_step(table.table, i);
    conform_close(&table);
  }
}

GEAR_TEST(HandleIsOf64PrintableBytes) {
  ConformTable table = conform_open_simple(10);
  char handle[GEAR_HANDLE_BYTES + 1];
  assert_ok(gear_table_handle(table.table, handle));
  assert_int_equal(strlen(handle), GEAR_HANDLE_BYTES);
  const char* letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  assert_int_equal(strspn(handle, letters), GEAR_HANDLE_BYTES);
  conform_close(&table);
}

GEAR_TEST(TableAttachesByItsHandle) {
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 5, 1);
  conform_flush(table.writer);
  char handle[GEAR_HANDLE_BYTES + 1];
  assert_ok(gear_table_handle(table.table, handle));
  gear_table* attached = NULL;
  assert_ok(gear_table_attach(table.client, handle, &attached));
  assert_int_equal(conform_info(attached).table_id, conform_info(table.table).table_id);
  assert_draws_step(attached, 5);
  conform_close(&table);
}

GEAR_TEST(HandleIsAnEndpointOfItsServer) {
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 5, 1);
  conform_flush(table.writer);
  char handle[GEAR_HANDLE_BYTES + 1];
  char endpoint[GEAR_HANDLE_BYTES + 8];
  assert_ok(gear_table_handle(table.table, handle));
  snprintf(endpoint, sizeof endpoint, "handle:%s", handle);
  gear_client* other = connect_to(endpoint);
  gear_table* attached = NULL;
  assert_ok(gear_table_attach(other, handle, &attached));
  gear_writer* writer = open_writer(attached);
  conform_append(writer, 0, 6, 1);
  conform_flush(writer);
  assert_int_equal(conform_stats(table.table).steps, 2);
  assert_ok(gear_close(other));
  conform_close(&table);
}

GEAR_TEST(HandleOfAnotherServerIsNotFound) {
  ConformTable one = conform_open_simple(10);
  ConformTable other = conform_open_simple(10);
  char handle[GEAR_HANDLE_BYTES + 1];
  assert_ok(gear_table_handle(one.table, handle));
  gear_table* attached = NULL;
  assert_status(gear_table_attach(other.client, handle, &attached), GEAR_ENOTFOUND);
  assert_null(attached);
  conform_close(&one);
  conform_close(&other);
}

GEAR_TEST(DetachLeavesTheTable) {
  gear_client* client = connect_to("embedded:");
  gear_table* table = create(client, "here");
  gear_writer* writer = open_writer(table);
  conform_append(writer, 0, 5, 1);
  conform_flush(writer);
  assert_ok(gear_writer_close(writer));
  assert_ok(gear_table_detach(table));
  assert_ok(gear_table_open(client, "here", &table));
  assert_draws_step(table, 5);
  assert_ok(gear_close(client));
}

/* An episode of two steps is open on the writer of a table of policy episode. */
static gear_table* open_with_open_episode(gear_client* client, gear_writer** writer) {
  gear_table_options options = conform_item_options(GEAR_ITEMS_EPISODE);
  gear_table* table = NULL;
  assert_ok(gear_table_create(client, &options, &table));
  *writer = open_writer(table);
  conform_append(*writer, 0, 0, 2);
  conform_flush(*writer);
  assert_int_equal(conform_stats(table).items, 0);
  return table;
}

static void assert_one_episode_of_two(gear_table* table) {
  wait_until(conform_stats(table).episodes == 1);
  const ConformItem wanted = {0, 2, 0, 0};
  conform_assert_items(table, &wanted, 1);
}

GEAR_TEST(WriterThatClosesEndsItsOpenEpisode) {
  gear_client* client = connect_to("embedded:");
  gear_writer* writer = NULL;
  gear_table* table = open_with_open_episode(client, &writer);
  assert_ok(gear_writer_close(writer));
  assert_one_episode_of_two(table);
  assert_ok(gear_close(client));
}

GEAR_TEST(ClientThatClosesEndsItsOpenEpisodes) {
  gear_client* one = connect_to("embedded:shared");
  gear_client* other = connect_to("embedded:shared");
  gear_writer* writer = NULL;
  open_with_open_episode(one, &writer);
  gear_table* table = NULL;
  assert_ok(gear_table_open(other, "steps", &table));
  assert_ok(gear_close(one));
  assert_one_episode_of_two(table);
  assert_ok(gear_close(other));
}

GEAR_TEST(LanesOfAClosedWriterServeTheNextOne) {
  gear_table_options options = conform_options(10);
  options.lanes_max = 2;
  ConformTable table = conform_open(&options, 2);
  for (int64_t i = 0; i < 50; ++i) {
    conform_append(table.writer, 1, i, 1);
    assert_ok(gear_writer_close(table.writer));
    gear_writer_options writer_options = GEAR_WRITER_OPTIONS_INIT;
    writer_options.lanes = 2;
    assert_ok(gear_writer_open(table.table, &writer_options, &table.writer));
  }
  wait_until(conform_stats(table.table).steps == 50);
  assert_int_equal(conform_stats(table.table).lanes_open, 2);
  conform_close(&table);
}

GEAR_TEST(ClosedTableTakesNoStepsAndStillDescribesItself) {
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  assert_ok(gear_table_close(table.table));
  assert_status(conform_try_append(table.writer, 0, 3, CONFORM_PATIENCE_NS), GEAR_ECLOSED);
  assert_explained("steps");
  const gear_table_stats stats = conform_stats(table.table);
  assert_int_equal(stats.state, 2);
  assert_int_equal(stats.items, 3);
  assert_int_equal(conform_info(table.table).capacity_items, 10);
  conform_close(&table);
}

GEAR_TEST(ClosedTableOpensNoChannel) {
  ConformTable table = conform_open_simple(10);
  assert_ok(gear_table_close(table.table));
  gear_writer* writer = NULL;
  gear_sampler* sampler = NULL;
  assert_status(gear_writer_open(table.table, NULL, &writer), GEAR_ECLOSED);
  assert_status(gear_sampler_open(table.table, NULL, &sampler), GEAR_ECLOSED);
  const uint64_t key = 0;
  assert_status(gear_delete_items(table.table, &key, 1, CONFORM_PATIENCE_NS, NULL), GEAR_ECLOSED);
  conform_close(&table);
}

GEAR_TEST(DroppedTableAnswersSoToThoseWhoHaveItOpen) {
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 0, 3);
  conform_flush(table.writer);
  gear_sampler* direct = conform_sampler(table.table, GEAR_SAMPLE_DIRECT, 1);
  gear_sampler* leased = conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1);
  assert_ok(gear_table_drop(table.client, "steps"));
  gear_batch* batch = NULL;
  assert_status(conform_try_append(table.writer, 0, 3, CONFORM_PATIENCE_NS), GEAR_EDROPPED);
  assert_status(gear_sample(direct, 1, CONFORM_PATIENCE_NS, &batch), GEAR_EDROPPED);
  assert_status(gear_sample(leased, 1, CONFORM_PATIENCE_NS, &batch), GEAR_EDROPPED);
  assert_explained("steps");
  assert_int_equal(conform_stats(table.table).state, 3);
  conform_close(&table);
}

GEAR_TEST(NameOfADroppedTableIsFreeForANewOne) {
  ConformTable table = conform_open_simple(10);
  const uint64_t old_id = conform_info(table.table).table_id;
  assert_ok(gear_table_drop(table.client, "steps"));
  gear_table* fresh = create(table.client, "steps");
  assert_true(conform_info(fresh).table_id != old_id);
  assert_int_equal(conform_stats(fresh).state, 1);
  assert_int_equal(conform_stats(table.table).state, 3);
  conform_close(&table);
}

/* SEMANTICS 27 */
GEAR_TEST(ResetEmptiesTheTableAndItsCounts) {
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 0, 15);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  assert_ok(gear_table_reset(table.table));
  const gear_table_stats stats = conform_stats(table.table);
  assert_int_equal(stats.state, 1);
  assert_int_equal(stats.items + stats.inserts + stats.deletes + stats.evictions, 0);
  assert_int_equal(stats.steps + stats.episodes + stats.samples, 0);
  gear_batch* batch = NULL;
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  assert_status(gear_sample(sampler, 1, 0, &batch), GEAR_ETIMEDOUT);
  conform_close(&table);
}

/* SEMANTICS 27 */
GEAR_TEST(WriterGoesOnAfterAResetWithANewEpisode) {
  gear_client* client = connect_to("embedded:");
  gear_writer* writer = NULL;
  gear_table* table = open_with_open_episode(client, &writer);
  assert_ok(gear_table_reset(table));
  conform_append(writer, 0, 100, 3);
  conform_end(writer, 0, GEAR_TERMINATED);
  conform_flush(writer);
  const ConformItem wanted = {100, 3, 0, 0};
  conform_assert_items(table, &wanted, 1);
  assert_ok(gear_close(client));
}

/* SEMANTICS 27 */
GEAR_TEST(LimiterStartsAnewAfterAReset) {
  gear_table_options options = conform_options(10);
  assert_ok(gear_table_options_queue(3, &options));
  ConformTable table = conform_open(&options, 1);
  for (int times = 0; times < 3; ++times) {
    conform_append(table.writer, 0, 0, 3);
    conform_flush(table.writer);
    assert_int_equal(conform_stats(table.table).inserts, 3);
    assert_ok(gear_table_reset(table.table));
  }
  conform_close(&table);
}

GEAR_TEST(BatchHeldThroughAResetStaysAsItWas) {
  ConformTable table = conform_open_simple(10);
  conform_append(table.writer, 0, 5, 1);
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_DIRECT, 1), 4);
  assert_ok(gear_table_reset(table.table));
  conform_append(table.writer, 0, 100, 10);
  conform_flush(table.writer);
  conform_verify_batch(batch);
  const gear_tensor step = conform_tensor(batch, "step");
  assert_int_equal(conform_i64(&step, 3, 0), 5);
  assert_ok(gear_batch_release(batch));
  conform_close(&table);
}
