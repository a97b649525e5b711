#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/conform_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- statuses */

void conform_assert_status(int got, int wanted, const char* call, const char* file, int line) {
  if (got == wanted) return;
  print_error("%s\n  gave   %s (%d)\n  wanted %s\n  text   \"%s\"\n", call, gear_status_string(got),
              got, gear_status_string(wanted), gear_last_error());
  _fail(file, line);
}

static bool has_remedy(const char* text) {
  const char* semicolon = strrchr(text, ';');
  return semicolon != NULL && strlen(semicolon) > 8;
}

void conform_assert_explained(const char* file, int line, ...) {
  const char* text = gear_last_error();
  va_list fragments;
  va_start(fragments, line);
  for (const char* fragment = va_arg(fragments, const char*); fragment != NULL;
       fragment = va_arg(fragments, const char*)) {
    if (strstr(text, fragment) != NULL) continue;
    print_error("text   \"%s\"\n  lacks  \"%s\"\n", text, fragment);
    va_end(fragments);
    _fail(file, line);
  }
  va_end(fragments);
  if (has_remedy(text)) return;
  print_error("text   \"%s\"\n  names no remedy after a semicolon\n", text);
  _fail(file, line);
}

int64_t conform_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void conform_pause(void) {
  const struct timespec pause = {0, 200000};
  nanosleep(&pause, NULL);
}

/* ---------------------------------------------------------------- table */

gear_column_options conform_column(const char* name, uint32_t dtype, uint32_t rank,
                                   const int64_t* shape) {
  gear_column_options column = GEAR_COLUMN_OPTIONS_INIT;
  column.name = name;
  column.dtype = dtype;
  column.rank = rank;
  for (uint32_t axis = 0; axis < rank && axis < GEAR_RANK_MAX; ++axis) {
    column.shape[axis] = shape[axis];
  }
  return column;
}

gear_table_options conform_options(uint64_t capacity_items) {
  static const int64_t payload_shape[1] = {kPayloadBytes};
  static gear_column_options columns[kColumns];
  columns[kStep] = conform_column("step", GEAR_I64, 0, NULL);
  columns[kLane] = conform_column("lane", GEAR_I32, 0, NULL);
  columns[kPayload] = conform_column("payload", GEAR_U8, 1, payload_shape);

  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "steps";
  options.columns = columns;
  options.column_count = kColumns;
  options.capacity_items = capacity_items;
  return options;
}

gear_table_options conform_item_options(uint32_t policy) {
  gear_table_options options = conform_options(100);
  options.item_policy = policy;
  options.sampler = GEAR_SELECT_FIFO;
  options.max_times_sampled = 1;
  if (policy == GEAR_ITEMS_EPISODE || policy == GEAR_ITEMS_EXPLICIT) options.episode_steps_max = 32;
  return options;
}

ConformTable conform_open(const gear_table_options* options, uint32_t lanes) {
  ConformTable table = {NULL, NULL, NULL};
  assert_ok(gear_connect("embedded:", NULL, &table.client));
  gear_table_options wanted = *options;
  /* The same suite over tables whose writers have parts of their own. */
  if (getenv("GEAR_CONFORM_ISOLATION") != NULL) {
    wanted.payload_isolation = GEAR_ISOLATION_PER_WRITER;
    wanted.writers_max = 32;
  }
  assert_ok(gear_table_create(table.client, &wanted, &table.table));
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  assert_ok(gear_table_describe(table.table, &info));
  assert_int_equal(info.payload_isolation, wanted.payload_isolation);
  if (info.payload_isolation != GEAR_ISOLATION_NONE) fprintf(stderr, "isolated\n");
  gear_writer_options writer_options = GEAR_WRITER_OPTIONS_INIT;
  writer_options.lanes = lanes;
  assert_ok(gear_writer_open(table.table, &writer_options, &table.writer));
  return table;
}

ConformTable conform_open_simple(uint64_t capacity_items) {
  const gear_table_options options = conform_options(capacity_items);
  return conform_open(&options, 1);
}

void conform_close(ConformTable* table) {
  assert_ok(gear_close(table->client));
}

gear_table_stats conform_stats(const gear_table* table) {
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  assert_ok(gear_table_get_stats(table, &stats));
  return stats;
}

gear_table_info conform_info(const gear_table* table) {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  assert_ok(gear_table_describe(table, &info));
  return info;
}

/* ---------------------------------------------------------------- steps */

