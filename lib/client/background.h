// Batches filled ahead by a thread of this client.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "client/batch.h"
#include "client/channel.h"
#include "client/row_source.h"

namespace gear::client {

// Runs from construction on. While it lives, the row source and the consumer's end of the channel
// belong to its thread; the batches of the pool pass between it and the sampler's thread under the
// mutex. Draws are direct: what is never handed out was never counted.
//
// After an error the thread draws no more until take() has told of it.
class Background {
 public:
  // All of them outlive it. Errors: ELIMIT where the system gives no thread.
  static Result<std::unique_ptr<Background>> start(const TableView& table, const SamplerPlan& plan,
                                                   RowSource& source, BatchPool& pool,
                                                   Channel& channel);
  // Ends the thread: within kSliceNs where it waits for items, else after the batch in hand.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // The sampler's thread: the oldest batch that is ready, waiting for it up to timeout_ns. Passed over
  // are batches from before a reset of the table, and, where old versions are not to be drawn, from
  // before its version changed. Errors: EBUSY when batches_max are held; ETIMEDOUT; what the thread
  // met with.
  Status take(int64_t timeout_ns, Batch** batch);

  uint64_t redrawn() const;

 private:
  // What the table was when rows were drawn.
  struct Stamp {
    uint64_t epoch;
    uint64_t version;
    bool operator==(const Stamp&) const = default;
  };
  struct Ready {
    Batch* batch;
    Stamp drawn;
  };
  static constexpr int64_t kSliceNs = 50'000'000;

  Background(const TableView& table, const SamplerPlan& plan, RowSource& source, BatchPool& pool,
             Channel& channel);
  void run();
  void fill_one(std::unique_lock<std::mutex>& lock);
  bool has_work() const;
  Stamp stamp() const;
  bool pop_ready(Batch** batch);
  Status timed_out(int64_t timeout_ns) const;

  const TableView& table_;
  const SamplerPlan& plan_;
  RowSource& source_;
  BatchPool& pool_;
  Channel& channel_;
  const uint32_t forks_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Ready> ready_;  // oldest first
  uint32_t filling_ = 0;      // batches in the thread's hand: 0 or 1
  Status error_;              // not told of yet
  uint64_t redrawn_ = 0;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace gear::client
