// gear.h, section 6: batches.

#include "client/batch.h"
#include "client/c_api.h"

using namespace gear;          // NOLINT: this file is the C edge of the namespace
using namespace gear::client;  // NOLINT

namespace {

const Batch* held(const gear_batch* batch) {
  return BatchRegistry::of_process().find(batch);
}

Status not_held(const char* tried) {
  return error(GEAR_ESTALE,
               "%s: the batch was released before, or is none; use a batch until its one release",
               tried);
}

}  // namespace

uint32_t gear_batch_rows(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr ? found->rows : 0;
}

uint32_t gear_batch_tensor_count(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr ? static_cast<uint32_t>(found->windows.size()) : 0;
}

int gear_batch_tensor(const gear_batch* batch, uint32_t index, gear_tensor* tensor) {
  return guarded([&]() -> Status {
    GEAR_TRY(need(batch, "gear_batch_tensor", "batch"));
    GEAR_TRY(need(tensor, "gear_batch_tensor", "tensor"));
    const Batch* found = held(batch);
    if (found == nullptr) return not_held("tensor of a batch");
    if (index >= found->windows.size()) {
      return error(GEAR_EINVAL, "tensor %u of a batch that has %zu; give an index below that",
                   index, found->windows.size());
    }
    found->fill_tensor(index, tensor);
    return {};
  });
}

const uint64_t* gear_batch_keys(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr ? found->keys : nullptr;
}

const double* gear_batch_priorities(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr ? found->priorities : nullptr;
}

const double* gear_batch_probabilities(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr ? found->probabilities : nullptr;
}

const float* gear_batch_weights(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr ? found->weights : nullptr;
}

const uint32_t* gear_batch_times_sampled(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr ? found->times_sampled : nullptr;
}

const uint32_t* gear_batch_item_lengths(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr ? found->item_lengths : nullptr;
}

const uint32_t* gear_batch_anchors(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr ? found->anchors : nullptr;
}

const uint8_t* gear_batch_redelivered(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr && found->pool().acknowledges() ? found->redelivered : nullptr;
}

const uint64_t* gear_batch_versions(const gear_batch* batch) {
  const Batch* found = held(batch);
  return found != nullptr && found->pool().has_versions() ? found->versions : nullptr;
}

int gear_batch_reject(gear_batch* batch) {
  return guarded([&]() -> Status {
    GEAR_TRY(need(batch, "gear_batch_reject", "batch"));
    const Batch* found = held(batch);
    if (found == nullptr) return not_held("reject batch");
    if (!found->pool().acknowledges()) {
      return error(GEAR_ESTATE,
                   "reject batch: its sampler has no group, so nothing is delivered again; release it");
    }
    Batch* ended = BatchRegistry::of_process().end(batch);
    return ended != nullptr ? BatchPool::give_back(ended, LeaseEnd::kRejected)
                            : not_held("reject batch");
  });
}

int gear_batch_release(gear_batch* batch) {
  return guarded([&]() -> Status {
    GEAR_TRY(need(batch, "gear_batch_release", "batch"));
    Batch* ended = BatchRegistry::of_process().end(batch);
    return ended != nullptr ? BatchPool::give_back(ended) : not_held("release batch");
  });
}