uint64_t conform_random(uint64_t* state) {
  /* splitmix64 */
  uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

ConformStep conform_step(int32_t lane, int64_t step) {
  ConformStep content;
  content.step = step;
  content.lane = lane;
  uint64_t state = ((uint64_t)(uint32_t)lane << 40) ^ (uint64_t)step;
  for (int i = 0; i < kPayloadBytes; ++i) content.payload[i] = (uint8_t)conform_random(&state);
  return content;
}

gear_cell conform_cell(uint32_t column, uint32_t dtype, uint32_t rank, const int64_t* shape,
                       const void* data) {
  gear_cell cell;
  memset(&cell, 0, sizeof cell);
  cell.column = column;
  cell.dtype = (uint16_t)dtype;
  cell.rank = (uint16_t)rank;
  cell.shape = shape;
  cell.data = data;
  return cell;
}

void conform_cells(const ConformStep* step, gear_cell cells[kColumns]) {
  static const int64_t payload_shape[1] = {kPayloadBytes};
  cells[kStep] = conform_cell(kStep, GEAR_I64, 0, NULL, &step->step);
  cells[kLane] = conform_cell(kLane, GEAR_I32, 0, NULL, &step->lane);
  cells[kPayload] = conform_cell(kPayload, GEAR_U8, 1, payload_shape, step->payload);
}

int conform_try_append(gear_writer* writer, uint32_t lane, int64_t step, int64_t timeout_ns) {
  const ConformStep content = conform_step((int32_t)lane, step);
  gear_cell cells[kColumns];
  conform_cells(&content, cells);
  return gear_writer_append(writer, lane, cells, kColumns, timeout_ns);
}

void conform_append(gear_writer* writer, uint32_t lane, int64_t first, int64_t count) {
  for (int64_t step = first; step < first + count; ++step) {
    assert_ok(conform_try_append(writer, lane, step, CONFORM_PATIENCE_NS));
  }
}

void conform_append_priority(gear_writer* writer, int64_t step, double priority) {
  assert_ok(gear_writer_set_priority(writer, 0, &priority, CONFORM_PATIENCE_NS));
  conform_append(writer, 0, step, 1);
}

void conform_end(gear_writer* writer, uint32_t lane, gear_end end) {
  assert_ok(gear_writer_end_episode(writer, lane, end, NULL, 0, CONFORM_PATIENCE_NS));
}

void conform_flush(gear_writer* writer) {
  uint64_t waiting = UINT64_MAX;
  assert_ok(gear_writer_flush(writer, CONFORM_PATIENCE_NS, &waiting));
}

/* ---------------------------------------------------------------- draws */

gear_window conform_window(const char* column, const char* name, int32_t offset, uint32_t length) {
  gear_window window = GEAR_WINDOW_INIT;
  window.column = column;
  window.name = name;
  window.offset = offset;
  window.length = length;
  return window;
}

void conform_windows(gear_window windows[kColumns], int32_t offset, uint32_t length) {
  windows[kStep] = conform_window("step", NULL, offset, length);
  windows[kLane] = conform_window("lane", NULL, offset, length);
  windows[kPayload] = conform_window("payload", NULL, offset, length);
}

gear_sampler* conform_sampler(gear_table* table, uint32_t mode, uint64_t seed) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.seed = seed;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

gear_sampler* conform_window_sampler(gear_table* table, const gear_window* windows,
                                     uint32_t count) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.windows = windows;
  options.window_count = count;
  options.seed = 1;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

gear_batch* conform_sample(gear_sampler* sampler, uint32_t rows) {
  gear_batch* batch = NULL;
  assert_ok(gear_sample(sampler, rows, CONFORM_PATIENCE_NS, &batch));
  assert_int_equal(gear_batch_rows(batch), rows);
  return batch;
}

gear_tensor conform_tensor(const gear_batch* batch, const char* name) {
  gear_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  const uint32_t count = gear_batch_tensor_count(batch);
  for (uint32_t index = 0; index < count; ++index) {
    assert_ok(gear_batch_tensor(batch, index, &tensor));
    if (strcmp(tensor.name, name) == 0) return tensor;
  }
  fail_msg("the batch has no tensor \"%s\" among its %u", name, count);
  return tensor;
}

gear_batch* conform_draw_step(gear_sampler* sampler, int64_t step, uint32_t* row) {
  for (int tries = 0; tries < 1000; ++tries) {
    gear_batch* batch = conform_sample(sampler, 64);
    const gear_tensor drawn = conform_tensor(batch, "drawn");
    for (*row = 0; *row < 64; ++*row) {
      if (conform_i64(&drawn, *row, 0) == step) return batch;
    }
    assert_ok(gear_batch_release(batch));
  }
  fail_msg("step %" PRId64 " was never drawn", step);
  return NULL;
}

/* Where place `index` of row `row` lies; a length of 1 has no axis of its own. */
static const uint8_t* window_place(const gear_tensor* tensor, uint32_t row, uint32_t index) {
  const uint8_t* place = (const uint8_t*)tensor->data + (int64_t)row * tensor->strides[0];
  if (tensor->length > 1) place += (int64_t)index * tensor->strides[1];
  return place;
}

int64_t conform_i64(const gear_tensor* tensor, uint32_t row, uint32_t index) {
  assert_int_equal(tensor->dtype, GEAR_I64);
  int64_t value = 0;
  memcpy(&value, window_place(tensor, row, index), sizeof value);
  return value;
}

uint8_t conform_mask(const gear_tensor* tensor, uint32_t row, uint32_t index) {
  return tensor->mask[(size_t)row * tensor->length + index];
}

static void verify_place(const gear_tensor tensors[kColumns], uint32_t row, uint32_t index) {
  ConformStep got;
  got.step = conform_i64(&tensors[kStep], row, index);
  memcpy(&got.lane, window_place(&tensors[kLane], row, index), sizeof got.lane);
  memcpy(got.payload, window_place(&tensors[kPayload], row, index), kPayloadBytes);
  const ConformStep wanted = conform_step(got.lane, got.step);
  if (memcmp(got.payload, wanted.payload, kPayloadBytes) != 0) {
    fail_msg("row %u place %u: payload is not that of lane %d step %" PRId64, row, index, got.lane,
             got.step);
  }
  /* Within a row, lane and steps go on as they were appended. */
  if (index == 0 || !conform_mask(&tensors[kStep], row, index - 1)) return;
  int32_t lane_before = -1;
  memcpy(&lane_before, window_place(&tensors[kLane], row, index - 1), sizeof lane_before);
  assert_int_equal(got.lane, lane_before);
  assert_int_equal(got.step, conform_i64(&tensors[kStep], row, index - 1) + 1);
}

void conform_verify_batch(const gear_batch* batch) {
  const gear_tensor tensors[kColumns] = {conform_tensor(batch, "step"),
                                         conform_tensor(batch, "lane"),
                                         conform_tensor(batch, "payload")};
  const uint32_t rows = gear_batch_rows(batch);
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t index = 0; index < tensors[kStep].length; ++index) {
      assert_int_equal(conform_mask(&tensors[kStep], row, index),
                       conform_mask(&tensors[kPayload], row, index));
      if (conform_mask(&tensors[kStep], row, index)) verify_place(tensors, row, index);
    }
  }
}

