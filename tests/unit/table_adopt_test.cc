// ctest: labels=unit,tsan timeout=120
//
// A table goes from one conductor to the next; deaths in the middle of a store are in crash/table_crash_test.cc.

#include <gtest/gtest.h>

#include <atomic>
#include <cfloat>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "support/bare_table.h"
#include "support/select_index.h"
#include "table/fsck.h"
#include "table/table.h"

namespace gear {
namespace {

using test::Owner;
using test::pass_on;
using layout::BlockRecord;
using layout::GrantRecord;
using layout::ItemRecord;
using layout::TableHeader;

std::unique_ptr<Table> make_table(uint64_t capacity, uint32_t sampler = GEAR_SELECT_UNIFORM, uint32_t block_steps = 4) {
  layout::TableCreateRequest request = test::bare_request(capacity, 4, block_steps);
  request.sampler = sampler;
  request.priority_alpha = 0.6;
  request.top_k = 100;
  request.half_life = 100;
  layout::ColumnSpec column = test::u64_column();
  return test::make_bare(request, &column);
}

void append(Table& table, uint32_t lane, uint32_t rows) {
  while (rows > 0) {
    GrantRecord grant{};
    bool room = table.unfilled_blocks(lane) > 0 || table.grant_block(lane, &grant);
    ASSERT_TRUE(room);
    uint32_t done = 0;
    ASSERT_EQ(table.commit(lane, 1, &done), Admit::kDone);
    rows -= done;
  }
}

TableHeader* header_of(Table& table) { return static_cast<TableHeader*>(table.directory().data()); }
BlockRecord* blocks_of(Table& table) {
  return layout::at_offset<BlockRecord>(table.directory().data(), table.header().blocks_offset);
}
ItemRecord* items_of(Table& table) {
  return layout::at_offset<ItemRecord>(table.directory().data(), table.header().items_offset);
}

layout::LaneRecord* lanes_of(Table& table) {
  return layout::at_offset<layout::LaneRecord>(table.directory().data(), table.header().lanes_offset);
}

TEST(TableAdopt, KeepsTheRowsOfADrawThatIsOut) {
  auto table = make_table(4);
  uint32_t lane = table->open_lane(1);
  append(*table, lane, 3);
  Rng rng(1);
  Drawn drawn;
  ASSERT_TRUE(table->draw(rng, &drawn));
  auto next = pass_on(std::move(table));
  ASSERT_TRUE(next.ok()) << next.status().text();
  Table& adopted = *next.value();
  Owner owner;
  adopted.own_lane(lane, &owner);
  adopted.rest_of(1);
  ASSERT_TRUE(adopted.adopt_draw(drawn, true));
  adopted.finish_adoption();
  append(adopted, lane, 60);
  EXPECT_EQ(blocks_of(adopted)[drawn.record.block].generation, drawn.record.block_generation);
  adopted.take(drawn);
  EXPECT_EQ(adopted.header().counters.samples, 1u);
  adopted.unpin(drawn.pin);
  EXPECT_NE(blocks_of(adopted)[drawn.record.block].generation, drawn.record.block_generation);
  EXPECT_FALSE(adopted.adopt_draw(drawn, true));
}

TEST(TableAdopt, LeavesToAWriterWhatItMayBeStoringInto) {
  auto table = make_table(100);
  uint32_t lane = table->open_lane(7);
  append(*table, lane, 5);
  GrantRecord ahead{};
  ASSERT_TRUE(table->grant_block(lane, &ahead));
  LaneRest left = table->take_over_lane(lane);
  ASSERT_EQ(left.blocks.size(), 2u);
  auto next = pass_on(std::move(table));
  ASSERT_TRUE(next.ok()) << next.status().text();
  Table& adopted = *next.value();
  LaneRest rest = adopted.rest_of(7);
  adopted.finish_adoption();
  EXPECT_EQ(rest.blocks.size(), 2u);
  EXPECT_EQ(blocks_of(adopted)[ahead.block].generation, ahead.generation);
  adopted.reset();
  // And one that windows may reach from these.
  EXPECT_EQ(adopted.header().counters.blocks_free, adopted.header().block_count - 3);
  adopted.release(rest);
  EXPECT_EQ(adopted.header().counters.blocks_free, adopted.header().block_count);
}

TEST(TableAdopt, FreesWhatNobodyClaims) {
  auto table = make_table(100);
  uint32_t lane = table->open_lane(7);
  append(*table, lane, 5);
  auto next = pass_on(std::move(table));
  ASSERT_TRUE(next.ok()) << next.status().text();
  Table& adopted = *next.value();
  adopted.finish_adoption();
  EXPECT_EQ(adopted.lanes_open(), 0u);
  EXPECT_EQ(adopted.items(), 5u);
  adopted.reset();
  EXPECT_EQ(adopted.header().counters.blocks_free, adopted.header().block_count);
}

std::unique_ptr<Table> make_table_of(const std::function<void(layout::TableCreateRequest*, layout::ColumnSpec*)>& edit) {
  layout::TableCreateRequest request = test::bare_request(20, 2);
  request.column_count = 2;
  layout::ColumnSpec columns[] = {test::u64_column(), test::u64_column("y")};
  edit(&request, columns);
  return test::make_bare(request, columns);
}

// A client passes over a grant of an episode slot that has a number it had before.
TEST(TableAdopt, GoesOnNumberingEpisodeSlotsWhereTheLaneHasNone) {
  auto table = make_table_of([](layout::TableCreateRequest* request, layout::ColumnSpec* columns) {
    columns[1].flags = GEAR_COLUMN_PER_EPISODE;
    request->episode_steps_max = 4;
  });
  uint32_t lane = table->open_lane(1);
  const auto* episodes =
      layout::at_offset<layout::EpisodeRecord>(table->directory().data(), table->header().episodes_offset);
  uint32_t slot = 0;
  ASSERT_TRUE(table->grant_episode(lane, &slot));
  EXPECT_EQ(episodes[slot].number, 0u);
  append(*table, lane, 2);
  ASSERT_EQ(table->give_episode_cells(lane), Admit::kDone);
  ASSERT_EQ(table->end_episode(lane, GEAR_TERMINATED, table->lane_rows(lane)), Admit::kDone);
  ASSERT_TRUE(table->episodes_out(lane).empty());
  for (uint32_t number = 1; number < 3; ++number) {
    auto next = pass_on(std::move(table));
    ASSERT_TRUE(next.ok()) << next.status().text();
    table = next.take();
    Owner owner;
    table->own_lane(lane, &owner);
    table->rest_of(1);
    table->finish_adoption();
    episodes = layout::at_offset<layout::EpisodeRecord>(table->directory().data(), table->header().episodes_offset);
    ASSERT_TRUE(table->grant_episode(lane, &slot));
    EXPECT_EQ(episodes[slot].number, number);
  }
}

// Only what both ends say is a link; the item's rows would break off.
TEST(TableAdopt, RefusesAnItemWhoseSecondBlockDoesNotFollowTheFirst) {
  auto table = make_table_of([](layout::TableCreateRequest* request, layout::ColumnSpec*) {
    request->item_policy = GEAR_ITEMS_SEQUENCE;
    request->item_length = 6;
    request->item_period = 1;
  });
  append(*table, table->open_lane(1), 12);
  ASSERT_GT(table->items(), 0u);
  const ItemRecord* item = items_of(*table);
  blocks_of(*table)[blocks_of(*table)[item->block].next].previous = layout::kNone;
  auto next = pass_on(std::move(table));
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.status().code(), GEAR_ECORRUPT);
  EXPECT_NE(next.status().text().find("chain"), std::string::npos) << next.status().text();
}

// Each rule of the checker, broken by one word; the text must name what is wrong.
struct Damage {
  const char* text;
  std::function<void(Table&)> make;
};

class TableAdoptDamage : public ::testing::TestWithParam<Damage> {};

TEST_P(TableAdoptDamage, IsRefusedWithWhatContradicts) {
  auto table = make_table(20);
  uint32_t lane = table->open_lane(1);
  append(*table, lane, 30);
  GetParam().make(*table);
  auto next = pass_on(std::move(table));
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.status().code(), GEAR_ECORRUPT);
  EXPECT_NE(next.status().text().find(GetParam().text), std::string::npos) << next.status().text();
}

