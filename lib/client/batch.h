// Batches: memory that rows are gathered into, and its pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/batch_registry.h"
#include "client/leases.h"
#include "gather/gather.h"
#include "gear.h"

namespace gear::client {

// Shape [rows, length, cell...].
inline constexpr uint32_t kAxesMax = 2 + layout::kRankMax;

// One window of every batch of a sampler.
struct TensorLayout {
  std::string name;
  uint32_t dtype;
  uint32_t element_bytes;
  uint32_t rank;
  uint32_t length;
  uint32_t burn_in;
  uint64_t cell_bytes;
  uint64_t row_bytes;
  int64_t shape[kAxesMax];    // [0] is of the batch
  int64_t strides[kAxesMax];  // in the batch's own memory
  uint64_t data_offset;  // within a batch's memory
  uint64_t mask_offset;
  uint64_t lengths_offset;
  uint64_t loss_mask_offset;  // where burn_in is not 0
  uint64_t axes_offset;       // shape and strides of the batch
};

// Where everything lies in the memory of a batch. Constant.
struct BatchLayout {
  uint32_t rows_max;
  std::vector<TensorLayout> tensors;
  uint64_t row_bytes;  // data of all tensors
  uint64_t keys_offset;
  uint64_t priorities_offset;
  uint64_t probabilities_offset;
  uint64_t weights_offset;
  uint64_t times_sampled_offset;
  uint64_t item_lengths_offset;
  uint64_t anchors_offset;
  uint64_t redelivered_offset;
  uint64_t versions_offset;
  uint64_t bytes;
  bool has_versions;  // else the table keeps none
};

// `names` are the tensors'. ENOMEM when the sizes overflow.
Result<BatchLayout> lay_out_batch(const TableView& table, const std::vector<WindowPlan>& plan,
                                  const std::vector<std::string>& names, uint32_t rows_max);

class BatchPool;

// Written by the sampler's thread until it is handed out, then constant until it is given back.
class Batch {
 public:
  Batch(const BatchLayout& layout, char* memory);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void set_rows(uint32_t rows);
  // Masks without the burn-in steps, once all rows are there.
  void set_loss_masks();
  // Where tensor `index` is to be found from now on: data and the bytes from row to row and from
  // step to step.
  void place_tensor(uint32_t index, char* data, uint64_t row_stride, uint64_t step_stride);
  // Back to the batch's own memory, all of them.
  void place_at_home();
  void fill_tensor(uint32_t index, gear_tensor* tensor) const;
  const BatchLayout& layout() const { return layout_; }

  uint32_t rows = 0;
  uint64_t population = 0;  // items of the table at the draw
  uint64_t* keys;
  double* priorities;
  double* probabilities;
  float* weights;
  uint32_t* times_sampled;
  uint32_t* item_lengths;
  uint32_t* anchors;
  uint8_t* redelivered;
  uint64_t* versions;
  std::vector<WindowBuffer> windows;
  LeaseHold leases;  // none in direct mode

  // Of a batch that is held.
  const BatchPool& pool() const { return *pool_; }

 private:
  friend class BatchPool;

  const BatchLayout& layout_;
  char* memory_;
  bool at_home_ = true;  // every tensor lies in memory_
  uint32_t slot_ = BatchRegistry::kNoSlot;
  std::atomic<bool> busy_{false};    // borrowed, or held by the caller
  std::shared_ptr<BatchPool> pool_;  // keeps the memory while the batch is held
};

// The batches of a sampler. Shared by the sampler and by each batch that is held, so that these
// outlive it. borrow, hand_out and unborrow: the sampler's thread. give_back: any.
class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  // Makes the first batch, and the others too while together they stay small; those left are made
  // by the borrow that first needs them. `leases` may be nullptr. Errors: ENOMEM, ELIMIT.
  static Result<std::shared_ptr<BatchPool>> create(BatchLayout layout, uint32_t batches_max,
                                                   std::shared_ptr<LeaseLine> leases);

  const BatchLayout& layout() const { return layout_; }

  // A batch that nobody holds, its tensors in its own memory. Errors: EBUSY, ENOMEM, ELIMIT.
  Result<Batch*> borrow();
  // Batches borrowed or handed out.
  uint32_t busy() const;
  void unborrow(Batch* batch);
  gear_batch* hand_out(Batch* batch);

  // Whether its leases acknowledge items to a consumer group.
  bool acknowledges() const { return leases_ != nullptr && leases_->acknowledges(); }
  bool has_versions() const { return layout_.has_versions; }

  // Of a batch whose handle has ended. ESTALE when its leases had expired.
  static Status give_back(Batch* batch, LeaseEnd how = LeaseEnd::kReleased);

 private:
  explicit BatchPool(BatchLayout layout, uint32_t batches_max, std::shared_ptr<LeaseLine> leases);
  Status make(size_t index);

  BatchLayout layout_;
  std::shared_ptr<LeaseLine> leases_;
  std::vector<std::unique_ptr<Batch>> batches_;  // nullptr: not made yet
};

}  // namespace gear::client
