// The conductor's end of a table handle's item operations: priorities and deletion by key.
#pragma once

#include <array>

#include "server/port.h"

namespace gear {

// Conductor only.
class ItemsPort final : public Port {
 public:
  static Result<std::unique_ptr<Port>> open(std::shared_ptr<Table> table, const ChannelPlace& place);
  // Counts, and updates taken and not applied, of a request in the middle of which the conductor died went with it. Such a
  // request is never answered: its client asks again.
  static std::unique_ptr<Port> adopt(std::shared_ptr<Table> table, Segment channel,
                                     layout::ChannelRecord* record);
  void give_up() override {}

 private:
  using Port::Port;
  Step apply(const layout::SubmissionRecord& record) override;
  size_t post_due() override;
  // A whole batch of updates is settled at once: the nodes above are recomputed once for all of them.
  size_t records_at_once() const override { return 512; }

  Step begin_run(uint32_t count);
  Step keep_updates(const layout::UpdateRecord& record);
  void apply_run();
  Step answer(uint64_t ticket);
  void count(Table::KeyOutcome outcome);
  void settle();

  layout::ResultRecord result_{};
  bool cut_ = false;           // the request in the ring lost its begin
  bool updating_ = false;      // between the table's begin_updates and end_updates
  uint32_t updates_left_ = 0;  // in the records to come
  std::array<layout::UpdateRecord::Update, 64> run_;
  size_t run_length_ = 0;  // not applied yet
};

}  // namespace gear
