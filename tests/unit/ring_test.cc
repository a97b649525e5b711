// ctest: labels=tsan
#include "shm/ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/clock.h"
#include "support/channel.h"

namespace gear {
namespace {

using layout::CompletionRecord;
using layout::SubmissionRecord;

constexpr int64_t kLong = 20'000'000'000;

SubmissionRecord record(uint64_t position) {
  SubmissionRecord made{};
  made.op = static_cast<uint32_t>(layout::SubmissionOp::kCommit);
  made.lane = static_cast<uint32_t>(position * 7);
  made.count = static_cast<uint32_t>(position);
  made.flags = static_cast<uint32_t>(position >> 3);
  made.argument = position * 0x9e3779b97f4a7c15u;
  made.value = static_cast<double>(position) / 3;
  return made;
}
bool is(const SubmissionRecord& seen, uint64_t position) {
  SubmissionRecord due = record(position);
  return memcmp(&seen, &due, sizeof due) == 0;
}

CompletionRecord completion(uint64_t position) {
  CompletionRecord made{};
  made.result.type = static_cast<uint32_t>(layout::CompletionType::kResult);
  made.result.ticket = position;
  made.result.updated = position * 0x9e3779b97f4a7c15u;
  made.result.stale = ~position;
  made.result.unknown = position << 7;
  made.result.rejected = position ^ 0x5555;
  return made;
}
bool is(const CompletionRecord& seen, uint64_t position) {
  CompletionRecord due = completion(position);
  return memcmp(&seen, &due, sizeof due) == 0;
}

class Submission : public testing::Test {
 protected:
  test::Channel channel_{8, 8};
  layout::ChannelHeader* header_ = channel_.header();
  SubmissionProducer producer_{header_};
  SubmissionConsumer consumer_{header_, header_->submission_offset, 8};
  SubmissionRecord seen_{};

  void publish_records(int count) {
    for (int i = 0; i < count; ++i) producer_.push(record(producer_.tail()));
    producer_.publish_tail();
  }
  void consume(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(consumer_.read(&seen_), RingRead::kRecord);
      ASSERT_TRUE(is(seen_, consumer_.head())) << consumer_.head();
      consumer_.advance();
    }
    consumer_.publish_head();
  }
};

TEST_F(Submission, IsEmptyAtFirst) {
  EXPECT_EQ(consumer_.read(&seen_), RingRead::kEmpty);
  EXPECT_TRUE(consumer_.looks_empty());
  EXPECT_TRUE(producer_.has_room(8));
  EXPECT_FALSE(producer_.has_room(9));
  EXPECT_EQ(producer_.waiting(), 0u);
}

TEST_F(Submission, IsSeenFromItsPublicationOn) {
  producer_.push(record(0));
  EXPECT_EQ(consumer_.read(&seen_), RingRead::kEmpty);
  EXPECT_TRUE(consumer_.looks_empty());
  producer_.publish_tail();
  EXPECT_FALSE(consumer_.looks_empty());
  EXPECT_EQ(consumer_.read(&seen_), RingRead::kRecord);
  EXPECT_TRUE(is(seen_, 0));
}

TEST_F(Submission, StaysTheNextUntilAdvance) {
  publish_records(2);
  EXPECT_EQ(consumer_.read(&seen_), RingRead::kRecord);
  EXPECT_EQ(consumer_.read(&seen_), RingRead::kRecord);
  EXPECT_TRUE(is(seen_, 0));
  consumer_.advance();
  EXPECT_EQ(consumer_.read(&seen_), RingRead::kRecord);
  EXPECT_TRUE(is(seen_, 1));
}

TEST_F(Submission, KeepsOrderAndContentAcrossTheWrap) {
  for (int turn = 0; turn < 20; ++turn) {
    publish_records(5);
    consume(5);
    EXPECT_EQ(consumer_.read(&seen_), RingRead::kEmpty);
  }
}

TEST_F(Submission, HasRoomAgainOnlyOnceTheHeadIsPublished) {
  publish_records(8);
  EXPECT_FALSE(producer_.has_room(1));
  EXPECT_EQ(producer_.waiting(), 8u);
  ASSERT_EQ(consumer_.read(&seen_), RingRead::kRecord);
  consumer_.advance();
  EXPECT_FALSE(producer_.has_room(1));
  EXPECT_EQ(producer_.waiting(), 8u);
  consumer_.publish_head();
  EXPECT_TRUE(producer_.has_room(1));
  EXPECT_FALSE(producer_.has_room(2));
  EXPECT_EQ(producer_.waiting(), 7u);
}

TEST_F(Submission, OfAFullRingComesWhole) {
  publish_records(8);
  consume(8);
  publish_records(8);
  consume(8);
}

TEST_F(Submission, WhoseTailJumpsMakesTheRingBroken) {
  publish_records(3);
  consume(3);
  for (uint64_t tail : {uint64_t{12}, uint64_t{1} << 40, UINT64_MAX, uint64_t{2}, uint64_t{0}}) {
    publish(header_->submission_tail, tail);
    EXPECT_EQ(consumer_.read(&seen_), RingRead::kBroken) << tail;
    EXPECT_FALSE(consumer_.looks_empty());
  }
  publish(header_->submission_tail, uint64_t{11});
  EXPECT_EQ(consumer_.read(&seen_), RingRead::kRecord);
}

TEST_F(Submission, ReadsOnlyItsOwnMemoryWhenTheHeaderIsScribbled) {
  publish_records(2);
  header_->submission_slots = 0xffffffff;
  header_->submission_offset = uint64_t{1} << 50;
  publish(header_->submission_head, uint64_t{77});
  consume(2);
  EXPECT_EQ(peek(header_->submission_head), 2u);
}

class Completion : public testing::Test {
 protected:
  test::Channel channel_{8, 8};
  layout::ChannelHeader* header_ = channel_.header();
  CompletionProducer producer_{header_, header_->completion_offset, 8};
  CompletionConsumer consumer_{header_};