uint32_t some_item(Table& table) {
  uint32_t slot = 0;
  while (items_of(table)[slot].generation % 2 == 0) ++slot;
  return slot;
}
uint32_t some_block(Table& table) {
  uint32_t block = 0;
  while (blocks_of(table)[block].generation % 2 == 0) ++block;
  return block;
}

const Damage kDamages[] = {
    {"segments of", [](Table& t) { header_of(t)->data_bytes += 4096; }},
    {"lanes", [](Table& t) { header_of(t)->lanes_offset = ~uint64_t{0} - 64; }},
    {"lanes", [](Table& t) { header_of(t)->lanes_max = 0; }},
    {"blocks", [](Table& t) { header_of(t)->blocks_offset = header_of(t)->directory_bytes - 8; }},
    {"block_bytes", [](Table& t) { header_of(t)->block_bytes = uint64_t{1} << 60; }},
    {"marks", [](Table& t) { header_of(t)->marks_offset = 3; }},
    {"item slots", [](Table& t) { header_of(t)->item_slots = 1u << 30; }},
    {"episode_cell_bytes", [](Table& t) { header_of(t)->data_episodes_offset = ~uint64_t{0}; }},
    {"remover_index", [](Table& t) { header_of(t)->remover_index = 77; }},
    {"selector", [](Table& t) { header_of(t)->indexes[0].selector = 99; }},
    {"offset of an index", [](Table& t) { header_of(t)->indexes[0].offset = ~uint64_t{0} - 4095; }},
    {"entries", [](Table& t) {
       layout::at_offset<layout::UniformIndex>(t.directory().data(), header_of(t)->indexes[0].offset)->count = 1u << 20;
     }},
    {"rate limiter", [](Table& t) { header_of(t)->limiter.samples_per_insert = 0; }},
    {"newest block", [](Table& t) {
       layout::at_offset<layout::LaneRecord>(t.directory().data(), header_of(t)->lanes_offset)->tail_block = 1u << 30;
     }},
    {"its episode begins", [](Table& t) {
       layout::at_offset<layout::LaneRecord>(t.directory().data(), header_of(t)->lanes_offset)->episode_row = 999;
     }},
    {"rows, it has room for", [](Table& t) { blocks_of(t)[some_block(t)].rows = 5; }},
    {"between", [](Table& t) { blocks_of(t)[some_block(t)].next = 1u << 30; }},
    {"lane 9 of", [](Table& t) { blocks_of(t)[some_block(t)].lane = 9; }},
    {"begins at row", [](Table& t) { blocks_of(t)[some_block(t)].start_row += 1; }},
    {"priority", [](Table& t) { items_of(t)[some_item(t)].priority = std::numeric_limits<double>::quiet_NaN(); }},
    {"of block", [](Table& t) { items_of(t)[some_item(t)].block = 1u << 30; }},
    {"the next one", [](Table& t) {
       uint32_t block = items_of(t)[some_item(t)].block;
       blocks_of(t)[block].rows = 0;
     }},
    {"is free", [](Table& t) { ++blocks_of(t)[items_of(t)[some_item(t)].block].generation; }},
    {"items are there", [](Table& t) { header_of(t)->counters.inserts += 2; }},
    {"items are there", [](Table& t) {
       header_of(t)->intent.op = static_cast<uint32_t>(layout::IntentOp::kReset);
       header_of(t)->intent.number = header_of(t)->counters.epoch + 1;
       header_of(t)->counters.inserts += 2;
     }},
    {"largest priority", [](Table& t) { header_of(t)->counters.priority_max = -1; }},
    {"intent", [](Table& t) { header_of(t)->intent.op = 99; }},
    {"intent", [](Table& t) {
       header_of(t)->intent.op = 1;
       header_of(t)->intent.lane = 99;
     }},
    {"intent 1", [](Table& t) {
       header_of(t)->intent.op = 1;
       header_of(t)->intent.first_row = 1000;
     }},
    {"intent 2", [](Table& t) {
       header_of(t)->intent.op = 2;
       header_of(t)->intent.row = 1000;
     }},
    {"intent 2", [](Table& t) {
       header_of(t)->intent.op = 2;
       header_of(t)->intent.row = lanes_of(t)->episode_row + 30;
       header_of(t)->intent.first_row = lanes_of(t)->episode_row;
       header_of(t)->intent.slot = layout::kNone;
       header_of(t)->intent.number = layout::kIntentMakesItem;
     }},
    {"drawn 2 times", [](Table& t) {
       header_of(t)->max_times_sampled = 1;
       items_of(t)[some_item(t)].times_sampled = 2;
     }},
    {"episodes of up to", [](Table& t) {
       header_of(t)->item_policy = GEAR_ITEMS_EPISODE;
       header_of(t)->episode_steps_max = header_of(t)->item_steps_max + 1;
     }},
    {"overlap", [](Table& t) { header_of(t)->marks_offset = header_of(t)->items_offset; }},
    {"windows reach", [](Table& t) { header_of(t)->window_after_max = ~0u; }},
    {"items of 0 steps", [](Table& t) {
       header_of(t)->item_policy = GEAR_ITEMS_SEQUENCE;
       header_of(t)->item_length = 0;
     }},
    {"prompt groups", [](Table& t) { header_of(t)->prompt_groups_max = 1; }},
    {"prompt group of", [](Table& t) { lanes_of(t)->prompt_size = 1; }},
    {"have priority", [](Table& t) {
       lanes_of(t)->priority_given = 1;
       lanes_of(t)->priority = -1;
     }},
    {"open episode of", [](Table& t) {
       header_of(t)->episode_steps_max = 2;
     }},
    {"that of lane 0 too", [](Table& t) {
       lanes_of(t)[1] = lanes_of(t)[0];
       for (uint32_t lane : {0, 1}) lanes_of(t)[lane].state = layout::kLaneOpen | layout::kLaneNamed;
     }},
    {"cell_bytes", [](Table& t) {
       layout::at_offset<layout::ColumnRecord>(t.directory().data(), header_of(t)->columns_offset)->element_bytes = 3;
     }},
    {"slot_bits", [](Table& t) { header_of(t)->slot_bits = 1; }},
    {"alpha", [](Table& t) { header_of(t)->indexes[0].alpha = -1; }},
    {"offset of an index", [](Table& t) {
       header_of(t)->indexes[0].selector = GEAR_SELECT_MIXTURE;
       header_of(t)->indexes[0].offset = ~uint64_t{0} - 4095;
     }},
    {"remover of kind", [](Table& t) { header_of(t)->indexes[header_of(t)->remover_index].selector = GEAR_SELECT_MIXTURE; }},
    {"of the largest", [](Table& t) { header_of(t)->largest_index = 0; }},
    {"named selector", [](Table& t) {
       header_of(t)->named_count = 1;
       header_of(t)->named_index = 0;
       header_of(t)->indexes[0].proportion = -1;
     }},
    {"last of its chain", [](Table& t) {
       header_of(t)->item_steps_max = 100;
       layout::ItemRecord& item = items_of(t)[some_item(t)];
       item.length = 9;
       item.position = 0;
       blocks_of(t)[blocks_of(t)[item.block].next].previous = item.block == 0 ? 1 : 0;
     }},
};

