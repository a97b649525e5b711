// Computed windows, burn-in and optional columns, against an oracle that looks every step up in the
// list of episodes.
// ctest: labels=tsan
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

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

struct Asked {
  gear_window window;
  WindowPlan plan;
};

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <typename T>
T value_of(const std::string& bytes) {
  T value;
  memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// A step that exists, and what the window shows of it; no cell where the step has none.
using Shown = std::optional<std::string>;

// The scalar meaning of a window: one value a step.
class Oracle {
 public:
  Oracle(const FakeTable& table, const Asked& asked, const ItemOfTest& item)
      : table_(table),
        window_(asked.window),
        plan_(asked.plan),
        item_(item),
        episode_(table.options().episodes[item.episode]) {}

  // By place.
  std::vector<Shown> cells;
  std::vector<uint8_t> mask;
  uint32_t length = 0;

  void look() {
    std::vector<Shown> steps;
    uint32_t before = 0;
    for (uint32_t place = 0; place < plan_.length; ++place) {
      int64_t step = int64_t{item_.first} + item_.anchor + window_.offset + place;
      if (exists(step)) {
        steps.push_back(value(static_cast<uint32_t>(step)));
      } else if (steps.empty()) {
        ++before;
      }
    }
    pad(steps, before);
  }

 private:
  int64_t item_end() const { return int64_t{item_.first} + item_.length; }
  int64_t kept_end() const { return item_end() + table_.options().window_after_max; }

  bool exists(int64_t step) const {
    if (step < 0 || step >= (window_.length == 0 ? item_end() : kept_end())) return false;
    if (step < episode_.steps) return true;
    bool final_row = step == episode_.steps && episode_.final_row;
    return window_.compute == GEAR_COMPUTE_NONE && final_row &&
           table_.has_cell(item_.episode, episode_.steps, plan_.column);
  }

  bool last(uint32_t step) const { return episode_.ended && step + 1 == episode_.steps; }
  bool terminated(uint32_t step) const { return last(step) && item_.episode % 2 == 0; }

  uint32_t summed(uint32_t step) const {
    int64_t end = std::min<int64_t>(episode_.steps, kept_end());
    return static_cast<uint32_t>(std::min<int64_t>(window_.steps, end - step));
  }

  double reward(uint32_t step) const {
    if (!table_.has_cell(item_.episode, step, plan_.column)) return 0;
    std::string cell = table_.cell_value(item_.episode, step, plan_.column);
    return plan_.dtype == GEAR_F32 ? static_cast<double>(value_of<float>(cell))
                                   : value_of<double>(cell);
  }

  std::string n_step_return(uint32_t step) const {
    double sum = 0;
    double power = 1;
    for (uint32_t k = 0; k < summed(step); ++k, power *= window_.discount) {
      sum += power * reward(step + k);
    }
    return plan_.dtype == GEAR_F32 ? bytes_of(static_cast<float>(sum)) : bytes_of(sum);
  }

  std::string bootstrap(uint32_t step) const {
    double power = 1;
    for (uint32_t k = 0; k < summed(step); ++k) power *= window_.discount;
    bool terminal = terminated(step + summed(step) - 1);
    return bytes_of(terminal ? 0.0f : static_cast<float>(power));
  }

  Shown value(uint32_t step) const {
    switch (window_.compute) {
      case GEAR_COMPUTE_STEP:
        return bytes_of(step);
      case GEAR_COMPUTE_IS_FIRST:
        return bytes_of(step == 0);
      case GEAR_COMPUTE_IS_LAST:
        return bytes_of(last(step));
      case GEAR_COMPUTE_TERMINATED:
        return bytes_of(terminated(step));
      case GEAR_COMPUTE_TRUNCATED:
        return bytes_of(last(step) && !terminated(step));
      case GEAR_COMPUTE_NSTEP_RETURN:
        return n_step_return(step);
      case GEAR_COMPUTE_NSTEP_STEPS:
        return bytes_of(summed(step));
      case GEAR_COMPUTE_NSTEP_BOOTSTRAP:
        return bootstrap(step);
      default:
        break;
    }
    if (!table_.has_cell(item_.episode, step, plan_.column)) return std::nullopt;
    return table_.cell_value(item_.episode, step, plan_.column);
  }

  void pad(const std::vector<Shown>& steps, uint32_t before) {
    length = static_cast<uint32_t>(steps.size());
    if (steps.empty() || window_.pad == GEAR_PAD_RIGHT) before = 0;
    if (window_.pad == GEAR_PAD_LEFT) before = plan_.length - length;
    cells.assign(plan_.length, std::nullopt);
    std::copy(steps.begin(), steps.end(), cells.begin() + before);
    for (const Shown& cell : cells) mask.push_back(cell ? 1 : 0);
    fill();
  }

  void fill() {
    Shown edge = std::string(plan_.cell_bytes, '\0');
    auto first = std::find_if(cells.begin(), cells.end(), [](const Shown& cell) { return !!cell; });
    bool repeats = window_.fill == GEAR_FILL_EDGE && first != cells.end();
    if (repeats) edge = *first;
    for (Shown& cell : cells) {
      if (!cell) {
        cell = edge;
      } else if (repeats) {
        edge = cell;
      }
    }
  }

  const FakeTable& table_;
  const gear_window& window_;
  const WindowPlan& plan_;
  const ItemOfTest& item_;
  const FakeEpisode& episode_;
};

template <typename T>
T one_of(Rng& rng, std::initializer_list<T> values) {
  return values.begin()[rng.below(values.size())];
}

bool chance(Rng& rng, uint32_t of) {
  return rng.below(of) == 0;
}

FakeTableOptions random_options(Rng& rng) {
  FakeTableOptions options;
  options.block_steps = one_of(rng, {1u, 2u, 3u, 7u, 64u, 200u});
  options.window_before_max = 70;
  options.window_after_max = one_of(rng, {2u, 5u, 12u, 150u});
  options.item_steps_max = 1 + static_cast<uint32_t>(rng.below(12));
  options.shuffle_seed = rng.next();
  bool holes = chance(rng, 2);
  options.columns = {{"x", one_of(rng, {1u, 3u, 8u, 40u}), false, holes && chance(rng, 2)},
                     {"r", 4, false, holes && chance(rng, 2), GEAR_F32},
                     {"q", 8, false, holes && chance(rng, 2), GEAR_F64}};
  auto lanes = static_cast<uint32_t>(1 + rng.below(3));
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    auto episodes = 1 + rng.below(6);
    for (uint64_t i = 0; i < episodes; ++i) {
      FakeEpisode episode;
      episode.lane = lane;
      episode.steps = 1 + static_cast<uint32_t>(rng.below(one_of(rng, {6u, 30u, 250u})));
      episode.ended = i + 1 < episodes || chance(rng, 2);
      episode.final_row = episode.ended && chance(rng, 2);
      for (int c = 0; c < 3; ++c) episode.final_columns.push_back(chance(rng, 2));
      options.episodes.push_back(episode);
    }
  }
  return options;
}