size_t conform_drain(gear_table* table, ConformItem* items, size_t items_max) {
  gear_window windows[2] = {conform_window("step", NULL, 0, 1), conform_window("lane", NULL, 0, 1)};
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.windows = windows;
  options.window_count = 2;
  options.anchor = GEAR_ANCHOR_FIRST;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));

  const size_t count = conform_stats(table).items;
  assert_true(count <= items_max);
  for (size_t i = 0; i < count; ++i) {
    gear_batch* batch = conform_sample(sampler, 1);
    const gear_tensor step = conform_tensor(batch, "step");
    const gear_tensor lane = conform_tensor(batch, "lane");
    items[i].first = conform_i64(&step, 0, 0);
    items[i].length = gear_batch_item_lengths(batch)[0];
    items[i].reserved = 0;
    memcpy(&items[i].lane, lane.data, sizeof items[i].lane);
    assert_ok(gear_batch_release(batch));
  }
  wait_until(conform_stats(table).items == 0);
  assert_ok(gear_sampler_close(sampler));
  return count;
}

void conform_assert_items(gear_table* table, const ConformItem* wanted, size_t count) {
  ConformItem got[64];
  assert_true(count <= 64);
  const size_t got_count = conform_drain(table, got, 64);
  for (size_t i = 0; i < count && i < got_count; ++i) {
    if (got[i].first == wanted[i].first && got[i].length == wanted[i].length) continue;
    fail_msg("item %zu: steps %" PRId64 " and on, %u of them; wanted %" PRId64 ", %u", i,
             got[i].first, got[i].length, wanted[i].first, wanted[i].length);
  }
  assert_int_equal(got_count, count);
}

