// ctest: labels=crash timeout=300
//
// The conductor dies behind each store while prompt groups are hidden, shown whole, and give way: whatever it left, the next one
// shows a group whole or not at all.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>

#include "base/crash_point.h"
#include "crash/adoption_places.h"
#include "shm/segment_names.h"
#include "support/bare_table.h"
#include "support/child.h"
#include "support/shared_memory.h"
#include "table/table.h"

namespace gear::test {
namespace {

constexpr uint32_t kMembers = 3;
constexpr uint64_t kTable = 1;

// Rows of one lane, each an item. Rows 0..2 are group 0 and so on, but the last group never gets its third member, and
// groups that lack one come between: with room for one incomplete group, each makes the one before give way. One row says
// that its group is larger than it is, and makes no item.
struct Row {
  uint64_t group;
  uint32_t size = kMembers;
};
std::vector<Row> rows() {
  return {{0}, {0}, {0}, {10}, {10}, {1}, {1}, {1, kMembers + 1}, {1}, {11}, {2}, {2}, {2}, {12}, {12}};
}

// Items of single steps that the table makes by itself, or the writer, or of whole episodes.
class PromptsCrash : public ::testing::TestWithParam<gear_item_policy> {
 protected:
  std::unique_ptr<Table> create() const {
    layout::TableCreateRequest request{};
    snprintf(request.name, sizeof request.name, "t");
    request.capacity_items = 7;
    request.item_policy = GetParam();
    if (GetParam() != GEAR_ITEMS_STEP) request.episode_steps_max = 16;
    request.column_count = 1;
    request.lanes_max = 2;
    request.numa_node = -1;
    request.memory = GEAR_MEMORY_POSIX;
    request.remover = GEAR_SELECT_FIFO;
    request.prompt_groups_max = 1;
    layout::ColumnSpec column = u64_column();
    return make_bare(request, &column, nullptr, instance_, kTable);
  }

  std::unique_ptr<Table> adopt() {
    NamesKept kept;
    auto directory = Segment::adopt("test", layout::SegmentKind::kDirectory, instance_, kTable);
    auto data = Segment::adopt("test", layout::SegmentKind::kData, instance_, kTable);
    EXPECT_TRUE(directory.ok() && data.ok());
    auto table = Table::adopt(directory.take(), data.take());
    EXPECT_TRUE(table.ok()) << table.status().text();
    if (!table.ok()) return nullptr;
    table.value()->own_lane(0, &owner_);
    (void)table.value()->rest_of(1);
    table.value()->finish_adoption();
    return table.take();
  }

  // As a port: the records from the one that is not noted as applied, which the last server may have begun.
  void go_on(Table* table) {
    const std::vector<Row> all = rows();
    for (; *applied_ < 4 * all.size(); ++*applied_) {
      uint64_t row = *applied_ / 4;
      layout::GrantRecord grant{};
      ASSERT_TRUE(table->unfilled_blocks(0) > 0 || table->grant_block(0, &grant));
      table->begin_record(1, *applied_);
      Admit admit = Admit::kDone;
      uint32_t done = 0;
      switch (*applied_ % 4) {
        case 0: admit = table->set_prompt_group(0, all[row].group, all[row].size); break;
        case 1:
          if (table->lane_rows(0) == row) admit = table->commit(0, 1, &done);
          break;
        case 2:
          if (GetParam() == GEAR_ITEMS_EXPLICIT) admit = table->make_item(0, 1, 1.0);
          break;
        default: admit = table->end_episode(0, GEAR_TERMINATED, row + 1); break;
      }
      ASSERT_EQ(admit, Admit::kDone);
      check_whole(*table);
    }
  }

