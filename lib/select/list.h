// Fifo and lifo: items in the order of their insertion, as a doubly linked list.
#pragma once

#include <vector>

#include "layout/index.h"
#include "select/selector.h"

namespace gear {

// Everything O(1), but restore: O(items between the item's place and the nearer end). See selector.h for concurrency.
class ListSelector : public Selector {
 public:
  void expect(uint32_t slot) override;
  void insert(uint32_t slot, double priority) override;
  void restore(uint32_t slot, double priority) override;
  void remove(uint32_t slot) override;
  void update(uint32_t, double) override {}
  bool pick(Rng& rng, Pick* pick) override;
  double probability(uint32_t slot) const override;
  uint64_t count() const override { return index_->count; }
  void clear() override;
  void rebuild(const std::vector<Rebuilt>& live, uint32_t newest) override;

 protected:
  ListSelector(layout::ListIndex* index, bool newest_first);

 private:
  uint32_t first() const { return newest_first_ ? index_->tail : index_->head; }
  void link_before(uint32_t slot, uint32_t after);
  uint32_t place_of(uint64_t number) const;

  layout::ListIndex* index_;
  uint64_t* number_;
  uint32_t* next_;
  uint32_t* previous_;
  bool newest_first_;
};

uint64_t list_index_bytes(uint64_t capacity);
void format_list(layout::ListIndex* index, uint64_t capacity);
uint32_t list_direct_pick(const layout::ListIndex* index, uint64_t capacity, bool newest_first,
                          uint32_t count, Pick* picks);
double list_direct_probability(const layout::ListIndex* index, bool newest_first, uint32_t slot);

// The slots of a fifo or lifo index, oldest first. Conductor only; O(items), allocates.
std::vector<uint32_t> list_slots(const layout::IndexRecord& record, const void* directory);

}  // namespace gear
