// What gather_row shows, against an oracle that looks every step up in the list of episodes.
// ctest: labels=tsan
#include <gtest/gtest.h>

#include <algorithm>

#include "support/fake_table.h"

namespace gear {
namespace {

using test::FakeBatch;
using test::FakeColumn;
using test::FakeEpisode;
using test::FakeTable;
using test::FakeTableOptions;

struct ItemOfTest {
  uint32_t episode;
  uint32_t first;
  uint32_t length;
  uint32_t slot;
  uint32_t anchor;
};

// One window's row, place by place.
struct Shown {
  std::vector<std::string> cells;
  std::vector<uint8_t> mask;
  uint32_t length = 0;
};

bool exists(const FakeTable& table, const WindowPlan& window, const ItemOfTest& item,
            int64_t step) {
  const FakeEpisode& episode = table.options().episodes[item.episode];
  int64_t item_end = int64_t{item.first} + item.length;
  int64_t end = window.item_range ? item_end : item_end + table.options().window_after_max;
  if (step < 0 || step >= end) return false;
  if (step < episode.steps) return true;
  return step == episode.steps && episode.final_row && episode.final_columns[window.column];
}

Shown pad(const WindowPlan& window, const std::vector<std::string>& steps, uint32_t before) {
  Shown shown;
  shown.length = static_cast<uint32_t>(steps.size());
  if (window.pad == GEAR_PAD_LEFT) before = window.length - shown.length;
  if (window.pad == GEAR_PAD_RIGHT) before = 0;
  std::string zero(window.cell_bytes, '\0');
  bool edge = window.fill == GEAR_FILL_EDGE && !steps.empty();
  for (uint32_t place = 0; place < window.length; ++place) {
    bool inside = place >= before && place < before + shown.length;
    shown.mask.push_back(inside ? 1 : 0);
    if (inside) {
      shown.cells.push_back(steps[place - before]);
    } else if (edge) {
      shown.cells.push_back(place < before ? steps.front() : steps.back());
    } else {
      shown.cells.push_back(zero);
    }
  }
  return shown;
}

Shown oracle(const FakeTable& table, const WindowPlan& window, const ItemOfTest& item) {
  const FakeEpisode& episode = table.options().episodes[item.episode];
  std::vector<std::string> steps;
  uint32_t before = 0;
  if (window.per_episode) {
    if (episode.cells_given) steps.push_back(table.episode_cell_value(item.episode, window.column));
    return pad(window, steps, 0);
  }
  for (uint32_t place = 0; place < window.length; ++place) {
    int64_t step = int64_t{item.first} + item.anchor + window.offset + place;
    if (exists(table, window, item, step)) {
      steps.push_back(table.cell_value(item.episode, static_cast<uint32_t>(step), window.column));
    } else if (steps.empty()) {
      ++before;
    }
  }
  return pad(window, steps, before);
}

Shown shown_in(const FakeBatch& batch, const WindowPlan& window, size_t index, uint32_t row) {
  Shown shown;
  for (uint32_t place = 0; place < window.length; ++place) {
    shown.cells.push_back(batch.cell(window, index, row, place));
    shown.mask.push_back(batch.mask(window, index, row, place));
  }
  shown.length = batch.length(index, row);
  return shown;
}

template <typename T>
T one_of(Rng& rng, std::initializer_list<T> values) {
  return values.begin()[rng.below(values.size())];
}

bool chance(Rng& rng, uint32_t of) {
  return rng.below(of) == 0;
}

FakeTableOptions random_options(Rng& rng) {
  FakeTableOptions options;
  options.block_steps = one_of(rng, {1u, 2u, 3u, 7u, 64u});
  options.window_before_max = 5;
  options.window_after_max = one_of(rng, {1u, 3u, 12u});
  options.item_steps_max = 1 + static_cast<uint32_t>(rng.below(12));
  options.shuffle_seed = rng.next();
  auto columns = 1 + rng.below(11);
  for (uint64_t i = 0; i < columns; ++i) {
    uint32_t bytes = one_of(rng, {1u, 2u, 3u, 4u, 8u, 12u, 16u, 100u});
    options.columns.push_back({format("c%d", static_cast<int>(i)), bytes, i > 0 && chance(rng, 5)});
  }
  auto lanes = static_cast<uint32_t>(1 + rng.below(3));
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    auto episodes = 1 + rng.below(6);
    for (uint64_t i = 0; i < episodes; ++i) {
      FakeEpisode episode;
      episode.lane = lane;
      episode.steps = 1 + static_cast<uint32_t>(rng.below(chance(rng, 3) ? 30 : 6));
      episode.ended = i + 1 < episodes || chance(rng, 2);
      episode.final_row = episode.ended && chance(rng, 2);
      for (uint64_t c = 0; c < columns; ++c) episode.final_columns.push_back(chance(rng, 2));
      episode.cells_given = chance(rng, 2);
      options.episodes.push_back(episode);
    }
  }
  return options;
}

std::vector<WindowPlan> random_plan(Rng& rng, const FakeTable& table) {
  std::vector<gear_window> windows;
  auto count = rng.below(5);
  for (uint64_t i = 0; i < count; ++i) {
    const FakeColumn& column = table.options().columns[rng.below(table.options().columns.size())];
    gear_window window = GEAR_WINDOW_INIT;
    window.column = column.name.c_str();
    window.pad = static_cast<uint32_t>(rng.below(3));
    window.fill = static_cast<uint32_t>(rng.below(2));
    if (!column.per_episode) {
      window.offset = static_cast<int32_t>(rng.below(11)) - 5;
      window.length = chance(rng, 5) ? 0 : 1 + static_cast<uint32_t>(rng.below(8));
    }
    if (plan_windows(table.view(), &window, 1).ok()) windows.push_back(window);
  }
  return plan_windows(table.view(), windows.data(), windows.size()).take();
}

std::vector<ItemOfTest> random_items(Rng& rng, FakeTable& table) {
  std::vector<ItemOfTest> items(table.options().item_slots);
  for (ItemOfTest& item : items) {
    item.episode = static_cast<uint32_t>(rng.below(table.options().episodes.size()));
    uint32_t steps = table.options().episodes[item.episode].steps;
    item.first = static_cast<uint32_t>(rng.below(steps));
    uint32_t most = std::min(steps - item.first, table.options().item_steps_max);
    item.length = 1 + static_cast<uint32_t>(rng.below(most));
    item.slot = table.add_item(item.episode, item.first, item.length);
    item.anchor = static_cast<uint32_t>(rng.below(item.length));
  }
  return items;
}

void gather_one_by_one(const FakeTable& table, const std::vector<WindowPlan>& plan,
                       const std::vector<DrawnItem>& items, const std::vector<uint32_t>& anchors,
                       const FakeBatch& batch) {
  for (uint32_t row = 0; row < items.size(); ++row) {
    ASSERT_EQ(gather_row(table.view(), plan, items[row], anchors[row], row, batch.buffers()),
              GatherOutcome::kGathered);
  }
}

void compare_table(Rng& rng) {
  FakeTable table(random_options(rng));
  std::vector<WindowPlan> plan = random_plan(rng, table);
  std::vector<ItemOfTest> items = random_items(rng, table);
  std::vector<DrawnItem> drawn(items.size());
  std::vector<uint32_t> anchors;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(read_item(table.view(), items[i].slot, &drawn[i]));
    if (chance(rng, 2)) drawn[i].item_generation = kItemPinned;
    anchors.push_back(items[i].anchor);
  }
  FakeBatch batch(plan, static_cast<uint32_t>(items.size()));
  if (chance(rng, 2)) {
    gather_one_by_one(table, plan, drawn, anchors, batch);
  } else {
    std::vector<GatherOutcome> outcomes(items.size());
    ASSERT_EQ(gather_rows(table.view(), plan, drawn.data(), anchors.data(),
                          static_cast<uint32_t>(items.size()), 0, batch.buffers(), outcomes.data()),
              0u);
  }
  for (uint32_t row = 0; row < items.size(); ++row) {
    for (size_t i = 0; i < plan.size(); ++i) {
      const ItemOfTest& item = items[row];
      SCOPED_TRACE(::testing::Message()
                   << "block_steps " << table.options().block_steps << ", episode of "
                   << table.options().episodes[item.episode].steps << " steps, item at "
                   << item.first << " length " << item.length << " anchor " << item.anchor
                   << ", window offset " << plan[i].offset << " length " << plan[i].length
                   << " pad " << plan[i].pad << " fill " << plan[i].fill);
      Shown expected = oracle(table, plan[i], item);
      Shown shown = shown_in(batch, plan[i], i, row);
      ASSERT_EQ(shown.mask, expected.mask);
      ASSERT_EQ(shown.length, expected.length);
      ASSERT_EQ(shown.cells, expected.cells);
    }
  }
}

