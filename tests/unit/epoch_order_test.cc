// The permutation of an epoch: each number once, the same on any machine, and no order likelier than another.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "client/epoch_order.h"

namespace gear::client {
namespace {

std::vector<uint64_t> numbers(uint64_t count, uint64_t seed, uint64_t epoch) {
  EpochOrder order(count, seed, epoch);
  std::vector<uint64_t> all(count);
  for (uint64_t place = 0; place < count; ++place) all[place] = order.at(place);
  return all;
}

TEST(EpochOrder, HasEveryNumberOnce) {
  std::vector<uint64_t> counts(300);
  std::iota(counts.begin(), counts.end(), 1);
  for (uint64_t power = 9; power < 19; ++power) {
    for (int64_t by = -1; by <= 1; ++by) counts.push_back((uint64_t{1} << power) + by);
  }
  for (uint64_t count : counts) {
    std::vector<uint64_t> all = numbers(count, count * 7, count % 5);
    std::sort(all.begin(), all.end());
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(all[i], i) << "of " << count;
  }
}

TEST(EpochOrder, StaysBelowCountsBeyond32Bits) {
  uint64_t count = (uint64_t{1} << 41) + 12345;
  EpochOrder order(count, 3, 4);
  std::vector<uint64_t> some(10'000);
  for (uint64_t i = 0; i < some.size(); ++i) some[i] = order.at(count - 1 - i);
  std::sort(some.begin(), some.end());
  EXPECT_LT(some.back(), count);
  EXPECT_EQ(std::adjacent_find(some.begin(), some.end()), some.end());
}

// SEMANTICS 20. The numbers are those of any machine.
TEST(EpochOrder, GivesTheseNumbersForThisSeedAndEpoch) {
  EXPECT_EQ(numbers(10, 2026, 0), (std::vector<uint64_t>{0, 5, 6, 2, 3, 9, 1, 8, 7, 4}));
  EXPECT_EQ(numbers(10, 2026, 1), (std::vector<uint64_t>{8, 0, 2, 3, 1, 9, 5, 4, 7, 6}));
  EpochOrder order(1'000'000, 2026, 7);
  std::vector<uint64_t> first;
  for (uint64_t place = 0; place < 6; ++place) first.push_back(order.at(place));
  EXPECT_EQ(first, (std::vector<uint64_t>{156638, 415396, 78017, 566766, 746878, 519832}));
}

TEST(EpochOrder, IsAnotherForEveryEpochAndSeed) {
  std::map<std::vector<uint64_t>, int> seen;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    for (uint64_t epoch = 0; epoch < 30; ++epoch) ++seen[numbers(100, seed, epoch)];
  }
  EXPECT_EQ(seen.size(), 900u);
}

// Chi-square over all 24 orders of 4 numbers, epoch after epoch; 23 degrees of freedom, 99.9 % below 49.7.
TEST(EpochOrder, MakesEveryOrderOfAFewNumbersEquallyLikely) {
  constexpr int kEpochs = 24'000;
  std::map<std::vector<uint64_t>, int> seen;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) ++seen[numbers(4, 11, epoch)];
  ASSERT_EQ(seen.size(), 24u);
  double chi_square = 0;
  for (const auto& [order, times] : seen) {
    double off = times - kEpochs / 24.0;
    chi_square += off * off / (kEpochs / 24.0);
  }
  EXPECT_LT(chi_square, 49.7);
}

// Where number i comes, and how far behind it i + 1 does: chi-square over 100 cells each, 99 degrees of freedom,
// 99.9 % below 148.2.
TEST(EpochOrder, ScattersNumbersAndNeighbours) {
  constexpr uint64_t kCount = 1000;
  constexpr uint64_t kCells = 100;
  std::vector<double> places(kCells), distances(kCells);
  double draws = 0;
  for (uint64_t epoch = 0; epoch < 400; ++epoch) {
    EpochOrder order(kCount, 5, epoch);
    std::vector<uint64_t> place_of(kCount);
    for (uint64_t place = 0; place < kCount; ++place) place_of[order.at(place)] = place;
    uint64_t number = epoch % (kCount - 1);
    ++places[place_of[number] * kCells / kCount];
    uint64_t distance = (place_of[number + 1] + kCount - place_of[number]) % kCount;  // never 0
    ++distances[(distance - 1) * kCells / (kCount - 1)];
    ++draws;
  }
  double expected = draws / kCells;
  double of_places = 0, of_distances = 0;
  for (uint64_t cell = 0; cell < kCells; ++cell) {
    of_places += (places[cell] - expected) * (places[cell] - expected) / expected;
    of_distances += (distances[cell] - expected) * (distances[cell] - expected) / expected;
  }
  EXPECT_LT(of_places, 148.2);
  EXPECT_LT(of_distances, 148.2);
}

}  // namespace
}  // namespace gear::client
