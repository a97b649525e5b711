// ctest: labels=stress timeout=60
//
// Law 7: in steady state append, direct sampling, gather and release do not touch the heap, in any thread of the process;
// the server is embedded here, so the conductor's thread is counted with them.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "gear.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GEAR_COUNTS_ALLOCATIONS 0  // the sanitizer has malloc for itself
#else
#define GEAR_COUNTS_ALLOCATIONS 1
#endif

#if GEAR_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}
#endif

namespace {
std::atomic<uint64_t> allocations{0};
}

#if GEAR_COUNTS_ALLOCATIONS

// The executable's definitions come before the C library's for everyone in the process.
extern "C" {
void* malloc(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}
#endif

namespace {

constexpr int64_t kTimeout = 10'000'000'000;

class SteadyState : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GEAR_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns malloc in this build";
    gear_column_options columns[3] = {GEAR_COLUMN_OPTIONS_INIT, GEAR_COLUMN_OPTIONS_INIT,
                                      GEAR_COLUMN_OPTIONS_INIT};
    columns[0].name = "step";
    columns[0].dtype = GEAR_U64;
    columns[1].name = "data";
    columns[1].dtype = GEAR_F32;
    columns[1].rank = 1;
    columns[1].shape[0] = 48;
    columns[2].name = "reward";
    columns[2].dtype = GEAR_F32;
    columns[2].flags = GEAR_COLUMN_OPTIONAL;
    gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
    options.name = "steady";
    options.columns = columns;
    options.column_count = 3;
    options.capacity_items = 5000;
    options.sampler = GEAR_SELECT_PRIORITIZED;
    ASSERT_EQ(gear_connect("embedded:", nullptr, &client_), GEAR_OK) << gear_last_error();
    ASSERT_EQ(gear_table_create(client_, &options, &table_), GEAR_OK) << gear_last_error();
    gear_writer_options lanes = GEAR_WRITER_OPTIONS_INIT;
    lanes.lanes = 4;
    ASSERT_EQ(gear_writer_open(table_, &lanes, &writer_), GEAR_OK) << gear_last_error();
  }
  void TearDown() override { gear_close(client_); }

  void append(uint64_t steps) {
    float data[48] = {};
    int64_t shape[1] = {48};
    for (uint64_t i = 0; i < steps; ++i) {
      auto lane = static_cast<uint32_t>(i % 4);
      gear_cell cells[3] = {{0, GEAR_U64, 0, 0, 0, &i, nullptr, nullptr, 0},
                            {1, GEAR_F32, 1, 0, 0, data, shape, nullptr, 0},
                            {2, GEAR_F32, 0, 0, 0, data, nullptr, nullptr, 0}};
      ASSERT_EQ(gear_writer_append(writer_, lane, cells, i % 5 == 0 ? 2 : 3, kTimeout), GEAR_OK) << gear_last_error();
      if (i % 400 < 4) {
        ASSERT_EQ(gear_writer_end_episode(writer_, lane, GEAR_TERMINATED, cells, 2, kTimeout), GEAR_OK)
            << gear_last_error();
      }
    }
    ASSERT_EQ(gear_writer_flush(writer_, kTimeout, nullptr), GEAR_OK) << gear_last_error();
  }

  void sample(gear_sampler* sampler, int batches) {
    for (int i = 0; i < batches; ++i) {
      gear_batch* batch = nullptr;
      ASSERT_EQ(gear_sample(sampler, 64, kTimeout, &batch), GEAR_OK) << gear_last_error();
      ASSERT_EQ(gear_batch_release(batch), GEAR_OK);
    }
  }

  gear_client* client_ = nullptr;
  gear_table* table_ = nullptr;
  gear_writer* writer_ = nullptr;
};

TEST_F(SteadyState, AppendAllocatesNothing) {
  append(20'000);
  uint64_t before = allocations.load();
  append(50'000);
  EXPECT_EQ(allocations.load() - before, 0u);
}

TEST_F(SteadyState, DirectSampleGatherAndReleaseAllocateNothing) {
  append(10'000);
  gear_window windows[2] = {GEAR_WINDOW_INIT, GEAR_WINDOW_INIT};
  windows[0].column = "data";
  windows[0].offset = -3;
  windows[0].length = 4;
  windows[1].column = "data";
  windows[1].name = "next";
  windows[1].offset = 1;
  windows[1].length = 1;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_DIRECT;
  options.windows = windows;
  options.window_count = 2;
  options.beta = 0.5;
  gear_sampler* sampler = nullptr;
  ASSERT_EQ(gear_sampler_open(table_, &options, &sampler), GEAR_OK) << gear_last_error();
  sample(sampler, 10);
  uint64_t before = allocations.load();
  sample(sampler, 500);
  EXPECT_EQ(allocations.load() - before, 0u);
}

TEST_F(SteadyState, ComputedWindowsIntoTheCallersMemoryAllocateNothing) {
  append(10'000);
  gear_window windows[4] = {GEAR_WINDOW_INIT, GEAR_WINDOW_INIT, GEAR_WINDOW_INIT, GEAR_WINDOW_INIT};
  windows[0].column = "data";
  windows[1].column = "reward";
  windows[2].column = "reward";
  windows[2].name = "return";
  windows[2].compute = GEAR_COMPUTE_NSTEP_RETURN;
  windows[2].steps = 5;
  windows[2].discount = 0.9;
  windows[3].name = "last";
  windows[3].compute = GEAR_COMPUTE_IS_LAST;
  for (gear_window& window : windows) window.offset = -3, window.length = 4, window.burn_in = 1;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_DIRECT;
  options.windows = windows;
  options.window_count = 4;
  gear_sampler* sampler = nullptr;
  ASSERT_EQ(gear_sampler_open(table_, &options, &sampler), GEAR_OK) << gear_last_error();
  static float data[64 * 4 * 48], returns[64 * 4 * 2];
  gear_destination places[4] = {GEAR_DESTINATION_INIT, GEAR_DESTINATION_INIT, GEAR_DESTINATION_INIT,
                                GEAR_DESTINATION_INIT};
  places[0].data = data;
  places[2].data = returns;
  places[2].step_stride = 8;
  uint64_t before = 0;
  for (int i = 0; i < 510; ++i) {
    if (i == 10) before = allocations.load();
    gear_batch* batch = nullptr;
    ASSERT_EQ(gear_sample_into(sampler, 64, kTimeout, places, 4, &batch), GEAR_OK)
        << gear_last_error();
    ASSERT_EQ(gear_batch_release(batch), GEAR_OK);
  }
  EXPECT_EQ(allocations.load() - before, 0u);
}

TEST_F(SteadyState, TheCounterCountsAllocations) {
  uint64_t before = allocations.load();
  free(malloc(10));
  EXPECT_GE(allocations.load() - before, 1u);
}

}  // namespace