// As above, of what only some selectors have.
TEST(TableAdopt, RefusesSelectorsWhoseMemoryIsOfAnotherShape) {
  auto refused = [](uint32_t sampler, const char* expected, const std::function<void(TableHeader*, char*)>& make) {
    auto table = make_table(20, sampler);
    append(*table, table->open_lane(1), 30);
    TableHeader* header = header_of(*table);
    make(header, static_cast<char*>(table->directory().data()) + header->indexes[0].offset);
    auto next = pass_on(std::move(table));
    ASSERT_FALSE(next.ok()) << expected;
    EXPECT_NE(next.status().text().find(expected), std::string::npos) << next.status().text();
  };
  refused(GEAR_SELECT_PRIORITIZED, "a tree of",
          [](TableHeader*, char* index) { reinterpret_cast<layout::SumTreeIndex*>(index)->level_count = 92; });
  refused(GEAR_SELECT_TOP_K, "places for",
          [](TableHeader*, char* index) { reinterpret_cast<layout::HeapIndex*>(index)->top_places = 92; });
  refused(GEAR_SELECT_RECENCY, "half life", [](TableHeader* header, char*) { header->indexes[0].half_life = 0; });
  refused(GEAR_SELECT_RECENCY, "a tree of", [](TableHeader*, char* index) {
    reinterpret_cast<layout::SumTreeIndex*>(index + sizeof(layout::RecencyIndex))->level_offset[0] = 92;
  });
}

