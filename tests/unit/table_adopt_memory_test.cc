// ctest: labels=unit
//
// An adoption that gets no memory for what it keeps of its own says so, at whatever allocation it is.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "support/bare_table.h"

namespace {
int64_t allocations_left = -1;  // below 0: any number
}  // namespace

// Not inlined, or gcc sees a free of what came from new.
__attribute__((noinline)) void* operator new(size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  void* memory = malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace gear {
namespace {

std::unique_ptr<Table> make_table() {
  layout::TableCreateRequest request = test::bare_request(16, 2);
  request.sampler = GEAR_SELECT_PRIORITIZED;
  request.priority_alpha = 0.6;
  layout::ColumnSpec column = test::u64_column();
  return test::make_bare(request, &column);
}

TEST(TableAdoptMemory, SaysThatThereIsNoneAtWhateverAllocationItIs) {
  int failed = 0;
  for (;; ++failed) {
    auto table = make_table();
    uint32_t lane = table->open_lane(1);
    layout::GrantRecord grant{};
    ASSERT_TRUE(table->grant_block(lane, &grant));
    uint32_t done = 0;
    ASSERT_EQ(table->commit(lane, 3, &done), Admit::kDone);
    Segment directory;
    TableData data;
    table->take_segments(&directory, &data);
    allocations_left = failed;
    auto adopted = Table::adopt(std::move(directory), std::move(data));
    bool refused = allocations_left < 0 && !adopted.ok();
    allocations_left = -1;
    if (adopted.ok()) {
      EXPECT_EQ(adopted.value()->items(), 3u);
      break;
    }
    ASSERT_TRUE(refused);
    ASSERT_EQ(adopted.status().code(), GEAR_ENOMEM) << adopted.status().text();
    ASSERT_NE(adopted.status().text().find("no memory"), std::string::npos);
  }
  EXPECT_GT(failed, 10);
}

}  // namespace
}  // namespace gear
