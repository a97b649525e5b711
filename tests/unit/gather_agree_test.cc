// All windows of a row agree about where the episode ends, and only what is asked for is read.
// ctest: labels=tsan
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "base/shared_word.h"
#include "support/fake_table.h"

namespace gear {
namespace {

using test::FakeBatch;
using test::FakeEpisode;
using test::FakeTable;
using test::FakeTableOptions;

gear_window window_of(const char* name, uint32_t compute, const char* column, int32_t offset,
                      uint32_t length) {
  gear_window window = GEAR_WINDOW_INIT;
  window.name = name;
  window.compute = compute;
  window.column = column;
  window.offset = offset;
  window.length = length;
  if (compute >= GEAR_COMPUTE_NSTEP_RETURN) {
    window.steps = 3;
    window.discount = 0.5;
  }
  return window;
}

uint8_t byte_of(const FakeBatch& batch, const std::vector<WindowPlan>& plan, size_t window,
                uint32_t place) {
  return static_cast<uint8_t>(batch.cell(plan[window], window, 0, place)[0]);
}

template <typename T>
T value_of(const FakeBatch& batch, const std::vector<WindowPlan>& plan, size_t window) {
  T value;
  memcpy(&value, batch.cell(plan[window], window, 0, 0).data(), sizeof value);
  return value;
}

// One lane of many short episodes, whose rows a thread publishes one by one as the conductor does,
// while the test draws the newest step.
class NewestStep : public ::testing::Test {
 protected:
  enum Window { kLast, kTerminated, kSteps, kReturn, kBootstrap, kNext, kNumbers, kWindows };
  static constexpr uint32_t kEpisodes = 1000;

  static FakeTableOptions episodes() {
    FakeTableOptions options;
    options.block_steps = 3;
    options.window_after_max = 8;
    options.columns = {{"x", 8}, {"r", 4, false, false, GEAR_F32}};
    for (uint32_t i = 0; i < kEpisodes; ++i) {
      options.episodes.push_back({0, 1 + i % 4, true, i % 3 != 0, {true, true}, false});
    }
    options.item_slots = kEpisodes * 4;
    return options;
  }

  NewestStep() {
    // Nothing is published, and no episode has ended.
    for (uint32_t e = 0; e < kEpisodes; ++e) {
      const FakeEpisode& episode = table_.options().episodes[e];
      for (uint32_t step = 0; step < episode.steps; ++step) {
        steps_.push_back({e, step, table_.add_item(e, step, 1)});
      }
      FakeTable::Spot last = table_.spot(e, episode.steps - 1);
      table_.mark(last.block, last.position) &= layout::kMarkStepMask;
    }
    for (uint32_t i = 0; i < table_.header().block_count; ++i) table_.block(i).rows = 0;

    const gear_window windows[kWindows] = {
        window_of("last", GEAR_COMPUTE_IS_LAST, nullptr, 0, 1),
        window_of("terminated", GEAR_COMPUTE_TERMINATED, nullptr, 0, 3),
        window_of("steps", GEAR_COMPUTE_NSTEP_STEPS, nullptr, 0, 1),
        window_of("return", GEAR_COMPUTE_NSTEP_RETURN, "r", 0, 1),
        window_of("bootstrap", GEAR_COMPUTE_NSTEP_BOOTSTRAP, nullptr, 0, 1),
        window_of("next", GEAR_COMPUTE_NONE, "x", 1, 3),
        window_of("numbers", GEAR_COMPUTE_STEP, nullptr, 0, 4)};
    plan_ = plan_windows(table_.view(), windows, kWindows).take();
  }

  void publish_row(uint32_t episode, uint32_t step) {
    FakeTable::Spot spot = table_.spot(episode, step);
    publish(table_.block(spot.block).rows, spot.position + 1);
  }

  void publish_all() {
    size_t next = 0;
    for (uint32_t e = 0; e < kEpisodes; ++e) {
      const FakeEpisode& episode = table_.options().episodes[e];
      for (uint32_t step = 0; step < episode.steps; ++step) {
        publish_row(e, step);
        newest_.store(next++, std::memory_order_release);
        wait_for_a_look();
      }
      linger();
      if (episode.final_row) publish_row(e, episode.steps);
      linger();
      FakeTable::Spot last = table_.spot(e, episode.steps - 1);
      uint32_t& mark = table_.mark(last.block, last.position);
      publish(mark, peek(mark) | (e % 2 == 0 ? layout::kMarkTerminated : layout::kMarkTruncated));
    }
    done_.store(true);
  }

