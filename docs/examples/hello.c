/* A whole program: a server within this process, an actor that appends, a learner that samples. */
#include <gear.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSteps = 1000, kRows = 5 };
static const int64_t kWaitNs = 10000000000;

/* A failure has a name, and a text with what was tried, the values and the remedy. */
static void check(int status) {
  if (status == GEAR_OK) return;
  fprintf(stderr, "hello: %s: %s\n", gear_status_string(status), gear_last_error());
  exit(1);
}

/* The actor walks 0, 1, .. 9 in every episode. */
static void* act(void* table) {
  gear_writer* writer;
  check(gear_writer_open(table, NULL, &writer));
  for (int step = 0; step < kSteps; ++step) {
    float position = (float)(step % 10);
    gear_cell cell = {.column = 0, .dtype = GEAR_F32, .data = &position};
    check(gear_writer_append(writer, 0, &cell, 1, kWaitNs));
    if (position == 9) check(gear_writer_end_episode(writer, 0, GEAR_TERMINATED, NULL, 0, kWaitNs));
  }
  check(gear_writer_close(writer));
  return NULL;
}

int main(void) {
  gear_column_options column = {sizeof column, .dtype = GEAR_F32, .name = "position"};
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "walk", options.columns = &column, options.column_count = 1;
  options.capacity_items = kSteps;
  check(gear_rate_limiter_min_size(kSteps / 2, &options.limiter)); /* draws wait for that many */
  gear_client* client;
  gear_table* table;
  pthread_t actor;
  check(gear_connect("embedded:", NULL, &client));
  check(gear_table_create(client, &options, &table));
  if (pthread_create(&actor, NULL, act, table) != 0) return 1;

  /* The learner draws steps, each with the one after it: a window over the one stored column. */
  gear_window window = {sizeof window, .column = "position", .length = 2};
  gear_sampler_options sampling = {sizeof sampling, .windows = &window, .window_count = 1};
  gear_sampler* sampler;
  gear_batch* batch;
  gear_tensor walk;
  check(gear_sampler_open(table, &sampling, &sampler));
  check(gear_sample(sampler, kRows, kWaitNs, &batch));
  check(gear_batch_tensor(batch, 0, &walk));
  const float* row = walk.data;
  for (int i = 0; i < kRows; ++i, row += 2)
    printf("%g -> %g%s\n", row[0], row[1], walk.mask[2 * i + 1] ? "" : " (past the end)");
  check(gear_batch_release(batch));
  pthread_join(actor, NULL);
  return gear_close(client) == GEAR_OK ? 0 : 1;
}
