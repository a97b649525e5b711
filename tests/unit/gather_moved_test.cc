// Rows whose blocks change hands are recognised, whenever that happens, and garbage does no harm.
// ctest: labels=tsan timeout=120
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/shared_word.h"
#include "support/fake_table.h"

namespace gear {
namespace {

using layout::kNone;
using test::FakeBatch;
using test::FakeTable;
using test::FakeTableOptions;

std::vector<WindowPlan> plan_of(const FakeTable& table, int32_t offset, uint32_t length,
                                const char* column = "x") {
  gear_window window = GEAR_WINDOW_INIT;
  window.column = column;
  window.offset = offset;
  window.length = length;
  return plan_windows(table.view(), &window, 1).take();
}

// One lane of one open episode of 12 steps in three blocks; an item of steps 5 and 6, in the middle
// block.
class Moved : public ::testing::Test {
 protected:
  static FakeTableOptions three_blocks() {
    FakeTableOptions options;
    options.columns = {{"x", 8, false}, {"goal", 8, true}};
    options.episodes = {{0, 12, false, false, {}, true}};
    options.block_alignment = layout::kPageBytes;
    return options;
  }

  void SetUp() override { ASSERT_TRUE(read_item(table_.view(), slot_, &drawn_)); }

  GatherOutcome gather(int32_t offset, uint32_t length, const char* column = "x") {
    std::vector<WindowPlan> plan = plan_of(table_, offset, length, column);
    FakeBatch batch(plan, 1);
    return gather_row(table_.view(), plan, drawn_, 0, 0, batch.buffers());
  }

  uint32_t block_of(uint32_t step) { return table_.spot(0, step).block; }
  layout::BlockRecord& first() { return table_.block(block_of(0)); }
  layout::BlockRecord& middle() { return table_.block(block_of(5)); }
  layout::BlockRecord& last() { return table_.block(block_of(11)); }

  FakeTable table_{three_blocks()};
  uint32_t slot_ = table_.add_item(0, 5, 2);
  DrawnItem drawn_{};
};

TEST_F(Moved, NothingMovedIsGathered) {
  EXPECT_EQ(gather(-5, 12), GatherOutcome::kGathered);
}

TEST_F(Moved, BlockTakenBackBeforeTheCopyIsRecognised) {
  middle().generation += 1;
  EXPECT_EQ(gather(0, 1), GatherOutcome::kMoved);
}

TEST_F(Moved, BlockGrantedAnewBeforeTheCopyIsRecognised) {
  middle().generation += 2;
  EXPECT_EQ(gather(0, 1), GatherOutcome::kMoved);
}

TEST_F(Moved, PreviousBlockTakenBackIsRecognised) {
  first().generation += 1;
  EXPECT_EQ(gather(-3, 4), GatherOutcome::kMoved);
}

TEST_F(Moved, NextBlockTakenBackIsRecognised) {
  last().generation += 1;
  EXPECT_EQ(gather(0, 6), GatherOutcome::kMoved);
}

TEST_F(Moved, MissingPreviousBlockIsNotPaddedSilently) {
  middle().previous = kNone;
  EXPECT_EQ(gather(-3, 4), GatherOutcome::kMoved);
}

TEST_F(Moved, MissingPreviousBlockOutsideTheWindowDoesNotMatter) {
  middle().previous = kNone;
  EXPECT_EQ(gather(-1, 3), GatherOutcome::kGathered);
}

TEST_F(Moved, PreviousBlockThatIsNotFullIsRecognised) {
  first().rows = 2;
  EXPECT_EQ(gather(-3, 4), GatherOutcome::kMoved);
}

TEST_F(Moved, MissingNextBlockUnderAnItemIsRecognised) {
  uint32_t slot = table_.add_item(0, 5, 6);
  ASSERT_TRUE(read_item(table_.view(), slot, &drawn_));
  middle().next = kNone;
  std::vector<WindowPlan> plan = plan_of(table_, 0, 1);
  FakeBatch batch(plan, 1);
  EXPECT_EQ(gather_row(table_.view(), plan, drawn_, 4, 0, batch.buffers()), GatherOutcome::kMoved);
}

TEST_F(Moved, RowThatIsNotCommittedIsNeverTheDrawnStep) {
  middle().rows = 1;
  EXPECT_EQ(gather(0, 1), GatherOutcome::kMoved);
}

TEST_F(Moved, ItemThatLeftTheTableIsRecognised) {
  table_.item(slot_).generation += 1;
  EXPECT_EQ(gather(0, 1), GatherOutcome::kMoved);
}

TEST_F(Moved, PinnedItemMayLeaveTheTable) {
  table_.item(slot_).generation += 1;
  drawn_.item_generation = kItemPinned;
  EXPECT_EQ(gather(0, 1), GatherOutcome::kGathered);
}

TEST_F(Moved, EpisodeSlotTakenBackIsRecognised) {
  table_.episode_record(0).generation += 1;
  EXPECT_EQ(gather(0, 1, "goal"), GatherOutcome::kMoved);
}

// ---- a change in the very middle of a copy: the payload's page cannot be read, and the handler of
// the fault makes the change, then lets the copy go on.

struct Interruption {
  void* page = nullptr;
  uint64_t* generation = nullptr;
  uint32_t* link = nullptr;
  uint64_t step = 0;
  int faults = 0;
} interruption;

void interrupt_reader(int) {
  mprotect(interruption.page, layout::kPageBytes, PROT_READ | PROT_WRITE);
  if (interruption.generation != nullptr) *interruption.generation += interruption.step;
  if (interruption.link != nullptr) *interruption.link = kNone;
  ++interruption.faults;
}

// Installs the handler; arms it for the page that holds an address.
class Interrupter {
 public:
  Interrupter() {
    struct sigaction action {};
    action.sa_handler = interrupt_reader;
    sigaction(SIGSEGV, &action, &before_);
  }
  ~Interrupter() { sigaction(SIGSEGV, &before_, nullptr); }
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;

