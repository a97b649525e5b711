// The kinds of ends that vector steps and take-overs leave in the directory.
#include <gtest/gtest.h>

#include <vector>

#include "base/shared_word.h"
#include "client/table.h"
#include "gear.h"
#include "support/int_table.h"

namespace gear::client {
namespace {

constexpr int64_t kTimeoutNs = 10'000'000'000;
constexpr uint32_t kLanes = 4;

class WriterEnds : public ::testing::Test {
 protected:
  WriterEnds() {
    EXPECT_EQ(gear_connect("embedded:", nullptr, &client_), GEAR_OK) << gear_last_error();
    auto of_lanes = [](gear_table_options* options) { options->lanes_max = kLanes; };
    EXPECT_EQ(test::create_int_table_with(client_, "t", &table_, of_lanes), GEAR_OK) << gear_last_error();
    writer_ = open(0);
  }
  ~WriterEnds() override { EXPECT_EQ(gear_close(client_), GEAR_OK); }

  gear_writer* open(uint32_t take_over) {
    static const uint64_t kNames[kLanes] = {0, 1, 2, 3};
    gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
    options.lanes = kLanes;
    options.lane_names = kNames;
    options.take_over = take_over;
    gear_writer* writer = nullptr;
    EXPECT_EQ(gear_writer_open(table_, &options, &writer), GEAR_OK) << gear_last_error();
    return writer;
  }

  void append(const uint8_t* terminated, const uint8_t* truncated) {
    const int64_t values[kLanes] = {0, 1, 2, 3};
    gear_cell cell{};
    cell.dtype = GEAR_I64;
    cell.data = values;
    gear_vector_step step = GEAR_VECTOR_STEP_INIT;
    step.cells = &cell;
    step.cell_count = 1;
    step.terminated = terminated;
    step.truncated = truncated;
    EXPECT_EQ(gear_writer_append_vector(writer_, &step, kTimeoutNs, nullptr), GEAR_OK);
    EXPECT_EQ(gear_writer_flush(writer_, kTimeoutNs, nullptr), GEAR_OK);
  }

  // Marks of the first step in each block that has one, by the lane's name, which is the step's content.
  std::vector<uint32_t> first_marks() const {
    const TableView& view = reinterpret_cast<Table*>(table_)->view();
    std::vector<uint32_t> marks(kLanes, ~0u);
    for (uint32_t block = 0; block < view.header->block_count; ++block) {
      if (observe(view.blocks[block].rows) == 0) continue;
      auto content = *reinterpret_cast<const int64_t*>(view.block_data(block) + view.columns[0].offset);
      marks[static_cast<size_t>(content)] = peek(view.marks[uint64_t{block} * view.header->block_steps]);
    }
    return marks;
  }

  gear_client* client_ = nullptr;
  gear_table* table_ = nullptr;
  gear_writer* writer_ = nullptr;
};

// SEMANTICS 31
TEST_F(WriterEnds, AreTheKindsThatAVectorStepMarks) {
  const uint8_t terminated[kLanes] = {0, 1, 0, 1};
  const uint8_t truncated[kLanes] = {0, 0, 1, 1};
  append(terminated, truncated);
  EXPECT_EQ(first_marks(), (std::vector<uint32_t>{0, layout::kMarkTerminated, layout::kMarkTruncated,
                                                  layout::kMarkTerminated}));
}

// SEMANTICS 39
TEST_F(WriterEnds, AreTruncatedWhereALaneIsTakenOver) {
  append(nullptr, nullptr);
  EXPECT_EQ(first_marks(), (std::vector<uint32_t>(kLanes, 0)));
  open(1);
  EXPECT_EQ(first_marks(), (std::vector<uint32_t>(kLanes, layout::kMarkTruncated)));
}

}  // namespace
}  // namespace gear::client
