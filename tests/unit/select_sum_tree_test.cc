// The sum tree: exact sums after any history, no draw of a leaf without weight, every capacity.
// ctest: labels=tsan timeout=120

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "select/sum_tree.h"
#include "support/select_index.h"

namespace gear {
namespace {

using testing::SelectIndex;
using testing::test_seed;

constexpr uint32_t kSelector = GEAR_SELECT_PRIORITIZED;

// As they are added: lane after lane.
double sum_in_order(const double* children) {
  double sum = 0;
  for (uint32_t lane = 0; lane < 4; ++lane) {
    double of_lane = children[lane];
    for (uint32_t row = 1; row < 4; ++row) of_lane += children[4 * row + lane];
    sum = lane == 0 ? of_lane : sum + of_lane;
  }
  return sum;
}

void expect_exact_sums(const SelectIndex& index, uint64_t capacity) {
  SumTreeShape shape = sum_tree_shape(capacity);
  for (uint32_t level = 1; level < shape.level_count; ++level) {
    for (uint64_t node = 0; node <= shape.last_node(level); ++node) {
      double sum = sum_in_order(index.nodes() + shape.offset[level - 1] + node * kFanOut);
      ASSERT_EQ(index.nodes()[shape.offset[level] + node], sum) << level << ' ' << node;
    }
  }
  ASSERT_EQ(index.tree().total, sum_in_order(index.nodes() + shape.offset[shape.level_count - 1]));
}

// Magnitudes from 1e-30 to 1e30, and zeros.
double wild_weight(Rng& rng) {
  return rng.below(3) == 0 ? 0.0 : std::pow(10.0, rng.unit() * 60 - 30);
}

TEST(SumTree, HasALevelMoreBehindEachPowerOfSixteen) {
  EXPECT_EQ(sum_tree_shape(0).level_count, 0u);
  uint64_t power = 16;
  for (uint32_t levels = 1; levels <= layout::kSumTreeLevelsMax; ++levels, power *= 16) {
    EXPECT_EQ(sum_tree_shape(power).level_count, levels);
    EXPECT_EQ(sum_tree_shape(power + 1).level_count,
              levels < layout::kSumTreeLevelsMax ? levels + 1 : 0u);
  }
  EXPECT_EQ(sum_tree_shape((uint64_t{1} << 31) + 1).level_count, 8u);
}

TEST(SumTree, KeepsItsLevelsApartAndWithinTheIndex) {
  for (uint64_t capacity : {1ull, 15ull, 16ull, 17ull, 256ull, 257ull, 1'000'000ull, (1ull << 31) + 1}) {
    SumTreeShape shape = sum_tree_shape(capacity);
    for (uint32_t level = 0; level < shape.level_count; ++level) {
      uint64_t end = level + 1 < shape.level_count ? shape.offset[level + 1] : shape.doubles;
      EXPECT_EQ(shape.offset[level] % kFanOut, 0u);
      EXPECT_LT(shape.offset[level] + shape.last_node(level), end) << capacity << ' ' << level;
    }
    EXPECT_GE(selector_index_bytes(kSelector, capacity),
              sizeof(layout::SumTreeIndex) + shape.doubles * sizeof(double));
  }
}

TEST(SumTree, FindsEachSlotWhenItIsAloneAtAnyCapacity) {
  for (uint64_t capacity : {1, 2, 15, 16, 17, 31, 33, 255, 256, 257, 4095, 4096, 4097}) {
    SelectIndex index(kSelector, capacity);
    Rng rng(1);
    for (uint32_t slot = 0; slot < capacity; ++slot) {
      index->insert(slot, 0.7);
      Pick picks[3];
      ASSERT_EQ(index.pick(rng, 3, picks), 3u);
      for (const Pick& pick : picks) {
        ASSERT_EQ(pick.slot, slot) << capacity;
        ASSERT_EQ(pick.probability, 1.0);
      }
      index->remove(slot);
      ASSERT_EQ(index.pick(rng, 3, picks), 0u);
    }
  }
}

TEST(SumTree, NeverDescendsToAChildWithoutWeight) {
  Rng rng(test_seed());
  for (int round = 0; round < 100'000; ++round) {
    double children[kFanOut];
    for (double& child : children) child = wild_weight(rng);
    double sum = sum_children(children);
    ASSERT_EQ(sum, sum_in_order(children));
    if (sum == 0) continue;
    // Anywhere, close to a boundary, and at and behind the end.
    double boundary = 0;
    for (uint64_t i = rng.below(kFanOut); i > 0; --i) boundary += children[i % 4 * 4 + i / 4];
    for (double target : {rng.unit() * sum, boundary, std::nextafter(boundary, 0), std::nextafter(sum, 0), sum,
                          sum * 2}) {
      Descent step = descend(children, target);
      ASSERT_LT(step.child, kFanOut);
      ASSERT_GT(children[step.child], 0) << target << " of " << sum;
      ASSERT_GE(step.target, 0);
    }
  }
}

TEST(SumTree, DrawsNoZeroLeafAmongWeightsOfAllMagnitudes) {
  constexpr uint32_t kLeaves = 3000;
  Rng rng(test_seed());
  SelectIndex index(kSelector, kLeaves);
  for (uint32_t slot = 0; slot < kLeaves; ++slot) index->insert(slot, 0);
  std::vector<Pick> picks(256);
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 200; ++i) {
      index->update(static_cast<uint32_t>(rng.below(kLeaves)), wild_weight(rng));
    }
    ASSERT_EQ(index.pick(rng, 256, picks.data()), 256u);
    for (const Pick& pick : picks) {
      ASSERT_GT(index.nodes()[pick.slot], 0);
      ASSERT_EQ(pick.probability, index.nodes()[pick.slot] / index.tree().total);
    }
  }
}

