// ctest: labels=unit timeout=60
//
// Removers, named selectors and what follows from priorities, through the conductor's side of a table.

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <vector>

#include "select/direct.h"
#include "support/bare_table.h"
#include "table/table.h"

namespace gear {
namespace {

using layout::SelectorSpec;
using layout::TableCreateRequest;

TableCreateRequest request_for(uint64_t items, uint32_t sampler, uint32_t remover) {
  TableCreateRequest request{};
  snprintf(request.name, sizeof request.name, "t");
  request.capacity_items = items;
  request.column_count = 1;
  request.lanes_max = 4;
  request.numa_node = -1;
  request.sampler = sampler;
  request.remover = remover;
  request.priority_alpha = 1;
  request.top_k = 2;
  request.half_life = 10;
  return request;
}

SelectorSpec named(const char* name, uint32_t selector, double proportion = 0) {
  SelectorSpec spec{};
  snprintf(spec.name, sizeof spec.name, "%s", name);
  spec.selector = selector;
  spec.proportion = proportion;
  spec.alpha = 1;
  spec.half_life = 10;
  spec.top_k = 2;
  return spec;
}

// A table whose items are told apart by their priorities.
class SmallTable {
 public:
  explicit SmallTable(TableCreateRequest request, const std::vector<SelectorSpec>& specs = {}) {
    request.selector_count = static_cast<uint32_t>(specs.size());
    layout::ColumnSpec column = test::u64_column();
    table_ = test::make_bare(request, &column, specs.data());
    lane_ = table_->open_lane(1);
  }
  Table* operator->() { return table_.get(); }
  const layout::TableHeader& header() const { return table_->header(); }
  uint32_t lane() const { return lane_; }

  Admit insert(double priority) {
    EXPECT_EQ(table_->set_priority(lane_, true, priority), Admit::kDone);
    return insert_as_it_comes();
  }
  Admit insert_as_it_comes() {
    layout::GrantRecord grant{};
    if (table_->unfilled_blocks(lane_) == 0 && !table_->grant_block(lane_, &grant)) {
      ADD_FAILURE() << "no block";
    }
    uint32_t done = 0;
    return table_->commit(lane_, 1, &done);
  }

  std::vector<const layout::ItemRecord*> live() const {
    const auto* items = layout::at_offset<layout::ItemRecord>(table_->directory().data(),
                                                              header().items_offset);
    std::vector<const layout::ItemRecord*> live;
    for (uint32_t slot = 0; slot < header().item_slots; ++slot) {
      if (items[slot].generation % 2 == 1) live.push_back(&items[slot]);
    }
    return live;
  }
  std::vector<double> priorities() const {
    std::vector<double> priorities;
    for (const auto* item : live()) priorities.push_back(item->priority);
    std::sort(priorities.begin(), priorities.end());
    return priorities;
  }
  uint64_t key_of(double priority) const {
    const auto* items = layout::at_offset<layout::ItemRecord>(table_->directory().data(),
                                                              header().items_offset);
    for (const auto* item : live()) {
      if (item->priority == priority) {
        return layout::make_key(item->generation, static_cast<uint32_t>(item - items),
                                header().slot_bits);
      }
    }
    ADD_FAILURE() << "no item of priority " << priority;
    return 0;
  }

  // Of the next draw, which is taken; -1 when there is none.
  double draw(uint32_t index) {
    Drawn drawn;
    if (!table_->draw(index, rng_, {}, &drawn)) return -1;
    table_->take(drawn);
    table_->unpin(drawn.pin);
    return drawn.record.priority;
  }
  double draw() { return draw(header().sampler_index); }

