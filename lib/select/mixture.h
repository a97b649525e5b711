// Mixture: each draw comes from one of the table's named selectors, in their proportions.
#pragma once

#include "select/direct.h"
#include "select/selector.h"

namespace gear {

// Has no index of its own: it reads those of the named selectors, which the table keeps in step. Named selectors that
// can draw nothing now are left out, and the proportions of the others sum to 1: with C those that can,
// q_j = proportion_j / sum over C, P(i) = sum over j in C of q_j * P_j(i).
// pick: that of the selector drawn from, and O(components). See selector.h for concurrency.
class MixtureSelector final : public Selector {
 public:
  MixtureSelector(const layout::IndexRecord& record, const void* directory)
      : record_(record), directory_(directory) {}

  void insert(uint32_t, double) override {}
  void restore(uint32_t, double) override {}
  void remove(uint32_t) override {}
  void update(uint32_t, double) override {}
  bool pick(Rng& rng, Pick* pick) override {
    return direct_pick(record_, directory_, rng, 1, pick) == 1;
  }
  double probability(uint32_t slot) const override {
    return direct_probability(record_, directory_, slot);
  }
  uint64_t count() const override;
  void clear() override {}
  void rebuild(const std::vector<Rebuilt>&, uint32_t) override {}

 private:
  layout::IndexRecord record_;
  const void* directory_;
};

uint32_t mixture_direct_pick(const void* directory, Rng& rng, uint32_t count, Pick* picks);
double mixture_direct_probability(const void* directory, uint32_t slot);

}  // namespace gear
