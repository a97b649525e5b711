/* Batches that are gathered into the caller's memory. */
#include <string.h>

#include "conform/conform.h"
#include "support/conform_table.h"

enum { kRows = 8, kLength = 3, kGap = 0x5a };

/* Twenty steps of one lane; a hundred bytes more than any test needs. */
typedef struct Memory {
  int64_t steps[kRows * kLength * 2];
  uint8_t payloads[kRows * kLength * (kPayloadBytes + 3) + 100];
} Memory;

static ConformTable open_twenty(void) {
  gear_table_options options = conform_options(100);
  options.block_steps = 4;
  ConformTable table = conform_open(&options, 1);
  conform_append(table.writer, 0, 0, 20);
  conform_end(table.writer, 0, GEAR_TERMINATED);
  conform_flush(table.writer);
  return table;
}

static gear_sampler* open_sampler(gear_table* table, uint32_t mode) {
  const gear_window windows[2] = {conform_window("step", NULL, -1, kLength),
                                  conform_window("payload", NULL, -1, kLength)};
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = mode;
  options.windows = windows;
  options.window_count = 2;
  options.seed = 4;
  gear_sampler* sampler = NULL;
  assert_ok(gear_sampler_open(table, &options, &sampler));
  return sampler;
}

static gear_destination destination(void* data, int64_t row_stride, int64_t step_stride) {
  gear_destination place = GEAR_DESTINATION_INIT;
  place.data = data;
  place.row_stride = row_stride;
  place.step_stride = step_stride;
  return place;
}

static gear_batch* sample_into(gear_sampler* sampler, const gear_destination places[2]) {
  gear_batch* batch = NULL;
  assert_ok(gear_sample_into(sampler, kRows, CONFORM_PATIENCE_NS, places, 2, &batch));
  assert_int_equal(gear_batch_rows(batch), kRows);
  return batch;
}

/* Both batches show the same, wherever their cells lie. */
static void assert_same(const gear_batch* got, const gear_batch* wanted) {
  assert_memory_equal(gear_batch_keys(got), gear_batch_keys(wanted), kRows * sizeof(uint64_t));
  for (uint32_t index = 0; index < 2; ++index) {
    gear_tensor a, b;
    assert_ok(gear_batch_tensor(got, index, &a));
    assert_ok(gear_batch_tensor(wanted, index, &b));
    assert_int_equal(a.rank, b.rank);
    assert_memory_equal(a.shape, b.shape, a.rank * sizeof(int64_t));
    assert_memory_equal(a.mask, b.mask, (size_t)kRows * kLength);
    assert_memory_equal(a.lengths, b.lengths, kRows * sizeof(uint32_t));
    const size_t cell = b.size_bytes / ((size_t)kRows * kLength);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t step = 0; step < kLength; ++step) {
        assert_memory_equal((uint8_t*)a.data + row * a.strides[0] + step * a.strides[1],
                            (uint8_t*)b.data + row * b.strides[0] + step * b.strides[1], cell);
      }
    }
  }
}

static void assert_strides(const gear_batch* batch, uint32_t index, const void* data, int64_t row,
                           int64_t step) {
  gear_tensor tensor;
  assert_ok(gear_batch_tensor(batch, index, &tensor));
  assert_ptr_equal(tensor.data, data);
  assert_int_equal(tensor.strides[0], row);
  assert_int_equal(tensor.strides[1], step);
}

/* SEMANTICS 42, 43 */
static void assert_contiguous(uint32_t mode) {
  ConformTable table = open_twenty();
  Memory memory;
  const gear_destination places[2] = {destination(memory.steps, 0, 0),
                                      destination(memory.payloads, 0, 0)};
  gear_batch* into = sample_into(open_sampler(table.table, mode), places);
  gear_batch* plain = conform_sample(open_sampler(table.table, GEAR_SAMPLE_DIRECT), kRows);
  assert_strides(into, 0, memory.steps, 8 * kLength, 8);
  assert_strides(into, 1, memory.payloads, kPayloadBytes * kLength, kPayloadBytes);
  if (mode == GEAR_SAMPLE_DIRECT) assert_same(into, plain);
  /* Leased draws have a sequence of their own: every row shows its own step and payload. */
  for (uint32_t row = 0; row < kRows; ++row) {
    const gear_tensor step = conform_tensor(into, "step");
    const ConformStep wanted = conform_step(0, conform_i64(&step, row, 1));
    assert_memory_equal(memory.payloads + ((size_t)row * kLength + 1) * kPayloadBytes,
                        wanted.payload, kPayloadBytes);
    assert_int_equal(memory.steps[row * kLength + 1], wanted.step);
  }
  conform_close(&table);
}