INSTANTIATE_TEST_SUITE_P(Words, TableAdoptDamage, ::testing::ValuesIn(kDamages));

TEST(TableAdopt, FindsNothingWrongOnlineWhileTheConductorWorks) {
  auto table = make_table(50, GEAR_SELECT_PRIORITIZED);
  uint32_t lane = table->open_lane(1);
  append(*table, lane, 60);
  std::atomic<bool> over{false};
  std::atomic<uint64_t> checks{0};
  std::string found;
  std::thread checker([&] {
    while (!over) {
      Findings findings = find_contradictions(table->directory().data(), table->directory().size(), table->data().bytes(),
                                          CheckForm::kOnline);
      if (!findings.texts.empty()) found = findings.texts.front();
      ++checks;
    }
  });
  for (int i = 0; i < 30000; ++i) append(*table, lane, 1);
  while (checks < 3) std::this_thread::yield();
  over = true;
  checker.join();
  EXPECT_EQ(found, "");
}

class TableAdoptSelector : public ::testing::TestWithParam<uint32_t> {};

// Readers draw all the while: none finds the index empty, and all that they find was or is there.
TEST_P(TableAdoptSelector, IsRebuiltUnderDirectReaders) {
  constexpr uint32_t kSlots = 500;
  testing::SelectIndex index(GetParam(), kSlots, 0.6, 0.1);
  std::vector<Rebuilt> all;
  std::vector<Rebuilt> fewer;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    index->insert(slot, 1 + slot % 17);
    all.push_back({slot, 1.0 + slot % 17});
    if (slot % 3 != 0) fewer.push_back({slot, 2.0 + slot % 5});
  }
  std::atomic<bool> over{false};
  std::atomic<uint64_t> draws{0};
  std::atomic<uint64_t> empty{0};
  std::thread reader([&] {
    Rng rng(3);
    Pick picks[8];
    while (!over) {
      if (index.pick(rng, 8, picks) != 8) ++empty;
      ++draws;
    }
  });
  while (draws == 0) std::this_thread::yield();
  for (int i = 0; i < 300; ++i) {
    index->rebuild(i % 2 == 0 ? fewer : all, layout::kNone);
    EXPECT_EQ(index->count(), i % 2 == 0 ? fewer.size() : all.size());
  }
  over = true;
  reader.join();
  EXPECT_EQ(empty, 0u);
  index->rebuild(fewer, layout::kNone);
  double sum = 0;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    double probability = index->probability(slot);
    EXPECT_EQ(probability > 0 && slot % 3 == 0, false) << slot;
    sum += probability;
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  for (const Rebuilt& item : fewer) index->remove(item.slot);
  EXPECT_EQ(index->count(), 0u);
}
INSTANTIATE_TEST_SUITE_P(Kinds, TableAdoptSelector,
                         ::testing::Values(GEAR_SELECT_UNIFORM, GEAR_SELECT_FIFO, GEAR_SELECT_LIFO,
                                           GEAR_SELECT_PRIORITIZED, GEAR_SELECT_MAX_HEAP, GEAR_SELECT_MIN_HEAP,
                                           GEAR_SELECT_TOP_K, GEAR_SELECT_RECENCY));