TEST(GatherWindow, ShowsWhatTheOracleShowsOverRandomTablesAndPlans) {
  uint64_t seed = test::test_seed(20260701);
  Rng rng(seed);
  for (int round = 0; round < 1500; ++round) {
    compare_table(rng);
    if (HasFatalFailure()) {
      FAIL() << "round " << round << "; run again with GEAR_TEST_SEED=" << seed;
    }
  }
}

// One lane, one column "x": an episode of 5 steps with a final row, then an open one of 3.
class TwoEpisodes : public ::testing::Test {
 protected:
  static FakeTableOptions two_episodes() {
    FakeTableOptions options;
    options.columns = {{"x", 8, false}, {"y", 4, false}, {"goal", 24, true}};
    options.episodes = {{0, 5, true, true, {true, false, false}, true},
                        {0, 3, false, false, {}, false}};
    return options;
  }

  Shown gather(const char* column, int32_t offset, uint32_t length, const ItemOfTest& item) {
    gear_window window = GEAR_WINDOW_INIT;
    window.column = column;
    window.offset = offset;
    window.length = length;
    plan_ = plan_windows(table_.view(), &window, 1).take();
    DrawnItem drawn{};
    EXPECT_TRUE(read_item(table_.view(), item.slot, &drawn));
    FakeBatch batch(plan_, 1);
    EXPECT_EQ(gather_row(table_.view(), plan_, drawn, item.anchor, 0, batch.buffers()),
              GatherOutcome::kGathered);
    return shown_in(batch, plan_[0], 0, 0);
  }