TEST(SumTree, HasExactSumsAfterAnyHistory) {
  constexpr uint32_t kLeaves = 5000;
  uint64_t updates = getenv("GEAR_LONG") != nullptr ? 100'000'000 : 10'000'000;
  Rng rng(test_seed());
  SelectIndex index(kSelector, kLeaves);
  for (uint32_t slot = 0; slot < kLeaves; ++slot) index->insert(slot, 1);
  for (uint64_t i = 0; i < updates; ++i) {
    index->update(static_cast<uint32_t>(rng.below(kLeaves)), wild_weight(rng));
  }
  expect_exact_sums(index, kLeaves);
}

TEST(SumTree, HasExactSumsAfterRunsLargerThanItsScratch) {
  constexpr uint32_t kLeaves = 300'001;
  Rng rng(test_seed());
  SelectIndex index(kSelector, kLeaves);
  for (int run = 0; run < 3; ++run) {
    index->begin_updates();
    // Every 20th leaf: about 15,000 parents in one run.
    for (uint32_t slot = static_cast<uint32_t>(run); slot < kLeaves; slot += 20) {
      index->insert(slot, wild_weight(rng));
    }
    index->end_updates();
    expect_exact_sums(index, kLeaves);
  }
}

TEST(SumTree, TakesTheLastPriorityOfALeafThatARunSetsTwice) {
  SelectIndex index(kSelector, 10);
  index->insert(3, 1);
  index->begin_updates();
  index->update(3, 8);
  index->update(3, 2);
  index->end_updates();
  EXPECT_EQ(index.tree().total, 2.0);
}

TEST(SumTree, IsEmptyAfterClearAlsoAtTwoToThe31PlusOneItems) {
  constexpr uint64_t kItems = (uint64_t{1} << 31) + 1;
  SelectIndex index(kSelector, kItems);
  for (uint32_t slot : {0u, 12'345'678u, static_cast<uint32_t>(kItems - 1)}) index->insert(slot, 3);
  index->clear();
  Rng rng(1);
  Pick pick;
  EXPECT_EQ(index->count(), 0u);
  EXPECT_FALSE(index->pick(rng, &pick));
  index->insert(7, 1);
  ASSERT_TRUE(index->pick(rng, &pick));
  EXPECT_EQ(pick.slot, 7u);
  EXPECT_EQ(pick.probability, 1.0);
}

TEST(SumTree, DrawsPrioritiesWhosePowersWouldOverflowOrVanish) {
  SelectIndex huge(kSelector, 4, 3);
  SelectIndex tiny(kSelector, 4, 3);
  for (uint32_t slot = 0; slot < 4; ++slot) {
    huge->insert(slot, 1e308);
    tiny->insert(slot, 1e-308);
  }
  for (SelectIndex* index : {&huge, &tiny}) {
    Rng rng(1);
    std::vector<Pick> picks(256);
    ASSERT_EQ(index->pick(rng, 256, picks.data()), 256u);
    for (const Pick& pick : picks) ASSERT_EQ(pick.probability, 0.25);
    bool all = true;
    for (uint32_t slot = 0; slot < 4; ++slot) {
      all = all && std::any_of(picks.begin(), picks.end(),
                               [slot](const Pick& pick) { return pick.slot == slot; });
    }
    EXPECT_TRUE(all);
  }
}

TEST(PriorityWeight, IsZeroOnlyForPriorityZeroWithoutEpsilon) {
  for (double alpha : {0.0, 0.5, 1.0, 4.0}) {
    EXPECT_EQ(priority_weight(0, alpha, 0), 0.0);
    EXPECT_GT(priority_weight(5e-324, alpha, 0), 0.0);
    EXPECT_GT(priority_weight(0, alpha, 1e-300), 0.0);
    EXPECT_TRUE(std::isfinite(priority_weight(1.7e308, alpha, 1.7e308) * 0x1.0p32));
  }
  EXPECT_EQ(priority_weight(3, 2, 1), 16.0);
}

// The 0.999 quantile of chi-square with 36 degrees of freedom.
TEST(SumTree, DrawsAsOftenAsTheWeightsSay) {
  constexpr uint32_t kLeaves = 37;
  constexpr uint32_t kDraws = 500'000;
  SelectIndex index(kSelector, kLeaves);
  for (uint32_t slot = 0; slot < kLeaves; ++slot) index->insert(slot, slot + 1);
  std::vector<double> seen(kLeaves, 0);
  std::vector<Pick> picks(250);
  Rng rng(11);
  for (uint32_t draw = 0; draw < kDraws; draw += 250) {
    ASSERT_EQ(index.pick(rng, 250, picks.data()), 250u);
    for (const Pick& pick : picks) ++seen[pick.slot];
  }
  double sum = 0;
  for (uint32_t slot = 0; slot < kLeaves; ++slot) {
    double expected = kDraws * (slot + 1) / (kLeaves * (kLeaves + 1) / 2.0);
    sum += (seen[slot] - expected) * (seen[slot] - expected) / expected;
  }
  EXPECT_LT(sum, 67.99);
}

}  // namespace
}  // namespace gear
