// ctest: labels=unit timeout=60
//
// Selectors that draw in an order: lifo, heaps, top_k; and fifo where items return to it.

#include <gtest/gtest.h>

#include <vector>

#include "support/select_index.h"

namespace gear {
namespace {

using testing::SelectIndex;

// Draws and removes until nothing is left.
std::vector<uint32_t> pop_all(SelectIndex& index) {
  std::vector<uint32_t> order;
  Rng rng(1);
  Pick pick;
  while (index->pick(rng, &pick)) {
    EXPECT_EQ(pick.probability, 1.0);
    order.push_back(pick.slot);
    index->remove(pick.slot);
  }
  return order;
}

using Slots = std::vector<uint32_t>;

// SEMANTICS 18
TEST(MinHeap, PopsEqualPrioritiesLeastRecentlyInsertedOrUpdatedFirst) {
  SelectIndex index(GEAR_SELECT_MIN_HEAP, 6);
  index->insert(5, 300);
  index->insert(0, 1);
  index->insert(3, 20);
  index->insert(1, 1);
  index->insert(4, 20);
  index->insert(2, 1);
  EXPECT_EQ(pop_all(index), (Slots{0, 1, 2, 3, 4, 5}));
}

// SEMANTICS 18
TEST(MinHeap, PutsAnItemUpdatedToAnEqualPriorityLast) {
  SelectIndex index(GEAR_SELECT_MIN_HEAP, 3);
  for (uint32_t slot = 0; slot < 3; ++slot) index->insert(slot, 7);
  index->update(0, 7);
  EXPECT_EQ(pop_all(index), (Slots{1, 2, 0}));
}

// SEMANTICS 18
TEST(MaxHeap, PopsTheLargestFirstAndEqualOnesInOrderOfInsertion) {
  SelectIndex index(GEAR_SELECT_MAX_HEAP, 5);
  index->insert(4, 1);
  index->insert(2, 9);
  index->insert(0, 5);
  index->insert(3, 9);
  index->insert(1, 5);
  EXPECT_EQ(pop_all(index), (Slots{2, 3, 0, 1, 4}));
}

TEST(Heaps, ReturnARestoredItemToItsPlaceAmongEquals) {
  for (uint32_t selector : {GEAR_SELECT_MIN_HEAP, GEAR_SELECT_MAX_HEAP}) {
    SelectIndex index(selector, 4);
    for (uint32_t slot = 0; slot < 4; ++slot) index->insert(slot, 2);
    index->remove(1);
    index->remove(2);
    index->restore(1, 2);
    index->restore(2, 2);
    EXPECT_EQ(pop_all(index), (Slots{0, 1, 2, 3}));
  }
}

// SEMANTICS 22
TEST(Lifo, PopsTheNewestFirst) {
  SelectIndex index(GEAR_SELECT_LIFO, 4);
  for (uint32_t slot : {2, 0, 3, 1}) index->insert(slot, 1);
  EXPECT_EQ(pop_all(index), (Slots{1, 3, 0, 2}));
}

TEST(Lists, ReturnARestoredItemToItsPlaceFromWhereverItWasTaken) {
  for (uint32_t selector : {GEAR_SELECT_FIFO, GEAR_SELECT_LIFO}) {
    SelectIndex index(selector, 8);
    for (uint32_t slot = 0; slot < 8; ++slot) index->insert(slot, 1);
    for (uint32_t slot : {0, 3, 4, 7}) index->remove(slot);
    for (uint32_t slot : {4, 7, 0, 3}) index->restore(slot, 1);
    Slots order{0, 1, 2, 3, 4, 5, 6, 7};
    if (selector == GEAR_SELECT_LIFO) order = {7, 6, 5, 4, 3, 2, 1, 0};
    EXPECT_EQ(pop_all(index), order);
  }
}

TEST(Lists, CountAnItemInsertedAgainAsNew) {
  SelectIndex index(GEAR_SELECT_FIFO, 3);
  for (uint32_t slot = 0; slot < 3; ++slot) index->insert(slot, 1);
  index->remove(0);
  index->insert(0, 1);
  EXPECT_EQ(pop_all(index), (Slots{1, 2, 0}));
}

// SEMANTICS 22
TEST(TopK, HoldsTheKLargestAndAmongEqualOnesTheLeastRecentlyChanged) {
  SelectIndex index(GEAR_SELECT_TOP_K, 10);  // k 5
  const double priorities[] = {3, 1, 3, 3, 2, 9, 3, 8};
  for (uint32_t slot = 0; slot < 8; ++slot) index->insert(slot, priorities[slot]);
  for (uint32_t slot : {5, 7, 0, 2, 3}) EXPECT_EQ(index.probability(slot), .2) << slot;
  for (uint32_t slot : {6, 4, 1}) EXPECT_EQ(index.probability(slot), 0) << slot;
  index->update(0, 3);
  EXPECT_EQ(index.probability(0), 0);
  EXPECT_EQ(index.probability(6), .2);
  index->remove(5);
  EXPECT_EQ(index.probability(0), .2);
}

TEST(TopK, DrawsFromAllThereIsWhenThatIsLessThanK) {
  SelectIndex index(GEAR_SELECT_TOP_K, 10);
  index->insert(3, 0);
  index->insert(8, 1);
  EXPECT_EQ(index.probability(3), .5);
  EXPECT_EQ(index.probability(8), .5);
}

TEST(Selectors, HoldNothingAfterClear) {
  for (uint32_t selector = GEAR_SELECT_UNIFORM; selector <= GEAR_SELECT_RECENCY; ++selector) {
    SelectIndex index(selector, 100);
    for (uint32_t slot = 0; slot < 100; ++slot) index->insert(slot, slot + 1);
    index->clear();
    Rng rng(1);
    Pick pick;
    EXPECT_FALSE(index->pick(rng, &pick)) << selector;
    EXPECT_EQ(index.pick(rng, 1, &pick), 0u) << selector;
    EXPECT_EQ(index->count(), 0u);
    index->insert(50, 2);
    EXPECT_EQ(index.probability(50), 1.0) << selector;
    EXPECT_EQ(index.probability(49), 0.0) << selector;
  }
}

}  // namespace
}  // namespace gear
