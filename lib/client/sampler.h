// A sampler: draws batches of a table.
#pragma once

#include <memory>

#include "client/background.h"
#include "client/batch.h"
#include "client/channel.h"
#include "client/destinations.h"
#include "client/handle.h"
#include "client/row_source.h"
#include "client/sampler_plan.h"
#include "gear.h"

namespace gear::client {

class Table;

// One thread at a time. Batches that it handed out live on by themselves.
class Sampler final : public Handle {
 public:
  static constexpr uint64_t kMagic = 0x72656c706d615347u;
  static constexpr const char* kNoun = "sampler";
  static constexpr bool kShared = false;  // calls of several threads at once

  // Options of this library's version. Errors: as gear_sampler_open.
  static Result<std::unique_ptr<Sampler>> open(Table& table, const gear_sampler_options& options);
  ~Sampler();

  Table& table() const { return table_; }

  // In steady state, direct and without background: no lock, no allocation, no system call; O(rows *
  // (log items + bytes of a row)).
  Status sample(uint32_t rows, int64_t timeout_ns, gear_batch** batch) {
    return sample_into(rows, timeout_ns, nullptr, 0, batch);
  }
  // `destinations` nullptr: the batch's own memory.
  Status sample_into(uint32_t rows, int64_t timeout_ns, const gear_destination* destinations,
                     size_t count, gear_batch** batch);
  Status begin_epoch(uint64_t epoch, uint64_t* rows);
  gear_sampler_stats stats() const;
  Status close();
  // Any thread: waits of calls end with ECLOSED.
  void end_waits() { channel_->end_waits(); }

 private:
  Sampler(Table& table, std::unique_ptr<SamplerPlan> plan, std::unique_ptr<Channel> channel);
  Status make_batches(BatchLayout layout);
  Status check_rows(uint32_t rows) const;
  Status draw(uint32_t rows, int64_t timeout_ns, Batch** batch);
  double least_probability() const;

  Table& table_;
  std::unique_ptr<SamplerPlan> plan_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<RowSource> source_;  // goes before the channel it uses
  std::shared_ptr<BatchPool> pool_;
  std::unique_ptr<Destinations> destinations_;
  std::unique_ptr<Background> background_;  // goes before all that it uses
  uint64_t batches_ = 0;
  uint64_t rows_ = 0;
};

// Importance weights (N * P(i))^-beta of the batch's rows, divided by the batch's largest, by none, or by the
// table's, which is that of least_probability (0 when it is not known: then as batch); all 1 for beta 0.
// Schaul et al. 2016, section 3.4.
void weigh_rows(Batch& batch, double beta, uint32_t normalise, double least_probability);

}  // namespace gear::client
