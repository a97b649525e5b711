// The conductor's side of a table, without a server: steps in, items out, blocks back.

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <vector>

#include "support/bare_table.h"
#include "table/table.h"

namespace gear {
namespace {

using layout::GrantRecord;
using layout::TableCreateRequest;

TableCreateRequest request_for(uint64_t items) {
  TableCreateRequest request{};
  snprintf(request.name, sizeof request.name, "t");
  request.capacity_items = items;
  request.column_count = 1;
  request.lanes_max = 4;
  request.numa_node = -1;
  return request;
}

std::unique_ptr<Table> make_table(const TableCreateRequest& request, uint32_t column_flags = 0) {
  const layout::ColumnSpec columns[] = {test::u64_column(), test::u64_column("e", column_flags)};
  return test::make_bare(request, columns);
}

// Appends rows as a writer would: grants first, then one commit a row. Returns how many were admitted.
uint32_t append(Table* table, uint32_t lane, uint32_t rows) {
  for (uint32_t row = 0; row < rows; ++row) {
    GrantRecord grant{};
    if (table->unfilled_blocks(lane) == 0 && !table->grant_block(lane, &grant)) return row;
    uint32_t done = 0;
    if (table->commit(lane, 1, &done) != Admit::kDone) return row;
  }
  return rows;
}

uint64_t blocks_free(const Table& table) { return table.header().counters.blocks_free; }

TEST(Table, ReturnsEveryBlockWhenItemsAndLanesAreGone) {
  auto table = make_table(request_for(100));
  uint64_t before = blocks_free(*table);
  uint32_t lane = table->open_lane(1);
  ASSERT_EQ(append(table.get(), lane, 1000), 1000u);
  EXPECT_EQ(table->items(), 100u);
  EXPECT_LT(blocks_free(*table), before);
  table->close_lane(lane);
  table->reset();
  EXPECT_EQ(blocks_free(*table), before);
}

TEST(Table, KeepsABlockWhileALeaseOnAnEvictedItemNeedsIt) {
  TableCreateRequest request = request_for(4);
  request.block_steps = 1;
  request.window_before_max = 1;
  request.window_after_max = 1;
  auto table = make_table(request);
  uint64_t before = blocks_free(*table);
  uint32_t lane = table->open_lane(1);
  ASSERT_EQ(append(table.get(), lane, 1), 1u);
  Rng rng(1);
  Drawn drawn;
  ASSERT_TRUE(table->draw(rng, &drawn));
  uint64_t generation = drawn.record.block_generation;
  ASSERT_EQ(append(table.get(), lane, 200), 200u);
  const auto* blocks = layout::at_offset<layout::BlockRecord>(table->directory().data(),
                                                              table->header().blocks_offset);
  EXPECT_EQ(blocks[drawn.record.block].generation, generation);
  table->take(drawn);
  table->unpin(drawn.pin);
  EXPECT_NE(blocks[drawn.record.block].generation, generation);
  table->close_lane(lane);
  table->reset();
  EXPECT_EQ(blocks_free(*table), before);
}

TEST(Table, KeepsTheBlocksThatWindowsOfLiveItemsReachInto) {
  TableCreateRequest request = request_for(3);
  request.block_steps = 1;
  request.window_before_max = 4;
  request.window_after_max = 1;
  auto table = make_table(request);
  uint32_t lane = table->open_lane(1);
  ASSERT_EQ(append(table.get(), lane, 50), 50u);
  // Items are steps 47..49; steps 43..46 are within reach of 47. All are whole in the chain before it.
  const auto* blocks = layout::at_offset<layout::BlockRecord>(table->directory().data(),
                                                              table->header().blocks_offset);
  std::vector<uint64_t> rows;
  for (uint32_t block = 0; block < table->header().block_count; ++block) {
    if (blocks[block].generation % 2 == 1 && blocks[block].rows == 1) {
      rows.push_back(blocks[block].start_row);
    }
  }
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, (std::vector<uint64_t>{43, 44, 45, 46, 47, 48, 49}));
}

TEST(Table, KeepsNoBlockBesideLiveItemsWhereWindowsHaveNoReach) {
  TableCreateRequest request = request_for(3);
  request.block_steps = 1;
  request.window_before_max = GEAR_REACH_NONE;
  request.window_after_max = GEAR_REACH_NONE;
  auto table = make_table(request);
  uint32_t lane = table->open_lane(1);
  ASSERT_EQ(append(table.get(), lane, 50), 50u);
  const auto* blocks = layout::at_offset<layout::BlockRecord>(table->directory().data(),
                                                              table->header().blocks_offset);
  std::vector<uint64_t> rows;
  for (uint32_t block = 0; block < table->header().block_count; ++block) {
    if (blocks[block].generation % 2 == 1 && blocks[block].rows == 1) {
      rows.push_back(blocks[block].start_row);
    }
  }
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, (std::vector<uint64_t>{47, 48, 49}));
}

TEST(Table, AdmitsThePartOfARunThatTheLimiterAllows) {
  TableCreateRequest request = request_for(100);
  request.limiter = {1.0, 1, -DBL_MAX, 3.0};
  auto table = make_table(request);
  uint32_t lane = table->open_lane(1);
  GrantRecord grant{};
  ASSERT_TRUE(table->grant_block(lane, &grant));
  uint32_t done = 0;
  EXPECT_EQ(table->commit(lane, 8, &done), Admit::kBlocked);
  EXPECT_EQ(done, 3u);
  EXPECT_EQ(table->items(), 3u);
}

