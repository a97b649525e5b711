#include "client/batch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gear::client {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kEagerBytesMax = uint64_t{64} << 20;
constexpr uint64_t kBatchBytesMax = uint64_t{1} << 46;

// Hands out room, and notices when it would be more than there can be.
class Room {
 public:
  uint64_t take(uint64_t count, uint64_t each) {
    uint64_t bytes = 0;
    uint64_t at = bytes_;
    too_large_ = too_large_ || __builtin_mul_overflow(count, each, &bytes) ||
                 bytes > kBatchBytesMax || bytes_ > kBatchBytesMax;
    if (!too_large_) bytes_ = layout::align_up(bytes_ + bytes, kAlignment);
    return at;
  }
  uint64_t bytes() const { return bytes_; }
  bool too_large() const { return too_large_; }

 private:
  uint64_t bytes_ = 0;
  bool too_large_ = false;
};

// A window's cells, as its column has them, or as they are computed.
layout::ColumnRecord cells_of(const TableView& table, const WindowPlan& window) {
  if (window.column != layout::kNone) return table.columns[window.column];
  layout::ColumnRecord computed{};
  computed.dtype = window.dtype;
  computed.element_bytes = static_cast<uint32_t>(window.cell_bytes);
  return computed;
}

void set_shape(const layout::ColumnRecord& column, TensorLayout* tensor) {
  uint32_t axis = 1;
  if (tensor->length > 1) tensor->shape[axis++] = tensor->length;
  for (uint32_t i = 0; i < column.rank; ++i) tensor->shape[axis++] = column.shape[i];
  tensor->rank = axis;
  int64_t stride = column.element_bytes;
  while (axis-- > 0) {
    tensor->strides[axis] = stride;
    stride *= tensor->shape[axis];
  }
}

int64_t* shape_in(char* memory, const TensorLayout& tensor) {
  return reinterpret_cast<int64_t*>(memory + tensor.axes_offset);
}

int64_t* strides_in(char* memory, const TensorLayout& tensor) {
  return shape_in(memory, tensor) + kAxesMax;
}

}  // namespace

Result<BatchLayout> lay_out_batch(const TableView& table, const std::vector<WindowPlan>& plan,
                                  const std::vector<std::string>& names, uint32_t rows_max) {
  BatchLayout layout{};
  layout.rows_max = rows_max;
  Room room;
  for (size_t i = 0; i < plan.size(); ++i) {
    const layout::ColumnRecord column = cells_of(table, plan[i]);
    TensorLayout tensor{};
    tensor.name = names[i];
    tensor.dtype = column.dtype;
    tensor.element_bytes = column.element_bytes;
    tensor.length = plan[i].length;
    tensor.burn_in = plan[i].burn_in;
    tensor.cell_bytes = plan[i].cell_bytes;
    if (__builtin_mul_overflow(plan[i].length, plan[i].cell_bytes, &tensor.row_bytes)) {
      tensor.row_bytes = kBatchBytesMax;
    }
    set_shape(column, &tensor);
    tensor.data_offset = room.take(rows_max, tensor.row_bytes);
    tensor.mask_offset = room.take(rows_max, tensor.length);
    tensor.lengths_offset = room.take(rows_max, sizeof(uint32_t));
    if (tensor.burn_in > 0) tensor.loss_mask_offset = room.take(rows_max, tensor.length);
    tensor.axes_offset = room.take(2 * kAxesMax, sizeof(int64_t));
    layout.row_bytes += tensor.row_bytes;
    layout.tensors.push_back(std::move(tensor));
  }
  layout.keys_offset = room.take(rows_max, sizeof(uint64_t));
  layout.priorities_offset = room.take(rows_max, sizeof(double));
  layout.probabilities_offset = room.take(rows_max, sizeof(double));
  layout.weights_offset = room.take(rows_max, sizeof(float));
  layout.times_sampled_offset = room.take(rows_max, sizeof(uint32_t));
  layout.item_lengths_offset = room.take(rows_max, sizeof(uint32_t));
  layout.anchors_offset = room.take(rows_max, sizeof(uint32_t));
  layout.redelivered_offset = room.take(rows_max, sizeof(uint8_t));
  layout.versions_offset = room.take(rows_max, sizeof(uint64_t));
  layout.has_versions = table.versions != nullptr;
  layout.bytes = room.bytes();
  if (room.too_large()) {
    return error(
        GEAR_ENOMEM,
        "a batch of %u rows has more than 64 TiB; lower batch_rows_max or the windows' length",
        rows_max);
  }
  return layout;
}