  void post(int count) {
    for (int i = 0; i < count; ++i) producer_.push(completion(producer_.tail()));
    producer_.publish_tail();
  }
};

TEST_F(Completion, IsAvailableFromItsPublicationOn) {
  EXPECT_EQ(producer_.room(), 8u);
  producer_.push(completion(0));
  EXPECT_EQ(consumer_.available(), 0u);
  producer_.publish_tail();
  EXPECT_EQ(consumer_.available(), 1u);
  EXPECT_TRUE(is(consumer_.look(0), 0));
}

TEST_F(Completion, HasNoRoomAfterWordsThatAClientChangedWhileNoConductorRan) {
  publish(header_->completion_tail, uint64_t{5});
  publish(header_->completion_head, uint64_t{0});
  CompletionProducer next(header_, header_->completion_offset, 8);
  ASSERT_TRUE(next.resume());
  next.go_back_to(100);
  EXPECT_EQ(next.room(), 0u);
  publish(header_->completion_head, uint64_t{95});
  EXPECT_EQ(next.room(), 3u);
}

TEST_F(Completion, KeepsOrderAndContentAcrossTheWrap) {
  for (int turn = 0; turn < 20; ++turn) {
    post(5);
    ASSERT_EQ(consumer_.available(), 5u);
    for (uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(is(consumer_.look(i), consumer_.head() + i));
    consumer_.take(5);
    EXPECT_EQ(consumer_.available(), 0u);
  }
}

TEST_F(Completion, TakesUpRoomUntilItIsTaken) {
  post(8);
  EXPECT_EQ(producer_.room(), 0u);
  consumer_.available();
  consumer_.look(7);
  EXPECT_EQ(producer_.room(), 0u);
  consumer_.take(3);
  EXPECT_EQ(producer_.room(), 3u);
}

TEST_F(Completion, RoomIsNothingWhileTheHeadHasJumped) {
  post(4);
  consumer_.available();
  consumer_.take(2);
  EXPECT_EQ(producer_.room(), 6u);
  // Beyond what was posted, and back behind what was taken.
  for (uint64_t head : {uint64_t{5}, uint64_t{1} << 40, UINT64_MAX, uint64_t{1}, uint64_t{0}}) {
    publish(header_->completion_head, head);
    EXPECT_EQ(producer_.room(), 0u) << head;
  }
  publish(header_->completion_head, uint64_t{4});
  EXPECT_EQ(producer_.room(), 8u);
}

TEST_F(Completion, GoesIntoItsOwnMemoryWhenTheHeaderIsScribbled) {
  CompletionRecord* first =
      layout::at_offset<CompletionRecord>(header_, header_->completion_offset);
  header_->completion_slots = 0xffffffff;
  header_->completion_offset = uint64_t{1} << 50;
  publish(header_->completion_tail, uint64_t{99});
  post(8);
  EXPECT_EQ(peek(header_->completion_tail), 8u);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(is(first[i], i));
}

// Until `step` returns false, for a bounded time.
template <typename Step>
bool repeat(Step step) {
  int64_t deadline = deadline_after(kLong);
  for (uint32_t turn = 0; step(); ++turn) {
    if (turn % 64 == 63) std::this_thread::yield();
    if (turn % 4096 == 4095 && left_until(deadline) == 0) return false;
  }
  return true;
}

TEST(RingStress, SubmissionsOfAThreadReachAnotherWholeAndInOrder) {
  constexpr uint64_t kRecords = 300'000;
  test::Channel channel(64, 8);
  std::thread client([&channel] {
    SubmissionProducer producer(channel.header());
    EXPECT_TRUE(repeat([&] {
      uint64_t burst = std::min(producer.tail() % 13 + 1, kRecords - producer.tail());
      if (!producer.has_room(burst)) return true;
      for (uint64_t i = 0; i < burst; ++i) producer.push(record(producer.tail()));
      producer.publish_tail();
      return producer.tail() < kRecords;
    }));
  });
  SubmissionConsumer consumer(channel.header(), channel.header()->submission_offset, 64);
  uint64_t wrong = 0;
  EXPECT_TRUE(repeat([&] {
    SubmissionRecord seen;
    for (int i = 0; i < 9; ++i) {
      RingRead read = consumer.read(&seen);
      if (read == RingRead::kBroken) ++wrong;
      if (read != RingRead::kRecord) break;
      if (!is(seen, consumer.head())) ++wrong;
      consumer.advance();
    }
    consumer.publish_head();
    return consumer.head() < kRecords && wrong == 0;
  }));
  EXPECT_EQ(wrong, 0u);
  client.join();
  EXPECT_EQ(consumer.head(), kRecords);
}

TEST(RingStress, CompletionsOfAThreadReachAnotherWholeAndInOrder) {
  constexpr uint64_t kRecords = 300'000;
  test::Channel channel(8, 64);
  std::thread conductor([&channel] {
    CompletionProducer producer(channel.header(), channel.header()->completion_offset, 64);
    EXPECT_TRUE(repeat([&] {
      uint64_t burst = std::min(producer.room(), kRecords - producer.tail());
      burst = std::min<uint64_t>(burst, 11);
      for (uint64_t i = 0; i < burst; ++i) producer.push(completion(producer.tail()));
      producer.publish_tail();
      return producer.tail() < kRecords;
    }));
  });
  CompletionConsumer consumer(channel.header());
  uint64_t wrong = 0;
  EXPECT_TRUE(repeat([&] {
    uint64_t count = std::min<uint64_t>(consumer.available(), 17);
    for (uint64_t i = 0; i < count; ++i) {
      if (!is(consumer.look(i), consumer.head() + i)) ++wrong;
    }
    consumer.take(count);
    return consumer.head() < kRecords && wrong == 0;
  }));
  EXPECT_EQ(wrong, 0u);
  conductor.join();
  EXPECT_EQ(consumer.head(), kRecords);
}

}  // namespace
}  // namespace gear