  // Hidden and shown items add up; those that are shown are of whole groups, but for what the remover took.
  static void check_whole(const Table& table) {
    const layout::TableHeader& header = table.header();
    const layout::TableCounters& counters = header.counters;
    const auto* items = layout::at_offset<layout::ItemRecord>(table.directory().data(), header.items_offset);
    const auto* prompts = layout::at_offset<layout::PromptRecord>(table.directory().data(), header.prompts_offset);
    uint64_t live = 0, hidden = 0;
    for (uint32_t slot = 0; slot < header.item_slots; ++slot) {
      bool shown = items[slot].generation % 2 == 1;
      live += shown ? 1 : 0;
      hidden += prompts[slot].size != 0 ? 1 : 0;
      EXPECT_FALSE(shown && prompts[slot].size != 0) << slot;
      EXPECT_EQ(prompts[slot].size & ~layout::kPromptSizeMask, 0u) << slot;
    }
    EXPECT_EQ(counters.items, live);
    EXPECT_EQ(counters.items_hidden, hidden);
    EXPECT_LT(hidden, kMembers);
    EXPECT_EQ(counters.items, counters.inserts - counters.deletes);
    EXPECT_EQ(counters.inserts % kMembers, 0u);
    EXPECT_EQ(table.drawable(), live);
  }

  // A conductor that dies at its store `at`, the next at `place` of its adoption if one is given; the third goes on. The
  // status of the first.
  int die_and_go_on(uint64_t at, const std::string& place) {
    *applied_ = 0;
    int status = in_child([&] {
      std::unique_ptr<Table> table = create();
      if (table->open_lane(1) != 0) _exit(2);
      table->own_lane(0, &owner_);
      crash_points_arm(at);
      go_on(table.get());
      crash_points_arm(0);
    });
    EXPECT_TRUE(status == kCrashStatus || status == 0) << status;
    if (!place.empty()) {
      int second = in_child([&] {
        crash_points_arm_at(place, 1);
        adopt();
      });
      EXPECT_EQ(second, kCrashStatus);
    }
    places_.begin();
    std::unique_ptr<Table> table = adopt();
    if (table) {
      if (place.empty()) places_.end(at);
      check_whole(*table);
      go_on(table.get());
      const layout::TableCounters& counters = table->header().counters;
      EXPECT_EQ(counters.inserts, 3 * kMembers);
      EXPECT_EQ(counters.items_hidden, 2u);
      EXPECT_EQ(counters.items_rejected, 1u);
      EXPECT_NEAR(static_cast<double>(counters.prompt_groups_dropped), 2, 1);
      table->close_lane(0);
      table->reset();
      EXPECT_EQ(counters.blocks_free, table->header().block_count);
    }
    table.reset();
    for (const SegmentName& name : list_segments(instance_)) remove_segment(name);
    return status;
  }

  static int in_child(const std::function<void()>& body) {
    return exit_of_child([&] {
      NamesKept kept;
      body();
      return HasFailure() ? 1 : 0;
    });
  }

  uint64_t instance_ = uint64_t{0x7e59} << 40 | static_cast<uint64_t>(getpid());
  Owner owner_;
  SharedMemory<uint64_t> memory_;
  uint64_t* applied_ = memory_.get();
  AdoptionPlaces places_;
};

TEST_P(PromptsCrash, AGroupIsShownWholeOrNotAtAllWhereverTheConductorDies) {
  uint64_t deaths = 0;
  while (die_and_go_on(deaths + 1, "") == kCrashStatus) {
    ++deaths;
    ASSERT_FALSE(HasFailure()) << "after store " << deaths;
  }
  EXPECT_GT(deaths, 100u);
  for (const auto& [at, place] : places_.deaths()) {
    die_and_go_on(at, place);
    ASSERT_FALSE(HasFailure()) << "after store " << at << ", then at " << place;
  }
  printf("%llu deaths, %zu of adopters\n", static_cast<unsigned long long>(deaths), places_.deaths().size());
}

INSTANTIATE_TEST_SUITE_P(, PromptsCrash, ::testing::Values(GEAR_ITEMS_STEP, GEAR_ITEMS_EXPLICIT, GEAR_ITEMS_EPISODE),
                         [](const auto& info) {
                           if (info.param == GEAR_ITEMS_STEP) return "Steps";
                           return info.param == GEAR_ITEMS_EXPLICIT ? "Explicit" : "Episodes";
                         });

}  // namespace
}  // namespace gear::test
