// ctest: labels=tsan
// Batches without a table behind them: handles, the pool, layout and weights.
#include "client/batch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "client/sampler.h"

namespace gear::client {
namespace {

// One column "obs" f32 [3] with windows of 4 and of 1 step.
class Batches : public ::testing::Test {
 protected:
  Batches() {
    column_.dtype = GEAR_F32;
    column_.element_bytes = 4;
    column_.rank = 1;
    column_.shape[0] = 3;
    column_.cell_bytes = 12;
    view_.columns = &column_;
    plan_.resize(2);
    plan_[0].length = 4;
    plan_[1].length = 1;
    plan_[0].cell_bytes = plan_[1].cell_bytes = 12;
  }

  std::shared_ptr<BatchPool> pool_of(uint32_t batches_max, uint32_t rows_max = 8) {
    Result<BatchLayout> layout = lay_out_batch(view_, plan_, {"stack", "now"}, rows_max);
    EXPECT_TRUE(layout.ok());
    return BatchPool::create(layout.take(), batches_max, nullptr).take();
  }

  static gear_batch* hand_out(BatchPool& pool, uint32_t rows = 5) {
    Batch* batch = pool.borrow().take();
    batch->set_rows(rows);
    return pool.hand_out(batch);
  }

  static BatchRegistry& registry() { return BatchRegistry::of_process(); }
  static void release(gear_batch* handle) {
    Batch* batch = registry().end(handle);
    ASSERT_NE(batch, nullptr);
    ASSERT_TRUE(BatchPool::give_back(batch).ok());
  }