  void arm(void* address, uint64_t* generation, uint64_t step, uint32_t* link = nullptr) {
    auto page = reinterpret_cast<uintptr_t>(address) & ~(layout::kPageBytes - 1);
    interruption = {reinterpret_cast<void*>(page), generation, link, step, 0};
    ASSERT_EQ(mprotect(interruption.page, layout::kPageBytes, PROT_NONE), 0);
  }

 private:
  struct sigaction before_ {};
};

class MovedDuringCopy : public Moved {
 protected:
  char* cells_of(uint32_t step) { return table_.cell(block_of(step), 0, 0); }

  Interrupter interrupter_;
};

TEST_F(MovedDuringCopy, UndisturbedCopyIsGathered) {
  interrupter_.arm(cells_of(5), nullptr, 0);
  EXPECT_EQ(gather(0, 2), GatherOutcome::kGathered);
  EXPECT_EQ(interruption.faults, 1);
}

TEST_F(MovedDuringCopy, BlockTakenBackIsRecognised) {
  interrupter_.arm(cells_of(5), &middle().generation, 1);
  EXPECT_EQ(gather(0, 2), GatherOutcome::kMoved);
  EXPECT_EQ(interruption.faults, 1);
}

TEST_F(MovedDuringCopy, BlockGrantedAnewIsRecognised) {
  interrupter_.arm(cells_of(5), &middle().generation, 2);
  EXPECT_EQ(gather(0, 2), GatherOutcome::kMoved);
  EXPECT_EQ(interruption.faults, 1);
}

TEST_F(MovedDuringCopy, PreviousBlockGrantedAnewIsRecognised) {
  interrupter_.arm(cells_of(0), &first().generation, 2);
  EXPECT_EQ(gather(-5, 7), GatherOutcome::kMoved);
  EXPECT_EQ(interruption.faults, 1);
}

TEST_F(MovedDuringCopy, NextBlockGrantedAnewIsRecognised) {
  interrupter_.arm(cells_of(11), &last().generation, 2);
  EXPECT_EQ(gather(0, 7), GatherOutcome::kMoved);
  EXPECT_EQ(interruption.faults, 1);
}

TEST_F(MovedDuringCopy, NewestBlockGrantedAnewIsRecognised) {
  interrupter_.arm(cells_of(11), &last().generation, 2);
  EXPECT_EQ(gather(0, 8), GatherOutcome::kMoved);
  EXPECT_EQ(interruption.faults, 1);
}

TEST_F(MovedDuringCopy, LinkClearedAfterTheNextBlockWasTakenBackIsNotTheEndOfTheEpisode) {
  interrupter_.arm(cells_of(5), &table_.item(slot_).generation, 1, &middle().next);
  EXPECT_EQ(gather(0, 7), GatherOutcome::kMoved);
  EXPECT_EQ(interruption.faults, 1);
}

TEST_F(MovedDuringCopy, EpisodeSlotGrantedAnewIsRecognised) {
  char* cells = table_.data() + table_.header().data_episodes_offset;
  interrupter_.arm(cells, &table_.episode_record(0).generation, 2);
  EXPECT_EQ(gather(0, 1, "goal"), GatherOutcome::kMoved);
  EXPECT_EQ(interruption.faults, 1);
}

// As Moved, with so many blocks that the records of neighbours lie on pages of their own.
class MovedDuringWalk : public ::testing::Test {
 protected:
  static constexpr uint32_t kRecordsAPage = layout::kPageBytes / sizeof(layout::BlockRecord);