 private:
  std::unique_ptr<Table> table_;
  uint32_t lane_;
  Rng rng_{17};
};

using Priorities = std::vector<double>;

// SEMANTICS 17
TEST(Remover, FifoKeepsTheNewest) {
  SmallTable table(request_for(10, GEAR_SELECT_UNIFORM, GEAR_SELECT_FIFO));
  for (int i = 0; i < 15; ++i) ASSERT_EQ(table.insert(i), Admit::kDone);
  EXPECT_EQ(table.priorities(), (Priorities{5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
}

// SEMANTICS 17
TEST(Remover, LifoRemovesTheIncomingItem) {
  SmallTable table(request_for(2, GEAR_SELECT_UNIFORM, GEAR_SELECT_LIFO));
  for (int i = 1; i <= 3; ++i) ASSERT_EQ(table.insert(i), Admit::kDone);
  EXPECT_EQ(table.priorities(), (Priorities{1, 2}));
  EXPECT_EQ(table.header().counters.inserts, 3u);
  EXPECT_EQ(table.header().counters.deletes, 1u);
  EXPECT_EQ(table.header().counters.evictions, 1u);
  EXPECT_EQ(table->items(), 2u);
}

// SEMANTICS 17
TEST(Remover, MinHeapRemovesTheSmallestAlsoWhenThatIsTheIncomingItem) {
  SmallTable table(request_for(2, GEAR_SELECT_UNIFORM, GEAR_SELECT_MIN_HEAP));
  for (double priority : {5.0, 1.0, 3.0}) table.insert(priority);
  EXPECT_EQ(table.priorities(), (Priorities{3, 5}));
  table.insert(0);
  EXPECT_EQ(table.priorities(), (Priorities{3, 5}));
  EXPECT_EQ(table.header().counters.inserts, 4u);
  EXPECT_EQ(table.header().counters.deletes, 2u);
}

TEST(Remover, MaxHeapRemovesTheLargest) {
  SmallTable table(request_for(2, GEAR_SELECT_UNIFORM, GEAR_SELECT_MAX_HEAP));
  for (double priority : {5.0, 1.0, 3.0}) table.insert(priority);
  EXPECT_EQ(table.priorities(), (Priorities{1, 3}));
}

TEST(Remover, PrioritizedRemovesItemsWithoutWeightOnlyWhenThereAreNoOthers) {
  SmallTable table(request_for(3, GEAR_SELECT_UNIFORM, GEAR_SELECT_PRIORITIZED));
  for (double priority : {0.0, 0.0, 2.0, 0.0}) table.insert(priority);
  EXPECT_EQ(table.priorities(), (Priorities{0, 0, 0}));
  for (int i = 0; i < 20; ++i) ASSERT_EQ(table.insert(0), Admit::kDone);
  EXPECT_EQ(table->items(), 3u);
  EXPECT_EQ(table.live().size(), 3u);
}

TEST(Remover, KeepsOneItemInATableOfOneAndGivesEveryBlockBack) {
  for (uint32_t remover : {GEAR_SELECT_UNIFORM, GEAR_SELECT_FIFO, GEAR_SELECT_LIFO,
                           GEAR_SELECT_PRIORITIZED, GEAR_SELECT_MAX_HEAP, GEAR_SELECT_MIN_HEAP}) {
    SmallTable table(request_for(1, GEAR_SELECT_PRIORITIZED, remover));
    table->close_lane(table.lane());
    uint64_t before = table.header().counters.blocks_free;
    ASSERT_EQ(table->open_lane(1), table.lane());
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(table.insert(i % 5), Admit::kDone);
    EXPECT_EQ(table.live().size(), 1u) << remover;
    EXPECT_EQ(table->items(), 1u);
    EXPECT_EQ(table.header().counters.deletes, 999u);
    table->close_lane(table.lane());
    table->reset();
    EXPECT_EQ(table.header().counters.blocks_free, before) << remover;
    EXPECT_EQ(table.draw(), -1);
  }
}

// Items drawn for the last time but not taken are in the table, and nobody's to remove.
TEST(Remover, SparesItemsThatAreDrawnForTheLastTime) {
  TableCreateRequest request = request_for(2, GEAR_SELECT_FIFO, GEAR_SELECT_LIFO);
  request.max_times_sampled = 1;
  SmallTable table(request);
  table.insert(1);
  table.insert(2);
  Rng rng(1);
  Drawn first, second;
  ASSERT_TRUE(table->draw(rng, &first));
  ASSERT_TRUE(table->draw(rng, &second));
  EXPECT_EQ(table.insert(3), Admit::kBlocked);
  table->take(second);
  EXPECT_EQ(table.insert(3), Admit::kDone);
  EXPECT_EQ(table.priorities(), (Priorities{1, 3}));
}

TEST(Table, ReturnsAnUnusedLastDrawToItsPlaceForSamplerAndRemover) {
  TableCreateRequest request = request_for(4, GEAR_SELECT_LIFO, GEAR_SELECT_FIFO);
  request.max_times_sampled = 1;
  SmallTable table(request);
  for (int i = 1; i <= 4; ++i) table.insert(i);
  Rng rng(1);
  Drawn four, three;
  ASSERT_TRUE(table->draw(rng, &four));
  ASSERT_TRUE(table->draw(rng, &three));
  table->give_back(four);
  table->unpin(four.pin);
  table->give_back(three);
  table->unpin(three.pin);
  // The fifo remover takes 1, not what came back last; the sampler has 5, 4, 3, 2.
  table.insert(5);
  EXPECT_EQ(table.priorities(), (Priorities{2, 3, 4, 5}));
  for (double expected : {5, 4, 3, 2, -1}) EXPECT_EQ(table.draw(), expected);
}

TEST(NamedSelector, DrawsBesideTheTablesSampler) {
  SmallTable table(request_for(10, GEAR_SELECT_FIFO, GEAR_SELECT_FIFO),
                   {named("newest", GEAR_SELECT_LIFO), named("best", GEAR_SELECT_MAX_HEAP)});
  for (double priority : {3.0, 9.0, 4.0}) table.insert(priority);
  EXPECT_EQ(table.draw(), 3);
  EXPECT_EQ(table.draw(table.header().named_index), 4);
  EXPECT_EQ(table.draw(table.header().named_index + 1), 9);
  EXPECT_EQ(table->update_priority(table.key_of(3), 10), Table::KeyOutcome::kApplied);
  EXPECT_EQ(table.draw(table.header().named_index + 1), 10);
  EXPECT_EQ(table->delete_item(table.key_of(10)), Table::KeyOutcome::kApplied);
  EXPECT_EQ(table.draw(table.header().named_index + 1), 9);
}

TEST(NamedSelector, SharesTheIndexOfAnotherWithTheSameParameters) {
  SmallTable apart(request_for(1000, GEAR_SELECT_PRIORITIZED, GEAR_SELECT_FIFO));
  SelectorSpec again = named("again", GEAR_SELECT_PRIORITIZED);
  SelectorSpec other = named("other", GEAR_SELECT_PRIORITIZED);
  other.alpha = .5;
  SmallTable shared(request_for(1000, GEAR_SELECT_PRIORITIZED, GEAR_SELECT_FIFO), {again});
  SmallTable two(request_for(1000, GEAR_SELECT_PRIORITIZED, GEAR_SELECT_FIFO), {again, other});
  EXPECT_EQ(apart.header().directory_bytes, shared.header().directory_bytes);
  EXPECT_LT(apart.header().directory_bytes, two.header().directory_bytes);
  shared.insert(1);
  EXPECT_EQ(shared.draw(shared.header().named_index), 1);
}

// All of a table by draws of which each is set aside, and afterwards as it was.
void expect_each_once(SmallTable& table, uint32_t index, size_t items) {
  Rng rng(5);
  std::vector<Drawn> drawn;
  std::vector<double> seen;
  for (Drawn one; table->draw(index, rng, {}, &one);) {
    ASSERT_TRUE(table->set_aside(index, one));
    drawn.push_back(one);
    seen.push_back(one.record.priority);
  }
  EXPECT_EQ(seen.size(), items) << index;
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end()) << "an item came twice";
  for (size_t i = drawn.size(); i-- > 0;) table->put_back(index, drawn[i].slot);
  for (const Drawn& one : drawn) {
    table->give_back(one);
    table->unpin(one.pin);
  }
}

// SEMANTICS 21
TEST(UniqueDraws, GiveEachItemOnceByAnySelectorAndLeaveTheTableAsItWas) {
  for (uint32_t selector = GEAR_SELECT_UNIFORM; selector <= GEAR_SELECT_MIXTURE; ++selector) {
    SmallTable table(request_for(8, selector, GEAR_SELECT_FIFO),
                     {named("a", GEAR_SELECT_LIFO, 1), named("b", GEAR_SELECT_TOP_K, 2),
                      named("c", GEAR_SELECT_LIFO, 1)});
    for (double priority : {3.0, 9.0, 4.0, 1.0, 7.0}) table.insert(priority);
    const layout::IndexRecord& record = table.header().indexes[table.header().sampler_index];
    std::vector<double> before, after;
    for (uint32_t slot = 0; slot < 5; ++slot) {
      before.push_back(direct_probability(record, &table.header(), slot));
    }
    expect_each_once(table, table.header().sampler_index, 5);
    for (uint32_t slot = 0; slot < 5; ++slot) {
      after.push_back(direct_probability(record, &table.header(), slot));
    }
    EXPECT_EQ(before, after) << selector;
    EXPECT_EQ(table->drawable(), 5u);
    table->reset();
  }
}

// SEMANTICS 28
TEST(NewPriority, IsTheLargestNowInTheTableOneWhenThereIsNone) {
  TableCreateRequest request = request_for(3, GEAR_SELECT_PRIORITIZED, GEAR_SELECT_FIFO);
  request.new_priority = GEAR_NEW_PRIORITY_TABLE_MAX;
  SmallTable table(request);
  table.insert_as_it_comes();
  EXPECT_EQ(table.priorities(), (Priorities{1}));
  table.insert(8);
  table.insert(3);
  ASSERT_EQ(table->set_priority(table.lane(), false, 0), Admit::kDone);
  table.insert_as_it_comes();
  EXPECT_EQ(table.priorities(), (Priorities{3, 8, 8}));
  // From here on the table's largest is 5, though it has seen 8.
  ASSERT_EQ(table->update_priority(table.key_of(3), 2), Table::KeyOutcome::kApplied);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(table->update_priority(table.key_of(8), 4 + i), Table::KeyOutcome::kApplied);
  }
  table.insert_as_it_comes();
  EXPECT_EQ(table.priorities().back(), 5);
  EXPECT_EQ(table.header().counters.priority_max, 8);
  table->reset();
  table.insert_as_it_comes();
  EXPECT_EQ(table.priorities(), (Priorities{1}));
}

TEST(NewPriority, IsTheLargestEverSeenByDefault) {
  SmallTable table(request_for(1, GEAR_SELECT_PRIORITIZED, GEAR_SELECT_FIFO));
  table.insert(8);
  table.insert(3);
  ASSERT_EQ(table->set_priority(table.lane(), false, 0), Admit::kDone);
  table.insert_as_it_comes();
  EXPECT_EQ(table.priorities(), (Priorities{8}));
}

// SEMANTICS 29
TEST(TableWeights, FollowTheSmallestPriorityAboveZeroNowInTheTable) {
  TableCreateRequest request = request_for(4, GEAR_SELECT_PRIORITIZED, GEAR_SELECT_FIFO);
  request.table_weights = 1;
  SmallTable table(request);
  const layout::IndexRecord& index = table.header().indexes[0];
  auto least = [&] { return direct_least_probability(index, &table.header()); };
  EXPECT_EQ(least(), 0);
  for (double priority : {0.0, 6.0, 2.0}) table.insert(priority);
  EXPECT_EQ(least(), 2.0 / 8);
  table->update_priority(table.key_of(0), 1);
  EXPECT_EQ(least(), 1.0 / 9);
  table->update_priority(table.key_of(1), 0);
  EXPECT_EQ(least(), 2.0 / 8);
  table->delete_item(table.key_of(2));
  EXPECT_EQ(least(), 1.0);
}

TEST(TableWeights, CountItemsOfPriorityZeroWhereEpsilonGivesThemWeight) {
  TableCreateRequest request = request_for(4, GEAR_SELECT_PRIORITIZED, GEAR_SELECT_FIFO);
  request.table_weights = 1;
  request.priority_epsilon = 1;
  SmallTable table(request);
  for (double priority : {0.0, 6.0, 2.0}) table.insert(priority);
  EXPECT_EQ(direct_least_probability(table.header().indexes[0], &table.header()), 1.0 / 11);
  table->delete_item(table.key_of(0));
  EXPECT_EQ(direct_least_probability(table.header().indexes[0], &table.header()), 3.0 / 10);
}

}  // namespace
}  // namespace gear
