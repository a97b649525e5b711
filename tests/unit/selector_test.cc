// ctest: labels=tsan timeout=120
//
// SEMANTICS section 2: each selector against what it promises, and against a list that does the obvious.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "base/shared_word.h"
#include "layout/index.h"
#include "select/direct.h"
#include "select/selector.h"

namespace gear {
namespace {

// An index in memory of its own, laid out as in a directory.
class Index {
 public:
  Index(uint32_t selector, uint64_t capacity, double alpha = 1, double epsilon = 0) {
    bytes_ = sizeof(layout::TableHeader) + selector_index_bytes(selector, capacity);
    // Untouched pages cost nothing, so that billions of slots can be simulated.
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) abort();
    static_cast<layout::TableHeader*>(memory_)->item_slots = static_cast<uint32_t>(capacity);
    record_ = {selector, 0, sizeof(layout::TableHeader), bytes_, alpha, epsilon, 0, 0, {}};
    format_index(record_, memory_, capacity);
    selector_ = open_selector(record_, memory_);
  }
  ~Index() { munmap(memory_, bytes_); }
  Selector* operator->() { return selector_.get(); }
  uint32_t pick(Rng& rng, uint32_t count, Pick* picks) {
    return direct_pick(record_, memory_, rng, count, picks);
  }
  const layout::SumTreeIndex& tree() const {
    return *layout::at_offset<layout::SumTreeIndex>(memory_, record_.offset);
  }