  ItemOfTest item(uint32_t episode, uint32_t first, uint32_t length) {
    return {episode, first, length, table_.add_item(episode, first, length), 0};
  }

  FakeTable table_{two_episodes()};
  std::vector<WindowPlan> plan_;
};

TEST_F(TwoEpisodes, NextObservationOfTheLastStepIsTheFinalRow) {
  Shown shown = gather("x", 1, 1, item(0, 4, 1));
  EXPECT_EQ(shown.length, 1u);
  EXPECT_EQ(shown.cells[0], table_.cell_value(0, 5, 0));
}

TEST_F(TwoEpisodes, FinalRowIsPaddingInAColumnItWasNotGivenFor) {
  Shown shown = gather("y", 1, 1, item(0, 4, 1));
  EXPECT_EQ(shown.length, 0u);
  EXPECT_EQ(shown.cells[0], std::string(4, '\0'));
}

TEST_F(TwoEpisodes, NextObservationOfTheNewestStepOfAnOpenEpisodeIsPadding) {
  EXPECT_EQ(gather("x", 1, 1, item(1, 2, 1)).length, 0u);
}

TEST_F(TwoEpisodes, StepAfterTheFinalRowIsNeverShown) {
  EXPECT_EQ(gather("x", 2, 1, item(0, 4, 1)).length, 0u);
}

TEST_F(TwoEpisodes, StepBeforeTheFirstOfAnEpisodeIsNeverShown) {
  EXPECT_EQ(gather("x", -1, 1, item(1, 0, 1)).length, 0u);
}

