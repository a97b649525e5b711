// What a forked child can do with its parent's handles: nothing, and it is told so.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "gear.h"
#include "support/child.h"
#include "support/int_table.h"

namespace {

using gear::test::append_int;
using gear::test::create_int_table_with;
using gear::test::exit_of_child;

constexpr int64_t kTimeoutNs = gear::test::kCallNs;

class ForkedChild : public ::testing::Test {
 protected:
  ForkedChild() {
    EXPECT_EQ(gear_connect("embedded:forked", nullptr, &client_), GEAR_OK) << gear_last_error();
    auto ten = [](gear_table_options* options) { options->capacity_items = 10; };
    EXPECT_EQ(create_int_table_with(client_, "t", &table_, ten), GEAR_OK) << gear_last_error();
    EXPECT_EQ(gear_writer_open(table_, nullptr, &writer_), GEAR_OK) << gear_last_error();
    EXPECT_EQ(gear_sampler_open(table_, nullptr, &sampler_), GEAR_OK) << gear_last_error();
    append(7);
    EXPECT_EQ(gear_sample(sampler_, 2, kTimeoutNs, &batch_), GEAR_OK) << gear_last_error();
  }
  ~ForkedChild() override { EXPECT_EQ(gear_close(client_), GEAR_OK); }

  void append(int64_t value) {
    EXPECT_EQ(append_int(writer_, value), GEAR_OK) << gear_last_error();
    EXPECT_EQ(gear_writer_flush(writer_, kTimeoutNs, nullptr), GEAR_OK) << gear_last_error();
  }

  gear_client* client_ = nullptr;
  gear_table* table_ = nullptr;
  gear_writer* writer_ = nullptr;
  gear_sampler* sampler_ = nullptr;
  gear_batch* batch_ = nullptr;
};

TEST_F(ForkedChild, IsToldThatTheHandlesAreItsParents) {
  int told = exit_of_child([&] {
    gear_cell cell{};
    gear_batch* batch = nullptr;
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    int right = 0;
    right += gear_writer_append(writer_, 0, &cell, 1, 0) == GEAR_ESTATE;
    right += strstr(gear_last_error(), "fork") != nullptr;
    right += gear_sample(sampler_, 1, 0, &batch) == GEAR_ESTATE;
    right += gear_table_get_stats(table_, &stats) == GEAR_ESTATE;
    right += gear_table_reset(table_) == GEAR_ESTATE;
    right += gear_writer_close(writer_) == GEAR_ESTATE;
    right += gear_close(client_) == GEAR_ESTATE;
    return right;
  });
  EXPECT_EQ(told, 7);
  append(8);
}

TEST_F(ForkedChild, ReadsAndReleasesBatchesThatItInherited) {
  int read = exit_of_child([&] {
    gear_tensor tensor;
    if (gear_batch_tensor(batch_, 0, &tensor) != GEAR_OK) return 1;
    if (static_cast<const int64_t*>(tensor.data)[1] != 7) return 2;
    if (gear_batch_release(batch_) != GEAR_OK) return 3;
    return gear_batch_release(batch_) == GEAR_ESTALE ? 0 : 4;
  });
  EXPECT_EQ(read, 0);
  EXPECT_EQ(gear_batch_release(batch_), GEAR_OK);
}

TEST_F(ForkedChild, AcknowledgesNothingOfAConsumerGroup) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.group = "train";
  gear_sampler* consumer = nullptr;
  ASSERT_EQ(gear_sampler_open(table_, &options, &consumer), GEAR_OK) << gear_last_error();
  gear_batch* batch = nullptr;
  ASSERT_EQ(gear_sample(consumer, 1, kTimeoutNs, &batch), GEAR_OK) << gear_last_error();
  EXPECT_EQ(exit_of_child([&] { return gear_batch_release(batch) == GEAR_ESTALE ? 0 : 1; }), 0);
  EXPECT_EQ(gear_batch_release(batch), GEAR_OK) << gear_last_error();
}

TEST_F(ForkedChild, ConnectsAnewByTheHandle) {
  char endpoint[GEAR_HANDLE_BYTES + 8] = "handle:";
  char* handle = endpoint + 7;
  ASSERT_EQ(gear_table_handle(table_, handle), GEAR_OK);
  int appended = exit_of_child([&] {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    gear_writer* writer = nullptr;
    int64_t value = 9;
    gear_cell cell{};
    cell.dtype = GEAR_I64;
    cell.data = &value;
    if (gear_connect(endpoint, nullptr, &client) != GEAR_OK) return 1;
    if (gear_table_attach(client, handle, &table) != GEAR_OK) return 2;
    if (gear_writer_open(table, nullptr, &writer) != GEAR_OK) return 3;
    if (gear_writer_append(writer, 0, &cell, 1, kTimeoutNs) != GEAR_OK) return 4;
    if (gear_writer_flush(writer, kTimeoutNs, nullptr) != GEAR_OK) return 5;
    return gear_close(client) == GEAR_OK ? 0 : 6;
  });
  EXPECT_EQ(appended, 0);
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  ASSERT_EQ(gear_table_get_stats(table_, &stats), GEAR_OK);
  EXPECT_EQ(stats.steps, 2u);
}

}  // namespace