void conform_keys(gear_table* table, uint64_t* keys, size_t count) {
  gear_window window = conform_window("step", NULL, 0, 1);
  gear_sampler* sampler = conform_window_sampler(table, &window, 1);
  bool* known = calloc(count, sizeof *known);
  assert_non_null(known);
  const int64_t deadline_ns = conform_now_ns() + CONFORM_PATIENCE_NS;
  for (size_t found = 0; found < count;) {
    assert_true(conform_now_ns() < deadline_ns);
    gear_batch* batch = conform_sample(sampler, 64);
    const gear_tensor tensor = conform_tensor(batch, "step");
    for (uint32_t row = 0; row < 64; ++row) {
      const int64_t step = conform_i64(&tensor, row, 0);
      assert_in_range(step, 0, count - 1);
      keys[step] = gear_batch_keys(batch)[row];
      found += !known[step];
      known[step] = true;
    }
    assert_ok(gear_batch_release(batch));
  }
  free(known);
  assert_ok(gear_sampler_close(sampler));
}

/* ---------------------------------------------------------------- unchanged */

static void add_name(const char* name, void* user) {
  char* names = user;
  const size_t used = strlen(names);
  snprintf(names + used, 1024 - used, "%s\n", name);
}

ConformSnapshot conform_snapshot(const ConformTable* table) {
  ConformSnapshot snapshot;
  memset(&snapshot, 0, sizeof snapshot);
  snapshot.info = conform_info(table->table);
  snapshot.stats = conform_stats(table->table);
  /* Grants run ahead of appends at the server's own pace. */
  snapshot.stats.blocks_free = 0;
  assert_ok(gear_table_list(table->client, add_name, snapshot.names));
  return snapshot;
}

void conform_assert_unharmed(ConformTable* table, const ConformSnapshot* before) {
  conform_flush(table->writer);
  const ConformSnapshot after = conform_snapshot(table);
  assert_memory_equal(&after.stats, &before->stats, sizeof after.stats);
  assert_string_equal(after.names, before->names);
  assert_int_equal(after.info.table_id, before->info.table_id);
  assert_int_equal(after.info.data_bytes, before->info.data_bytes);
  assert_int_equal(after.info.directory_bytes, before->info.directory_bytes);

  conform_append(table->writer, 0, (int64_t)before->stats.steps, 1);
  conform_flush(table->writer);
  assert_int_equal(conform_stats(table->table).steps, before->stats.steps + 1);
  gear_sampler* sampler = conform_sampler(table->table, GEAR_SAMPLE_AUTO, 1);
  gear_batch* batch = conform_sample(sampler, 8);
  conform_verify_batch(batch);
  assert_ok(gear_batch_release(batch));
  assert_ok(gear_sampler_close(sampler));
}

/* ---------------------------------------------------------------- chance */

uint64_t conform_seed(void) {
  const char* text = getenv("GEAR_TEST_SEED");
  const uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : UINT64_C(20231);
  print_message("seed %" PRIu64 " (GEAR_TEST_SEED overrides)\n", seed);
  return seed;
}

/* 99.9 % quantile of the chi-square distribution. */
static double chi_square_bound(size_t degrees) {
  static const struct {
    size_t degrees;
    double bound;
  } table[] = {{1, 10.828},  {2, 13.816},   {3, 16.266},  {4, 18.467}, {5, 20.515},
               {6, 22.458},  {7, 24.322},   {8, 26.124},  {9, 27.877}, {10, 29.588},
               {19, 43.820}, {89, 135.978}, {99, 148.230}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
    if (table[i].degrees == degrees) return table[i].bound;
  }
  fail_msg("no chi-square bound for %zu degrees of freedom; add it to the table", degrees);
  return 0.0;
}

void conform_assert_distribution(const uint64_t* counts, const double* probabilities,
                                 size_t count) {
  uint64_t draws = 0;
  for (size_t i = 0; i < count; ++i) draws += counts[i];
  double statistic = 0.0;
  size_t possible = 0;
  for (size_t i = 0; i < count; ++i) {
    if (probabilities[i] == 0.0) {
      assert_int_equal(counts[i], 0);
      continue;
    }
    const double expected = probabilities[i] * (double)draws;
    const double off = (double)counts[i] - expected;
    statistic += off * off / expected;
    ++possible;
  }
  const double bound = chi_square_bound(possible - 1);
  if (statistic >= bound) {
    fail_msg("chi-square %.3f of %" PRIu64 " draws over %zu outcomes, bound %.3f", statistic, draws,
             possible, bound);
  }
}
