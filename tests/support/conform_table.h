/* Fixtures of the conformance suite: an embedded server with one table, cells whose content is a
 * function of lane and step, and checks of what comes back. Uses gear.h only.
 *
 * Checks end the running test by cmocka and belong to the test's own thread; other threads record a
 * status and leave the judgement to it.
 */
#ifndef GEAR_TESTS_SUPPORT_CONFORM_TABLE_H
#define GEAR_TESTS_SUPPORT_CONFORM_TABLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those above first. */
#include <cmocka.h>

#include "gear.h"

/* Long enough for any machine; what should happen happens far sooner. */
#define CONFORM_PATIENCE_NS INT64_C(10000000000)
/* How long a call that must not proceed is watched. */
#define CONFORM_BLOCKED_NS INT64_C(20000000)

/* The standard columns: "step" i64 [], "lane" i32 [], "payload" u8 [13]. */
enum { kStep = 0, kLane = 1, kPayload = 2, kColumns = 3, kPayloadBytes = 13 };

/* ---------------------------------------------------------------- statuses */

#define assert_ok(call) conform_assert_status((call), GEAR_OK, #call, __FILE__, __LINE__)
#define assert_status(call, wanted) \
  conform_assert_status((call), (wanted), #call, __FILE__, __LINE__)
void conform_assert_status(int got, int wanted, const char* call, const char* file, int line);

/* gear_last_error() carries each of the fragments (a NULL ends them) and, after a semicolon, a
 * remedy. */
#define assert_explained(...) conform_assert_explained(__FILE__, __LINE__, __VA_ARGS__, (char*)NULL)
void conform_assert_explained(const char* file, int line, ...);

/* Waits, with a bound, until the condition holds. */
#define wait_until(condition)                                                          \
  do {                                                                                 \
    const int64_t deadline_ns = conform_now_ns() + CONFORM_PATIENCE_NS;                \
    while (!(condition)) {                                                             \
      if (conform_now_ns() > deadline_ns) fail_msg("never came true: %s", #condition); \
      conform_pause();                                                                 \
    }                                                                                  \
  } while (0)
int64_t conform_now_ns(void);
void conform_pause(void);

/* ---------------------------------------------------------------- table */

typedef struct ConformTable {
  gear_client* client;
  gear_table* table;
  gear_writer* writer;
} ConformTable;

/* Options of a table "steps" with the standard columns; a test changes what it is about. */
gear_table_options conform_options(uint64_t capacity_items);
/* As conform_options, of an item policy, FIFO, each item drawn once: conform_drain shows its items.
 */
gear_table_options conform_item_options(uint32_t policy);
gear_column_options conform_column(const char* name, uint32_t dtype, uint32_t rank,
                                   const int64_t* shape);

/* Connects to a new embedded server, creates the table and opens a writer of so many lanes. */
ConformTable conform_open(const gear_table_options* options, uint32_t lanes);
/* conform_open of conform_options with one lane. */
ConformTable conform_open_simple(uint64_t capacity_items);
void conform_close(ConformTable* table);

gear_table_stats conform_stats(const gear_table* table);
gear_table_info conform_info(const gear_table* table);

/* ---------------------------------------------------------------- steps */

typedef struct ConformStep {
  int64_t step;
  int32_t lane;
  uint8_t payload[kPayloadBytes];
} ConformStep;

/* The one content that lane and step may have. */
ConformStep conform_step(int32_t lane, int64_t step);
/* Cells of the standard columns that point into *step. */
void conform_cells(const ConformStep* step, gear_cell cells[kColumns]);
/* One cell of a C-contiguous value. */
gear_cell conform_cell(uint32_t column, uint32_t dtype, uint32_t rank, const int64_t* shape,
                       const void* data);

/* Append steps first .. first+count-1 of a lane; the lane's index is also its content. */
void conform_append(gear_writer* writer, uint32_t lane, int64_t first, int64_t count);
int conform_try_append(gear_writer* writer, uint32_t lane, int64_t step, int64_t timeout_ns);
void conform_end(gear_writer* writer, uint32_t lane, gear_end end);
void conform_flush(gear_writer* writer);
/* Appends step `step` with a priority, on lane 0. */
void conform_append_priority(gear_writer* writer, int64_t step, double priority);

/* ---------------------------------------------------------------- draws */

gear_window conform_window(const char* column, const char* name, int32_t offset, uint32_t length);
/* The same window over each standard column. */
void conform_windows(gear_window windows[kColumns], int32_t offset, uint32_t length);
gear_sampler* conform_sampler(gear_table* table, uint32_t mode, uint64_t seed);
gear_sampler* conform_window_sampler(gear_table* table, const gear_window* windows, uint32_t count);
gear_batch* conform_sample(gear_sampler* sampler, uint32_t rows);
/* Draws until a row comes whose i64 window "drawn" (offset 0, length 1) shows `step`; *row is its
 * number. */
gear_batch* conform_draw_step(gear_sampler* sampler, int64_t step, uint32_t* row);
gear_tensor conform_tensor(const gear_batch* batch, const char* name);
/* Place `index` of row `row`'s window in an i64 tensor. */
int64_t conform_i64(const gear_tensor* tensor, uint32_t row, uint32_t index);
uint8_t conform_mask(const gear_tensor* tensor, uint32_t row, uint32_t index);
/* Every row of the default windows is what its writer appended. */
void conform_verify_batch(const gear_batch* batch);

typedef struct ConformItem {
  int64_t first;   /* content of "step" at the item's first step */
  uint32_t length; /* steps */
  int32_t lane;
  uint32_t reserved;
} ConformItem;

/* Draws until the table is empty; needs a table of conform_item_options. Returns how many came. */
size_t conform_drain(gear_table* table, ConformItem* items, size_t items_max);
void conform_assert_items(gear_table* table, const ConformItem* wanted, size_t count);

/* Keys of a table that holds steps 0 .. count-1 of one lane, by step; drawn until all are known. */
void conform_keys(gear_table* table, uint64_t* keys, size_t count);

/* ---------------------------------------------------------------- unchanged */

/* All that describe, stats and list tell. */
typedef struct ConformSnapshot {
  gear_table_info info;
  gear_table_stats stats;
  char names[1024];
} ConformSnapshot;

ConformSnapshot conform_snapshot(const ConformTable* table);
/* Nothing changed since, and a right append and draw still work. */
void conform_assert_unharmed(ConformTable* table, const ConformSnapshot* before);

/* ---------------------------------------------------------------- chance */

/* Of this test run, from GEAR_TEST_SEED or fixed; printed. */
uint64_t conform_seed(void);
uint64_t conform_random(uint64_t* state);
/* Observed counts agree with the probabilities: chi-square below its 99.9 % quantile. */
void conform_assert_distribution(const uint64_t* counts, const double* probabilities, size_t count);

#endif /* GEAR_TESTS_SUPPORT_CONFORM_TABLE_H */
