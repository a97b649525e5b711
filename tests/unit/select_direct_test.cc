// Direct draws: the same on every machine, one number of the generator each, safe on an index that moves or lies.
// ctest: labels=tsan timeout=120

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "support/select_index.h"

namespace gear {
namespace {

using testing::SelectIndex;
using testing::test_seed;

constexpr uint32_t kAll[] = {GEAR_SELECT_UNIFORM,  GEAR_SELECT_FIFO,     GEAR_SELECT_LIFO,
                             GEAR_SELECT_PRIORITIZED, GEAR_SELECT_MAX_HEAP, GEAR_SELECT_MIN_HEAP,
                             GEAR_SELECT_TOP_K,    GEAR_SELECT_RECENCY};

std::vector<uint32_t> first_slots(uint32_t selector, uint32_t count) {
  SelectIndex index(selector, 10'000);
  for (uint32_t slot = 0; slot < 10'000; ++slot) index->insert(slot, slot % 13);
  Rng rng(2026);
  std::vector<Pick> picks(count);
  EXPECT_EQ(index.pick(rng, count, picks.data()), count);
  std::vector<uint32_t> slots;
  for (const Pick& pick : picks) slots.push_back(pick.slot);
  return slots;
}

// SEMANTICS 20. The numbers are those of any machine.
TEST(DirectPick, GivesTheseSlotsForThisSeed) {
  EXPECT_EQ(first_slots(GEAR_SELECT_UNIFORM, 8),
            (std::vector<uint32_t>{4270, 6140, 7219, 8641, 302, 9152, 8087, 8991}));
  EXPECT_EQ(first_slots(GEAR_SELECT_PRIORITIZED, 8),
            (std::vector<uint32_t>{4325, 7678, 5069, 9265, 1166, 9703, 8033, 9600}));
}

TEST(DirectPick, TakesOneNumberOfTheGeneratorADraw) {
  for (uint32_t selector : {GEAR_SELECT_UNIFORM, GEAR_SELECT_PRIORITIZED}) {
    SelectIndex index(selector, 1024);
    for (uint32_t slot = 0; slot < 1024; ++slot) index->insert(slot, 1 + slot % 3);
    Rng drawing(5), counting(5);
    std::vector<Pick> picks(200);
    ASSERT_EQ(index.pick(drawing, 200, picks.data()), 200u);
    for (int i = 0; i < 200; ++i) counting.next();
    EXPECT_EQ(drawing.next(), counting.next()) << selector;
  }
}

TEST(DirectPick, AgreesWithTheConductorsPicks) {
  for (uint32_t selector : kAll) {
    SelectIndex index(selector, 777);
    for (uint32_t slot = 0; slot < 777; ++slot) index->insert(slot, slot % 5);
    Rng ours(8), theirs(8);
    std::vector<Pick> picks(130);
    ASSERT_EQ(index.pick(ours, 130, picks.data()), 130u);
    for (const Pick& pick : picks) {
      Pick alone;
      ASSERT_TRUE(index->pick(theirs, &alone));
      ASSERT_EQ(alone.slot, pick.slot);
      ASSERT_EQ(alone.probability, pick.probability);
    }
  }
}

TEST(DirectPick, RefusesAnIndexTooSmallForTheTable) {
  for (uint32_t selector : kAll) {
    SelectIndex index(selector, 500);
    index->insert(3, 1);
    index.record().bytes = selector_index_bytes(selector, 100);
    Rng rng(1);
    Pick pick;
    EXPECT_EQ(index.pick(rng, 1, &pick), 0u);
  }
}

TEST(DirectPick, RefusesTotalsThatAreNoWeight) {
  SelectIndex index(GEAR_SELECT_PRIORITIZED, 500);
  index->insert(3, 1);
  auto& tree = *static_cast<layout::SumTreeIndex*>(index.bytes());
  Rng rng(1);
  Pick pick;
  for (double total : {std::nan(""), -1.0, std::numeric_limits<double>::infinity()}) {
    tree.total = total;
    EXPECT_EQ(index.pick(rng, 1, &pick), 0u) << total;
  }
}

// Whatever the words hold, a reader neither leaves the index (a guard page ends it) nor hangs.
TEST(DirectPick, StaysInBoundsOnAnIndexOfRandomWords) {
  Rng rng(test_seed());
  for (uint32_t selector : kAll) {
    for (uint64_t capacity : {1, 17, 300, 4097}) {
      SelectIndex index(selector, capacity);
      std::vector<Pick> picks(256);
      for (int round = 0; round < 200; ++round) {
        auto* word = static_cast<uint64_t*>(index.bytes());
        for (uint64_t i = 0; i < index.record().bytes / 8; ++i) word[i] = rng.next();
        // A total that is accepted, so that the nodes are read.
        if (selector == GEAR_SELECT_RECENCY) {
          auto* recency = reinterpret_cast<layout::RecencyIndex*>(word);
          recency->epoch &= ~uint64_t{1};
          if (round % 2 == 0) reinterpret_cast<layout::SumTreeIndex*>(recency + 1)->total = 1.0;
        } else if (round % 2 == 0) {
          reinterpret_cast<layout::SumTreeIndex*>(word)->total = 1.0;
        }
        uint32_t count = round % 3 == 0 ? 1 : 256;
        uint32_t made = index.pick(rng, count, picks.data());
        ASSERT_TRUE(made == 0 || made == count);
        for (uint32_t i = 0; i < made; ++i) ASSERT_LT(picks[i].slot, capacity);
        auto slot = static_cast<uint32_t>(rng.below(capacity));
        double probability = index.probability(slot);
        ASSERT_TRUE(probability >= 0 && probability <= 1) << probability;
      }
    }
  }
}

// The tree moves under the reader, priorities come and go to 0: a draw still has a probability.
TEST(DirectPick, GivesAProbabilityAboveZeroWhilePrioritiesFallToZero) {
  constexpr uint32_t kSlots = 1000;
  SelectIndex index(GEAR_SELECT_PRIORITIZED, kSlots);
  for (uint32_t slot = 0; slot < kSlots; ++slot) index->insert(slot, 1);
  std::jthread conductor([&index](const std::stop_token& stop) {
    Rng rng(5);
    while (!stop.stop_requested()) {
      index->begin_updates();
      for (int i = 0; i < 100; ++i) {
        auto slot = static_cast<uint32_t>(rng.below(kSlots));
        index->update(slot, rng.below(2) == 0 ? 0.0 : rng.unit());
      }
      index->end_updates();
    }
  });
  Rng rng(test_seed());
  std::vector<Pick> picks(256);
  for (int batch = 0; batch < 5000; ++batch) {
    uint32_t made = index.pick(rng, 256, picks.data());
    for (uint32_t i = 0; i < made; ++i) {
      ASSERT_LT(picks[i].slot, kSlots);
      ASSERT_GT(picks[i].probability, 0);
      ASSERT_LE(picks[i].probability, 1);
    }
  }
}

TEST(DirectPick, EndsWhileTheTableIsClearedAndRefilled) {
  constexpr uint32_t kSlots = 300;
  for (uint32_t selector : kAll) {
    SelectIndex index(selector, kSlots);
    std::jthread conductor([&index](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        for (uint32_t slot = 0; slot < kSlots; ++slot) index->insert(slot, 1 + slot);
        index->clear();
      }
    });
    Rng rng(3);
    std::vector<Pick> picks(64);
    for (int batch = 0; batch < 10'000; ++batch) {
      uint32_t made = index.pick(rng, 64, picks.data());
      ASSERT_TRUE(made == 0 || made == 64);
      for (uint32_t i = 0; i < made; ++i) ASSERT_LT(picks[i].slot, kSlots);
    }
  }
}

}  // namespace
}  // namespace gear
