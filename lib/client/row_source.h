// How a sampler comes to its rows: drawn by this process, or leased from the conductor.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "client/batch.h"
#include "client/channel.h"
#include "client/sampler_plan.h"

namespace gear::client {

// The sampler's thread only.
class RowSource {
 public:
  virtual ~RowSource() = default;

  // Fills rows, keys, priorities, probabilities, counts and windows of a borrowed batch, and its
  // population; all but the weights. Waits up to timeout_ns for the table to admit the draws. After
  // an error nothing was drawn. Errors: ETIMEDOUT, ECLOSED, EDROPPED, EDISCONNECTED, EPROTOCOL.
  virtual Status fill(Batch& batch, uint32_t rows, int64_t timeout_ns) = 0;

  // Begins an epoch; *rows is this rank's share. ESTATE where there are none, or the table is not ready for one.
  virtual Status begin_epoch(uint64_t epoch, uint64_t* rows);

  // Rows that moved while they were copied, and were drawn again.
  virtual uint64_t redrawn() const = 0;

  // The line that batches give their leases back through; nullptr where there are none.
  virtual std::shared_ptr<LeaseLine> leases() const { return nullptr; }
};

// They keep references to the plan, the view and the channel, which outlive them.
std::unique_ptr<RowSource> make_direct_source(const TableView& table, const SamplerPlan& plan,
                                              Channel& channel);
std::unique_ptr<RowSource> make_leased_source(const TableView& table, const SamplerPlan& plan,
                                              Channel& channel);
// fill gives ESTATE when the table changed since the epoch began, EEPOCH when it is over; a last batch may be shorter.
std::unique_ptr<RowSource> make_epoch_source(const TableView& table, const SamplerPlan& plan,
                                             Channel& channel);

// Scratch that they need for a batch being filled.
struct DrawScratch {
  explicit DrawScratch(uint32_t rows_max) : items(rows_max), outcomes(rows_max) {}
  std::vector<DrawnItem> items;
  std::vector<GatherOutcome> outcomes;
};

// Anchors have a sequence of their own, so that they do not shift the sequence of the items drawn.
inline uint64_t anchor_seed(uint64_t seed) {
  return seed ^ 0x616e63686f727321u;
}

// What a batch tells of a drawn item, but for its probability.
inline void describe_row(Batch& batch, uint32_t row, const DrawnItem& item, uint32_t anchor) {
  batch.keys[row] = item.key;
  batch.priorities[row] = item.priority;
  batch.item_lengths[row] = item.length;
  batch.anchors[row] = anchor;
}

}  // namespace gear::client