Batch::Batch(const BatchLayout& layout, char* memory) : layout_(layout), memory_(memory) {
  keys = reinterpret_cast<uint64_t*>(memory + layout.keys_offset);
  priorities = reinterpret_cast<double*>(memory + layout.priorities_offset);
  probabilities = reinterpret_cast<double*>(memory + layout.probabilities_offset);
  weights = reinterpret_cast<float*>(memory + layout.weights_offset);
  times_sampled = reinterpret_cast<uint32_t*>(memory + layout.times_sampled_offset);
  item_lengths = reinterpret_cast<uint32_t*>(memory + layout.item_lengths_offset);
  anchors = reinterpret_cast<uint32_t*>(memory + layout.anchors_offset);
  redelivered = reinterpret_cast<uint8_t*>(memory + layout.redelivered_offset);
  versions = reinterpret_cast<uint64_t*>(memory + layout.versions_offset);
  for (const TensorLayout& tensor : layout.tensors) {
    windows.push_back({memory + tensor.data_offset,
                       reinterpret_cast<uint8_t*>(memory + tensor.mask_offset),
                       reinterpret_cast<uint32_t*>(memory + tensor.lengths_offset),
                       tensor.row_bytes});
    std::copy(std::begin(tensor.shape), std::end(tensor.shape), shape_in(memory, tensor));
    std::copy(std::begin(tensor.strides), std::end(tensor.strides), strides_in(memory, tensor));
  }
}

Batch::~Batch() {
  if (slot_ != BatchRegistry::kNoSlot) BatchRegistry::of_process().remove(slot_);
  free(memory_);
}

void Batch::set_rows(uint32_t count) {
  rows = count;
  for (const TensorLayout& tensor : layout_.tensors) *shape_in(memory_, tensor) = count;
}

void Batch::set_loss_masks() {
  for (size_t i = 0; i < windows.size(); ++i) {
    const TensorLayout& tensor = layout_.tensors[i];
    if (tensor.burn_in == 0) continue;
    const uint8_t* mask = windows[i].mask;
    char* loss_mask = memory_ + tensor.loss_mask_offset;
    for (uint32_t row = 0; row < rows; ++row, mask += tensor.length, loss_mask += tensor.length) {
      memset(loss_mask, 0, tensor.burn_in);
      memcpy(loss_mask + tensor.burn_in, mask + tensor.burn_in, tensor.length - tensor.burn_in);
    }
  }
}

void Batch::place_tensor(uint32_t index, char* data, uint64_t row_stride, uint64_t step_stride) {
  const TensorLayout& tensor = layout_.tensors[index];
  windows[index].data = data;
  windows[index].row_stride = row_stride;
  int64_t* strides = strides_in(memory_, tensor);
  strides[0] = static_cast<int64_t>(row_stride);
  if (tensor.length > 1) strides[1] = static_cast<int64_t>(step_stride);
  at_home_ = false;
}

void Batch::place_at_home() {
  if (at_home_) return;
  for (uint32_t i = 0; i < windows.size(); ++i) {
    const TensorLayout& tensor = layout_.tensors[i];
    place_tensor(i, memory_ + tensor.data_offset, tensor.row_bytes, tensor.cell_bytes);
  }
  at_home_ = true;
}

