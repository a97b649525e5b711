/* What append, append_many, reserve and flush promise. */
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

/* A queue that admits `admitted` steps and has room for a hundred. */
static ConformTable open_queue(uint64_t admitted) {
  gear_table_options options = conform_options(100);
  assert_ok(gear_table_options_queue(admitted, &options));
  return conform_open(&options, 1);
}

static void assert_rows_are(gear_table* table, int64_t first, int64_t last) {
  gear_batch* batch = conform_sample(conform_sampler(table, GEAR_SAMPLE_AUTO, 1), 64);
  conform_verify_batch(batch);
  const gear_tensor step = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 64; ++row) {
    assert_in_range(conform_i64(&step, row, 0), first, last);
  }
  assert_ok(gear_batch_release(batch));
}

/* SEMANTICS 38 */
GEAR_TEST(AppendReturnsWhileTheLimiterHoldsTheStepBack) {
  ConformTable table = open_queue(2);
  conform_append(table.writer, 0, 0, 2);
  conform_flush(table.writer);
  assert_ok(conform_try_append(table.writer, 0, 2, CONFORM_BLOCKED_NS));
  assert_int_equal(conform_stats(table.table).steps, 2);
  conform_close(&table);
}

/* SEMANTICS 38 */
GEAR_TEST(FlushTimesOutWithTheNumberOfStepsThatTheLimiterHoldsBack) {
  ConformTable table = open_queue(2);
  for (int64_t step = 0; step < 5; ++step) {
    assert_ok(conform_try_append(table.writer, 0, step, CONFORM_BLOCKED_NS));
  }
  uint64_t waiting = 0;
  assert_status(gear_writer_flush(table.writer, CONFORM_BLOCKED_NS, &waiting), GEAR_ETIMEDOUT);
  assert_int_equal(waiting, 3);
  assert_explained("3");
  conform_close(&table);
}

/* SEMANTICS 38 */
GEAR_TEST(FlushReturnsOnceDrawsLetTheWaitingStepsIn) {
  ConformTable table = open_queue(2);
  conform_append(table.writer, 0, 0, 3);
  uint64_t waiting = 0;
  assert_status(gear_writer_flush(table.writer, CONFORM_BLOCKED_NS, &waiting), GEAR_ETIMEDOUT);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  assert_ok(gear_batch_release(conform_sample(sampler, 1)));
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).steps, 3);
  conform_close(&table);
}

/* SEMANTICS 38 */
GEAR_TEST(FlushWithNothingWaitingReturnsAtOnce) {
  ConformTable table = conform_open_simple(10);
  assert_ok(gear_writer_flush(table.writer, 0, NULL));
  conform_append(table.writer, 0, 0, 5);
  conform_flush(table.writer);
  assert_ok(gear_writer_flush(table.writer, 0, NULL));
  conform_close(&table);
}

/* SEMANTICS 38 */
GEAR_TEST(FlushedStepsAreDrawableWithoutWaiting) {
  ConformTable table = conform_open_simple(10);
  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_DIRECT, 1);
  conform_append(table.writer, 0, 0, 1);
  conform_flush(table.writer);
  gear_batch* batch = NULL;
  assert_ok(gear_sample(sampler, 1, 0, &batch));
  conform_close(&table);
}

/* SEMANTICS 38 */
GEAR_TEST(StepsAcceptedBeforeTheWriterClosedAreStillAdmitted) {
  ConformTable table = conform_open_simple(1000);
  conform_append(table.writer, 0, 0, 1000);
  assert_ok(gear_writer_close(table.writer));
  wait_until(conform_stats(table.table).steps == 1000);
  assert_rows_are(table.table, 0, 999);
  conform_close(&table);
}

