// The conductor's end of a writer.
#pragma once

#include <vector>

#include "server/port.h"

namespace gear {

// What a new writer wants.
struct LanesWanted {
  uint32_t lanes;
  std::vector<uint64_t> names;  // one a lane, or none
  bool take_over;
};

// Conductor only. Owns lanes of the table; the client names them by index.
//
// A lane that another writer takes over is lost: its episode ends at once, records for it are consumed without effect and
// counted as refused, and the client is told by kLaneLost before the other one hears that it has the lane. Its other lanes
// go on. The blocks it was granted for a lost lane are held until this port ends, that is until its client closed it or is
// dead: it may be storing into them now.
class WriterPort final : public Port, public LaneOwner {
 public:
  // Opens the lanes, or, after an error, none; no lane is taken over then. A name whose owner is leaving passes to the new
  // lane; the old one ends by itself once it is drained. Errors: EINVAL, EDUPLICATE, ELIMIT, those of make_channel; ELIMIT also
  // where the table's parts are out.
  static Result<std::unique_ptr<Port>> open(std::shared_ptr<Table> table, const LanesWanted& wanted,
                                            const ChannelPlace& place);
  // The port of a writer whose conductor died. The table's lanes are owned from here on; give_up is due even where it failed.
  static std::unique_ptr<Port> adopt(std::shared_ptr<Table> table, Segment channel,
                                     layout::ChannelRecord* record);
  // Whether a name is held by a writer that is not leaving.
  static bool names_are_held(const Table& table, const std::vector<uint64_t>& names);
  void give_up() override;

  size_t lanes() const { return lanes_.size(); }
  bool leaving() const override { return closing(); }
  void lose_lane(uint32_t index) override;
  // Memory that the system had not may be there by then.
  bool wants_tick() const override { return !waiting_lanes_.empty() && table().memory_may_come(); }

 private:
  using Port::Port;
  Step apply(const layout::SubmissionRecord& record) override;
  size_t post_due() override;
  void before_publish() override;

  void refuse(const layout::SubmissionRecord& record);
  Step want_blocks(uint32_t lane, uint32_t count);
  Step want_episode(uint32_t lane);
  void await_grants(uint32_t lane);
  Step commit(uint32_t lane, uint32_t count, uint64_t rows_after);
  bool grant(uint32_t lane);
  layout::GrantRecord episode_grant(uint32_t slot) const;
  void adopt_lanes();
  void adopt_lane(uint32_t index);
  size_t post_again();
  void post(layout::CompletionType type, uint32_t lane, const layout::GrantRecord& grant);

  struct LaneState {
    uint32_t table_lane = layout::kNone;
    bool waits = false;  // is in waiting_lanes_
    bool told_no_block = false;
    bool lost = false;   // table_lane is another writer's by now
    LaneRest rest;       // of a lost lane
  };
  std::vector<LaneState> lanes_;
  std::vector<uint32_t> waiting_lanes_;  // want blocks or episode slots that were not free
  // After adoption: what the client may not have heard. It knows a grant, and a lane, that it has already.
  std::vector<layout::GrantRecord> again_;
  size_t again_posted_ = 0;
  LaneRest rest_;  // of lanes that were lost before
  uint64_t steps_admitted_ = 0;
  uint32_t records_refused_ = 0;
  bool partly_ = false;
};

}  // namespace gear