GEAR_TEST(DirectDrawsGoToTheCallersMemoryAsTheyWouldToTheBatchs) {
  assert_contiguous(GEAR_SAMPLE_DIRECT);
}

GEAR_TEST(LeasedDrawsGoToTheCallersMemory) { assert_contiguous(GEAR_SAMPLE_LEASED); }

GEAR_TEST(RowsAndStepsMayLieApartAndWhatIsBetweenThemStays) {
  ConformTable table = open_twenty();
  Memory memory;
  memset(&memory, kGap, sizeof memory);
  enum { kStepStride = kPayloadBytes + 3, kRowStride = 8 * kLength + 16 };
  const gear_destination places[2] = {destination(memory.steps, kRowStride, 0),
                                      destination(memory.payloads, 0, kStepStride)};
  gear_batch* into = sample_into(open_sampler(table.table, GEAR_SAMPLE_DIRECT), places);
  gear_batch* plain = conform_sample(open_sampler(table.table, GEAR_SAMPLE_DIRECT), kRows);
  assert_strides(into, 0, memory.steps, kRowStride, 8);
  assert_strides(into, 1, memory.payloads, kStepStride * kLength, kStepStride);
  assert_same(into, plain);
  for (size_t i = 0; i < (size_t)kRows * kLength; ++i) {
    for (size_t at = kPayloadBytes; at < kStepStride; ++at) {
      assert_int_equal(memory.payloads[i * kStepStride + at], kGap);
    }
  }
  for (size_t row = 0; row < kRows; ++row) {
    const uint8_t* gap = (const uint8_t*)memory.steps + row * kRowStride + 8 * kLength;
    for (size_t at = 0; at < 16; ++at) assert_int_equal(gap[at], kGap);
  }
  conform_close(&table);
}

GEAR_TEST(StepsMayBeTheOuterAxis) {
  ConformTable table = open_twenty();
  Memory memory;
  const gear_destination places[2] = {
      destination(memory.steps, 8, 8 * kRows),
      destination(memory.payloads, kPayloadBytes, (int64_t)kPayloadBytes * kRows)};
  gear_batch* into = sample_into(open_sampler(table.table, GEAR_SAMPLE_DIRECT), places);
  gear_batch* plain = conform_sample(open_sampler(table.table, GEAR_SAMPLE_DIRECT), kRows);
  assert_strides(into, 0, memory.steps, 8, 8 * kRows);
  assert_same(into, plain);
  conform_close(&table);
}

GEAR_TEST(DestinationWithoutDataIsTheBatchsOwnMemory) {
  ConformTable table = open_twenty();
  Memory memory;
  const gear_destination places[2] = {destination(NULL, 0, 0), destination(memory.payloads, 0, 0)};
  gear_batch* into = sample_into(open_sampler(table.table, GEAR_SAMPLE_DIRECT), places);
  gear_batch* plain = conform_sample(open_sampler(table.table, GEAR_SAMPLE_DIRECT), kRows);
  assert_same(into, plain);
  gear_tensor own;
  assert_ok(gear_batch_tensor(into, 0, &own));
  assert_int_equal((uintptr_t)own.data % 64, 0);
  conform_close(&table);
}

