// The two single-producer single-consumer rings of a channel, from both ends.
//
// Who writes: submission_tail and completion_head the client, submission_head and completion_tail the conductor. An end
// keeps its own position privately and does not read it back, but for a conductor that adopts the channel, once (resume). So
// the other side can only be believed about its own position, and that is checked: a position that jumps makes the ring
// broken.
#pragma once

#include <cstdint>

#include "base/shared_word.h"
#include "layout/channel.h"
#include "layout/directory.h"

namespace gear {

// Client's end. One thread.
class SubmissionProducer {
 public:
  SubmissionProducer() = default;
  explicit SubmissionProducer(layout::ChannelHeader* header)
      : header_(header),
        records_(layout::at_offset<layout::SubmissionRecord>(header, header->submission_offset)),
        slots_(header->submission_slots),
        mask_(header->submission_slots - 1) {}

  // True when `count` records can be pushed.
  bool has_room(uint64_t count) {
    if (tail_ + count - head_seen_ <= slots_) return true;
    head_seen_ = observe(header_->submission_head);
    return tail_ + count - head_seen_ <= slots_;
  }
  // Needs has_room. The conductor sees the record after publish_tail.
  void push(const layout::SubmissionRecord& record) { records_[tail_++ & mask_] = record; }
  // Behind its kUpdates.
  void push(const layout::UpdateRecord& record) {
    __builtin_memcpy(&records_[tail_++ & mask_], &record, sizeof record);
  }
  void publish_tail() { publish(header_->submission_tail, tail_); }

  uint64_t tail() const { return tail_; }
  // Records whose effect is not in the directory yet.
  uint64_t waiting() {
    head_seen_ = observe(header_->submission_head);
    return tail_ - head_seen_;
  }
  uint64_t slots() const { return slots_; }

 private:
  layout::ChannelHeader* header_ = nullptr;
  layout::SubmissionRecord* records_ = nullptr;
  uint64_t slots_ = 0;
  uint64_t mask_ = 0;
  uint64_t tail_ = 0;
  uint64_t head_seen_ = 0;
};

enum class RingRead { kEmpty, kRecord, kBroken };

// Conductor's end. Dimensions are the conductor's own, never read from the shared header.
class SubmissionConsumer {
 public:
  SubmissionConsumer() = default;
  SubmissionConsumer(layout::ChannelHeader* header, uint64_t offset, uint32_t slots)
      : header_(header),
        records_(layout::at_offset<layout::SubmissionRecord>(header, offset)),
        slots_(slots),
        mask_(slots - 1) {}

  // Copies the next record out; it stays the next until advance.
  RingRead read(layout::SubmissionRecord* record) {
    if (head_ == tail_seen_) {
      uint64_t tail = observe(header_->submission_tail);
      if (tail == head_) return RingRead::kEmpty;
      if (tail - head_ > slots_) return RingRead::kBroken;
      tail_seen_ = tail;
    }
    __builtin_memcpy(record, &records_[head_ & mask_], sizeof *record);
    return RingRead::kRecord;
  }
  void advance() { ++head_; }
  // Goes on where a conductor that died had come to. False when the client's position, or the head it was told, does not
  // fit: the ring is broken.
  bool resume(uint64_t head) {
    head_ = tail_seen_ = head;
    uint64_t told = head - observe(header_->submission_head);
    return told <= slots_ && observe(header_->submission_tail) - head <= slots_ - told;
  }
  // After the effects of the records up to here are in the directory.
  void publish_head() { publish(header_->submission_head, head_); }

  bool looks_empty() const { return head_ == tail_seen_ && peek(header_->submission_tail) == head_; }
  uint64_t head() const { return head_; }

 private:
  layout::ChannelHeader* header_ = nullptr;
  layout::SubmissionRecord* records_ = nullptr;
  uint64_t slots_ = 0;
  uint64_t mask_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_seen_ = 0;
};

// Conductor's end.
class CompletionProducer {
 public:
  CompletionProducer() = default;
  CompletionProducer(layout::ChannelHeader* header, uint64_t offset, uint32_t slots)
      : header_(header),
        records_(layout::at_offset<layout::CompletionRecord>(header, offset)),
        slots_(slots),
        mask_(slots - 1) {}

  // Room for records now, or nothing when the client's position jumped (it never falls behind what was seen).
  uint64_t room() {
    uint64_t head = observe(header_->completion_head);
    if (head - head_seen_ > tail_ - head_seen_) return 0;
    head_seen_ = head;
    uint64_t waiting = tail_ - head;  // more than the slots only where resume read what was not the conductor's word
    return waiting < slots_ ? slots_ - waiting : 0;
  }
  // The records from there on are pushed once more, as they were.
  void go_back_to(uint64_t tail) { tail_ = tail; }
  // Needs room.
  void push(const layout::CompletionRecord& record) {
    __builtin_memcpy(&records_[tail_++ & mask_], &record, sizeof record);
  }
  void publish_tail() { publish(header_->completion_tail, tail_); }
  // Goes on behind what a conductor that died had published. False when the client's position does not fit. This once the
  // conductor reads back a word of its own, which the client may have changed: records then come at places where the client
  // does not look for them, which harms nobody else. Where more hangs on it (leases), go_back_to sets it right.
  bool resume() {
    tail_ = observe(header_->completion_tail);
    head_seen_ = observe(header_->completion_head);
    return tail_ - head_seen_ <= slots_;
  }
  uint64_t tail() const { return tail_; }
  uint64_t slots() const { return slots_; }

 private:
  layout::ChannelHeader* header_ = nullptr;
  layout::CompletionRecord* records_ = nullptr;
  uint64_t slots_ = 0;
  uint64_t mask_ = 0;
  uint64_t tail_ = 0;
  uint64_t head_seen_ = 0;
};

// Client's end. One thread.
class CompletionConsumer {
 public:
  CompletionConsumer() = default;
  explicit CompletionConsumer(layout::ChannelHeader* header)
      : header_(header),
        records_(layout::at_offset<layout::CompletionRecord>(header, header->completion_offset)),
        mask_(header->completion_slots - 1) {}

  // Records that wait to be taken.
  uint64_t available() {
    tail_seen_ = observe(header_->completion_tail);
    return tail_seen_ - head_;
  }
  // Needs available() > index. Stays readable until take.
  const layout::CompletionRecord& look(uint64_t index) const {
    return records_[(head_ + index) & mask_];
  }
  void take(uint64_t count) {
    head_ += count;
    publish(header_->completion_head, head_);
  }
  uint64_t head() const { return head_; }

 private:
  layout::ChannelHeader* header_ = nullptr;
  layout::CompletionRecord* records_ = nullptr;
  uint64_t mask_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_seen_ = 0;
};

}  // namespace gear
