// ctest: labels=unit timeout=60
//
// One table, several processes: learners that share its epochs, and a writer that is killed and followed by another.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "gear.h"
#include "support/int_table.h"
#include "support/server_process.h"
#include "support/shared_memory.h"

namespace gear::test {
namespace {

constexpr int64_t kTimeoutNs = 20'000'000'000;
constexpr uint32_t kSteps = 5000;

// What the processes of a test tell each other.
struct Shared {
  std::atomic<uint32_t> ready;
  std::atomic<uint8_t> drawn[kSteps];
  std::atomic<uint32_t> rows[2];
};

class SharedTable : public ::testing::Test {
 protected:
  ~SharedTable() override {
    if (client_ != nullptr) gear_close(client_);
  }

  // After the children were forked: they may not inherit a client.
  void create(const char* column_name, uint32_t policy) {
    auto change = [policy](gear_table_options* options) {
      options->capacity_items = options->capacity_steps = kSteps;
      options->item_policy = policy;
      options->episode_steps_max = 50;
      options->lanes_max = 4;
    };
    ASSERT_EQ(gear_connect(server_.endpoint().c_str(), nullptr, &client_), GEAR_OK) << gear_last_error();
    ASSERT_EQ(create_int_table_with(client_, "shared", &table_, change, column_name), GEAR_OK) << gear_last_error();
  }

  static int append(gear_writer* writer, uint32_t lane, int64_t value) {
    return append_int(writer, value, lane, kTimeoutNs);
  }

