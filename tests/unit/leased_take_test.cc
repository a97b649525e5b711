// ctest: labels=tsan
// A leased sampler takes draws while the conductor revokes them: who was first, the conductor tells.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "client/batch.h"
#include "client/row_source.h"
#include "support/fake_table.h"
#include "unit/played_channel.h"

namespace gear::client {
namespace {

using layout::SubmissionOp;
using layout::SubmissionRecord;
using test::kPatienceNs;

constexpr uint32_t kSubmissions = 4;
constexpr uint32_t kDraws = 16;
// Longer than a call without any time waits for the verdict (leased_source.cc).
constexpr int64_t kLateNs = 1'200'000'000;

test::FakeTableOptions one_episode() {
  test::FakeTableOptions options;
  options.columns.push_back({"x"});
  options.episodes.push_back({0, 4, true, false, {}, false});
  return options;
}

class LeasedTake : public ::testing::Test, protected test::PlayedChannel {
 protected:
  LeasedTake() : LeasedTake(std::make_unique<test::FakeTable>(one_episode())) {}
  ~LeasedTake() override { end(); }

  Status fill(int64_t timeout_ns) { return source_->fill(*batch_, 1, timeout_ns); }

  // Takes draws until the ring is full of records that the conductor has not looked at. Then the next take waits for room,
  // with draws that it found good: the number of the first.
  uint64_t fill_the_ring() {
    for (uint32_t i = 0; i < kSubmissions; ++i) EXPECT_TRUE(fill(kPatienceNs).ok());
    return kSubmissions;
  }
  SubmissionRecord next_record() {
    SubmissionRecord record{};
    int64_t deadline_ns = deadline_after(kPatienceNs);
    while (submissions_.read(&record) != RingRead::kRecord && now_ns() < deadline_ns) std::this_thread::yield();
    submissions_.advance();
    return record;
  }
  // As the conductor: revokes [.., end), takes one record, and so lets a take cross that.
  void revoke(uint64_t end) {
    publish(header().draws_revoked, end);
    next_record();
    submissions_.publish_head();
    wake();
  }
  // The takes that filled the ring, and the one that crossed: the conductor has now looked at them all.
  SubmissionRecord look_at_all() {
    SubmissionRecord last{};
    for (uint32_t i = 0; i < kSubmissions; ++i) last = next_record();
    return last;
  }
  void tell() {
    submissions_.publish_head();
    wake();
  }

  std::unique_ptr<test::FakeTable> table_;
  TableView view_;
  SamplerPlan plan_{};
  std::shared_ptr<BatchPool> pool_;
  Batch* batch_ = nullptr;
  std::unique_ptr<RowSource> source_;

 private:
  explicit LeasedTake(std::unique_ptr<test::FakeTable> table)
      : PlayedChannel(kSubmissions, kDraws, &table->header()), table_(std::move(table)), view_(table_->view()) {
    table_->header().state = static_cast<uint32_t>(layout::TableState::kOpen);
    table_->header().lease_timeout_ms = 60'000;
    table_->header().counters.items = 1;
    plan_.batch_rows_max = plan_.batches_max = 1;
    plan_.prefetch = kDraws;
    plan_.seed = 1;
    plan_.anchor = GEAR_ANCHOR_FIRST;
    pool_ = BatchPool::create(lay_out_batch(view_, {}, {}, 1).take(), 1, nullptr).take();
    batch_ = pool_->borrow().take();
    source_ = make_leased_source(view_, plan_, *channel_);
    for (uint64_t number = 0; number < kDraws; ++number) completions_.push(draw(number));
    completions_.publish_tail();
  }

  // Its key tells its number.
  layout::CompletionRecord draw(uint64_t number) {
    test::FakeTable::Spot spot = table_->spot(0, 0);
    layout::CompletionRecord record{};
    record.draw.type = static_cast<uint32_t>(layout::CompletionType::kItem);
    record.draw.length = 1;
    record.draw.key = 1000 + number;
    record.draw.block = spot.block;
    record.draw.position = spot.position;
    record.draw.block_generation = table_->block(spot.block).generation;
    record.draw.episode = layout::kNone;
    record.draw.probability = 1;
    return record;
  }
};

TEST_F(LeasedTake, WaitsForTheVerdictAsLongAsTheCallMay) {
  uint64_t first = fill_the_ring();
  once_asleep([&] {
    revoke(first + 1);
    SubmissionRecord take = look_at_all();
    EXPECT_EQ(take.op, static_cast<uint32_t>(SubmissionOp::kTake));
    EXPECT_EQ(take.argument, first);
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLateNs));
    tell();  // in time
  });
  Status status = fill(kPatienceNs);
  EXPECT_TRUE(status.ok()) << status.text();
  join();
  EXPECT_EQ(batch_->keys[0], 1000 + first);
  EXPECT_EQ(batch_->leases.run_count, 1u);
  EXPECT_EQ(peek(header().completion_head), first + 1);
}

TEST_F(LeasedTake, GoesOnWithOtherDrawsWhenItCameTooLate) {
  uint64_t first = fill_the_ring();
  once_asleep([&] {
    revoke(first + 2);
    look_at_all();
    publish(header().takes_void, first + 1);
    tell();
  });
  Status status = fill(kPatienceNs);
  EXPECT_TRUE(status.ok()) << status.text();
  join();
  EXPECT_EQ(batch_->keys[0], 1000 + first + 2);
  SubmissionRecord take = next_record();
  EXPECT_EQ(take.op, static_cast<uint32_t>(SubmissionOp::kTake));
  EXPECT_EQ(take.argument, first + 2);
}

TEST_F(LeasedTake, GivesBackWhatItHeardNothingOf) {
  uint64_t first = fill_the_ring();
  once_asleep([&] { revoke(first + 1); });
  EXPECT_EQ(fill(kLateNs).code(), GEAR_ETIMEDOUT);
  join();
  // Their end goes before anything else, once there is room.
  look_at_all();
  tell();
  Status status = fill(kPatienceNs);
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(batch_->keys[0], 1000 + first + 1);
  SubmissionRecord end = next_record();
  EXPECT_EQ(end.op, static_cast<uint32_t>(SubmissionOp::kRelease));
  EXPECT_EQ(end.argument, first);
  EXPECT_EQ(end.count, 1u);
}

}  // namespace
}  // namespace gear::client
