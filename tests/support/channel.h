// A channel segment in plain memory, for tests of its rings.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include "layout/channel.h"

namespace gear::test {

class Channel {
 public:
  explicit Channel(uint32_t submission_slots = 8, uint32_t completion_slots = 8) {
    size_t submission_bytes = submission_slots * sizeof(layout::SubmissionRecord);
    size_t bytes = sizeof(layout::ChannelHeader) + submission_bytes +
                   completion_slots * sizeof(layout::CompletionRecord);
    bytes = layout::align_up(bytes, layout::kPageBytes);
    memory_.reset(aligned_alloc(layout::kPageBytes, bytes));
    memset(memory_.get(), 0, bytes);
    header()->submission_slots = submission_slots;
    header()->completion_slots = completion_slots;
    header()->submission_offset = sizeof(layout::ChannelHeader);
    header()->completion_offset = sizeof(layout::ChannelHeader) + submission_bytes;
  }
  layout::ChannelHeader* header() const {
    return static_cast<layout::ChannelHeader*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(void* memory) const { free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

}  // namespace gear::test
