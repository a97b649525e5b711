// The conductor's end of a writer.
#pragma once

#include <vector>

#include "server/port.h"

namespace gear {

// Conductor only. Owns lanes of the table; the client names them by index.
class WriterPort final : public Port {
 public:
  // Opens the lanes. Errors: ELIMIT (no lane stays open then), those of make_channel.
  static Result<std::unique_ptr<Port>> open(std::shared_ptr<Table> table, uint32_t lanes,
                                            uint64_t instance_id, uint32_t id, uint64_t session,
                                            const MemoryOptions& memory);
  void give_up() override;

 private:
  using Port::Port;
  Step apply(const layout::SubmissionRecord& record) override;
  size_t post_due() override;
  void before_publish() override;

  Step want_blocks(uint32_t lane, uint32_t count);
  Step commit(uint32_t lane, uint32_t count);
  bool grant(uint32_t lane);
  void post(layout::CompletionType type, uint32_t lane, const layout::GrantRecord& grant);

  struct LaneState {
    uint32_t table_lane;
    uint32_t blocks_wanted = 0;
    uint32_t episodes_wanted = 0;
    uint32_t episodes_granted = 0;
    bool told_no_block = false;
  };
  std::vector<LaneState> lanes_;
  std::vector<uint32_t> waiting_lanes_;  // want blocks or episode slots that were not free
  uint32_t committed_of_record_ = 0;     // the first record's steps that are admitted already
  uint64_t steps_admitted_ = 0;
  uint64_t items_rejected_ = 0;
  bool partly_ = false;
};

}  // namespace gear
