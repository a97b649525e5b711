// ctest: labels=unit timeout=120
//
// Selectors that draw by chance, by chi-square with fixed seeds. tests/mutations has a planted bias for each.

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "support/chi_square.h"
#include "support/select_index.h"

namespace gear {
namespace {

using testing::expect_distribution;
using testing::MixtureDirectory;
using testing::record_of;
using testing::SelectIndex;

template <typename Index>
std::vector<uint64_t> count_direct(Index& index, uint32_t slots, uint32_t batches, uint64_t seed) {
  std::vector<uint64_t> seen(slots, 0);
  std::vector<Pick> picks(256);
  Rng rng(seed);
  for (uint32_t batch = 0; batch < batches; ++batch) {
    EXPECT_EQ(index.pick(rng, 256, picks.data()), 256u);
    for (const Pick& pick : picks) ++seen[pick.slot];
  }
  return seen;
}

template <typename Index>
std::vector<uint64_t> count_alone(Index& index, uint32_t slots, uint32_t draws, uint64_t seed) {
  std::vector<uint64_t> seen(slots, 0);
  Rng rng(seed);
  Pick pick;
  for (uint32_t i = 0; i < draws; ++i) {
    EXPECT_TRUE(index->pick(rng, &pick));
    ++seen[pick.slot];
  }
  return seen;
}

// SEMANTICS 22
TEST(Recency, HalvesTheProbabilityEveryHalfLife) {
  SelectIndex index(GEAR_SELECT_RECENCY, 200);  // half-life 40
  for (uint32_t slot = 0; slot < 200; ++slot) index->insert(slot, 0);
  std::vector<double> probability(200);
  double sum = 0;
  for (int slot = 0; slot < 200; ++slot) sum += probability[slot] = std::exp2((slot - 199) / 40.0);
  for (double& each : probability) each /= sum;
  expect_distribution(count_direct(index, 200, 2000, 11), probability);
  expect_distribution(count_alone(index, 200, 200'000, 12), probability);
}

// SEMANTICS 22
TEST(Recency, StaysExactOverManyScalingsAndWithEveryTenthDeleted) {
  constexpr uint32_t kSlots = 64;
  layout::IndexRecord record = record_of(GEAR_SELECT_RECENCY);
  record.half_life = 8;
  SelectIndex index(record, kSlots);
  // 3000 half-lives: six scalings, the last of them 22 insertions before the end.
  constexpr uint32_t kInsertions = 24'600;
  for (uint32_t i = 0; i < kInsertions; ++i) {
    if (i >= kSlots) index->remove(i % kSlots);
    index->insert(i % kSlots, 0);
  }
  std::vector<double> probability(kSlots, 0);
  double sum = 0;
  for (uint32_t age = 0; age < kSlots; ++age) {
    uint32_t slot = (kInsertions - 1 - age) % kSlots;
    if (slot % 10 == 0) {
      index->remove(slot);
    } else {
      sum += probability[slot] = std::exp2(-static_cast<double>(age) / 8);
    }
  }
  for (double& each : probability) each /= sum;
  expect_distribution(count_direct(index, kSlots, 2000, 13), probability);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    EXPECT_NEAR(index.probability(slot), probability[slot], 1e-12);
  }
}

TEST(Recency, DrawsTheOldOnesByTheirAgesOnceAllNewerOnesAreGone) {
  constexpr uint32_t kSlots = 5000;
  layout::IndexRecord record = record_of(GEAR_SELECT_RECENCY);
  record.half_life = 1;
  SelectIndex index(record, kSlots);
  for (uint32_t slot = 0; slot < kSlots; ++slot) index->insert(slot, 0);
  for (uint32_t slot = kSlots; slot-- > 3;) index->remove(slot);
  EXPECT_NEAR(index.probability(2), 4.0 / 7, 1e-12);
  EXPECT_NEAR(index.probability(1), 2.0 / 7, 1e-12);
  EXPECT_NEAR(index.probability(0), 1.0 / 7, 1e-12);
}

TEST(Recency, AReaderNeverSeesWeightsOfTwoScales) {
  constexpr uint32_t kSlots = 2000;
  layout::IndexRecord record = record_of(GEAR_SELECT_RECENCY);
  record.half_life = 100;
  SelectIndex index(record, kSlots);
  for (uint32_t slot = 0; slot < kSlots; ++slot) index->insert(slot, 0);
  std::jthread conductor([&index](const std::stop_token& stop) {
    for (uint32_t slot = 0; !stop.stop_requested(); slot = (slot + 1) % kSlots) {
      index->remove(slot);
      index->insert(slot, 0);
    }
  });
  Rng rng(3);
  std::vector<Pick> picks(64);
  for (int batch = 0; batch < 20'000; ++batch) {
    uint32_t made = index.pick(rng, 64, picks.data());
    ASSERT_TRUE(made == 64 || made == 0);
    // The newest item has 1 - 2^(-1/100): no draw of weights of one scale has more, but for the one insertion under way.
    for (uint32_t i = 0; i < made; ++i) ASSERT_LT(picks[i].probability, 0.02);
  }
}

// SEMANTICS 22
TEST(TopK, DrawsItsKItemsEquallyOftenAlsoAfterDeletions) {
  layout::IndexRecord record = record_of(GEAR_SELECT_TOP_K);
  record.top_k = 50;
  SelectIndex index(record, 100);
  for (uint32_t slot = 0; slot < 100; ++slot) index->insert(slot, slot);
  std::vector<double> probability(100, 0);
  for (uint32_t slot = 50; slot < 100; ++slot) probability[slot] = 1.0 / 50;
  expect_distribution(count_direct(index, 100, 1000, 5), probability);
  for (uint32_t slot = 0; slot < 100; slot += 10) {
    index->remove(slot);
    probability[slot] = 0;
  }
  for (uint32_t slot = 45; slot < 50; ++slot) probability[slot] = 1.0 / 50;
  expect_distribution(count_direct(index, 100, 1000, 6), probability);
  expect_distribution(count_alone(index, 100, 200'000, 7), probability);
}

layout::IndexRecord part(uint32_t selector, double proportion) {
  layout::IndexRecord record = record_of(selector);
  record.proportion = proportion;
  return record;
}

// SEMANTICS 22
TEST(Mixture, DrawsFromItsSelectorsInProportionAndTellsTheWholeProbability) {
  MixtureDirectory mixture({part(GEAR_SELECT_UNIFORM, 1), part(GEAR_SELECT_PRIORITIZED, 2),
                            part(GEAR_SELECT_LIFO, 1), part(GEAR_SELECT_MAX_HEAP, 0)},
                           32);
  std::vector<double> probability(20);
  for (uint32_t slot = 0; slot < 20; ++slot) {
    mixture.insert(slot, slot);
    probability[slot] = .25 / 20 + .5 * slot / 190.0 + (slot == 19 ? .25 : 0);
  }
  expect_distribution(count_direct(mixture, 20, 2000, 21), probability);
  expect_distribution(count_alone(mixture, 20, 100'000, 22), probability);
  Rng rng(4);
  std::vector<Pick> picks(256);
  ASSERT_EQ(mixture.pick(rng, 256, picks.data()), 256u);
  for (const Pick& pick : picks) EXPECT_NEAR(pick.probability, probability[pick.slot], 1e-12);
  for (uint32_t slot = 0; slot < 20; ++slot) {
    EXPECT_NEAR(mixture.probability(slot), probability[slot], 1e-12);
  }
}

TEST(Mixture, LeavesOutSelectorsThatCanDrawNothingNow) {
  MixtureDirectory mixture({part(GEAR_SELECT_UNIFORM, 1), part(GEAR_SELECT_PRIORITIZED, 3)}, 8);
  mixture.insert(0, 0);
  mixture.insert(1, 0);
  EXPECT_EQ(mixture.probability(0), .5);
  Rng rng(1);
  Pick picks[64];
  ASSERT_EQ(mixture.pick(rng, 64, picks), 64u);
  for (const Pick& pick : picks) EXPECT_EQ(pick.probability, .5);
  mixture.part(1).update(1, 1);
  EXPECT_EQ(mixture.probability(0), .125);
  EXPECT_EQ(mixture.probability(1), .125 + .75);
  mixture.remove(0);
  mixture.remove(1);
  EXPECT_EQ(mixture.pick(rng, 64, picks), 0u);
}

// SEMANTICS 16, for the tree under recency: what is left is drawn for sure.
TEST(Recency, DrawsTheLastItemForSure) {
  SelectIndex index(GEAR_SELECT_RECENCY, 10'000);
  for (uint32_t slot = 0; slot < 10'000; ++slot) index->insert(slot, 0);
  for (uint32_t slot = 1; slot < 10'000; ++slot) index->remove(slot);
  EXPECT_EQ(index.probability(0), 1.0);
}

}  // namespace
}  // namespace gear