  // Some draw has begun since the step was published: it is looked at while the next comes.
  void wait_for_a_look() {
    uint64_t seen = looks_.load();
    for (int spins = 1; looks_.load() == seen; ++spins) {
      spin_pause();
      if (spins % 10000 == 0) std::this_thread::yield();  // the machine may have one core
    }
  }

  // Some moments of a draw, so that what follows falls into any of them.
  void linger() {
    for (uint64_t left = rng_.below(16); left > 0; --left) spin_pause();
  }

  struct Step {
    uint32_t episode;
    uint32_t step;
    uint32_t slot;
  };

  void check(const Step& at, const FakeBatch& batch) {
    const FakeEpisode& episode = table_.options().episodes[at.episode];
    uint32_t numbers = batch.length(kNumbers, 0);
    uint32_t next = batch.length(kNext, 0);
    uint32_t left = episode.steps - at.step;
    ASSERT_GE(numbers, 1u);
    ASSERT_LE(numbers, left);
    bool last = byte_of(batch, plan_, kLast, 0) != 0;
    bool shows_final = next >= left;
    // Steps that one window counts the others show.
    ASSERT_EQ(next, std::min(3u, numbers - 1 + (shows_final ? 1 : 0)));
    ASSERT_EQ(value_of<uint32_t>(batch, plan_, kSteps), std::min(3u, numbers));
    bool ended = false;
    for (uint32_t place = 0; place < std::min(3u, numbers); ++place) {
      ended = ended || byte_of(batch, plan_, kTerminated, place) != 0;
    }
    ASSERT_EQ(value_of<float>(batch, plan_, kBootstrap) == 0.0f, ended);
    // An end comes with its final observation, and the final observation with the end.
    if (last) {
      ASSERT_EQ(numbers, 1u);
      ASSERT_EQ(shows_final, episode.final_row);
    }
    ASSERT_TRUE(last || left != 1 || !shows_final);
    ASSERT_TRUE(ended || at.episode % 2 != 0 || !shows_final);
    ASSERT_TRUE(!ended || shows_final == episode.final_row);
    checked_ += ended || shows_final ? 1 : 0;
  }

  void draw(size_t index) {
    const Step& at = steps_[index];
    DrawnItem drawn{};
    ASSERT_TRUE(read_item(table_.view(), at.slot, &drawn));
    FakeBatch batch(plan_, 1);
    looks_.fetch_add(1);
    ASSERT_EQ(gather_row(table_.view(), plan_, drawn, 0, 0, batch.buffers()),
              GatherOutcome::kGathered);
    check(at, batch);
  }

