// ctest: labels=tsan
/* Calls that wait are woken by what ends their wait, with the status that says what it was. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conform/conform.h"
#include "support/conform_table.h"

/* A thread in one call that waits. */
typedef struct Waiter {
  ConformTable* table;
  gear_sampler* sampler;
  void* (*wait)(void*);
  pthread_t thread;
  atomic_int id;
  int status;
  uint32_t rows; /* sample: how many */
  int64_t step;  /* sample: what was drawn; append: what is appended */
} Waiter;

static void* wait_in_sample(void* user) {
  Waiter* waiter = user;
  gear_batch* batch = NULL;
  atomic_store(&waiter->id, (int)syscall(SYS_gettid));
  waiter->status = gear_sample(waiter->sampler, waiter->rows, 3 * CONFORM_PATIENCE_NS, &batch);
  gear_tensor tensor;
  if (waiter->status == GEAR_OK && gear_batch_tensor(batch, kStep, &tensor) == GEAR_OK) {
    memcpy(&waiter->step, tensor.data, sizeof waiter->step);
  }
  return NULL;
}

static void* wait_in_flush(void* user) {
  Waiter* waiter = user;
  atomic_store(&waiter->id, (int)syscall(SYS_gettid));
  waiter->status = gear_writer_flush(waiter->table->writer, 3 * CONFORM_PATIENCE_NS, NULL);
  return NULL;
}

static void* wait_in_append(void* user) {
  Waiter* waiter = user;
  atomic_store(&waiter->id, (int)syscall(SYS_gettid));
  /* As many steps as it takes until there is no more space. */
  while (waiter->status == GEAR_OK) {
    waiter->status =
        conform_try_append(waiter->table->writer, 0, waiter->step++, 3 * CONFORM_PATIENCE_NS);
  }
  return NULL;
}

/* The kernel shows the thread asleep. */
static bool is_asleep(const Waiter* waiter) {
  char path[64];
  char text[256] = "";
  const int id = atomic_load(&waiter->id);
  if (id == 0) return false;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
  FILE* file = fopen(path, "r");
  if (file == NULL) return false;
  const size_t read = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  const char* state = read > 0 ? strrchr(text, ')') : NULL;
  return state != NULL && state[2] == 'S';
}

static void start(Waiter* waiter) {
  assert_int_equal(pthread_create(&waiter->thread, NULL, waiter->wait, waiter), 0);
  wait_until(is_asleep(waiter));
}

static void assert_woken(Waiter* waiter, int status) {
  const int64_t begin_ns = conform_now_ns();
  assert_int_equal(pthread_join(waiter->thread, NULL), 0);
  assert_true(conform_now_ns() - begin_ns < CONFORM_PATIENCE_NS);
  assert_string_equal(gear_status_string(waiter->status), gear_status_string(status));
}

/* A table that is empty, for draws to wait on. */
static void start_sampling(Waiter* waiter, ConformTable* table, uint32_t mode) {
  memset(waiter, 0, sizeof *waiter);
  *table = conform_open_simple(10);
  waiter->table = table;
  waiter->sampler = conform_sampler(table->table, mode, 1);
  waiter->wait = wait_in_sample;
  waiter->rows = 1;
  start(waiter);
}

/* A queue of one that is full; in flush one more step waits, in append as many as there is space
 * for. */
static void start_writing(Waiter* waiter, ConformTable* table, void* (*wait)(void*)) {
  memset(waiter, 0, sizeof *waiter);
  gear_table_options options = conform_options(4);
  assert_ok(gear_table_options_queue(1, &options));
  options.block_steps = 2;
  *table = conform_open(&options, 1);
  conform_append(table->writer, 0, 0, 1);
  conform_flush(table->writer);
  waiter->table = table;
  waiter->wait = wait;
  waiter->step = 1;
  if (wait == wait_in_flush) conform_append(table->writer, 0, 1, 1);
  start(waiter);
}

static void assert_append_wakes_sample(uint32_t mode) {
  Waiter waiter;
  ConformTable table;
  start_sampling(&waiter, &table, mode);
  conform_append(table.writer, 0, 7, 1);
  assert_woken(&waiter, GEAR_OK);
  assert_int_equal(waiter.step, 7);
  conform_close(&table);
}

GEAR_TEST(AppendWakesADirectSample) {
  assert_append_wakes_sample(GEAR_SAMPLE_DIRECT);
}

GEAR_TEST(AppendWakesALeasedSample) {
  assert_append_wakes_sample(GEAR_SAMPLE_LEASED);
}

static void assert_close_wakes_sample(uint32_t mode) {
  Waiter waiter;
  ConformTable table;
  start_sampling(&waiter, &table, mode);
  assert_ok(gear_table_close(table.table));
  assert_woken(&waiter, GEAR_ECLOSED);
  conform_close(&table);
}