TEST(Table, RefusesACommitOfMoreRowsThanWereGranted) {
  auto table = make_table(request_for(100));
  uint32_t lane = table->open_lane(1);
  uint32_t done = 0;
  EXPECT_EQ(table->commit(lane, 1, &done), Admit::kBroken);
  GrantRecord grant{};
  ASSERT_TRUE(table->grant_block(lane, &grant));
  EXPECT_EQ(table->commit(lane, table->header().block_steps + 1, &done), Admit::kBroken);
  EXPECT_EQ(table->items(), 0u);
}

TEST(Table, SaysWhenNothingIsLeftToEvictForABlock) {
  TableCreateRequest request = request_for(1000);
  request.item_policy = GEAR_ITEMS_EPISODE;
  request.capacity_steps = 100;
  request.block_steps = 1;
  request.lanes_max = 64;
  auto table = make_table(request);
  std::vector<uint32_t> lanes;
  // Open episodes, which no item has yet, fill the table.
  uint32_t appended = 100;
  while (appended == 100 && lanes.size() < 64) {
    lanes.push_back(table->open_lane(1));
    appended = append(table.get(), lanes.back(), 100);
  }
  EXPECT_LT(appended, 100u);
  GrantRecord grant{};
  EXPECT_FALSE(table->grant_block(lanes.back(), &grant));
  // Their ends make them items, which can be evicted.
  for (uint32_t lane : lanes) table->close_lane(lane);
  EXPECT_TRUE(table->grant_block(table->open_lane(2), &grant));
}

TEST(Table, RefusesStepsBeyondTheLongestEpisode) {
  TableCreateRequest request = request_for(10);
  request.item_policy = GEAR_ITEMS_EPISODE;
  request.episode_steps_max = 20;
  auto table = make_table(request);
  uint32_t lane = table->open_lane(1);
  EXPECT_EQ(append(table.get(), lane, 25), 20u);
}

TEST(Table, GivesALastDrawBackToItsPlaceInTheQueue) {
  TableCreateRequest request = request_for(10);
  request.sampler = GEAR_SELECT_FIFO;
  request.max_times_sampled = 1;
  auto table = make_table(request);
  uint32_t lane = table->open_lane(1);
  ASSERT_EQ(append(table.get(), lane, 3), 3u);
  Rng rng(1);
  Drawn first, second;
  ASSERT_TRUE(table->draw(rng, &first));
  ASSERT_TRUE(table->draw(rng, &second));
  EXPECT_FALSE(table->draws_ready(2));
  table->give_back(second);
  table->unpin(second.pin);
  table->give_back(first);
  table->unpin(first.pin);
  EXPECT_TRUE(table->draws_ready(3));
  Drawn again;
  ASSERT_TRUE(table->draw(rng, &again));
  EXPECT_EQ(again.record.key, first.record.key);
  EXPECT_EQ(table->header().counters.samples, 0u);
  table->take(again);
  EXPECT_EQ(table->header().counters.samples, 1u);
  EXPECT_EQ(table->items(), 2u);
}

TEST(Table, MakesAKeyStaleWhenItsSlotIsUsedAgain) {
  auto table = make_table(request_for(1));
  uint32_t lane = table->open_lane(1);
  ASSERT_EQ(append(table.get(), lane, 1), 1u);
  Rng rng(1);
  Drawn drawn;
  ASSERT_TRUE(table->draw(rng, &drawn));
  EXPECT_EQ(table->update_priority(drawn.record.key, 2.0), Table::KeyOutcome::kApplied);
  ASSERT_EQ(append(table.get(), lane, 1), 1u);
  EXPECT_EQ(table->update_priority(drawn.record.key, 2.0), Table::KeyOutcome::kStale);
  EXPECT_EQ(table->delete_item(drawn.record.key), Table::KeyOutcome::kStale);
  EXPECT_EQ(table->update_priority(drawn.record.key + 1000, 2.0), Table::KeyOutcome::kUnknown);
  EXPECT_EQ(table->items(), 1u);
}

TEST(Table, ReturnsEpisodeSlotsWhenTheirItemsAreGone) {
  TableCreateRequest request = request_for(3);
  request.column_count = 2;
  auto table = make_table(request, GEAR_COLUMN_PER_EPISODE);
  uint32_t lane = table->open_lane(1);
  // Far more episodes than slots: each must come back.
  for (int episode = 0; episode < 200; ++episode) {
    uint32_t slot = 0;
    ASSERT_TRUE(table->grant_episode(lane, &slot)) << episode;
    ASSERT_EQ(append(table.get(), lane, 2), 2u);
    ASSERT_EQ(table->give_episode_cells(lane), Admit::kDone);
    ASSERT_EQ(table->end_episode(lane, GEAR_TERMINATED, table->lane_rows(lane)), Admit::kDone);
  }
  EXPECT_EQ(table->header().counters.episodes, 200u);
}

TEST(Table, RefusesPerEpisodeCellsGivenTwice) {
  TableCreateRequest request = request_for(3);
  request.column_count = 2;
  auto table = make_table(request, GEAR_COLUMN_PER_EPISODE);
  uint32_t lane = table->open_lane(1);
  uint32_t slot = 0;
  EXPECT_EQ(table->give_episode_cells(lane), Admit::kBroken);
  ASSERT_TRUE(table->grant_episode(lane, &slot));
  EXPECT_EQ(table->give_episode_cells(lane), Admit::kDone);
  EXPECT_EQ(table->give_episode_cells(lane), Admit::kBroken);
}

}  // namespace
}  // namespace gear