  void wait_until_ready(uint32_t count) {
    for (int i = 0; i < 100'000 && shared_->ready.load() < count; ++i) usleep(100);
    ASSERT_EQ(shared_->ready.load(), count);
  }

  gear_table_stats stats() const {
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    EXPECT_EQ(gear_table_get_stats(table_, &stats), GEAR_OK);
    return stats;
  }

  // Opens the table in a child, once it is there.
  gear_table* open_in_child() const {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    if (gear_connect(server_.endpoint().c_str(), nullptr, &client) != GEAR_OK) return nullptr;
    for (int i = 0; i < 100'000; ++i) {
      if (gear_table_open(client, "shared", &table) == GEAR_OK) return table;
      usleep(100);
    }
    return nullptr;
  }

  ServerProcess server_;
  Children children_;
  SharedMemory<Shared> memory_;
  Shared* shared_ = memory_.get();
  gear_client* client_ = nullptr;
  gear_table* table_ = nullptr;
};

// Rank `rank` of two draws its share of every step once the table is loaded; the process's exit status.
int learn(gear_table* table, uint32_t rank, Shared* shared) {
  if (table == nullptr) return 1;
  gear_window window = GEAR_WINDOW_INIT;
  window.column = "step";
  window.length = 1;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.windows = &window;
  options.window_count = 1;
  options.anchor = GEAR_ANCHOR_EVERY_STEP;
  options.order = GEAR_ORDER_EPOCH;
  options.seed = 9;
  options.rank = rank;
  options.world = 2;
  gear_sampler* sampler = nullptr;
  if (gear_sampler_open(table, &options, &sampler) != GEAR_OK) return 2;
  while (shared->ready.load() == 0) usleep(100);
  for (;;) {
    gear_batch* batch = nullptr;
    int status = gear_sample(sampler, 64, kTimeoutNs, &batch);
    if (status == GEAR_EEPOCH) return 0;
    if (status != GEAR_OK) return 3;
    gear_tensor tensor;
    if (gear_batch_tensor(batch, 0, &tensor) != GEAR_OK) return 4;
    for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
      int64_t step = static_cast<const int64_t*>(tensor.data)[row];
      if (step < 0 || step >= kSteps) return 5;
      shared->drawn[step].fetch_add(1);
    }
    shared->rows[rank].fetch_add(gear_batch_rows(batch));
    gear_batch_release(batch);
  }
}

TEST_F(SharedTable, GivesTwoLearnersEveryStepOfEveryEpisodeOnceBetweenThem) {
  for (uint32_t rank : {0u, 1u}) {
    children_.start([this, rank] { return learn(open_in_child(), rank, shared_); });
  }
  create("step", GEAR_ITEMS_EPISODE);
  gear_writer* writer = nullptr;
  ASSERT_EQ(gear_writer_open(table_, nullptr, &writer), GEAR_OK);
  for (int64_t step = 0, left = 1; step < kSteps; ++step) {
    ASSERT_EQ(append(writer, 0, step), GEAR_OK) << gear_last_error();
    if (--left > 0 && step != kSteps - 1) continue;
    ASSERT_EQ(gear_writer_end_episode(writer, 0, GEAR_TERMINATED, nullptr, 0, kTimeoutNs), GEAR_OK);
    left = 1 + step * 7 % 50;
  }
  ASSERT_EQ(gear_writer_flush(writer, kTimeoutNs, nullptr), GEAR_OK);
  shared_->ready.store(1);
  ASSERT_TRUE(children_.all_succeed(30));
  for (uint32_t step = 0; step < kSteps; ++step) ASSERT_EQ(shared_->drawn[step].load(), 1) << step;
  EXPECT_EQ(shared_->rows[0].load(), kSteps / 2);
  EXPECT_EQ(shared_->rows[1].load(), kSteps / 2);
}

// SEMANTICS 39
TEST_F(SharedTable, LaneOfAKilledWriterIsFreeAtOnceAndItsStepsStay) {
  const uint64_t name = 42;
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  options.lane_names = &name;
  pid_t actor = children_.start([&] {
    gear_table* table = open_in_child();
    gear_writer* writer = nullptr;
    if (table == nullptr || gear_writer_open(table, &options, &writer) != GEAR_OK) return 1;
    for (int64_t step = 0; step < 10; ++step) {
      if (append(writer, 0, step) != GEAR_OK) return 2;
    }
    if (gear_writer_flush(writer, kTimeoutNs, nullptr) != GEAR_OK) return 3;
    shared_->ready.store(1);
    pause();
    return 4;
  });
  create("step", GEAR_ITEMS_STEP);
  wait_until_ready(1);
  gear_writer* second = nullptr;
  EXPECT_EQ(gear_writer_open(table_, &options, &second), GEAR_ELIMIT);
  kill(actor, SIGKILL);
  siginfo_t dead{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(actor), &dead, WEXITED | WNOWAIT), 0);
  // The first try succeeds, whatever the server heard of first.
  ASSERT_EQ(gear_writer_open(table_, &options, &second), GEAR_OK) << gear_last_error();
  ASSERT_EQ(append(second, 0, 10), GEAR_OK);
  ASSERT_EQ(gear_writer_flush(second, kTimeoutNs, nullptr), GEAR_OK);
  EXPECT_EQ(stats().steps, 11u);
  EXPECT_EQ(stats().items, 11u);
  for (int i = 0; i < 100'000 && stats().episodes < 1; ++i) usleep(100);
  EXPECT_EQ(stats().episodes, 1u);
}

// SEMANTICS 39: the process is stopped, not dead, and may go on at any instruction.
TEST_F(SharedTable, LaneOfAStoppedWriterIsTakenOverAndItHearsOfItLater) {
  const uint64_t names[2] = {42, 43};
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  options.lanes = 2;
  options.lane_names = names;
  pid_t actor = children_.start([&] {
    gear_table* table = open_in_child();
    gear_writer* writer = nullptr;
    if (table == nullptr || gear_writer_open(table, &options, &writer) != GEAR_OK) return 1;
    if (append(writer, 0, 0) != GEAR_OK || append(writer, 1, 0) != GEAR_OK) return 2;
    if (gear_writer_flush(writer, kTimeoutNs, nullptr) != GEAR_OK) return 3;
    shared_->ready.store(1);
    raise(SIGSTOP);
    if (append(writer, 0, 1) != GEAR_ESTALE) return 4;
    if (append(writer, 1, 1) != GEAR_OK) return 5;
    return gear_writer_flush(writer, kTimeoutNs, nullptr) == GEAR_OK ? 0 : 6;
  });
  create("step", GEAR_ITEMS_STEP);
  wait_until_ready(1);
  siginfo_t stopped{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(actor), &stopped, WSTOPPED | WNOWAIT), 0);
  gear_writer_options taking = options;
  taking.lanes = 1;
  taking.take_over = 1;
  gear_writer* second = nullptr;
  ASSERT_EQ(gear_writer_open(table_, &taking, &second), GEAR_OK) << gear_last_error();
  EXPECT_EQ(stats().episodes, 1u);
  ASSERT_EQ(append(second, 0, 1), GEAR_OK);
  ASSERT_EQ(gear_writer_flush(second, kTimeoutNs, nullptr), GEAR_OK);
  EXPECT_EQ(stats().steps, 3u);
  kill(actor, SIGCONT);
  ASSERT_TRUE(children_.all_succeed(30));
  EXPECT_EQ(stats().steps, 4u);
}

}  // namespace
}  // namespace gear::test