  layout::ColumnRecord column_{};
  TableView view_;
  std::vector<WindowPlan> plan_;
};

TEST_F(Batches, AreFoundByTheirHandleUntilTheyEnd) {
  auto pool = pool_of(1);
  gear_batch* handle = hand_out(*pool);
  ASSERT_NE(registry().find(handle), nullptr);
  EXPECT_EQ(registry().find(handle)->rows, 5u);
  release(handle);
  EXPECT_EQ(registry().find(handle), nullptr);
  EXPECT_EQ(registry().end(handle), nullptr);
}

TEST_F(Batches, NeverAnswerToAnEarlierHandle) {
  auto pool = pool_of(1);
  std::set<gear_batch*> seen;
  for (int i = 0; i < 100; ++i) {
    gear_batch* handle = hand_out(*pool);
    EXPECT_TRUE(seen.insert(handle).second);
    for (gear_batch* old : seen) EXPECT_EQ(registry().find(old) != nullptr, old == handle);
    release(handle);
  }
}

TEST_F(Batches, AnswerToNoPointerThatIsNoHandle) {
  auto pool = pool_of(1);
  gear_batch* handle = hand_out(*pool);
  int local = 0;
  for (uintptr_t bits :
       {uintptr_t{0}, uintptr_t{1}, reinterpret_cast<uintptr_t>(&local), ~uintptr_t{0},
        reinterpret_cast<uintptr_t>(handle) ^ 2, uintptr_t{0xfff7ff}}) {
    auto* garbage = reinterpret_cast<gear_batch*>(bits);
    EXPECT_EQ(registry().find(garbage), nullptr) << bits;
    EXPECT_EQ(registry().end(garbage), nullptr) << bits;
  }
  release(handle);
}

TEST_F(Batches, OutliveTheirPoolsOwner) {
  auto pool = pool_of(2);
  gear_batch* handle = hand_out(*pool);
  pool.reset();
  gear_tensor tensor;
  registry().find(handle)->fill_tensor(0, &tensor);
  memset(tensor.data, 1, tensor.size_bytes);
  EXPECT_STREQ(tensor.name, "stack");
  release(handle);
  EXPECT_EQ(registry().end(handle), nullptr);
}

TEST_F(Batches, OfAClosedPoolLeaveTheirSlotToOthersButNotTheirHandle) {
  auto pool = pool_of(1);
  gear_batch* old = hand_out(*pool);
  release(old);
  pool.reset();
  pool = pool_of(1);
  gear_batch* handle = hand_out(*pool);
  EXPECT_NE(handle, old);
  EXPECT_EQ(registry().find(old), nullptr);
  release(handle);
}

TEST_F(Batches, AreRefusedWhileAllAreHeld) {
  auto pool = pool_of(2);
  gear_batch* first = hand_out(*pool);
  gear_batch* second = hand_out(*pool);
  EXPECT_EQ(pool->borrow().status().code(), GEAR_EBUSY);
  release(first);
  gear_batch* third = hand_out(*pool);
  release(second);
  release(third);
}

TEST_F(Batches, BorrowedInVainAreFreeAgain) {
  auto pool = pool_of(1);
  Batch* batch = pool->borrow().take();
  EXPECT_EQ(pool->borrow().status().code(), GEAR_EBUSY);
  pool->unborrow(batch);
  EXPECT_TRUE(pool->borrow().ok());
}

TEST_F(Batches, ReleasedByManyThreadsEndForOneOfThem) {
  auto pool = pool_of(1);
  for (int round = 0; round < 200; ++round) {
    gear_batch* handle = hand_out(*pool);
    std::atomic<int> ended{0};
    auto race = [&] {
      if (Batch* batch = registry().end(handle)) {
        ended.fetch_add(1);
        EXPECT_TRUE(BatchPool::give_back(batch).ok());
      }
    };
    std::thread one(race);
    std::thread other(race);
    one.join();
    other.join();
    ASSERT_EQ(ended.load(), 1);
  }
}

TEST_F(Batches, HaveALengthAxisWhereTheWindowIsLongerThanOneStep) {
  auto pool = pool_of(1);
  gear_batch* handle = hand_out(*pool, 5);
  gear_tensor stack, now;
  registry().find(handle)->fill_tensor(0, &stack);
  registry().find(handle)->fill_tensor(1, &now);
  ASSERT_EQ(stack.rank, 3u);
  EXPECT_EQ(std::vector<int64_t>(stack.shape, stack.shape + 3), (std::vector<int64_t>{5, 4, 3}));
  EXPECT_EQ(std::vector<int64_t>(stack.strides, stack.strides + 3),
            (std::vector<int64_t>{48, 12, 4}));
  ASSERT_EQ(now.rank, 2u);
  EXPECT_EQ(std::vector<int64_t>(now.shape, now.shape + 2), (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(stack.size_bytes, 5u * 48);
  release(handle);
}

TEST_F(Batches, HaveTheirArraysApartAndAlignedTo64Bytes) {
  auto pool = pool_of(1, 7);
  Batch* batch = pool->borrow().take();
  batch->set_rows(7);
  std::vector<void*> arrays = {batch->keys,    batch->priorities,    batch->probabilities,
                               batch->weights, batch->times_sampled, batch->item_lengths,
                               batch->anchors};
  for (const WindowBuffer& window : batch->windows) {
    arrays.insert(arrays.end(), {window.data, window.mask, window.lengths});
  }
  std::set<void*> distinct(arrays.begin(), arrays.end());
  EXPECT_EQ(distinct.size(), arrays.size());
  for (void* array : arrays) EXPECT_EQ(reinterpret_cast<uintptr_t>(array) % 64, 0u);
}

TEST_F(Batches, LargerThanMemoryCanBeAreRefused) {
  plan_[0].length = UINT32_MAX;
  plan_[0].cell_bytes = uint64_t{1} << 40;
  Result<BatchLayout> layout = lay_out_batch(view_, plan_, {"stack", "now"}, 256);
  EXPECT_EQ(layout.status().code(), GEAR_ENOMEM);
}

class Weights : public Batches {
 protected:
  Weights() : pool_(pool_of(1)), batch_(*pool_->borrow().take()) {
    batch_.set_rows(3);
    batch_.population = 4;
    for (int row = 0; row < 3; ++row) batch_.probabilities[row] = 0.5 / (1 << row);
  }
  std::shared_ptr<BatchPool> pool_;
  Batch& batch_;
};

TEST_F(Weights, AreAllOneForBetaZero) {
  weigh_rows(batch_, 0, GEAR_NORMALISE_BATCH, 0);
  for (int row = 0; row < 3; ++row) EXPECT_EQ(batch_.weights[row], 1.0f);
}

TEST_F(Weights, AreNTimesProbabilityToTheMinusBeta) {
  weigh_rows(batch_, 0.5, GEAR_NORMALISE_NONE, 0);
  for (int row = 0; row < 3; ++row) {
    EXPECT_NEAR(batch_.weights[row], std::pow(4 * batch_.probabilities[row], -0.5), 1e-6);
  }
}

TEST_F(Weights, AreDividedByTheLargestOfTheBatch) {
  weigh_rows(batch_, 1, GEAR_NORMALISE_BATCH, 0);
  EXPECT_FLOAT_EQ(batch_.weights[2], 1.0f);
  EXPECT_FLOAT_EQ(batch_.weights[1], 0.5f);
  EXPECT_FLOAT_EQ(batch_.weights[0], 0.25f);
}

}  // namespace
}  // namespace gear::client
