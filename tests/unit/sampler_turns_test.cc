// ctest: labels=unit
//
// How much a sampler may have done for it in one turn of the conductor.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/shared_word.h"
#include "fuzz/small_table.h"
#include "server/sampler_port.h"

namespace gear::test {
namespace {

using layout::SubmissionOp;

constexpr uint64_t kAtOnce = 4096;  // the most of anything

class SamplerTurns : public ::testing::Test {
 protected:
  void open(uint32_t prefetch, uint32_t rows, bool unique = false, uint32_t items = 6) {
    layout::TableCreateRequest request = small_request("t");
    request.capacity_items = 64;
    request.capacity_steps = 64;
    request.lease_timeout_ms = 1000;
    layout::ColumnSpec column = small_column();
    table_ = make_bare(request, &column);
    lane_ = table_->open_lane(1);
    for (uint32_t i = 0; i < items; ++i) insert();
    layout::SamplerOpenRequest sampler{};
    sampler.table_id = table_->id();
    sampler.prefetch = prefetch;
    sampler.batch_rows_max = rows;
    sampler.batches_max = 1;
    sampler.seed = 1;
    sampler.unique = unique ? 1 : 0;
    sampler.index = table_->header().sampler_index;
    auto port = SamplerPort::open(table_, sampler, {1, 5, 1, MemoryOptions{}, 0});
    ASSERT_TRUE(port.ok()) << port.status().text();
    port_ = port.take();
  }
  void TearDown() override {
    if (port_) port_->give_up();
  }

  void insert() {
    layout::GrantRecord grant{};
    bool filled = table_->unfilled_blocks(lane_) > 0;
    ASSERT_TRUE(filled || table_->grant_block(lane_, &grant));
    uint32_t done = 0;
    ASSERT_EQ(table_->commit(lane_, 1, &done), Admit::kDone);
  }
  layout::ChannelHeader* header() { return static_cast<layout::ChannelHeader*>(port_->segment().data()); }
  void push(SubmissionOp op, uint64_t argument, uint32_t count) {
    auto* ring = layout::at_offset<layout::SubmissionRecord>(header(), header()->submission_offset);
    layout::SubmissionRecord record{};
    record.op = static_cast<uint32_t>(op);
    record.argument = argument;
    record.count = count;
    ring[pushed_++ % header()->submission_slots] = record;
    publish(header()->submission_tail, pushed_);
  }
  // Turns until nothing is done; the most draws that one posted.
  uint64_t work(int* turns = nullptr) {
    uint64_t most = 0;
    for (int turn = 0; turn < 10'000; ++turn) {
      uint64_t before = header()->completion_tail;
      if (port_->work() == 0) break;
      most = std::max(most, header()->completion_tail - before);
      if (turns != nullptr) ++*turns;
    }
    return most;
  }

  std::shared_ptr<Table> table_;
  std::unique_ptr<Port> port_;
  uint32_t lane_ = 0;
  uint64_t pushed_ = 0;
};

TEST_F(SamplerTurns, DrawAheadInParts) {
  constexpr uint32_t kAhead = 1 << 15;
  open(kAhead, 8);
  EXPECT_LE(work(), kAtOnce);
  EXPECT_EQ(header()->completion_tail, kAhead);
}

TEST_F(SamplerTurns, MeetDemandsInParts) {
  constexpr uint32_t kAhead = 1 << 15;
  open(kAhead, 8);
  push(SubmissionOp::kDemand, kAhead + 8, 1);
  EXPECT_LE(work(), kAtOnce);
  EXPECT_EQ(header()->completion_tail, kAhead + 8);
}

TEST_F(SamplerTurns, MeetABatchThatIsAllOrNothingAtOnce) {
  constexpr uint32_t kRows = 1 << 14;
  open(0, kRows);
  push(SubmissionOp::kDemand, kRows, kRows);
  EXPECT_EQ(work(), kRows);
}

TEST_F(SamplerTurns, ReleaseManyInPartsAndEachOnce) {
  constexpr uint32_t kRows = 1 << 14;
  open(0, kRows);
  push(SubmissionOp::kDemand, kRows, kRows);
  work();
  publish(header()->completion_head, uint64_t{kRows});
  push(SubmissionOp::kTake, 0, kRows);
  work();
  ASSERT_TRUE(port_->wants_tick());
  push(SubmissionOp::kRelease, 1, kRows - 1);
  push(SubmissionOp::kRelease, 1, kRows - 1);
  int turns = 0;
  work(&turns);
  EXPECT_GE(turns, static_cast<int>(2 * kRows / kAtOnce));
  EXPECT_EQ(header()->submission_head, pushed_);
  EXPECT_TRUE(port_->wants_tick());  // one is taken still
  push(SubmissionOp::kRelease, 0, kRows);
  work();
  EXPECT_FALSE(port_->wants_tick());
  EXPECT_EQ(header()->failure, 0);
}

TEST_F(SamplerTurns, ExpireLeasesInTheirOrderWhateverWasReleasedBetween) {
  open(0, 8);
  for (uint64_t batch = 0; batch < 5; ++batch) {
    push(SubmissionOp::kDemand, batch * 8 + 8, 8);
    work();
    publish(header()->completion_head, batch * 8 + 8);
    push(SubmissionOp::kTake, batch * 8, 8);
    push(SubmissionOp::kRelease, batch * 8, batch < 4 ? 8 : 5);
    work();
  }
  EXPECT_TRUE(port_->wants_tick());
  port_->tick(now_ns());
  EXPECT_TRUE(port_->wants_tick());
  port_->tick(now_ns() + 60'000'000'000);
  EXPECT_FALSE(port_->wants_tick());
  push(SubmissionOp::kRelease, 37, 3);
  work();
  EXPECT_EQ(header()->failure, 0);
}

// A demand that was met with all there is waits for the client, and a new one looks again.
TEST_F(SamplerTurns, DrawNothingMoreForAUniqueDemandThatWasMetWithAllThereIs) {
  open(0, 32, true, 6);
  push(SubmissionOp::kDemand, 32, 1);
  work();
  EXPECT_EQ(header()->completion_tail, 6u);
  EXPECT_EQ(header()->draws_end, 6u);
  insert();
  EXPECT_EQ(port_->work(), 0u);
  push(SubmissionOp::kDemand, 32, 1);
  work();
  EXPECT_EQ(header()->completion_tail, 7u);
  EXPECT_EQ(header()->draws_end, 7u);
}

}  // namespace
}  // namespace gear::test
