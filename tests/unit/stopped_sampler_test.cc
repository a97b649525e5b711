// ctest: labels=unit timeout=60
//
// A sampler's process is stopped: what it holds comes back after lease_timeout_ms, and when it wakes it has nothing of that.
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

constexpr int64_t kPatienceNs = 20'000'000'000;
constexpr uint32_t kRows = 8;
constexpr uint32_t kBefore = 5 * kRows;
constexpr uint32_t kSteps = 6 * kRows;

struct Shared {
  std::atomic<uint32_t> ready;
  std::atomic<uint8_t> drawn[kSteps];
  std::atomic<uint8_t> drawn_again[kSteps];
};

class StoppedSampler : public ::testing::TestWithParam<bool> {
 protected:
  ~StoppedSampler() override {
    if (client_ != nullptr) gear_close(client_);
  }
  bool in_group() const { return GetParam(); }

  void create() {
    auto in_order = [this](gear_table_options* options) {
      options->capacity_items = options->capacity_steps = kSteps;
      options->sampler = GEAR_SELECT_FIFO;
      options->max_times_sampled = in_group() ? 0 : 1;
      options->lease_timeout_ms = 300;
    };
    ASSERT_EQ(gear_connect(server_.endpoint().c_str(), nullptr, &client_), GEAR_OK) << gear_last_error();
    ASSERT_EQ(create_int_table_with(client_, "shared", &table_, in_order, "step"), GEAR_OK) << gear_last_error();
    ASSERT_EQ(gear_writer_open(table_, nullptr, &writer_), GEAR_OK);
    append(0, kBefore);
  }

  void append(int64_t first, int64_t end) {
    for (int64_t step = first; step < end; ++step) {
      ASSERT_EQ(append_int(writer_, step, 0, kPatienceNs), GEAR_OK) << gear_last_error();
    }
    ASSERT_EQ(gear_writer_flush(writer_, kPatienceNs, nullptr), GEAR_OK);
  }

  gear_sampler* open_sampler(gear_table* table) const {
    gear_window window = GEAR_WINDOW_INIT;
    window.column = "step";
    window.length = 1;
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.windows = &window;
    options.window_count = 1;
    options.batch_rows_max = kRows;
    options.prefetch = 2 * kRows;
    options.mode = GEAR_SAMPLE_LEASED;
    if (in_group()) options.group = "train";
    gear_sampler* sampler = nullptr;
    return gear_sampler_open(table, &options, &sampler) == GEAR_OK ? sampler : nullptr;
  }

  int draw(gear_sampler* sampler, uint32_t rows, gear_batch** batch) const {
    int status = gear_sample(sampler, rows, kPatienceNs, batch);
    if (status != GEAR_OK) return status;
    gear_tensor tensor;
    if (gear_batch_tensor(*batch, 0, &tensor) != GEAR_OK) return GEAR_ESYSTEM;
    const uint8_t* again = gear_batch_redelivered(*batch);
    for (uint32_t row = 0; row < gear_batch_rows(*batch); ++row) {
      int64_t step = static_cast<const int64_t*>(tensor.data)[row];
      if (step < 0 || step >= kSteps) return GEAR_ESYSTEM;
      (again != nullptr && again[row] != 0 ? shared_->drawn_again : shared_->drawn)[step].fetch_add(1);
    }
    return GEAR_OK;
  }

  // Draws a batch, and has two more ahead; stops; wakes, and draws the batch that was appended last.
  int sample_and_stop() const {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    while (shared_->ready.load() == 0) usleep(100);
    if (gear_connect(server_.endpoint().c_str(), nullptr, &client) != GEAR_OK) return 1;
    if (gear_table_open(client, "shared", &table) != GEAR_OK) return 2;
    gear_sampler* sampler = open_sampler(table);
    gear_batch* held = nullptr;
    gear_batch* later = nullptr;
    if (sampler == nullptr || draw(sampler, kRows, &held) != GEAR_OK) return 3;
    raise(SIGSTOP);
    if (gear_batch_release(held) != GEAR_ESTALE) return 4;
    if (draw(sampler, kRows, &later) != GEAR_OK) return 5;
    if (gear_batch_release(later) != GEAR_OK) return 6;
    gear_batch* none = nullptr;
    return gear_sample(sampler, 1, 0, &none) == GEAR_ETIMEDOUT ? 0 : 7;
  }

  ServerProcess server_;
  Children children_;
  SharedMemory<Shared> memory_;
  Shared* shared_ = memory_.get();
  gear_client* client_ = nullptr;
  gear_table* table_ = nullptr;
  gear_writer* writer_ = nullptr;
};

TEST_P(StoppedSampler, WhatItDrewAheadGoesToOthersAndIsNotItsOwnWhenItWakes) {
  pid_t stopping = children_.start([this] { return sample_and_stop(); });
  create();
  shared_->ready.store(1);
  siginfo_t stopped{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(stopping), &stopped, WSTOPPED | WNOWAIT), 0);
  gear_sampler* sampler = open_sampler(table_);
  ASSERT_NE(sampler, nullptr) << gear_last_error();
  uint32_t left = in_group() ? kBefore : kBefore - kRows;
  for (; left > 0; left -= kRows) {
    gear_batch* batch = nullptr;
    ASSERT_EQ(draw(sampler, kRows, &batch), GEAR_OK) << left << " rows left: " << gear_last_error();
    ASSERT_EQ(gear_batch_release(batch), GEAR_OK) << gear_last_error();
  }
  ASSERT_EQ(gear_sampler_close(sampler), GEAR_OK);
  append(kBefore, kSteps);
  kill(stopping, SIGCONT);
  ASSERT_TRUE(children_.all_succeed(30));
  for (uint32_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(shared_->drawn[step].load(), 1) << step;
    EXPECT_EQ(shared_->drawn_again[step].load(), in_group() && step < kRows ? 1 : 0) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(, StoppedSampler, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "InAGroup" : "OfItemsThatAreDrawnOnce"; });

}  // namespace
}  // namespace gear::test