TEST_F(TwoEpisodes, ItemsOwnStepsDoNotIncludeTheFinalRow) {
  EXPECT_EQ(gather("x", 0, 0, item(0, 2, 3)).length, 3u);
}

TEST_F(TwoEpisodes, ItemsOwnStepsEndWithTheItemThoughTheEpisodeGoesOn) {
  EXPECT_EQ(gather("x", 0, 0, item(0, 1, 2)).length, 2u);
}

TEST_F(TwoEpisodes, EpisodeCellIsShownOnceItWasGiven) {
  Shown shown = gather("goal", 0, 1, item(0, 2, 1));
  EXPECT_EQ(shown.length, 1u);
  EXPECT_EQ(shown.cells[0], table_.episode_cell_value(0, 2));
}

TEST_F(TwoEpisodes, EpisodeCellIsPaddingBeforeItWasGiven) {
  Shown shown = gather("goal", 0, 1, item(1, 2, 1));
  EXPECT_EQ(shown.length, 0u);
  EXPECT_EQ(shown.cells[0], std::string(24, '\0'));
}

TEST_F(TwoEpisodes, ReadItemGivesTheFieldsOfTheRecord) {
  ItemOfTest made = item(0, 2, 3);
  DrawnItem drawn{};
  ASSERT_TRUE(read_item(table_.view(), made.slot, &drawn));
  FakeTable::Spot at = table_.spot(0, 2);
  EXPECT_EQ(drawn.key, layout::make_key(1, made.slot, 16));
  EXPECT_EQ(drawn.item_generation, 1u);
  EXPECT_EQ(drawn.block_generation, table_.block(at.block).generation);
  EXPECT_EQ(drawn.block, at.block);
  EXPECT_EQ(drawn.position, at.position);
  EXPECT_EQ(drawn.length, 3u);
  EXPECT_EQ(drawn.episode, 0u);
  EXPECT_EQ(drawn.priority, 1.0);
}

TEST_F(TwoEpisodes, ReadItemRefusesASlotWithoutAnItem) {
  ItemOfTest made = item(0, 2, 3);
  table_.item(made.slot).generation = 2;
  DrawnItem drawn{};
  EXPECT_FALSE(read_item(table_.view(), made.slot, &drawn));
  EXPECT_FALSE(read_item(table_.view(), table_.options().item_slots, &drawn));
}

TEST(GatherAnchor, RandomStartIsUniformWhereTheWindowFits) {
  Rng rng(7);
  std::vector<uint32_t> counts(10, 0);
  for (int i = 0; i < 7000; ++i) ++counts[pick_anchor(GEAR_ANCHOR_RANDOM_START, 10, 4, rng)];
  for (uint32_t at = 0; at < 7; ++at) EXPECT_NEAR(counts[at], 1000, 150) << "anchor " << at;
  for (uint32_t at = 7; at < 10; ++at) EXPECT_EQ(counts[at], 0u);
}

TEST(GatherAnchor, RandomStartIsTheFirstStepOfAnItemShorterThanTheWindow) {
  Rng rng(7);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(pick_anchor(GEAR_ANCHOR_RANDOM_START, 3, 8, rng), 0u);
  }
}

TEST(GatherAnchor, RandomStepIsUniformOverTheItem) {
  Rng rng(7);
  std::vector<uint32_t> counts(5, 0);
  for (int i = 0; i < 5000; ++i) ++counts[pick_anchor(GEAR_ANCHOR_RANDOM_STEP, 5, 4, rng)];
  for (uint32_t at = 0; at < 5; ++at) EXPECT_NEAR(counts[at], 1000, 150) << "anchor " << at;
}

TEST(GatherAnchor, FirstIsTheFirstStep) {
  Rng rng(7);
  EXPECT_EQ(pick_anchor(GEAR_ANCHOR_FIRST, 5, 4, rng), 0u);
}

}  // namespace
}  // namespace gear
