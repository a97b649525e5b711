// ctest: labels=unit timeout=120
//
// Every selector against a model that does the obvious: random insertions, removals, restorations and updates.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/select_index.h"

namespace gear {
namespace {

using testing::record_of;
using testing::SelectIndex;
using testing::test_seed;

constexpr uint32_t kSlots = 40;

class Model {
 public:
  explicit Model(const layout::IndexRecord& record) : record_(record), items_(kSlots) {}

  struct Item {
    bool in = false;
    bool withdrawn = false;
    double priority = 0;
    uint64_t number = 0;  // of the insertion
    uint64_t change = 0;  // of the latest insertion or update
  };
  Item& operator[](uint32_t slot) { return items_[slot]; }

  void insert(uint32_t slot, double priority) {
    items_[slot] = {true, false, priority, ++insertions_, ++changes_};
  }
  void update(uint32_t slot, double priority) {
    items_[slot].priority = priority;
    items_[slot].change = ++changes_;
  }

  uint64_t count() const {
    uint64_t count = 0;
    for (const Item& item : items_) count += item.in;
    return count;
  }

  double probability(uint32_t slot) const {
    if (!items_[slot].in) return 0;
    if (record_.selector == GEAR_SELECT_TOP_K) {
      return rank(slot) < record_.top_k ? 1.0 / static_cast<double>(std::min<uint64_t>(record_.top_k, count())) : 0;
    }
    bool weighted = record_.selector == GEAR_SELECT_UNIFORM ||
                    record_.selector == GEAR_SELECT_PRIORITIZED ||
                    record_.selector == GEAR_SELECT_RECENCY;
    if (!weighted) return rank(slot) == 0 ? 1 : 0;
    double sum = 0;
    for (const Item& item : items_) sum += item.in ? weight(item) : 0;
    return sum > 0 ? weight(items_[slot]) / sum : 0;
  }

 private:
  double weight(const Item& item) const {
    if (record_.selector == GEAR_SELECT_UNIFORM) return 1;
    if (record_.selector == GEAR_SELECT_PRIORITIZED) return item.priority;
    uint64_t newest = 0;
    for (const Item& other : items_) newest = other.in ? std::max(newest, other.number) : newest;
    return std::exp2(-static_cast<double>(newest - item.number) / record_.half_life);
  }

  bool before(const Item& a, const Item& b) const {
    switch (record_.selector) {
      case GEAR_SELECT_FIFO: return a.number < b.number;
      case GEAR_SELECT_LIFO: return a.number > b.number;
      case GEAR_SELECT_MIN_HEAP:
        return a.priority != b.priority ? a.priority < b.priority : a.change < b.change;
      default: return a.priority != b.priority ? a.priority > b.priority : a.change < b.change;
    }
  }
  uint64_t rank(uint32_t slot) const {
    uint64_t rank = 0;
    for (const Item& item : items_) rank += item.in && before(item, items_[slot]);
    return rank;
  }

  layout::IndexRecord record_;
  std::vector<Item> items_;
  uint64_t insertions_ = 0;
  uint64_t changes_ = 0;
};

void change_one(SelectIndex& index, Model& model, Rng& rng) {
  auto slot = static_cast<uint32_t>(rng.below(kSlots));
  // Few values, so that there are ties.
  double priority = static_cast<double>(rng.below(4));
  Model::Item& item = model[slot];
  if (item.withdrawn) {
    index->restore(slot, item.priority);
    item.withdrawn = false;
    item.in = true;
  } else if (!item.in) {
    index->insert(slot, priority);
    model.insert(slot, priority);
  } else if (rng.below(3) == 0) {
    index->remove(slot);
    item.in = false;
    item.withdrawn = rng.below(2) == 0;
  } else {
    index->update(slot, priority);
    model.update(slot, priority);
  }
}

void assert_agrees(SelectIndex& index, const Model& model, Rng& rng) {
  ASSERT_EQ(index->count(), model.count());
  auto slot = static_cast<uint32_t>(rng.below(kSlots));
  // Of items hundreds of half-lives older than the newest it is enough that they are hardly ever drawn.
  ASSERT_NEAR(index.probability(slot), model.probability(slot), 1e-9);
  ASSERT_EQ(index->probability(slot), index.probability(slot));
  double drawable = 0;
  for (uint32_t other = 0; other < kSlots; ++other) drawable += model.probability(other);
  Pick pick;
  bool picked = index->pick(rng, &pick);
  ASSERT_EQ(picked, drawable > 0);
  if (!picked) return;
  ASSERT_GT(model.probability(pick.slot), 0);
  ASSERT_NEAR(pick.probability, model.probability(pick.slot), 1e-9);
}

class AgainstModel : public ::testing::TestWithParam<layout::IndexRecord> {};

// SEMANTICS 17, 18, 22
TEST_P(AgainstModel, AgreesAfterEveryChange) {
  Rng rng(test_seed());
  SelectIndex index(GetParam(), kSlots);
  Model model(GetParam());
  for (int change = 0; change < 30'000; ++change) {
    change_one(index, model, rng);
    ASSERT_NO_FATAL_FAILURE(assert_agrees(index, model, rng)) << change;
  }
}

layout::IndexRecord half_life(double insertions) {
  layout::IndexRecord record = record_of(GEAR_SELECT_RECENCY);
  record.half_life = insertions;
  return record;
}
layout::IndexRecord top(uint32_t k) {
  layout::IndexRecord record = record_of(GEAR_SELECT_TOP_K);
  record.top_k = k;
  return record;
}

INSTANTIATE_TEST_SUITE_P(
    Selectors, AgainstModel,
    ::testing::Values(record_of(GEAR_SELECT_UNIFORM), record_of(GEAR_SELECT_FIFO),
                      record_of(GEAR_SELECT_LIFO), record_of(GEAR_SELECT_PRIORITIZED),
                      record_of(GEAR_SELECT_MAX_HEAP), record_of(GEAR_SELECT_MIN_HEAP), top(1),
                      top(5), top(100), half_life(40), half_life(0.5), half_life(1e6)),
    [](const auto& each) {
      const layout::IndexRecord& record = each.param;
      std::string name = "Selector" + std::to_string(record.selector);
      if (record.selector == GEAR_SELECT_TOP_K) name += "K" + std::to_string(record.top_k);
      if (record.selector == GEAR_SELECT_RECENCY) {
        name += "HalfLife" + std::to_string(static_cast<int>(record.half_life * 10)) + "Tenths";
      }
      return name;
    });

}  // namespace
}  // namespace gear