GEAR_TEST(NextBatchWithoutDestinationsIsInItsOwnMemoryAgain) {
  ConformTable table = open_twenty();
  Memory memory;
  const gear_destination places[2] = {destination(memory.steps, 0, 0),
                                      destination(memory.payloads, 0, kPayloadBytes + 3)};
  gear_sampler* sampler = open_sampler(table.table, GEAR_SAMPLE_DIRECT);
  for (int i = 0; i < 6; ++i) {
    assert_ok(gear_batch_release(sample_into(sampler, places)));
    memset(&memory, kGap, sizeof memory);
    gear_batch* plain = conform_sample(sampler, kRows);
    const gear_tensor step = conform_tensor(plain, "step");
    const gear_tensor payload = conform_tensor(plain, "payload");
    assert_int_equal(step.strides[0], 8 * kLength);
    assert_int_equal(payload.strides[1], kPayloadBytes);
    assert_int_equal((uintptr_t)step.data % 64, 0);
    assert_int_equal(memory.steps[0], INT64_C(0x5a5a5a5a5a5a5a5a));
    for (uint32_t row = 0; row < kRows; ++row) {
      const ConformStep wanted = conform_step(0, conform_i64(&step, row, 1));
      assert_memory_equal((uint8_t*)payload.data + row * payload.strides[0] + payload.strides[1],
                          wanted.payload, kPayloadBytes);
    }
    assert_ok(gear_batch_release(plain));
  }
  conform_close(&table);
}

static void assert_refused(gear_sampler* sampler, const gear_destination* places, size_t count,
                           int status) {
  gear_batch* batch = NULL;
  assert_status(gear_sample_into(sampler, kRows, CONFORM_PATIENCE_NS, places, count, &batch),
                status);
  assert_null(batch);
}

GEAR_TEST(DestinationsAreOneForEachWindow) {
  ConformTable table = open_twenty();
  Memory memory;
  const gear_destination places[2] = {destination(memory.steps, 0, 0),
                                      destination(memory.payloads, 0, 0)};
  gear_sampler* sampler = open_sampler(table.table, GEAR_SAMPLE_DIRECT);
  assert_refused(sampler, places, 1, GEAR_ECOUNT);
  assert_explained("steps", "1 destinations", "2 windows");
  assert_refused(sampler, NULL, 2, GEAR_EINVAL);
  conform_close(&table);
}

GEAR_TEST(DestinationsThatOverlapThemselvesAreRefusedWithTheirStrides) {
  static const int64_t strides[5][2] = {{0, 7}, {8, 0}, {8, 8 * kRows - 1}, {-24, 0}, {0, -8}};
  ConformTable table = open_twenty();
  Memory memory;
  gear_destination places[2] = {destination(memory.steps, 0, 0),
                                destination(memory.payloads, 0, 0)};
  gear_sampler* sampler = open_sampler(table.table, GEAR_SAMPLE_DIRECT);
  for (int i = 0; i < 5; ++i) {
    places[0] = destination(memory.steps, strides[i][0], strides[i][1]);
    assert_refused(sampler, places, 2, GEAR_EINVAL);
    assert_explained("step", "step_stride", "row_stride");
  }
  places[0] = destination(NULL, 8, 0);
  assert_refused(sampler, places, 2, GEAR_EINVAL);
  assert_explained("data is NULL");
  places[0] = destination(memory.steps, INT64_MAX, INT64_MAX);
  assert_refused(sampler, places, 2, GEAR_EINVAL);
  places[0] = destination(memory.steps, 0, INT64_MAX);
  assert_refused(sampler, places, 2, GEAR_EINVAL);
  places[0] = destination(memory.steps, 0, 0);
  places[0].struct_size = 3;
  assert_refused(sampler, places, 2, GEAR_ESTRUCT);
  conform_close(&table);
}

/* SEMANTICS 45 */
GEAR_TEST(SampleIntoOfAnEmptyTableTimesOutAtOnce) {
  ConformTable table = conform_open_simple(10);
  Memory memory;
  const gear_destination places[2] = {destination(memory.steps, 0, 0),
                                      destination(memory.payloads, 0, 0)};
  gear_batch* batch = NULL;
  assert_status(gear_sample_into(open_sampler(table.table, GEAR_SAMPLE_DIRECT), kRows, 0, places, 2,
                                 &batch),
                GEAR_ETIMEDOUT);
  conform_close(&table);
}