  static FakeTableOptions many_blocks() {
    FakeTableOptions options;
    options.columns = {{"x", 8, false}};
    options.episodes = {{0, 12, false, false, {}, false}};
    options.spare_blocks = 8 * kRecordsAPage;
    return options;
  }

  static std::unique_ptr<FakeTable> table_with_blocks_apart() {
    for (FakeTableOptions options = many_blocks();; ++options.shuffle_seed) {
      auto table = std::make_unique<FakeTable>(options);
      uint32_t first = table->spot(0, 0).block / kRecordsAPage;
      uint32_t middle = table->spot(0, 5).block / kRecordsAPage;
      uint32_t last = table->spot(0, 11).block / kRecordsAPage;
      auto apart = [](uint32_t a, uint32_t b) { return a > b + 1 || b > a + 1; };
      if (apart(first, middle) && apart(middle, last)) return table;
    }
  }

  GatherOutcome gather(int32_t offset, uint32_t length) {
    std::vector<WindowPlan> plan = plan_of(*table_, offset, length);
    FakeBatch batch(plan, 1);
    return gather_row(table_->view(), plan, drawn_, 0, 0, batch.buffers());
  }

  layout::BlockRecord& block_of(uint32_t step) {
    return table_->block(table_->spot(0, step).block);
  }

