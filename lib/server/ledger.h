// What a server knows beside its tables, where the next server of its instance finds it (layout/ledger.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/shared_word.h"
#include "base/status.h"
#include "layout/ledger.h"
#include "shm/segment.h"

namespace gear {

// Server's thread only. With memory = memfd nothing could find it again, so it is private memory there.
// Records stay where they are as long as they are in use. add and remove are O(1).
class Ledger {
 public:
  // Errors: those of Segment::create.
  static Result<std::unique_ptr<Ledger>> create(uint64_t instance_id, uint32_t sessions_max,
                                                uint32_t channels_max, uint32_t memory);
  // Checks that header and records lie within the segment. Errors: ECORRUPT; the name stays.
  static Result<std::unique_ptr<Ledger>> adopt(Segment segment);

  // Ids that no session, table or channel of the instance had before.
  uint64_t take_session_id() { return take(header_->next_session); }
  uint64_t take_table_id() { return take(header_->next_table_id); }
  uint32_t take_channel_id() { return take(header_->next_channel_id); }
  // Ids up to `id` are taken.
  void pass_table_id(uint64_t id);

  uint32_t sessions_max() const { return header_->sessions_max; }
  uint32_t channels_max() const { return header_->channels_max; }

  // Copies the record; nullptr when there is no room. `id` is not 0.
  layout::SessionRecord* add(const layout::SessionRecord& session);
  layout::ChannelRecord* add(const layout::ChannelRecord& channel);
  void remove(layout::SessionRecord* session);
  void remove(layout::ChannelRecord* channel);

  // In use.
  std::vector<layout::SessionRecord*> sessions();
  std::vector<layout::ChannelRecord*> channels();

 private:
  Ledger() = default;
  void open(void* memory);
  template <typename T>
  static T take(T& next) {
    T taken = next;
    note(next, T(taken + 1));
    return taken;
  }

  Segment segment_;
  std::unique_ptr<char[]> private_;
  layout::LedgerHeader* header_ = nullptr;
  layout::SessionRecord* sessions_ = nullptr;
  layout::ChannelRecord* channels_ = nullptr;
  std::vector<uint32_t> free_sessions_;
  std::vector<uint32_t> free_channels_;
};

}  // namespace gear