  FakeTable table_{episodes()};
  std::vector<WindowPlan> plan_;
  std::vector<Step> steps_;
  std::atomic<size_t> newest_{0};
  std::atomic<uint64_t> looks_{0};
  std::atomic<bool> done_{false};
  Rng rng_{7};  // the publishing thread's
  uint64_t checked_ = 0;
};

TEST_F(NewestStep, IsShownAlikeByAllWindowsOfARowWhileItsEpisodeEnds) {
  publish_row(0, 0);
  std::thread conductor([this] { publish_all(); });
  while (!done_.load() && !HasFatalFailure()) draw(newest_.load(std::memory_order_acquire));
  for (; !done_.load();) looks_.fetch_add(1);
  conductor.join();
  for (size_t i = 0; i < steps_.size() && !HasFatalFailure(); ++i) draw(i);
  EXPECT_GT(checked_, 0u);
}

TEST_F(NewestStep, OfAnOpenEpisodeIsNeitherLastNorTerminated) {
  publish_row(0, 0);
  draw(0);
  EXPECT_EQ(checked_, 0u);
}

class FinalRow : public ::testing::Test {
 protected:
  static FakeTableOptions two_steps() {
    FakeTableOptions options;
    options.columns = {{"x", 8}, {"r", 4, false, false, GEAR_F32}};
    options.episodes = {{0, 2, true, true, {true, true}, false}};
    return options;
  }
};

// The final observation is no step.
TEST_F(FinalRow, IsPaddingInComputedWindows) {
  FakeTable table(two_steps());
  const gear_window windows[2] = {window_of("number", GEAR_COMPUTE_STEP, nullptr, 1, 2),
                                  window_of("x", GEAR_COMPUTE_NONE, "x", 1, 2)};
  std::vector<WindowPlan> plan = plan_windows(table.view(), windows, 2).take();
  DrawnItem drawn{};
  ASSERT_TRUE(read_item(table.view(), table.add_item(0, 0, 1), &drawn));
  FakeBatch batch(plan, 1);
  ASSERT_EQ(gather_row(table.view(), plan, drawn, 0, 0, batch.buffers()),
            GatherOutcome::kGathered);
  EXPECT_EQ(batch.length(0, 0), 1u);
  EXPECT_EQ(batch.length(1, 0), 2u);
}

// The final row is published, the flags of the last step are not yet.
TEST_F(FinalRow, TellsByItselfHowTheEpisodeEnded) {
  FakeTable table(two_steps());
  FakeTable::Spot last = table.spot(0, 1);
  table.mark(last.block, last.position) &= layout::kMarkStepMask;
  const gear_window windows[2] = {window_of("terminated", GEAR_COMPUTE_TERMINATED, nullptr, 0, 1),
                                  window_of("x", GEAR_COMPUTE_NONE, "x", 1, 1)};
  std::vector<WindowPlan> plan = plan_windows(table.view(), windows, 2).take();
  DrawnItem drawn{};
  ASSERT_TRUE(read_item(table.view(), table.add_item(0, 1, 1), &drawn));
  FakeBatch batch(plan, 1);
  ASSERT_EQ(gather_row(table.view(), plan, drawn, 0, 0, batch.buffers()),
            GatherOutcome::kGathered);
  EXPECT_EQ(batch.length(1, 0), 1u);
  EXPECT_EQ(byte_of(batch, plan, 0, 0), 1);
}

// A conductor that ends the episode at one moment of a draw: after the rows of the anchor's block were
// counted, when the first mark is read. That read faults, and the fault ends the episode.
class EndWithinADraw : public ::testing::Test {
 protected:
  static constexpr uint32_t kSteps = 64;
  static constexpr uintptr_t kPage = 4096;

  // Blocks of 64 marks, so that the marks of most lie in pages without anything else.
  static FakeTableOptions long_lane() {
    FakeTableOptions options;
    options.block_steps = kSteps;
    options.columns = {{"x", 8}, {"r", 4, false, false, GEAR_F32}};
    for (uint32_t i = 0; i < 100; ++i) {
      options.episodes.push_back({0, kSteps - i % 2, true, true, {true, true}, false});
    }
    options.shuffle_seed = 5;
    return options;
  }

  // Of an episode whose last step lies at `position`, with marks in a page of their own.
  uint32_t episode_ending_at(uint32_t position) {
    auto begin = reinterpret_cast<uintptr_t>(&table_.mark(0, 0));
    uintptr_t end = begin + uintptr_t{table_.header().block_count} * kSteps * 4;
    for (uint32_t e = 0; e < 100; ++e) {
      FakeTable::Spot last = table_.spot(e, table_.options().episodes[e].steps - 1);
      uintptr_t page = page_of(last);
      if (last.position == position && page >= begin && page + kPage <= end) return e;
    }
    return 100;
  }

  uintptr_t page_of(FakeTable::Spot spot) {
    return reinterpret_cast<uintptr_t>(&table_.mark(spot.block, spot.position)) / kPage * kPage;
  }

  static void end_episode(int) {
    EndWithinADraw& test = *running_;
    mprotect(reinterpret_cast<void*>(test.page_of(test.last_)), kPage, PROT_READ | PROT_WRITE);
    publish(test.table_.block(test.final_.block).rows, test.final_.position + 1);
    uint32_t& mark = test.table_.mark(test.last_.block, test.last_.position);
    publish(mark, peek(mark) | layout::kMarkTruncated);
    test.ends_ = test.ends_ + 1;
  }