/* SEMANTICS 37 */
GEAR_TEST(CellsMayBeGivenInAnyOrder) {
  ConformTable table = conform_open_simple(10);
  const ConformStep content = conform_step(0, 0);
  gear_cell cells[kColumns];
  conform_cells(&content, cells);
  const gear_cell reversed[kColumns] = {cells[2], cells[0], cells[1]};
  assert_ok(gear_writer_append(table.writer, 0, reversed, kColumns, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  assert_rows_are(table.table, 0, 0);
  conform_close(&table);
}

/* A table with one column "m" i32 [2, 3]. */
static ConformTable open_matrix(void) {
  static const int64_t shape[2] = {2, 3};
  const gear_column_options column = conform_column("m", GEAR_I32, 2, shape);
  gear_table_options options = conform_options(10);
  options.columns = &column;
  options.column_count = 1;
  return conform_open(&options, 1);
}

static void assert_strided(const int32_t* data, int64_t row_stride, int64_t column_stride,
                           const int32_t wanted[6]) {
  ConformTable table = open_matrix();
  static const int64_t shape[2] = {2, 3};
  const int64_t strides[2] = {row_stride, column_stride};
  gear_cell cell = conform_cell(0, GEAR_I32, 2, shape, data);
  cell.strides = strides;
  assert_ok(gear_writer_append(table.writer, 0, &cell, 1, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  gear_batch* batch = conform_sample(conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1), 1);
  assert_memory_equal(conform_tensor(batch, "m").data, wanted, 6 * sizeof *wanted);
  conform_close(&table);
}

static const int32_t kNumbers[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

/* SEMANTICS 37 */
GEAR_TEST(TransposedCellIsStoredInTheColumnsOrder) {
  const int32_t wanted[6] = {0, 2, 4, 1, 3, 5};
  assert_strided(kNumbers, 4, 8, wanted);
}

/* SEMANTICS 37 */
GEAR_TEST(CellCutFromALargerArrayIsStoredWithoutItsGaps) {
  const int32_t wanted[6] = {0, 2, 4, 6, 8, 10};
  assert_strided(kNumbers, 24, 8, wanted);
}

/* SEMANTICS 37 */
GEAR_TEST(CellWithNegativeStridesIsStoredReversed) {
  const int32_t wanted[6] = {5, 4, 3, 2, 1, 0};
  assert_strided(&kNumbers[5], -12, -4, wanted);
}

/* SEMANTICS 37 */
GEAR_TEST(CellWithAZeroStrideIsStoredRepeated) {
  const int32_t wanted[6] = {0, 1, 2, 0, 1, 2};
  assert_strided(kNumbers, 0, 4, wanted);
}

/* SEMANTICS 41 */
enum { kMany = 50 };

static void assert_holds_many(ConformTable* table) {
  assert_int_equal(conform_stats(table->table).steps, kMany);
  gear_window windows[kColumns];
  conform_windows(windows, -1, 3);
  gear_batch* batch = conform_sample(conform_window_sampler(table->table, windows, kColumns), 256);
  conform_verify_batch(batch);
  const gear_tensor steps = conform_tensor(batch, "step");
  for (uint32_t row = 0; row < 256; ++row) {
    const int64_t drawn = conform_i64(&steps, row, 1);
    assert_in_range(drawn, 0, kMany - 1);
    assert_int_equal(steps.lengths[row], 3 - (drawn == 0) - (drawn == kMany - 1));
  }
}

static ConformTable open_for_many(void) {
  gear_table_options options = conform_options(100);
  options.block_steps = 7;
  return conform_open(&options, 1);
}

/* SEMANTICS 41 */
GEAR_TEST(AppendManyFromAnArrayOfStructsEqualsAsManyAppends) {
  ConformTable table = open_for_many();
  ConformStep steps[kMany];
  for (int i = 0; i < kMany; ++i) steps[i] = conform_step(0, i);
  gear_cell cells[kColumns];
  conform_cells(&steps[0], cells);
  for (int column = 0; column < kColumns; ++column) cells[column].step_stride = sizeof steps[0];
  size_t accepted = 0;
  assert_ok(gear_writer_append_many(table.writer, 0, cells, kColumns, kMany, CONFORM_PATIENCE_NS,
                                    &accepted));
  assert_int_equal(accepted, kMany);
  conform_flush(table.writer);
  assert_holds_many(&table);
  conform_close(&table);
}

typedef struct Arrays {
  int64_t step[kMany];
  int32_t lane[kMany];
  uint8_t payload[kMany][kPayloadBytes];
} Arrays;

/* SEMANTICS 41 */
GEAR_TEST(AppendManyFromContiguousArraysEqualsAsManyAppends) {
  ConformTable table = open_for_many();
  static Arrays arrays;
  for (int i = 0; i < kMany; ++i) {
    const ConformStep content = conform_step(0, i);
    arrays.step[i] = content.step;
    arrays.lane[i] = content.lane;
    memcpy(arrays.payload[i], content.payload, kPayloadBytes);
  }
  static const int64_t payload_shape[1] = {kPayloadBytes};
  const gear_cell cells[kColumns] = {
      conform_cell(kStep, GEAR_I64, 0, NULL, arrays.step),
      conform_cell(kLane, GEAR_I32, 0, NULL, arrays.lane),
      conform_cell(kPayload, GEAR_U8, 1, payload_shape, arrays.payload)};
  size_t accepted = 0;
  assert_ok(gear_writer_append_many(table.writer, 0, cells, kColumns, kMany, CONFORM_PATIENCE_NS,
                                    &accepted));
  conform_flush(table.writer);
  assert_holds_many(&table);
  conform_close(&table);
}

/* SEMANTICS 41 */
GEAR_TEST(AppendManyReversesTimeUnderANegativeStepStride) {
  ConformTable table = open_for_many();
  ConformStep steps[kMany];
  for (int i = 0; i < kMany; ++i) steps[kMany - 1 - i] = conform_step(0, i);
  gear_cell cells[kColumns];
  conform_cells(&steps[kMany - 1], cells);
  for (int column = 0; column < kColumns; ++column) {
    cells[column].step_stride = -(int64_t)sizeof steps[0];
  }
  size_t accepted = 0;
  assert_ok(gear_writer_append_many(table.writer, 0, cells, kColumns, kMany, CONFORM_PATIENCE_NS,
                                    &accepted));
  conform_flush(table.writer);
  assert_holds_many(&table);
  conform_close(&table);
}

/* SEMANTICS 41 */
GEAR_TEST(AppendManyMixesWithSingleAppendsInOrder) {
  ConformTable table = open_for_many();
  ConformStep steps[kMany];
  for (int i = 0; i < kMany; ++i) steps[i] = conform_step(0, i);
  for (int first = 0; first < kMany; first += 10) {
    conform_append(table.writer, 0, first, 3);
    gear_cell cells[kColumns];
    conform_cells(&steps[first + 3], cells);
    for (int column = 0; column < kColumns; ++column) cells[column].step_stride = sizeof steps[0];
    size_t accepted = 0;
    assert_ok(gear_writer_append_many(table.writer, 0, cells, kColumns, 7, CONFORM_PATIENCE_NS,
                                      &accepted));
  }
  conform_flush(table.writer);
  assert_holds_many(&table);
  conform_close(&table);
}

/* SEMANTICS 41 */
GEAR_TEST(AppendManyTellsHowManyStepsWereStoredWhenSpaceRunsOut) {
  enum { kTooMany = 20000 };
  static ConformStep steps[kTooMany];
  for (int i = 0; i < kTooMany; ++i) steps[i] = conform_step(0, i);
  gear_table_options options = conform_options(10);
  assert_ok(gear_table_options_queue(10, &options));
  options.block_steps = 8;
  ConformTable table = conform_open(&options, 1);
  gear_cell cells[kColumns];
  conform_cells(&steps[0], cells);
  for (int column = 0; column < kColumns; ++column) cells[column].step_stride = sizeof steps[0];
  size_t accepted = 0;
  assert_status(gear_writer_append_many(table.writer, 0, cells, kColumns, kTooMany,
                                        CONFORM_BLOCKED_NS, &accepted),
                GEAR_ETIMEDOUT);
  assert_in_range(accepted, 10, kTooMany - 1);

  gear_sampler* sampler = conform_sampler(table.table, GEAR_SAMPLE_AUTO, 1);
  for (int64_t step = 0; step < (int64_t)accepted; ++step) {
    gear_batch* batch = conform_sample(sampler, 1);
    const gear_tensor tensor = conform_tensor(batch, "step");
    assert_int_equal(conform_i64(&tensor, 0, 0), step);
    assert_ok(gear_batch_release(batch));
  }
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).steps, accepted);
  conform_close(&table);
}

static void write_reserved(void* const places[kColumns], int64_t step) {
  const ConformStep content = conform_step(0, step);
  memcpy(places[kStep], &content.step, sizeof content.step);
  memcpy(places[kLane], &content.lane, sizeof content.lane);
  memcpy(places[kPayload], content.payload, kPayloadBytes);
}

GEAR_TEST(AdvanceAppendsWhatWasWrittenInTheReservedPlaces) {
  ConformTable table = open_for_many();
  for (int64_t step = 0; step < kMany; ++step) {
    void* places[kColumns] = {NULL};
    assert_ok(gear_writer_reserve(table.writer, 0, CONFORM_PATIENCE_NS, places, kColumns));
    write_reserved(places, step);
    assert_ok(gear_writer_advance(table.writer, 0, CONFORM_PATIENCE_NS));
  }
  conform_flush(table.writer);
  assert_holds_many(&table);
  conform_close(&table);
}

GEAR_TEST(SecondReserveGivesTheSamePlaces) {
  ConformTable table = conform_open_simple(10);
  void* first[kColumns] = {NULL};
  void* second[kColumns] = {NULL};
  assert_ok(gear_writer_reserve(table.writer, 0, CONFORM_PATIENCE_NS, first, kColumns));
  assert_ok(gear_writer_reserve(table.writer, 0, CONFORM_PATIENCE_NS, second, kColumns));
  assert_memory_equal(first, second, sizeof first);
  conform_close(&table);
}

GEAR_TEST(ReserveWithoutAdvanceAppendsNothing) {
  ConformTable table = conform_open_simple(10);
  void* places[kColumns] = {NULL};
  assert_ok(gear_writer_reserve(table.writer, 0, CONFORM_PATIENCE_NS, places, kColumns));
  write_reserved(places, 0);
  assert_ok(gear_writer_close(table.writer));
  assert_int_equal(conform_stats(table.table).steps, 0);
  conform_close(&table);
}

GEAR_TEST(AdvanceWithoutReserveIsRefused) {
  ConformTable table = conform_open_simple(10);
  const ConformSnapshot before = conform_snapshot(&table);
  assert_status(gear_writer_advance(table.writer, 0, CONFORM_PATIENCE_NS), GEAR_ESTATE);
  assert_explained("reserve");
  conform_assert_unharmed(&table, &before);
  conform_close(&table);
}

GEAR_TEST(AppendToALaneWithAnOpenReserveIsRefused) {
  ConformTable table = conform_open_simple(10);
  void* places[kColumns] = {NULL};
  assert_ok(gear_writer_reserve(table.writer, 0, CONFORM_PATIENCE_NS, places, kColumns));
  assert_status(conform_try_append(table.writer, 0, 7, CONFORM_PATIENCE_NS), GEAR_ESTATE);
  write_reserved(places, 0);
  assert_ok(gear_writer_advance(table.writer, 0, CONFORM_PATIENCE_NS));
  conform_flush(table.writer);
  assert_int_equal(conform_stats(table.table).steps, 1);
  assert_rows_are(table.table, 0, 0);
  conform_close(&table);
}
