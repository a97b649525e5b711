// Fifo: items in the order of their insertion, as a doubly linked list.
#pragma once

#include <vector>

#include "layout/index.h"
#include "select/selector.h"

namespace gear {

// Everything O(1). See selector.h for concurrency.
class FifoSelector final : public Selector {
 public:
  explicit FifoSelector(layout::FifoIndex* index);

  void insert(uint32_t slot, double priority) override;
  void restore(uint32_t slot, double priority) override;
  void remove(uint32_t slot) override;
  void update(uint32_t, double) override {}
  bool pick(Rng& rng, Pick* pick) override;
  uint64_t count() const override { return index_->count; }
  void clear() override;

 private:
  layout::FifoIndex* index_;
  uint32_t* next_;
  uint32_t* previous_;
};

uint64_t fifo_index_bytes(uint64_t capacity);
void format_fifo(layout::FifoIndex* index, uint64_t capacity);
uint32_t fifo_direct_pick(const layout::FifoIndex* index, uint64_t capacity, uint32_t count,
                          Pick* picks);

// The slots of a fifo index, oldest first. Conductor only; O(items), allocates.
std::vector<uint32_t> fifo_slots(const layout::IndexRecord& record, const void* directory);

}  // namespace gear