/* SEMANTICS 45 */
GEAR_TEST(CloseWakesADirectSample) {
  assert_close_wakes_sample(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 45 */
GEAR_TEST(CloseWakesALeasedSample) {
  assert_close_wakes_sample(GEAR_SAMPLE_LEASED);
}

static void assert_drop_wakes_sample(uint32_t mode) {
  Waiter waiter;
  ConformTable table;
  start_sampling(&waiter, &table, mode);
  assert_ok(gear_table_drop(table.client, "steps"));
  assert_woken(&waiter, GEAR_EDROPPED);
  conform_close(&table);
}

GEAR_TEST(DropWakesADirectSample) {
  assert_drop_wakes_sample(GEAR_SAMPLE_DIRECT);
}

GEAR_TEST(DropWakesALeasedSample) {
  assert_drop_wakes_sample(GEAR_SAMPLE_LEASED);
}

static void assert_reset_leaves_sample_waiting(uint32_t mode) {
  Waiter waiter;
  ConformTable table;
  start_sampling(&waiter, &table, mode);
  assert_ok(gear_table_reset(table.table));
  conform_append(table.writer, 0, 7, 1);
  assert_woken(&waiter, GEAR_OK);
  assert_int_equal(waiter.step, 7);
  conform_close(&table);
}

/* SEMANTICS 27 */
GEAR_TEST(DirectSampleWaitsThroughAResetForTheNextStep) {
  assert_reset_leaves_sample_waiting(GEAR_SAMPLE_DIRECT);
}

/* SEMANTICS 27 */
GEAR_TEST(LeasedSampleWaitsThroughAResetForTheNextStep) {
  assert_reset_leaves_sample_waiting(GEAR_SAMPLE_LEASED);
}

/* SEMANTICS 38 */
GEAR_TEST(DrawWakesAFlush) {
  Waiter waiter;
  ConformTable table;
  start_writing(&waiter, &table, wait_in_flush);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  assert_ok(gear_batch_release(conform_sample(sampler, 1)));
  assert_woken(&waiter, GEAR_OK);
  conform_close(&table);
}

GEAR_TEST(CloseWakesAFlush) {
  Waiter waiter;
  ConformTable table;
  start_writing(&waiter, &table, wait_in_flush);
  assert_ok(gear_table_close(table.table));
  assert_woken(&waiter, GEAR_ECLOSED);
  conform_close(&table);
}

GEAR_TEST(DropWakesAFlush) {
  Waiter waiter;
  ConformTable table;
  start_writing(&waiter, &table, wait_in_flush);
  assert_ok(gear_table_drop(table.client, "steps"));
  assert_woken(&waiter, GEAR_EDROPPED);
  conform_close(&table);
}

GEAR_TEST(CloseWakesAnAppendThatWaitsForSpace) {
  Waiter waiter;
  ConformTable table;
  start_writing(&waiter, &table, wait_in_append);
  assert_ok(gear_table_close(table.table));
  assert_woken(&waiter, GEAR_ECLOSED);
  conform_close(&table);
}

GEAR_TEST(DropWakesAnAppendThatWaitsForSpace) {
  Waiter waiter;
  ConformTable table;
  start_writing(&waiter, &table, wait_in_append);
  assert_ok(gear_table_drop(table.client, "steps"));
  assert_woken(&waiter, GEAR_EDROPPED);
  conform_close(&table);
}

GEAR_TEST(DrawsWakeAnAppendThatWaitsForSpace) {
  Waiter waiter;
  ConformTable table;
  start_writing(&waiter, &table, wait_in_append);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  for (int64_t step = 0; step < 200; ++step) {
    gear_batch* batch = conform_sample(sampler, 1);
    const gear_tensor tensor = conform_tensor(batch, "step");
    assert_int_equal(conform_i64(&tensor, 0, 0), step);
    assert_ok(gear_batch_release(batch));
  }
  assert_ok(gear_table_close(table.table));
  assert_woken(&waiter, GEAR_ECLOSED);
  conform_close(&table);
}

/* SEMANTICS 23 */
GEAR_TEST(SampleThatWaitsForMoreThanThereIsLeavesTheItemsToOthers) {
  Waiter waiter;
  memset(&waiter, 0, sizeof waiter);
  gear_table_options options = conform_options(10);
  options.max_times_sampled = 1;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 2);
  conform_flush(table.writer);
  waiter.sampler = conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1);
  waiter.wait = wait_in_sample;
  waiter.rows = 3;
  start(&waiter);
  conform_verify_batch(conform_sample(conform_sampler(table.table, GEAR_SAMPLE_LEASED, 1), 2));
  conform_append(table.writer, 0, 2, 3);
  assert_woken(&waiter, GEAR_OK);
  conform_close(&table);
}
