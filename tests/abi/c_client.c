/* The smallest client in C. Every language has the same one:
 *
 *   client create ENDPOINT                       makes the table (C only) and prints its handle
 *   client write HANDLE LANGUAGE STEPS           appends steps that are a function of language and
 * step client read HANDLE LANGUAGE STEPS OTHER      appends too, then draws until it saw each of
 * OTHER's steps; checks every cell of every row, whoever wrote it
 */
#include <gear.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatchRows = 64, kBatchesMax = 2000, kValues = 4, kPixels = 6 };
static const int64_t kTimeoutNs = 10000000000;

static void check(int status) {
  if (status == GEAR_OK) return;
  fprintf(stderr, "c: %s: %s\n", gear_status_string(status), gear_last_error());
  exit(1);
}

static float value_of(int64_t language, int64_t step, int64_t i) {
  return (float)(1000 * language + 4 * step + i) + 0.5f;
}
static uint8_t pixel_of(int64_t language, int64_t step, int64_t i) {
  return (uint8_t)(31 * language + 7 * step + i);
}

static void create(const char* endpoint) {
  gear_column_options columns[] = {
      {.struct_size = sizeof(gear_column_options), .name = "language", .dtype = GEAR_U32},
      {.struct_size = sizeof(gear_column_options), .name = "step", .dtype = GEAR_I64},
      {.struct_size = sizeof(gear_column_options),
       .name = "values",
       .dtype = GEAR_F32,
       .rank = 1,
       .shape = {kValues}},
      {.struct_size = sizeof(gear_column_options),
       .name = "image",
       .dtype = GEAR_U8,
       .rank = 2,
       .shape = {2, 3}}};
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "languages";
  options.columns = columns;
  options.column_count = 4;
  options.capacity_items = 4096;
  gear_client* client;
  gear_table* table;
  char handle[GEAR_HANDLE_BYTES + 1];
  check(gear_connect(endpoint, NULL, &client));
  check(gear_table_create(client, &options, &table));
  check(gear_table_handle(table, handle));
  puts(handle);
  check(gear_close(client));
}

static void write_steps(gear_table* table, uint32_t language, int64_t steps) {
  const int64_t values_shape[] = {kValues}, image_shape[] = {2, 3};
  gear_writer* writer;
  check(gear_writer_open(table, NULL, &writer));
  for (int64_t step = 0; step < steps; ++step) {
    float values[kValues];
    uint8_t image[kPixels];
    for (int i = 0; i < kValues; ++i) values[i] = value_of(language, step, i);
    for (int i = 0; i < kPixels; ++i) image[i] = pixel_of(language, step, i);
    const gear_cell cells[] = {
        {.column = 0, .dtype = GEAR_U32, .data = &language},
        {.column = 1, .dtype = GEAR_I64, .data = &step},
        {.column = 2, .dtype = GEAR_F32, .rank = 1, .data = values, .shape = values_shape},
        {.column = 3, .dtype = GEAR_U8, .rank = 2, .data = image, .shape = image_shape}};
    check(gear_writer_append(writer, 0, cells, 4, kTimeoutNs));
  }
  check(gear_writer_flush(writer, kTimeoutNs, NULL));
  check(gear_writer_close(writer));
}

static const void* data_of(const gear_batch* batch, uint32_t index) {
  gear_tensor tensor;
  check(gear_batch_tensor(batch, index, &tensor));
  return tensor.data;
}

/* Marks in `seen` the steps of `other`; returns how many were new. */
static int64_t check_batch(const gear_batch* batch, uint32_t other, int64_t steps, char* seen) {
  const uint32_t* languages = data_of(batch, 0);
  const int64_t* numbers = data_of(batch, 1);
  const float* values = data_of(batch, 2);
  const uint8_t* image = data_of(batch, 3);
  int64_t fresh = 0;
  for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
    const uint32_t language = languages[row];
    const int64_t step = numbers[row];
    int right = step >= 0 && step < steps;
    for (int i = 0; i < kValues; ++i)
      right &= values[row * kValues + i] == value_of(language, step, i);
    for (int i = 0; i < kPixels; ++i)
      right &= image[row * kPixels + i] == pixel_of(language, step, i);
    if (!right) {
      fprintf(stderr, "c: wrong cells in step %lld of language %u\n", (long long)step, language);
      exit(1);
    }
    if (language == other && !seen[step]) {
      seen[step] = 1;
      ++fresh;
    }
  }
  return fresh;
}

static void read_steps(gear_table* table, uint32_t other, int64_t steps) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.batch_rows_max = kBatchRows;
  gear_sampler* sampler;
  char* seen = calloc((size_t)steps, 1);
  int64_t left = steps;
  check(gear_sampler_open(table, &options, &sampler));
  for (int i = 0; i < kBatchesMax && left > 0; ++i) {
    gear_batch* batch;
    check(gear_sample(sampler, kBatchRows, kTimeoutNs, &batch));
    left -= check_batch(batch, other, steps, seen);
    check(gear_batch_release(batch));
  }
  check(gear_sampler_close(sampler));
  free(seen);
  if (left == 0) return;
  fprintf(stderr, "c: %lld steps of language %u were never drawn\n", (long long)left, other);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "create") == 0) {
    create(argv[2]);
    return 0;
  }
  if (argc < 5) return 2;
  char endpoint[16 + GEAR_HANDLE_BYTES];
  snprintf(endpoint, sizeof endpoint, "handle:%s", argv[2]);
  gear_client* client;
  gear_table* table;
  check(gear_connect(endpoint, NULL, &client));
  check(gear_table_attach(client, argv[2], &table));
  write_steps(table, (uint32_t)atoi(argv[3]), atoll(argv[4]));
  if (argc == 6) read_steps(table, (uint32_t)atoi(argv[5]), atoll(argv[4]));
  check(gear_close(client));
  return 0;
}
