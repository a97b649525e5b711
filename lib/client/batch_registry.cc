#include "client/batch_registry.h"

#include <mutex>

namespace gear::client {
namespace {

std::mutex list_mutex;

}  // namespace

BatchRegistry& BatchRegistry::of_process() {
  // Never destroyed: batches may be released while the process exits.
  static auto* registry = new BatchRegistry();
  return *registry;
}

// Acquire: the chunk's slots are made.
BatchRegistry::Slot* BatchRegistry::chunk_of(uint32_t index) const {
  return chunks_[index / kChunkSlots].load(std::memory_order_acquire);
}

BatchRegistry::Slot& BatchRegistry::slot_at(uint32_t index) const {
  return chunk_of(index)[index % kChunkSlots];
}

BatchRegistry::Slot* BatchRegistry::slot_of(const gear_batch* handle, uint64_t* generation) const {
  auto bits = reinterpret_cast<uintptr_t>(handle);
  *generation = bits >> kGenerationShift;
  if ((bits & 1) == 0 || *generation % 2 == 0) return nullptr;
  uint32_t index = static_cast<uint32_t>(bits >> 1) & (kSlotsMax - 1);
  return chunk_of(index) != nullptr ? &slot_at(index) : nullptr;
}

uint32_t BatchRegistry::add(Batch* batch) {
  std::lock_guard lock(list_mutex);
  uint32_t index = first_free_;
  if (index == kNoSlot) {
    if (used_ == kSlotsMax) return kNoSlot;
    if (chunk_of(used_) == nullptr) {
      chunks_[used_ / kChunkSlots].store(new Slot[kChunkSlots], std::memory_order_release);
    }
    index = used_++;
  } else {
    first_free_ = slot_at(index).next_free;
  }
  slot_at(index).batch.store(batch, std::memory_order_relaxed);
  return index;
}

void BatchRegistry::remove(uint32_t index) {
  std::lock_guard lock(list_mutex);
  Slot& slot = slot_at(index);
  slot.batch.store(nullptr, std::memory_order_relaxed);
  slot.next_free = first_free_;
  first_free_ = index;
}

gear_batch* BatchRegistry::hand_out(uint32_t index) {
  Slot& slot = slot_at(index);
  uint64_t generation = slot.generation.load(std::memory_order_relaxed) + 1;
  // Release: who finds the batch by this generation sees all its rows.
  slot.generation.store(generation, std::memory_order_release);
  uint64_t bits = (generation & kGenerationMask) << kGenerationShift | uint64_t{index} << 1 | 1;
  return reinterpret_cast<gear_batch*>(bits);
}

Batch* BatchRegistry::find(const gear_batch* handle) const {
  uint64_t wanted;
  const Slot* slot = slot_of(handle, &wanted);
  if (slot == nullptr) return nullptr;
  // Acquire: the batch of this generation is whole.
  uint64_t generation = slot->generation.load(std::memory_order_acquire);
  if ((generation & kGenerationMask) != wanted) return nullptr;
  return slot->batch.load(std::memory_order_relaxed);
}

Batch* BatchRegistry::end(const gear_batch* handle) {
  uint64_t wanted;
  Slot* slot = slot_of(handle, &wanted);
  if (slot == nullptr) return nullptr;
  uint64_t generation = slot->generation.load(std::memory_order_acquire);
  if ((generation & kGenerationMask) != wanted) return nullptr;
  Batch* batch = slot->batch.load(std::memory_order_relaxed);
  bool ended = slot->generation.compare_exchange_strong(generation, generation + 1,
                                                        std::memory_order_acq_rel);
  return ended ? batch : nullptr;
}

}  // namespace gear::client
