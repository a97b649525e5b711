// ctest: labels=stress timeout=180
//
// Consumers of a group are killed at any moment, over and over: every item is delivered, first deliveries come once,
// and what a consumer was told it had acknowledged never comes again. GEAR_TEST_SEED sets who is killed when.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "base/clock.h"
#include "base/rng.h"
#include "gear.h"
#include "support/server_process.h"
#include "support/shared_memory.h"

namespace gear::test {
namespace {

constexpr uint64_t kSteps = 40'000;
constexpr uint32_t kConsumers = 3;
constexpr uint32_t kRows = 16;
constexpr int64_t kPatience = 20'000'000'000;

// Shared by the processes of the test; a step is also its index.
struct Ledger {
  std::atomic<uint8_t> first_deliveries[kSteps];
  std::atomic<uint8_t> deliveries[kSteps];  // saturates
  std::atomic<uint8_t> acknowledged[kSteps];
  std::atomic<uint64_t> faults;
};

gear_sampler* join(gear_table* table) {
  gear_window window = GEAR_WINDOW_INIT;
  window.column = "step";
  window.length = 1;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.group = "train";
  options.batch_rows_max = kRows;
  options.rows_min = 1;
  options.windows = &window;
  options.window_count = 1;
  options.prefetch = kRows;
  gear_sampler* sampler = nullptr;
  return gear_sampler_open(table, &options, &sampler) == GEAR_OK ? sampler : nullptr;
}

void note_rows(const gear_batch* batch, Ledger* ledger, uint64_t* steps) {
  gear_tensor tensor;
  if (gear_batch_tensor(batch, 0, &tensor) != GEAR_OK) ++ledger->faults;
  for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
    uint64_t step = static_cast<const uint64_t*>(tensor.data)[row];
    steps[row] = step;
    if (step >= kSteps) {
      ++ledger->faults;
      continue;
    }
    if (ledger->acknowledged[step] != 0) ++ledger->faults;
    if (gear_batch_redelivered(batch)[row] == 0) ++ledger->first_deliveries[step];
    if (ledger->deliveries[step] < 200) ++ledger->deliveries[step];
  }
}

// Runs until it is killed.
void consume(const std::string& endpoint, Ledger* ledger) {
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  if (gear_connect(endpoint.c_str(), nullptr, &client) != GEAR_OK) _exit(1);
  if (gear_table_open(client, "items", &table) != GEAR_OK) _exit(1);
  gear_sampler* sampler = join(table);
  if (sampler == nullptr) _exit(1);
  uint64_t steps[kRows];
  for (;;) {
    gear_batch* batch = nullptr;
    int status = gear_sample(sampler, kRows, 10'000'000, &batch);
    if (status == GEAR_ETIMEDOUT) continue;
    if (status != GEAR_OK) _exit(1);
    uint32_t rows = gear_batch_rows(batch);
    note_rows(batch, ledger, steps);
    usleep(100);
    if (gear_batch_release(batch) != GEAR_OK) continue;
    for (uint32_t row = 0; row < rows; ++row) ledger->acknowledged[steps[row] % kSteps] = 1;
  }
}

void append_all(gear_table* table) {
  gear_writer* writer = nullptr;
  ASSERT_EQ(gear_writer_open(table, nullptr, &writer), GEAR_OK);
  for (uint64_t step = 0; step < kSteps; ++step) {
    gear_cell cell{};
    cell.dtype = GEAR_U64;
    cell.data = &step;
    ASSERT_EQ(gear_writer_append(writer, 0, &cell, 1, kPatience), GEAR_OK) << gear_last_error();
  }
  ASSERT_EQ(gear_writer_flush(writer, kPatience, nullptr), GEAR_OK);
}

pid_t start_consumer(const std::string& endpoint, Ledger* ledger) {
  pid_t pid = fork();
  if (pid == 0) consume(endpoint, ledger);
  return pid;
}

void create_table(gear_client* client, gear_table** table) {
  gear_column_options column = GEAR_COLUMN_OPTIONS_INIT;
  column.name = "step";
  column.dtype = GEAR_U64;
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "items";
  options.columns = &column;
  options.column_count = 1;
  options.capacity_items = kSteps + 10;
  ASSERT_EQ(gear_table_create(client, &options, table), GEAR_OK) << gear_last_error();
}

TEST(Groups, SurviveTheirConsumersBeingKilledAtAnyMoment) {
  const char* text = getenv("GEAR_TEST_SEED");
  uint64_t seed = text != nullptr ? strtoull(text, nullptr, 0) : 1;
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  ServerProcess server;
  SharedMemory<Ledger> memory;
  Ledger* ledger = memory.get();
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  ASSERT_EQ(gear_connect(server.endpoint().c_str(), nullptr, &client), GEAR_OK);
  create_table(client, &table);
  ASSERT_NO_FATAL_FAILURE(append_all(table));

  pid_t consumers[kConsumers];
  for (pid_t& pid : consumers) pid = start_consumer(server.endpoint(), ledger);
  gear_group_stats stats = GEAR_GROUP_STATS_INIT;
  uint32_t kills = 0;
  int64_t end = deadline_after(60'000'000'000);
  do {
    usleep(static_cast<useconds_t>(1000 + rng.below(9000)));
    pid_t& victim = consumers[rng.below(kConsumers)];
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
    ++kills;
    victim = start_consumer(server.endpoint(), ledger);
    int status = gear_group_get_stats(table, "train", &stats);
    if (status == GEAR_ENOTFOUND) continue;
    ASSERT_EQ(status, GEAR_OK) << gear_last_error();
  } while (stats.acknowledged < kSteps && left_until(end) > 0);
  for (pid_t pid : consumers) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  printf("%u kills, %llu delivered, %llu of them again\n", kills,
         static_cast<unsigned long long>(stats.delivered),
         static_cast<unsigned long long>(stats.redelivered));

  EXPECT_EQ(stats.acknowledged, kSteps);
  EXPECT_EQ(stats.missed, 0u);
  EXPECT_GT(stats.redelivered, 0u);
  EXPECT_EQ(stats.delivered - stats.redelivered, kSteps);
  EXPECT_EQ(ledger->faults.load(), 0u);
  uint64_t twice = 0;
  for (const auto& count : ledger->first_deliveries) twice += count > 1 ? 1 : 0;
  EXPECT_EQ(twice, 0u);
  EXPECT_EQ(gear_close(client), GEAR_OK);
}

}  // namespace
}  // namespace gear::test