 private:
  size_t bytes_;
  void* memory_;
  layout::IndexRecord record_;
  std::unique_ptr<Selector> selector_;
};

double probability_of(Index& index, uint32_t slot) {
  Rng rng(1);
  for (int i = 0; i < 10'000; ++i) {
    Pick pick;
    if (index.pick(rng, 1, &pick) != 1) return 0;
    if (pick.slot == slot) return pick.probability;
  }
  return 0;
}

uint64_t seed() {
  const char* given = getenv("GEAR_TEST_SEED");
  uint64_t value = given != nullptr ? strtoull(given, nullptr, 10) : 20260101;
  printf("seed %llu (GEAR_TEST_SEED)\n", static_cast<unsigned long long>(value));
  return value;
}

// SEMANTICS 13
TEST(Prioritized, DrawsInProportionToPriorityToThePowerOfAlpha) {
  Index squared(GEAR_SELECT_PRIORITIZED, 3, 2);
  for (uint32_t i = 0; i < 3; ++i) squared->insert(i, i + 1.0);
  EXPECT_NEAR(probability_of(squared, 0), 1.0 / 14, 1e-12);
  EXPECT_NEAR(probability_of(squared, 1), 4.0 / 14, 1e-12);
  EXPECT_NEAR(probability_of(squared, 2), 9.0 / 14, 1e-12);
  Index root(GEAR_SELECT_PRIORITIZED, 3, .5);
  const double priorities[] = {1, 4, 9};
  for (uint32_t i = 0; i < 3; ++i) root->insert(i, priorities[i]);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_NEAR(probability_of(root, i), (i + 1.0) / 6, 1e-12);
}

TEST(Prioritized, KeepsZeroUnselectableAtAlphaZero) {
  Index index(GEAR_SELECT_PRIORITIZED, 3, 0);
  index->insert(0, 0);
  index->insert(1, 1);
  index->insert(2, 5);
  EXPECT_EQ(probability_of(index, 0), 0);
  EXPECT_EQ(probability_of(index, 1), .5);
  EXPECT_EQ(probability_of(index, 2), .5);
}

TEST(Prioritized, PicksNothingFromAHundredZeros) {
  Index index(GEAR_SELECT_PRIORITIZED, 100, 1);
  for (uint32_t i = 0; i < 100; ++i) index->insert(i, 0);
  Rng rng(1);
  Pick pick;
  EXPECT_FALSE(index->pick(rng, &pick));
  EXPECT_EQ(index.pick(rng, 1, &pick), 0u);
  EXPECT_EQ(index->count(), 100u);
}

// SEMANTICS 14
TEST(Prioritized, FollowsAnUpdatedPriority) {
  Index index(GEAR_SELECT_PRIORITIZED, 3, 1);
  for (uint32_t i = 0; i < 3; ++i) index->insert(i, 1);
  index->update(2, .5);
  EXPECT_NEAR(probability_of(index, 0), .4, 1e-12);
  EXPECT_NEAR(probability_of(index, 1), .4, 1e-12);
  EXPECT_NEAR(probability_of(index, 2), .2, 1e-12);
}

// SEMANTICS 15
TEST(Priority, IsValidOnlyWhenFiniteAndNotNegative) {
  EXPECT_TRUE(priority_valid(0));
  EXPECT_TRUE(priority_valid(1e300));
  EXPECT_FALSE(priority_valid(-1e-300));
  EXPECT_FALSE(priority_valid(NAN));
  EXPECT_FALSE(priority_valid(INFINITY));
  EXPECT_FALSE(priority_valid(-INFINITY));
}

// SEMANTICS 16
TEST(Prioritized, DrawsATinyWeightForSureWhenTheLargeOnesAreGone) {
  Index index(GEAR_SELECT_PRIORITIZED, 10'001, 1);
  index->insert(5000, 1e-15);
  for (uint32_t i = 0; i <= 10'000; ++i) {
    if (i != 5000) index->insert(i, .3);
  }
  for (uint32_t i = 0; i <= 10'000; ++i) {
    if (i != 5000) index->remove(i);
  }
  EXPECT_EQ(probability_of(index, 5000), 1.0);
}

// GEAR_LONG=1 makes the 10^8 updates of SEMANTICS 16.
TEST(Prioritized, DoesNotDriftOverManyUpdatesAndNeverDrawsAZeroLeaf) {
  constexpr uint32_t kLeaves = 5000;
  uint64_t updates = getenv("GEAR_LONG") != nullptr ? 100'000'000 : 3'000'000;
  Index index(GEAR_SELECT_PRIORITIZED, kLeaves, 1);
  std::vector<double> weights(kLeaves, 1.0);
  for (uint32_t i = 0; i < kLeaves; ++i) index->insert(i, 1.0);
  Rng rng(seed());
  for (uint64_t i = 0; i < updates; ++i) {
    auto leaf = static_cast<uint32_t>(rng.below(kLeaves));
    weights[leaf] = rng.below(3) == 0 ? 0.0 : rng.unit() * 1e6;
    index->update(leaf, weights[leaf]);
  }
  for (uint32_t i = 0; i < kLeaves; ++i) {
    if (i % 1024 != 7) index->update(i, weights[i] = 0.0);
  }
  double sum = 0;
  for (uint32_t i = 7; i < kLeaves; i += 1024) {
    if (weights[i] == 0) index->update(i, weights[i] = 0.25);
    sum += weights[i];
  }
  EXPECT_DOUBLE_EQ(index.tree().total, sum);
  std::vector<Pick> picks(256);
  for (int batch = 0; batch < 400; ++batch) {
    ASSERT_EQ(index.pick(rng, 256, picks.data()), 256u);
    for (const Pick& pick : picks) ASSERT_GT(weights[pick.slot], 0) << pick.slot;
  }
}

TEST(Prioritized, SettlesARunOfUpdatesAsIfEachWereMadeAlone) {
  constexpr uint32_t kLeaves = 70'000;
  Index alone(GEAR_SELECT_PRIORITIZED, kLeaves, 1), together(GEAR_SELECT_PRIORITIZED, kLeaves, 1);
  for (uint32_t i = 0; i < kLeaves; ++i) {
    alone->insert(i, 1);
    together->insert(i, 1);
  }
  Rng rng(seed());
  for (int run = 0; run < 20; ++run) {
    together->begin_updates();
    for (int i = 0; i < 5000; ++i) {
      auto leaf = static_cast<uint32_t>(rng.below(kLeaves));
      double priority = rng.unit();
      alone->update(leaf, priority);
      together->update(leaf, priority);
    }
    together->end_updates();
    ASSERT_EQ(alone.tree().total, together.tree().total) << run;
    Rng a(run + 1), b(run + 1);
    Pick pick_a[64], pick_b[64];
    ASSERT_EQ(alone.pick(a, 64, pick_a), 64u);
    ASSERT_EQ(together.pick(b, 64, pick_b), 64u);
    for (int i = 0; i < 64; ++i) ASSERT_EQ(pick_a[i].slot, pick_b[i].slot);
  }
}

// SEMANTICS 17, fifo
TEST(Fifo, RemovesTheOldestFirst) {
  Index index(GEAR_SELECT_FIFO, 10);
  Rng rng(1);
  Pick pick;
  for (uint32_t i = 0; i < 15; ++i) {
    if (index->count() == 10) {
      ASSERT_TRUE(index->pick(rng, &pick));
      EXPECT_EQ(pick.slot, i - 10);
      index->remove(pick.slot);
      // The slot is free for the newcomer; here a slot is its number modulo the capacity.
    }
    if (i < 10) index->insert(i, 1);
  }
  ASSERT_TRUE(index->pick(rng, &pick));
  EXPECT_EQ(pick.slot, 1u);
  EXPECT_EQ(pick.probability, 1.0);
}

TEST(Fifo, PutsARestoredItemFirst) {
  Index index(GEAR_SELECT_FIFO, 4);
  for (uint32_t i = 0; i < 3; ++i) index->insert(i, 1);
  index->remove(0);
  index->restore(0, 1);
  Rng rng(1);
  Pick pick;
  ASSERT_TRUE(index->pick(rng, &pick));
  EXPECT_EQ(pick.slot, 0u);
}

double chi_square(const std::vector<uint64_t>& seen, const std::vector<bool>& there, uint64_t draws) {
  double live = 0;
  for (bool one : there) live += one;
  double expected = static_cast<double>(draws) / live;
  double sum = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (!there[i]) continue;
    double off = static_cast<double>(seen[i]) - expected;
    sum += off * off / expected;
  }
  return sum;
}

// SEMANTICS 19. The bounds are the 0.999 quantiles of chi-square with 99 and 89 degrees of freedom.
TEST(Uniform, DrawsAHundredItemsEquallyOftenAlsoWithEveryTenthDeleted) {
  constexpr uint64_t kDraws = 1'000'000;
  Index index(GEAR_SELECT_UNIFORM, 128);
  for (uint32_t i = 0; i < 100; ++i) index->insert(i, 1);
  std::vector<bool> there(100, true);
  for (double bound : {148.2, 135.98}) {
    std::vector<uint64_t> seen(100, 0);
    Rng rng(7);
    std::vector<Pick> picks(250);
    for (uint64_t draw = 0; draw < kDraws; draw += 250) {
      ASSERT_EQ(index.pick(rng, 250, picks.data()), 250u);
      for (const Pick& pick : picks) {
        ASSERT_TRUE(there[pick.slot]);
        ++seen[pick.slot];
      }
    }
    EXPECT_LT(chi_square(seen, there, kDraws), bound);
    for (uint32_t i = 0; i < 100; i += 10) {
      if (there[i]) index->remove(i);
      there[i] = false;
    }
  }
}

// SEMANTICS 20: the numbers are the same on every machine, so they stand here.
TEST(Rng, GivesTheSameSequenceForASeedOnAnyMachine) {
  Rng rng(42);
  uint64_t first = rng.next(), second = rng.next();
  EXPECT_EQ(first, 15021278609987233951u);
  EXPECT_EQ(second, 5881210131331364753u);
}

TEST(DirectPick, DoesNotDependOnHowDrawsAreSplitIntoCalls) {
  for (uint32_t selector : {GEAR_SELECT_UNIFORM, GEAR_SELECT_PRIORITIZED}) {
    Index index(selector, 1000);
    for (uint32_t i = 0; i < 1000; ++i) index->insert(i, 1 + i % 7);
    Rng a(3), b(3);
    Pick whole[300], parts[300];
    ASSERT_EQ(index.pick(a, 300, whole), 300u);
    for (uint32_t at = 0; at < 300; at += 30) ASSERT_EQ(index.pick(b, 30, parts + at), 30u);
    for (int i = 0; i < 300; ++i) EXPECT_EQ(whole[i].slot, parts[i].slot);
  }
}

// SEMANTICS 48: 2^31 + 1 items.
TEST(Selectors, AddressTwoToThe31PlusOneItems) {
  constexpr uint64_t kItems = (uint64_t{1} << 31) + 1;
  constexpr auto kLast = static_cast<uint32_t>(kItems - 1);
  for (uint32_t selector : {GEAR_SELECT_UNIFORM, GEAR_SELECT_FIFO, GEAR_SELECT_PRIORITIZED}) {
    Index index(selector, kItems);
    Rng rng(1);
    Pick pick;
    index->insert(kLast, 2);
    ASSERT_TRUE(index->pick(rng, &pick));
    EXPECT_EQ(pick.slot, kLast);
    index->insert(0, 1);
    index->remove(kLast);
    ASSERT_TRUE(index->pick(rng, &pick));
    EXPECT_EQ(pick.slot, 0u);
    index->remove(0);
    EXPECT_FALSE(index->pick(rng, &pick));
  }
}

// Random operations against a map and a list.
TEST(Selectors, AgreeWithAReferenceOverRandomOperations) {
  constexpr uint32_t kSlots = 300;
  Rng rng(seed());
  for (uint32_t selector : {GEAR_SELECT_UNIFORM, GEAR_SELECT_FIFO, GEAR_SELECT_PRIORITIZED}) {
    Index index(selector, kSlots);
    std::map<uint32_t, double> there;
    std::vector<uint32_t> order;
    for (int i = 0; i < 100'000; ++i) {
      auto slot = static_cast<uint32_t>(rng.below(kSlots));
      double priority = rng.below(4) == 0 ? 0 : rng.unit();
      if (there.count(slot) == 0) {
        index->insert(slot, priority);
        there[slot] = priority;
        order.push_back(slot);
      } else if (rng.below(2) == 0) {
        index->remove(slot);
        there.erase(slot);
        order.erase(std::find(order.begin(), order.end(), slot));
      } else {
        index->update(slot, priority);
        there[slot] = priority;
      }
      ASSERT_EQ(index->count(), there.size());
      double total = 0;
      for (const auto& [one, weight] : there) total += weight;
      bool drawable = selector == GEAR_SELECT_PRIORITIZED ? total > 0 : !there.empty();
      Pick pick;
      ASSERT_EQ(index->pick(rng, &pick), drawable);
      if (!drawable) continue;
      ASSERT_EQ(there.count(pick.slot), 1u);
      if (selector == GEAR_SELECT_FIFO) {
        ASSERT_EQ(pick.slot, order.front());
      }
      if (selector == GEAR_SELECT_UNIFORM) {
        ASSERT_EQ(pick.probability, 1.0 / static_cast<double>(there.size()));
      }
      if (selector == GEAR_SELECT_PRIORITIZED) {
        ASSERT_GT(there[pick.slot], 0);
        ASSERT_NEAR(pick.probability, there[pick.slot] / total, 1e-9);
      }
    }
  }
}

TEST(DirectPick, StaysInBoundsWhileTheIndexChanges) {
  constexpr uint32_t kSlots = 500;
  for (uint32_t selector : {GEAR_SELECT_UNIFORM, GEAR_SELECT_FIFO, GEAR_SELECT_PRIORITIZED}) {
    Index index(selector, kSlots);
    for (uint32_t i = 0; i < kSlots; ++i) index->insert(i, 1);
    std::atomic<bool> stop{false};
    std::thread conductor([&] {
      Rng rng(5);
      while (!stop.load()) {
        auto slot = static_cast<uint32_t>(rng.below(kSlots));
        index->remove(slot);
        index->insert(slot, rng.unit() * 10);
      }
    });
    Rng rng(9);
    std::vector<Pick> picks(64);
    for (int i = 0; i < 20'000; ++i) {
      uint32_t made = index.pick(rng, 64, picks.data());
      for (uint32_t k = 0; k < made; ++k) ASSERT_LT(picks[k].slot, kSlots);
    }
    stop.store(true);
    conductor.join();
  }
}

}  // namespace
}  // namespace gear
