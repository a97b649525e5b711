// ctest: labels=tsan
#include "shm/doorbell.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/shared_word.h"
#include "shm/descriptor.h"
#include "shm/ring.h"
#include "support/channel.h"

namespace gear {
namespace {

using layout::ConductorState;

constexpr int64_t kMs = 1'000'000;
// A sleeper that nobody wakes sleeps this long, and the test fails.
constexpr int kLostAfterMs = 5000;

void announce(layout::InstanceSegment* instance, ConductorState state) {
  publish(instance->conductor_state, static_cast<uint32_t>(state));
}

bool rung(int fd) {
  uint64_t count = 0;
  return read(fd, &count, sizeof count) == sizeof count;
}

TEST(Doorbell, RingsOnlyAConductorThatWouldNotSeeTheRecordInTime) {
  layout::InstanceSegment instance{};
  Descriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  struct Case {
    ConductorState state;
    Urgency urgency;
    bool rings;
  };
  for (const Case& c : {Case{ConductorState::kAwake, Urgency::kCommit, false},
                        Case{ConductorState::kAwake, Urgency::kAnswer, false},
                        Case{ConductorState::kDrowsy, Urgency::kCommit, false},
                        Case{ConductorState::kDrowsy, Urgency::kAnswer, true},
                        Case{ConductorState::kAsleep, Urgency::kCommit, true},
                        Case{ConductorState::kAsleep, Urgency::kAnswer, true}}) {
    announce(&instance, c.state);
    ring_conductor(&instance, bell.get(), c.urgency);
    EXPECT_EQ(rung(bell.get()), c.rings) << static_cast<int>(c.state);
  }
}

TEST(Doorbell, ThatIsFullDoesNotHoldTheRinger) {
  layout::InstanceSegment instance{};
  Descriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  uint64_t most = UINT64_MAX - 1;
  ASSERT_EQ(write(bell.get(), &most, sizeof most), 8);
  announce(&instance, ConductorState::kAsleep);
  ring_conductor(&instance, bell.get(), Urgency::kAnswer);
  EXPECT_TRUE(rung(bell.get()));
}

TEST(Futex, ReturnsAtOnceWhenTheWordChangedBeforeTheSleep) {
  uint32_t word = 3;
  int64_t begin = now_ns();
  futex_wait(&word, 2, 10'000 * kMs);
  EXPECT_LT(now_ns() - begin, 5'000 * kMs);
}

TEST(Futex, EndsItsSleepAtTheTimeGiven) {
  uint32_t word = 3;
  int64_t begin = now_ns();
  futex_wait(&word, 3, 20 * kMs);
  EXPECT_GE(now_ns() - begin, 20 * kMs);
  begin = now_ns();
  futex_wait(&word, 3, 0);
  futex_wait(&word, 3, -1);
  EXPECT_LT(now_ns() - begin, 5'000 * kMs);
}

TEST(Futex, SleepsOnAReadOnlyMapping) {
  int fd = memfd_create("gear.test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  auto* written =
      static_cast<uint32_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  auto* seen = static_cast<const uint32_t*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
  std::atomic<bool> woke{false};
  std::thread sleeper([&] {
    int64_t deadline = deadline_after(int64_t{kLostAfterMs} * kMs);
    while (observe(*seen) == 0 && left_until(deadline) > 0)
      futex_wait(seen, 0, left_until(deadline));
    woke.store(observe(*seen) == 1);
  });
  publish(*written, 1u);
  futex_wake(written);
  sleeper.join();
  EXPECT_TRUE(woke.load());
  munmap(written, 4096);
  munmap(const_cast<uint32_t*>(seen), 4096);
  close(fd);
}

TEST(WakeUp, CostsNothingWhileTheClientIsAwake) {
  test::Channel channel;
  wake_client_if_asleep(channel.header());
  EXPECT_EQ(peek(channel.header()->wake_word), 0u);
  note(channel.header()->client_sleeps, 1u);
  wake_client_if_asleep(channel.header());
  EXPECT_EQ(peek(channel.header()->wake_word), 1u);
}

// A delay of up to some hundred nanoseconds, another one each time: the two sides meet at every
// point of the way to sleep.
class Jitter {
 public:
  explicit Jitter(uint32_t seed) : state_(seed) {}
  void pass() {
    state_ = state_ * 1664525 + 1013904223;
    for (uint32_t left = state_ >> 24; left > 0; --left) asm volatile("" ::: "memory");
  }

 private:
  uint32_t state_;
};

// The library's protocol, both ends, over one mapping. Whoever sleeps with nobody to wake it counts
// as lost.
class WakeUpStress : public testing::Test {
 protected:
  // Takes every record, until `turns` of them; awake, or asleep on the bell whenever the ring is
  // empty.
  void conduct(uint64_t turns, bool sleep) {
    SubmissionConsumer consumer(header_, header_->submission_offset, 8);
    Jitter jitter(1);
    layout::SubmissionRecord record;
    auto take_all = [&] {
      uint64_t before = consumer.head();
      while (consumer.read(&record) == RingRead::kRecord) consumer.advance();
      if (consumer.head() == before) return false;
      jitter.pass();
      consumer.publish_head();
      wake_client_if_asleep(header_);
      return true;
    };
    while (consumer.head() < turns && lost_.load() == 0) {
      if (take_all() || !sleep) continue;
      jitter.pass();
      announce(&instance_, ConductorState::kAsleep);
      fence_store_before_look();
      if (fence_ == ClientFence::kConductor) fence_clients();
      if (!take_all()) {
        pollfd entry{bell_.get(), POLLIN, 0};
        if (poll(&entry, 1, kLostAfterMs) == 0) lost_.fetch_add(1);
        rung(bell_.get());
      }
      announce(&instance_, ConductorState::kAwake);
    }
  }

  // Publishes one record a turn, and waits until the conductor's head shows it: awake, or asleep on
  // the futex.
  void submit(uint64_t turns, bool sleep) {
    SubmissionProducer producer(header_);
    Jitter jitter(2);
    while (producer.tail() < turns && lost_.load() == 0) {
      producer.push(layout::SubmissionRecord{});
      jitter.pass();
      producer.publish_tail();
      ring_conductor(&instance_, bell_.get(), Urgency::kAnswer, fence_);
      while (producer.waiting() > 0 && lost_.load() == 0) {
        if (sleep) sleep_until_woken(producer);
      }
    }
    EXPECT_EQ(producer.tail(), turns);
  }
  void sleep_until_woken(SubmissionProducer& producer) {
    uint32_t seen = observe(header_->wake_word);
    note(header_->client_sleeps, 1u);
    fence_store_before_look();
    if (producer.waiting() > 0) {
      int64_t begin = now_ns();
      futex_wait(&header_->wake_word, seen, kLostAfterMs * kMs);
      if (now_ns() - begin >= kLostAfterMs * kMs) lost_.fetch_add(1);
    }
    note(header_->client_sleeps, 0u);
  }

  void run(uint64_t turns, bool conductor_sleeps, bool client_sleeps) {
    std::thread conductor([=, this] { conduct(turns, conductor_sleeps); });
    submit(turns, client_sleeps);
    conductor.join();
    EXPECT_EQ(lost_.load(), 0u);
  }

  test::Channel channel_{8, 8};
  layout::ChannelHeader* header_ = channel_.header();
  layout::InstanceSegment instance_{};
  ClientFence fence_ = ClientFence::kOwn;
  Descriptor bell_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<uint64_t> lost_{0};
};

TEST_F(WakeUpStress, LosesNoneOfAConductorThatSleepsAtEveryTurn) {
  run(300'000, true, false);
}

TEST_F(WakeUpStress, LosesNoneOfAConductorThatMakesItsClientsFence) {
  if (!can_fence_clients()) GTEST_SKIP() << "the kernel has no membarrier for this";
  instance_.fences_for_clients = 1;
  fence_ = register_for_fences(&instance_);
  ASSERT_EQ(fence_, ClientFence::kConductor);
  run(100'000, true, false);
}

TEST(Doorbell, LeavesTheFenceToAClientWhoseServerDoesNotOfferIt) {
  layout::InstanceSegment instance{};
  EXPECT_EQ(register_for_fences(&instance), ClientFence::kOwn);
}

TEST_F(WakeUpStress, LosesNoneOfAClientThatSleepsAtEveryTurn) {
  run(300'000, false, true);
}

TEST_F(WakeUpStress, LosesNoneWhenBothSleepAtEveryTurn) {
  run(50'000, true, true);
}

}  // namespace
}  // namespace gear
