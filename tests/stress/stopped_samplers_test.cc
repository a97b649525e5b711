// ctest: labels=stress timeout=120
//
// Samplers are stopped and woken at any instruction, for longer than what they drew ahead may stay untaken: every item is
// given to one of them, once. GEAR_TEST_SEED sets who is stopped when.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "base/rng.h"
#include "gear.h"
#include "support/int_table.h"
#include "support/server_process.h"
#include "support/shared_memory.h"

namespace gear::test {
namespace {

constexpr int64_t kPatienceNs = 20'000'000'000;
constexpr uint32_t kSamplers = 3;
constexpr uint32_t kRows = 4;
constexpr uint32_t kSteps = 60'000;

struct Shared {
  std::atomic<uint32_t> ready;
  std::atomic<uint32_t> over;
  std::atomic<uint32_t> given;
  std::atomic<uint8_t> times[kSteps];
};

int sample_on(const std::string& endpoint, Shared* shared) {
  while (shared->ready.load() == 0) usleep(100);
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  if (gear_connect(endpoint.c_str(), nullptr, &client) != GEAR_OK) return 1;
  if (gear_table_open(client, "shared", &table) != GEAR_OK) return 2;
  gear_window window = GEAR_WINDOW_INIT;
  window.column = "step";
  window.length = 1;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.windows = &window;
  options.window_count = 1;
  options.batch_rows_max = kRows;
  options.rows_min = 1;
  options.prefetch = 8 * kRows;
  gear_sampler* sampler = nullptr;
  if (gear_sampler_open(table, &options, &sampler) != GEAR_OK) return 3;
  while (shared->over.load() == 0) {
    gear_batch* batch = nullptr;
    int status = gear_sample(sampler, kRows, 1'000'000, &batch);
    if (status == GEAR_ETIMEDOUT) continue;
    gear_tensor tensor;
    if (status != GEAR_OK || gear_batch_tensor(batch, 0, &tensor) != GEAR_OK) return 4;
    for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
      int64_t step = static_cast<const int64_t*>(tensor.data)[row];
      if (step < 0 || step >= kSteps) return 5;
      shared->times[step].fetch_add(1);
      shared->given.fetch_add(1);
    }
    gear_batch_release(batch);  // ESTALE when it was stopped meanwhile
  }
  return 0;
}

TEST(StoppedSamplers, GiveEachItemToOneOfThemOnce) {
  ServerProcess server;
  Children children;
  SharedMemory<Shared> memory;
  Shared* shared = memory.get();
  const char* given_seed = getenv("GEAR_TEST_SEED");
  uint64_t seed = given_seed != nullptr ? strtoull(given_seed, nullptr, 10) : 7;
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  pid_t pids[kSamplers];
  for (pid_t& pid : pids) pid = children.start([&] { return sample_on(server.endpoint(), shared); });

  auto drawn_once = [](gear_table_options* options) {
    options->capacity_items = options->capacity_steps = kSteps;
    options->sampler = GEAR_SELECT_FIFO;
    options->max_times_sampled = 1;
    options->lease_timeout_ms = 20;
  };
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  gear_writer* writer = nullptr;
  ASSERT_EQ(gear_connect(server.endpoint().c_str(), nullptr, &client), GEAR_OK);
  ASSERT_EQ(create_int_table_with(client, "shared", &table, drawn_once, "step"), GEAR_OK) << gear_last_error();
  ASSERT_EQ(gear_writer_open(table, nullptr, &writer), GEAR_OK);
  shared->ready.store(1);
  int64_t step = 0;
  for (int stops = 0; stops < 25; ++stops) {
    pid_t pid = pids[rng.below(kSamplers)];
    for (int64_t end = step + kSteps / 25; step < end; ++step) {
      ASSERT_EQ(append_int(writer, step, 0, kPatienceNs), GEAR_OK) << gear_last_error();
      if (step == end - kSteps / 50) kill(pid, SIGSTOP);
    }
    ASSERT_EQ(gear_writer_flush(writer, kPatienceNs, nullptr), GEAR_OK);
    usleep(static_cast<useconds_t>(20'000 + rng.below(200'000)));
    kill(pid, SIGCONT);
  }
  for (int turn = 0; turn < 200'000 && shared->given.load() < kSteps; ++turn) usleep(100);
  EXPECT_EQ(shared->given.load(), kSteps);
  shared->over.store(1);
  ASSERT_TRUE(children.all_succeed(30));
  for (uint32_t i = 0; i < kSteps; ++i) ASSERT_EQ(shared->times[i].load(), 1) << "step " << i;
  gear_close(client);
}

}  // namespace
}  // namespace gear::test
