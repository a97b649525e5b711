// Recency: P(i) proportional to 2^(-age_i / half_life), age in insertions since the item's own.
#pragma once

#include "select/selector.h"
#include "select/sum_tree_writer.h"

namespace gear {

// The newest item's exponent after a scaling is in [0, 1); the next one is due above the first bound, or when all that is
// left sums to less than the second.
inline constexpr double kRecencyExponentMost = 512;
inline constexpr double kRecencyTotalLeast = 0x1.0p-512;

// O(log n), and O(capacity) once in some 500 half-lives: the weights grow with the numbers of the insertions, and are
// scaled down by a power of two before they overflow (up, when only items of tiny weight are left). That is exact but for
// items some 900 half-lives older than the newest one there is, which keep a weight of 2^-960.
// Half-lives under 1/64 insertion are taken as that: the newest item is drawn with probability 1 - 2^-64 already.
// See selector.h for concurrency.
class RecencySelector final : public Selector {
 public:
  RecencySelector(layout::RecencyIndex* index, double half_life);

  void expect(uint32_t slot) override { note(number_[slot], uint64_t{0}); }
  void insert(uint32_t slot, double priority) override;
  void restore(uint32_t slot, double priority) override;
  void remove(uint32_t slot) override;
  void update(uint32_t, double) override {}
  bool pick(Rng& rng, Pick* pick) override { return tree_.pick(rng, pick); }
  double probability(uint32_t slot) const override { return tree_.probability(slot); }
  uint64_t count() const override { return tree_.count(); }
  void clear() override { tree_.clear(); }
  void rebuild(const std::vector<Rebuilt>& live, uint32_t newest) override;

 private:
  double exponent(uint64_t number) const;
  double weight(uint64_t number) const;
  void scale_to(uint64_t number);

  layout::RecencyIndex* index_;
  SumTreeWriter tree_;
  uint64_t* number_;
  double half_life_;
};

uint64_t recency_index_bytes(uint64_t capacity);
void format_recency(layout::RecencyIndex* index, uint64_t capacity);
uint32_t recency_direct_pick(const layout::RecencyIndex* index, uint64_t capacity, Rng& rng,
                             uint32_t count, Pick* picks);
double recency_direct_probability(const layout::RecencyIndex* index, uint32_t slot);

}  // namespace gear