  std::unique_ptr<FakeTable> table_ = table_with_blocks_apart();
  uint32_t slot_ = table_->add_item(0, 5, 1);
  DrawnItem drawn_{};
  Interrupter interrupter_;
};

TEST_F(MovedDuringWalk, PreviousBlockGrantedToAnotherLaneIsNotFollowed) {
  ASSERT_TRUE(read_item(table_->view(), slot_, &drawn_));
  interrupter_.arm(&block_of(0), &block_of(0).generation, 2, &block_of(5).previous);
  EXPECT_EQ(gather(-3, 4), GatherOutcome::kMoved);
  EXPECT_EQ(interruption.faults, 1);
}

TEST_F(MovedDuringWalk, NextBlockGrantedToAnotherLaneIsNotFollowed) {
  ASSERT_TRUE(read_item(table_->view(), slot_, &drawn_));
  interrupter_.arm(&block_of(11), &block_of(11).generation, 2, &block_of(5).next);
  EXPECT_EQ(gather(0, 6), GatherOutcome::kMoved);
  EXPECT_EQ(interruption.faults, 1);
}

TEST_F(MovedDuringWalk, ItemThatChangesWhileItIsReadIsRefused) {
  interrupter_.arm(&block_of(5), &table_->item(slot_).generation, 2);
  EXPECT_FALSE(read_item(table_->view(), slot_, &drawn_));
  EXPECT_EQ(interruption.faults, 1);
}

// ---- garbage

void scramble(Rng& rng, void* memory, size_t bytes, uint32_t small) {
  auto* words = static_cast<uint32_t*>(memory);
  for (size_t i = 0; i < bytes / 4; ++i) {
    switch (rng.below(4)) {
      case 0:
        words[i] = static_cast<uint32_t>(rng.next());
        break;
      case 1:
        words[i] = static_cast<uint32_t>(rng.below(small + 2));
        break;
      case 2:
        words[i] = kNone;
        break;
      default:
        break;
    }
  }
}

void gather_garbage(Rng& rng) {
  FakeTableOptions options;
  options.block_steps = static_cast<uint32_t>(1 + rng.below(5));
  options.columns = {{"x", 24, false}, {"y", 1, false}, {"goal", 8, true}};
  options.episodes = {{0, 20, true, true, {true, false, false}, true},
                      {0, 20, false, false, {}, false},
                      {1, 9, true, false, {}, true}};
  options.window_before_max = 5;
  FakeTable table(options);
  for (uint32_t i = 0; i < 16; ++i) table.add_item(i % 3, i % 9, 1);
  const layout::TableHeader& header = table.header();

  scramble(rng, &table.block(0), header.block_count * sizeof(layout::BlockRecord),
           header.block_count);
  scramble(rng, &table.mark(0, 0), size_t{header.block_count} * header.block_steps * 4, 20);
  scramble(rng, &table.item(0), 16 * sizeof(layout::ItemRecord), header.block_count);
  scramble(rng, &table.episode_record(0), 3 * sizeof(layout::EpisodeRecord), 3);
  std::vector<gear_window> windows(4, GEAR_WINDOW_INIT);
  for (gear_window& window : windows) {
    window.column = rng.below(2) == 0 ? "x" : "y";
    window.offset = static_cast<int32_t>(rng.below(11)) - 5;
    window.length = static_cast<uint32_t>(rng.below(9));
    window.pad = static_cast<uint32_t>(rng.below(3));
    window.fill = static_cast<uint32_t>(rng.below(2));
  }
  windows[3] = GEAR_WINDOW_INIT;
  windows[3].column = "goal";
  std::vector<WindowPlan> plan = plan_windows(table.view(), windows.data(), 4).take();
  FakeBatch batch(plan, 16);
  std::vector<DrawnItem> items(16);
  std::vector<uint32_t> anchors(16);
  std::vector<GatherOutcome> outcomes(16);
  for (uint32_t slot = 0; slot < 16; ++slot) {
    DrawnItem& item = items[slot];
    if (!read_item(table.view(), slot, &item)) {
      scramble(rng, &item, sizeof item, header.block_count);
      if (item.block < header.block_count) {
        item.block_generation = table.block(item.block).generation;
      }
      item.item_generation = kItemPinned;
    }
    anchors[slot] = pick_anchor(GEAR_ANCHOR_RANDOM_STEP, item.length, 1, rng);
    gather_row(table.view(), plan, item, anchors[slot], slot, batch.buffers());
  }
  gather_rows(table.view(), plan, items.data(), anchors.data(), 16, 0, batch.buffers(),
              outcomes.data());
}

TEST(MovedGarbage, GarbageInTheDirectoryNeitherCrashesNorHangs) {
  uint64_t seed = test::test_seed(20260702);
  Rng rng(seed);
  for (int round = 0; round < 20000; ++round) gather_garbage(rng);
  // Reaching this line is the test; the address sanitizer judges the reads.
  SUCCEED() << seed;
}

TEST(MovedGarbage, ItemLongerThanTheTableInAChainThatGoesRoundEnds) {
  FakeTableOptions options;
  options.columns = {{"x", 8, false}};
  options.episodes = {{0, 4, false, false, {}, false}};
  FakeTable table(options);
  uint32_t slot = table.add_item(0, 0, 0xffffffff);
  uint32_t block = table.spot(0, 0).block;
  table.block(block).next = block;
  DrawnItem item{};
  ASSERT_TRUE(read_item(table.view(), slot, &item));
  std::vector<WindowPlan> plan = plan_of(table, 0, 1);
  FakeBatch batch(plan, 1);
  EXPECT_EQ(gather_row(table.view(), plan, item, 0xfffffff0, 0, batch.buffers()),
            GatherOutcome::kMoved);
}

// ---- a conductor and writer in one thread grant blocks anew and rewrite them while this thread
// gathers

constexpr uint32_t kChains = 4;
constexpr uint32_t kChainBlocks = 2;
constexpr uint32_t kBlockSteps = 4;
constexpr uint32_t kCellBytes = 512;

// Chains of two full blocks. Every word of every cell of a chain is the number of its grant.
class Mutator {
 public:
  explicit Mutator(FakeTable& table) : table_(table) {}

  void run(const std::atomic<bool>& stop) {
    while (!stop.load(std::memory_order_relaxed)) {
      auto chain = static_cast<uint32_t>(rng_.below(kChains));
      take_back(chain);
      grant(chain);
    }
  }

  void grant(uint32_t chain) {
    ++grants_;
    for (uint32_t i = 0; i < kChainBlocks; ++i) {
      layout::BlockRecord& record = table_.block(chain * kChainBlocks + i);
      note(record.rows, 0u);
      note(record.previous, kNone);
      note(record.next, kNone);
      publish(record.generation, record.generation + 1);
    }
    for (uint32_t i = 0; i < kChainBlocks; ++i) fill(chain, i);
    layout::ItemRecord& item = table_.item(chain);
    auto row = static_cast<uint32_t>(rng_.below(kChainBlocks * kBlockSteps));
    fence_generation_before_payload();
    note(item.block, chain * kChainBlocks + row / kBlockSteps);
    note(item.position, row % kBlockSteps);
    note(item.length, 1u);
    note(item.episode, kNone);
    publish(item.generation, item.generation + 1);
  }

