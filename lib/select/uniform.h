// Uniform: a dense array of the table's items.
#pragma once

#include "layout/index.h"
#include "select/selector.h"

namespace gear {

// Everything O(1). See selector.h for concurrency.
class UniformSelector final : public Selector {
 public:
  explicit UniformSelector(layout::UniformIndex* index);

  void insert(uint32_t slot, double priority) override;
  void restore(uint32_t slot, double priority) override { insert(slot, priority); }
  void remove(uint32_t slot) override;
  void update(uint32_t, double) override {}
  bool pick(Rng& rng, Pick* pick) override;
  double probability(uint32_t slot) const override;
  uint64_t count() const override { return index_->count; }
  void clear() override;
  void rebuild(const std::vector<Rebuilt>& live, uint32_t newest) override;

 private:
  layout::UniformIndex* index_;
  uint32_t* slots_;
  uint32_t* position_;
};

uint64_t uniform_index_bytes(uint64_t capacity);
void format_uniform(layout::UniformIndex* index, uint64_t capacity);
uint32_t uniform_direct_pick(const layout::UniformIndex* index, uint64_t capacity, Rng& rng,
                             uint32_t count, Pick* picks);
double uniform_direct_probability(const layout::UniformIndex* index, uint64_t capacity,
                                  uint32_t slot);

}  // namespace gear