  void expect_final_row_with_the_end(uint32_t position) {
    uint32_t episode = episode_ending_at(position);
    ASSERT_LT(episode, 100u);
    uint32_t steps = table_.options().episodes[episode].steps;
    last_ = table_.spot(episode, steps - 1);
    final_ = table_.spot(episode, steps);
    table_.mark(last_.block, last_.position) = steps - 1;
    table_.block(last_.block).rows = last_.position + 1;
    if (final_.block != last_.block) table_.block(final_.block).rows = 0;
    const gear_window windows[2] = {window_of("last", GEAR_COMPUTE_IS_LAST, nullptr, 0, 1),
                                    window_of("x", GEAR_COMPUTE_NONE, "x", 1, 1)};
    std::vector<WindowPlan> plan = plan_windows(table_.view(), windows, 2).take();
    DrawnItem drawn{};
    ASSERT_TRUE(read_item(table_.view(), table_.add_item(episode, steps - 1, 1), &drawn));
    FakeBatch batch(plan, 1);

    running_ = this;
    struct sigaction before;
    struct sigaction ends {};
    ends.sa_handler = end_episode;
    sigaction(SIGSEGV, &ends, &before);
    mprotect(reinterpret_cast<void*>(page_of(last_)), kPage, PROT_NONE);
    GatherOutcome outcome = gather_row(table_.view(), plan, drawn, 0, 0, batch.buffers());
    sigaction(SIGSEGV, &before, nullptr);
    ASSERT_EQ(outcome, GatherOutcome::kGathered);
    ASSERT_EQ(ends_, 1);
    EXPECT_EQ(byte_of(batch, plan, 0, 0), 1);
    EXPECT_EQ(batch.length(1, 0), 1u);
    EXPECT_EQ(batch.cell(plan[1], 1, 0, 0), table_.cell_value(episode, steps, 0));
  }

  static EndWithinADraw* running_;
  FakeTable table_{long_lane()};
  FakeTable::Spot last_{};
  FakeTable::Spot final_{};
  volatile int ends_ = 0;
};
EndWithinADraw* EndWithinADraw::running_ = nullptr;

TEST_F(EndWithinADraw, BringsTheFinalRowOfTheSameBlock) { expect_final_row_with_the_end(20); }

TEST_F(EndWithinADraw, BringsTheFinalRowOfTheNextBlock) {
  expect_final_row_with_the_end(kSteps - 1);
}

// Columns of whole pages, of which only one may be read.
class GuardedColumns : public ::testing::Test {
 protected:
  static constexpr uint32_t kPage = 4096;

  static FakeTableOptions pages() {
    FakeTableOptions options;
    options.block_steps = 4;
    options.block_alignment = kPage;
    options.columns = {{"before", kPage}, {"x", kPage}, {"after", kPage}};
    options.episodes = {{0, 11, true, true, {true, true, true}, false}};
    return options;
  }

  void protect(uint32_t column, int protection) {
    for (uint32_t block = 0; block < table_.header().block_count; ++block) {
      ASSERT_EQ(mprotect(table_.cell(block, 0, column), 4 * kPage, protection), 0);
    }
  }

  FakeTable table_{pages()};
};

// A read of a column that no window asks for would fault.
TEST_F(GuardedColumns, AreNotTouchedUnlessAWindowAsksForThem) {
  const gear_window windows[3] = {window_of("x", GEAR_COMPUTE_NONE, "x", -2, 6),
                                  window_of("number", GEAR_COMPUTE_STEP, nullptr, -2, 6),
                                  window_of("m", GEAR_COMPUTE_NSTEP_STEPS, nullptr, 0, 4)};
  std::vector<WindowPlan> plan = plan_windows(table_.view(), windows, 3).take();
  std::vector<DrawnItem> drawn(11);
  for (uint32_t step = 0; step < 11; ++step) {
    ASSERT_TRUE(read_item(table_.view(), table_.add_item(0, step, 1), &drawn[step]));
  }
  std::vector<uint32_t> anchors(11, 0);
  std::vector<GatherOutcome> outcomes(11);
  FakeBatch batch(plan, 11);
  protect(0, PROT_NONE);
  protect(2, PROT_NONE);
  uint32_t moved = gather_rows(table_.view(), plan, drawn.data(), anchors.data(), 11, 0,
                               batch.buffers(), outcomes.data());
  protect(0, PROT_READ | PROT_WRITE);
  protect(2, PROT_READ | PROT_WRITE);
  EXPECT_EQ(moved, 0u);
  EXPECT_EQ(batch.cell(plan[0], 0, 5, 2), table_.cell_value(0, 5, 1));
}

}  // namespace
}  // namespace gear
