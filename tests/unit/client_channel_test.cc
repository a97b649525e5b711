// ctest: labels=tsan
// Waiting on a channel: what ends a wait, and how soon.
#include "client/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/rng.h"
#include "unit/played_channel.h"

namespace gear::client {
namespace {

// After which a waiter looks by itself (session_comeback.cc).
constexpr int64_t kWholeSleepNs = 100'000'000;
using layout::TableState;
using test::kPatienceNs;
using test::PlayedChannel;

constexpr uint32_t kSlots = 8;

class ChannelWait : public ::testing::Test, protected PlayedChannel {
 protected:
  ChannelWait() : PlayedChannel(kSlots, kSlots, &table_) {
    set_state(TableState::kOpen);
    strcpy(table_.name, "t");
  }
  ~ChannelWait() override { end(); }

  void set_state(TableState state) { publish(table_.state, static_cast<uint32_t>(state)); }
  Status wait_for_flag(int64_t timeout_ns = kPatienceNs) {
    return channel_->wait_until(deadline_after(timeout_ns), [this] { return flag_.load(); });
  }

  layout::TableHeader table_{};
  std::atomic<bool> flag_{false};
};

TEST_F(ChannelWait, EndsAtOnceWhenThereIsNothingToWaitFor) {
  flag_ = true;
  EXPECT_TRUE(wait_for_flag(0).ok());
}

TEST_F(ChannelWait, EndsWhenTheConductorWakesASleeper) {
  once_asleep([this] {
    flag_ = true;
    wake();
  });
  int64_t begin_ns = now_ns();
  EXPECT_TRUE(wait_for_flag().ok());
  EXPECT_LT(now_ns() - begin_ns, kPatienceNs);
  EXPECT_EQ(peek(header().client_sleeps), 0u);
}

TEST_F(ChannelWait, GoesOnAfterAWakeUpThatWasForSomethingElse) {
  once_asleep([this] {
    for (int i = 0; i < 3; ++i) {
      wake();
      until_it_sleeps();
    }
    flag_ = true;
    wake();
  });
  EXPECT_TRUE(wait_for_flag().ok());
}

TEST_F(ChannelWait, EndsByItself) {
  int64_t begin_ns = now_ns();
  EXPECT_EQ(wait_for_flag(3'000'000).code(), GEAR_ETIMEDOUT);
  EXPECT_GE(now_ns() - begin_ns, 3'000'000);
  EXPECT_EQ(wait_for_flag(0).code(), GEAR_ETIMEDOUT);
}

TEST_F(ChannelWait, EndsWhenTheTableDoes) {
  once_asleep([this] {
    set_state(TableState::kClosed);
    wake();
  });
  Status status = wait_for_flag();
  EXPECT_EQ(status.code(), GEAR_ECLOSED);
  EXPECT_NE(status.text().find("\"t\""), std::string::npos) << status.text();
  set_state(TableState::kDropped);
  EXPECT_EQ(wait_for_flag().code(), GEAR_EDROPPED);
}

TEST_F(ChannelWait, EndsWhenTheConductorGivesTheChannelUp) {
  once_asleep([this] {
    publish(header().failure, int32_t{GEAR_EPROTOCOL});
    wake();
  });
  EXPECT_EQ(wait_for_flag().code(), GEAR_EPROTOCOL);
}

TEST_F(ChannelWait, CountsWhatWasDoneBeforeTheTableEnded) {
  once_asleep([this] {
    flag_ = true;
    set_state(TableState::kClosed);
    wake();
  });
  EXPECT_TRUE(wait_for_flag().ok());
}

TEST_F(ChannelWait, EndsSoonAfterTheServerHasGone) {
  once_asleep([this] { peer_->hang_up(); });
  int64_t begin_ns = now_ns();
  EXPECT_EQ(wait_for_flag().code(), GEAR_EDISCONNECTED);
  EXPECT_LT(now_ns() - begin_ns, kPatienceNs / 2);
  EXPECT_EQ(wait_for_flag().code(), GEAR_EDISCONNECTED);
}

// A lost wake-up costs a whole sleep, after which the waiter looks by itself.
TEST_F(ChannelWait, MissesNoWakeUpHoweverTheTwoInterleave) {
  constexpr uint32_t kRounds = 5'000;
  std::atomic<uint32_t> turn{0};
  conductor_ = std::thread([&] {
    Rng rng(1);
    for (uint32_t round = 1; round <= kRounds && turn.load() != UINT32_MAX; ++round) {
      while (turn.load() < 2 * round - 1) std::this_thread::yield();
      // Before, while and after the waiter goes from spinning to sleeping.
      int64_t answer_ns = now_ns() + static_cast<int64_t>(rng.below(50'000));
      while (now_ns() < answer_ns) {
      }
      if (turn.load() == 2 * round - 1) turn.store(2 * round);
      wake();
    }
  });
  uint32_t whole_sleeps = 0;
  for (uint32_t round = 1; round <= kRounds && whole_sleeps < 10; ++round) {
    int64_t begin_ns = now_ns();
    turn.store(2 * round - 1);
    Status status =
        channel_->wait_until(deadline_after(kPatienceNs), [&] { return turn.load() == 2 * round; });
    ASSERT_TRUE(status.ok()) << status.text();
    if (now_ns() - begin_ns >= kWholeSleepNs) ++whole_sleeps;
  }
  turn.store(UINT32_MAX);
  // A busy machine may keep either side from running for that long, but not often.
  EXPECT_LT(whole_sleeps, 10u);
}

}  // namespace
}  // namespace gear::client