 private:
  void take_back(uint32_t chain) {
    publish(table_.item(chain).generation, table_.item(chain).generation + 1);
    for (uint32_t i = 0; i < kChainBlocks; ++i) {
      layout::BlockRecord& record = table_.block(chain * kChainBlocks + i);
      publish(record.generation, record.generation + 1);
      fence_generation_before_payload();
      if (i > 0) note(table_.block(chain * kChainBlocks + i - 1).next, kNone);
      note(record.rows, 0u);
      note(record.previous, kNone);
    }
  }

  void fill(uint32_t chain, uint32_t index) {
    uint32_t block = chain * kChainBlocks + index;
    layout::BlockRecord& record = table_.block(block);
    for (uint32_t position = 0; position < kBlockSteps; ++position) {
      auto* words = reinterpret_cast<uint64_t*>(table_.cell(block, position, 0));
      for (uint32_t i = 0; i < kCellBytes / 8; ++i) note(words[i], grants_);
      note(table_.mark(block, position), index * kBlockSteps + position);
      if (position == 0 && index > 0) {
        note(record.previous, block - 1);
        publish(table_.block(block - 1).next, block);
      }
      publish(record.rows, position + 1);
    }
  }

  FakeTable& table_;
  Rng rng_{99};
  uint64_t grants_ = 0;
};

// The number that all cells of the row hold; fails when they differ.
uint64_t grant_of(const WindowPlan& window, const FakeBatch& batch) {
  uint64_t grant = 0;
  for (uint32_t place = 0; place < window.length; ++place) {
    if (batch.mask(window, 0, 0, place) == 0) continue;
    std::string cell = batch.cell(window, 0, 0, place);
    for (uint32_t i = 0; i < kCellBytes; i += 8) {
      uint64_t word = 0;
      memcpy(&word, cell.data() + i, 8);
      if (grant == 0) grant = word;
      if (word != grant) ADD_FAILURE() << "cells of grants " << grant << " and " << word;
      if (word != grant) return grant;
    }
  }
  return grant;
}

void gather_beside_mutator(bool pinned) {
  FakeTableOptions options;
  options.columns = {{"x", kCellBytes, false}};
  options.block_steps = kBlockSteps;
  options.item_slots = kChains;
  options.item_policy = GEAR_ITEMS_STEP;
  options.item_steps_max = 1;
  options.spare_blocks = kChains * kChainBlocks;
  FakeTable table(options);
  Mutator mutator(table);
  for (uint32_t chain = 0; chain < kChains; ++chain) mutator.grant(chain);

  std::vector<WindowPlan> plan = plan_of(table, -3, 8);
  FakeBatch batch(plan, 1);
  std::atomic<bool> stop{false};
  std::thread thread([&] { mutator.run(stop); });
  Rng rng(5);
  uint64_t gathered = 0;
  uint64_t moved = 0;
  int64_t deadline = deadline_after(20'000'000'000);
  while ((gathered < 20000 || moved < 20) && now_ns() < deadline &&
         !::testing::Test::HasFailure()) {
    DrawnItem item{};
    if (!read_item(table.view(), static_cast<uint32_t>(rng.below(kChains)), &item)) continue;
    if (pinned) item.item_generation = kItemPinned;
    if (gather_row(table.view(), plan, item, 0, 0, batch.buffers()) == GatherOutcome::kMoved) {
      ++moved;
      continue;
    }
    ++gathered;
    EXPECT_GE(batch.length(0, 0), 1u);
    EXPECT_NE(grant_of(plan[0], batch), 0u);
  }
  stop = true;
  thread.join();
  EXPECT_GE(gathered, 1u);
  EXPECT_GE(moved, 1u) << "nothing moved: the test showed nothing";
}

TEST(MovedConcurrently, GatheredRowsAreNeverTornWhileBlocksAreGrantedAnew) {
  gather_beside_mutator(false);
}

TEST(MovedConcurrently, BlockGenerationsAloneKeepRowsWhole) {
  gather_beside_mutator(true);
}

}  // namespace
}  // namespace gear