// Levels of a tree are filled up to whole nodes.
TEST(TableAdopt, ClearsWhatNoItemStandsBehind) {
  constexpr uint32_t kSlots = 70;
  testing::SelectIndex index(GEAR_SELECT_PRIORITIZED, kSlots);
  for (uint32_t place = kSlots; place < 80 + 16; ++place) index.nodes()[place] = 5.0;
  index->rebuild({{3, 2.0}}, layout::kNone);
  for (uint32_t place = 0; place < 80 + 16; ++place) {
    EXPECT_EQ(index.nodes()[place], place == 3 || place == 80 ? 2.0 : 0.0) << place;
  }
  index->clear();
}

// A prompt group shows several items at once, and its server may die before the second last has its number.
TEST(TableAdopt, NumbersWhatHasNoNumberAsNewest) {
  testing::SelectIndex index(GEAR_SELECT_FIFO, 8, 0.6, 0.1);
  std::vector<Rebuilt> live;
  for (uint32_t slot = 0; slot < 5; ++slot) {
    index->expect(slot);
    index->insert(slot, 1);
    live.push_back({slot, 1.0});
  }
  for (uint32_t slot : {1u, 2u, 3u}) index->expect(slot);
  index->rebuild(live, 1);
  std::vector<uint32_t> order;
  Rng rng(1);
  for (Pick pick; index->count() > 0;) {
    ASSERT_TRUE(index->pick(rng, &pick));
    order.push_back(pick.slot);
    index->remove(pick.slot);
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{0, 4, 2, 3, 1}));
}

// Prints how long it takes; a machine under load would make any bound wrong.
TEST(TableAdopt, GoesOnWithAMillionItems) {
  for (uint32_t sampler : {GEAR_SELECT_UNIFORM, GEAR_SELECT_PRIORITIZED, GEAR_SELECT_TOP_K, GEAR_SELECT_RECENCY}) {
    constexpr uint32_t kItems = 1000000;
    auto table = make_table(kItems, sampler, 256);
    uint32_t lane = table->open_lane(1);
    append(*table, lane, kItems + 1000);
    auto begin = std::chrono::steady_clock::now();
    auto next = pass_on(std::move(table));
    ASSERT_TRUE(next.ok()) << next.status().text();
    next.value()->finish_adoption();
    auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(next.value()->items(), kItems);
    printf("selector %u: %u items adopted in %lld ms\n", sampler, kItems,
           (long long)std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
  }
}

}  // namespace
}  // namespace gear