void Batch::fill_tensor(uint32_t index, gear_tensor* tensor) const {
  const TensorLayout& from = layout_.tensors[index];
  *tensor = gear_tensor{};
  tensor->data = windows[index].data;
  tensor->name = from.name.c_str();
  tensor->shape = shape_in(memory_, from);
  tensor->strides = strides_in(memory_, from);
  tensor->rank = from.rank;
  tensor->dtype = from.dtype;
  tensor->element_bytes = from.element_bytes;
  tensor->size_bytes = rows * from.row_bytes;
  tensor->mask = windows[index].mask;
  tensor->lengths = windows[index].lengths;
  tensor->length = from.length;
  tensor->burn_in = from.burn_in;
  if (from.burn_in > 0) {
    tensor->loss_mask = reinterpret_cast<const uint8_t*>(memory_ + from.loss_mask_offset);
  }
}

BatchPool::BatchPool(BatchLayout layout, uint32_t batches_max, std::shared_ptr<LeaseLine> leases)
    : layout_(std::move(layout)), leases_(std::move(leases)), batches_(batches_max) {}

Result<std::shared_ptr<BatchPool>> BatchPool::create(BatchLayout layout, uint32_t batches_max,
                                                     std::shared_ptr<LeaseLine> leases) {
  std::shared_ptr<BatchPool> pool(new BatchPool(std::move(layout), batches_max, std::move(leases)));
  uint64_t eager =
      std::max<uint64_t>(kEagerBytesMax / std::max<uint64_t>(pool->layout_.bytes, 1), 1);
  for (size_t i = 0; i < std::min<uint64_t>(eager, batches_max); ++i) GEAR_TRY(pool->make(i));
  return pool;
}

Status BatchPool::make(size_t index) {
  auto* memory = static_cast<char*>(aligned_alloc(kAlignment, std::max(layout_.bytes, kAlignment)));
  if (memory == nullptr) {
    return error(GEAR_ENOMEM,
                 "no memory for a batch of %llu bytes; lower batch_rows_max, batches_max or the "
                 "windows' length",
                 static_cast<unsigned long long>(layout_.bytes));
  }
  auto batch = std::make_unique<Batch>(layout_, memory);
  batch->slot_ = BatchRegistry::of_process().add(batch.get());
  if (batch->slot_ == BatchRegistry::kNoSlot) {
    return error(GEAR_ELIMIT, "this process has as many batches as there can be; close samplers");
  }
  batches_[index] = std::move(batch);
  return {};
}

// The first free one, so that few batches are warm. O(batches held).
Result<Batch*> BatchPool::borrow() {
  for (size_t i = 0; i < batches_.size(); ++i) {
    if (batches_[i] == nullptr) GEAR_TRY(make(i));
    Batch* batch = batches_[i].get();
    // Acquire: whoever gave it back is done with it.
    if (batch->busy_.load(std::memory_order_acquire)) continue;
    batch->busy_.store(true, std::memory_order_relaxed);
    batch->place_at_home();
    return batch;
  }
  return error(GEAR_EBUSY,
               "all %zu batches of the sampler are held; release one, or raise batches_max",
               batches_.size());
}

uint32_t BatchPool::busy() const {
  return static_cast<uint32_t>(std::count_if(
      batches_.begin(), batches_.end(), [](const std::unique_ptr<Batch>& batch) {
        return batch != nullptr && batch->busy_.load(std::memory_order_relaxed);
      }));
}

void BatchPool::unborrow(Batch* batch) {
  batch->busy_.store(false, std::memory_order_relaxed);
}

gear_batch* BatchPool::hand_out(Batch* batch) {
  batch->pool_ = shared_from_this();
  return BatchRegistry::of_process().hand_out(batch->slot_);
}

Status BatchPool::give_back(Batch* batch, LeaseEnd how) {
  std::shared_ptr<BatchPool> pool = std::move(batch->pool_);  // may be the last to know it
  Status status;
  if (pool->leases_ != nullptr) status = pool->leases_->end(batch->leases, how);
  // Release: the next borrower comes after our last look at the batch.
  batch->busy_.store(false, std::memory_order_release);
  return status;
}

}  // namespace gear::client