gear_window random_window(Rng& rng) {
  gear_window window = GEAR_WINDOW_INIT;
  window.name = "w";
  window.compute = static_cast<uint32_t>(rng.below(9));
  window.pad = static_cast<uint32_t>(rng.below(3));
  window.fill = static_cast<uint32_t>(rng.below(2));
  bool far = chance(rng, 4);
  window.offset = static_cast<int32_t>(rng.below(11)) - (far ? 65 : 5);
  window.length = chance(rng, 5) ? 0 : 1 + static_cast<uint32_t>(rng.below(far ? 140 : 8));
  if (chance(rng, 4)) window.offset = 0, window.length = 1;
  if (window.compute == GEAR_COMPUTE_NONE) {
    window.column = one_of(rng, {"x", "r", "q"});
  } else if (window.compute >= GEAR_COMPUTE_NSTEP_RETURN) {
    window.steps = 1 + static_cast<uint32_t>(rng.below(far ? 100 : 6));
    window.discount = one_of(rng, {0.0, 0.5, 0.99, 1.0});
    if (window.compute == GEAR_COMPUTE_NSTEP_RETURN) window.column = one_of(rng, {"r", "q"});
  }
  return window;
}

std::vector<gear_window> random_windows(Rng& rng, const FakeTable& table) {
  std::vector<gear_window> windows;
  for (auto count = 1 + rng.below(6); windows.size() < count;) {
    gear_window window = random_window(rng);
    if (plan_windows(table.view(), &window, 1).ok()) windows.push_back(window);
  }
  return windows;
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

void compare_row(const FakeTable& table, const Asked& asked, const ItemOfTest& item,
                 const FakeBatch& batch, size_t index, uint32_t row) {
  SCOPED_TRACE(::testing::Message()
               << "block_steps " << table.options().block_steps << ", episode of "
               << table.options().episodes[item.episode].steps << " steps, item at " << item.first
               << " length " << item.length << " anchor " << item.anchor << ", window compute "
               << asked.window.compute << " offset " << asked.window.offset << " length "
               << asked.window.length << " steps " << asked.window.steps << " pad "
               << asked.window.pad << " fill " << asked.window.fill);
  Oracle oracle(table, asked, item);
  oracle.look();
  ASSERT_EQ(batch.length(index, row), oracle.length);
  for (uint32_t place = 0; place < asked.plan.length; ++place) {
    ASSERT_EQ(batch.mask(asked.plan, index, row, place), oracle.mask[place]) << "place " << place;
    ASSERT_EQ(batch.cell(asked.plan, index, row, place), *oracle.cells[place]) << "place " << place;
  }
}

void compare_table(Rng& rng) {
  FakeTable table(random_options(rng));
  std::vector<gear_window> windows = random_windows(rng, table);
  std::vector<WindowPlan> plan = plan_windows(table.view(), windows.data(), windows.size()).take();
  std::vector<ItemOfTest> items = random_items(rng, table);
  std::vector<DrawnItem> drawn(items.size());
  std::vector<uint32_t> anchors;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(read_item(table.view(), items[i].slot, &drawn[i]));
    anchors.push_back(items[i].anchor);
  }
  auto rows = static_cast<uint32_t>(items.size());
  FakeBatch batch(plan, rows);
  std::vector<GatherOutcome> outcomes(rows);
  ASSERT_EQ(gather_rows(table.view(), plan, drawn.data(), anchors.data(), rows, 0,
                        batch.buffers(), outcomes.data()),
            0u);
  for (uint32_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < plan.size(); ++i) {
      compare_row(table, {windows[i], plan[i]}, items[row], batch, i, row);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// 32, 34, 40
TEST(GatherCompute, ShowsWhatTheOracleShowsOverRandomEpisodesAndWindows) {
  uint64_t seed = test::test_seed(20261130);
  Rng rng(seed);
  for (int round = 0; round < 1500; ++round) {
    compare_table(rng);
    if (HasFatalFailure()) {
      FAIL() << "round " << round << "; run again with GEAR_TEST_SEED=" << seed;
    }
  }
}

}  // namespace
}  // namespace gear
