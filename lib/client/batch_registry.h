// Which batches are held, known to the whole process.
//
// A gear_batch* is no address: it packs the index of a registry slot and the generation that the
// slot had when the batch was handed out. So whatever comes back, a batch released before, or of a
// closed sampler, or no batch at all, is recognised without touching memory that may be gone.
#pragma once

#include <atomic>
#include <cstdint>

#include "gear.h"

namespace gear::client {

class Batch;

// Any thread. hand_out, find and end are lock-free and O(1); add and remove take a lock.
// A slot's generation is odd while its batch is held, and only grows.
class BatchRegistry {
 public:
  static constexpr uint32_t kNoSlot = 0xffffffffu;

  static BatchRegistry& of_process();

  // A slot for a batch that comes into being; kNoSlot when there are kSlotsMax. May throw
  // std::bad_alloc.
  uint32_t add(Batch* batch);
  // The batch is not held, and goes.
  void remove(uint32_t slot);

  // Only while the batch is not held.
  gear_batch* hand_out(uint32_t slot);
  // The batch while it is held, else nullptr.
  Batch* find(const gear_batch* handle) const;
  // Ends the handle: of all callers one gets the batch, and it is still the caller's to give back.
  // Else nullptr.
  Batch* end(const gear_batch* handle);

 private:
  static constexpr uint32_t kIndexBits = 18;
  static constexpr uint32_t kSlotsMax = 1u << kIndexBits;
  static constexpr uint32_t kChunkSlots = 1024;
  static constexpr uint32_t kChunks = kSlotsMax / kChunkSlots;
  static constexpr uint32_t kGenerationShift = kIndexBits + 1;  // below: the index, and a 1
  static constexpr uint64_t kGenerationMask = (uint64_t{1} << (64 - kGenerationShift)) - 1;
  static_assert(sizeof(void*) == 8);

  struct Slot {
    std::atomic<uint64_t> generation{0};
    std::atomic<Batch*> batch{nullptr};
    uint32_t next_free = kNoSlot;  // under the lock
  };

  Slot* chunk_of(uint32_t index) const;
  Slot& slot_at(uint32_t index) const;  // whose chunk is there
  Slot* slot_of(const gear_batch* handle, uint64_t* generation) const;

  std::atomic<Slot*> chunks_[kChunks]{};
  uint32_t used_ = 0;              // under the lock
  uint32_t first_free_ = kNoSlot;  // under the lock
};

}  // namespace gear::client
