// Cells against columns: which fit, why others do not, and how they are stored.
#include "client/cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace gear::client {
namespace {

using ::testing::HasSubstr;

// "frame" u8 [2,3], "reward" f32 [], "token" bytes(5) [], and "goal" i64 [2] per episode.
class Cells : public ::testing::Test {
 protected:
  Cells() {
    add("frame", GEAR_U8, 1, {2, 3}, 0);
    add("reward", GEAR_F32, 4, {}, 0);
    add("token", GEAR_BYTES, 5, {}, 0);
    add("goal", GEAR_I64, 8, {2}, GEAR_COLUMN_PER_EPISODE);
    header_.column_count = 4;
    view_.header = &header_;
    view_.columns = columns_;
    specs_ = std::make_unique<CellSpecs>(view_);
  }

  void add(const char* name, uint32_t dtype, uint32_t element_bytes,
           std::initializer_list<int64_t> shape, uint32_t flags) {
    layout::ColumnRecord& column = columns_[added_++];
    strcpy(column.name, name);
    column.dtype = dtype;
    column.element_bytes = element_bytes;
    column.flags = flags;
    column.cell_bytes = element_bytes;
    for (int64_t extent : shape) {
      column.shape[column.rank++] = extent;
      column.cell_bytes *= static_cast<uint64_t>(extent);
    }
  }

  gear_cell cell(uint32_t column) const {
    const layout::ColumnRecord& record = columns_[column];
    gear_cell made{};
    made.column = column;
    made.dtype = static_cast<uint16_t>(record.dtype);
    made.rank = static_cast<uint16_t>(record.rank);
    made.element_bytes = record.dtype == GEAR_BYTES ? record.element_bytes : 0;
    made.data = bytes_;
    made.shape = record.shape;
    return made;
  }

  void expect(const std::vector<gear_cell>& cells, CellSet set, int code, const char* word) const {
    EXPECT_EQ(specs_->fit(cells.data(), cells.size(), set), code == GEAR_OK);
    Status status = specs_->explain("append", cells.data(), cells.size(), set);
    EXPECT_EQ(status.code(), code) << status.text();
    EXPECT_THAT(status.text(), HasSubstr(word));
  }

  layout::TableHeader header_{};
  layout::ColumnRecord columns_[4] = {};
  uint32_t added_ = 0;
  TableView view_;
  std::unique_ptr<CellSpecs> specs_;
  char bytes_[64] = {};
};

constexpr CellSet kAppend = CellSet::kEveryStepColumn;

TEST_F(Cells, OneForEveryStepColumnFitInAnyOrder) {
  expect({cell(0), cell(1), cell(2)}, kAppend, GEAR_OK, "");
  expect({cell(2), cell(0), cell(1)}, kAppend, GEAR_OK, "");
}

TEST_F(Cells, AMissingOneIsNamed) {
  expect({cell(0), cell(2)}, kAppend, GEAR_ECOUNT, "\"reward\"");
  expect({}, kAppend, GEAR_ECOUNT, "\"frame\"");
}

TEST_F(Cells, OneTooManyIsRefusedBeforeAnyIsLookedAt) {
  expect({cell(0), cell(1), cell(2), cell(0)}, kAppend, GEAR_ECOUNT, "4 cells");
}

TEST_F(Cells, OneGivenTwiceIsNamed) {
  expect({cell(0), cell(0), cell(2)}, kAppend, GEAR_EDUPLICATE, "\"frame\"");
}

TEST_F(Cells, OfAColumnThatDoesNotExistAreRefused) {
  gear_cell odd = cell(0);
  odd.column = UINT32_MAX;
  expect({odd, cell(1), cell(2)}, kAppend, GEAR_ENOCOLUMN, "4294967295");
}

TEST_F(Cells, PerEpisodeAreNotAppended) {
  expect({cell(0), cell(1), cell(3)}, kAppend, GEAR_ENOCOLUMN, "gear_writer_episode_cells");
}

TEST_F(Cells, OfAnotherTypeOrShapeShowBoth) {
  gear_cell odd = cell(0);
  odd.dtype = GEAR_I8;
  expect({odd, cell(1), cell(2)}, kAppend, GEAR_EDTYPE, "wants u8 [2,3], got i8 [2,3]");
  odd = cell(0);
  int64_t shape[2] = {3, 2};
  odd.shape = shape;
  expect({odd, cell(1), cell(2)}, kAppend, GEAR_ESHAPE, "wants u8 [2,3], got u8 [3,2]");
  odd.rank = 900;
  expect({odd, cell(1), cell(2)}, kAppend, GEAR_ESHAPE, "of rank 900");
  odd = cell(2);
  odd.element_bytes = 4;
  expect({cell(0), cell(1), odd}, kAppend, GEAR_EDTYPE, "wants bytes(5) [], got bytes(4) []");
}

TEST_F(Cells, WithoutDataOrShapeAreRefused) {
  gear_cell odd = cell(1);
  odd.data = nullptr;
  expect({cell(0), odd, cell(2)}, kAppend, GEAR_EINVAL, "\"reward\"");
  odd = cell(0);
  odd.shape = nullptr;
  expect({odd, cell(1), cell(2)}, kAppend, GEAR_EINVAL, "\"frame\"");
}

TEST_F(Cells, OfAFinalObservationMayBeSome) {
  expect({}, CellSet::kSomeStepColumns, GEAR_OK, "");
  expect({cell(1)}, CellSet::kSomeStepColumns, GEAR_OK, "");
  expect({cell(1), cell(1)}, CellSet::kSomeStepColumns, GEAR_EDUPLICATE, "\"reward\"");
  expect({cell(3)}, CellSet::kSomeStepColumns, GEAR_ENOCOLUMN, "\"goal\"");
}

TEST_F(Cells, OfAnEpisodeAreThosePerEpisode) {
  expect({cell(3)}, CellSet::kEveryEpisodeColumn, GEAR_OK, "");
  expect({cell(0)}, CellSet::kEveryEpisodeColumn, GEAR_ENOCOLUMN, "gear_writer_append");
  expect({}, CellSet::kEveryEpisodeColumn, GEAR_ECOUNT, "\"goal\"");
}

TEST_F(Cells, AreStoredInTheColumnsOrderWhateverTheirStrides) {
  const char columns_first[] = {0, 3, 1, 4, 2, 5};
  int64_t strides[2] = {1, 2};
  gear_cell transposed = cell(0);
  transposed.data = columns_first;
  transposed.strides = strides;
  char stored[6];
  store_cell((*specs_)[0], transposed, stored);
  EXPECT_EQ(std::string(stored, 6), std::string("\0\1\2\3\4\5", 6));
}

TEST_F(Cells, StrideOfAnAxisOfOneDoesNotMatter) {
  columns_[0].shape[0] = 1;
  columns_[0].cell_bytes = 3;
  CellSpecs specs(view_);
  const char data[] = {7, 8, 9};
  int64_t strides[2] = {-1000, 1};
  gear_cell row = cell(0);
  row.data = data;
  row.strides = strides;
  char stored[3];
  store_cell(specs[0], row, stored);
  EXPECT_EQ(memcmp(stored, data, 3), 0);
}

TEST_F(Cells, OfManyStepsAreStoredByTheirStepStride) {
  float rewards[6] = {0, 10, 1, 11, 2, 12};
  gear_cell many = cell(1);
  many.data = rewards;
  many.step_stride = 8;
  float stored[2];
  store_cells((*specs_)[1], many, 1, 2, reinterpret_cast<char*>(stored));
  EXPECT_EQ(stored[0], 1.0f);
  EXPECT_EQ(stored[1], 2.0f);
  many.step_stride = 0;
  store_cells((*specs_)[1], many, 1, 2, reinterpret_cast<char*>(stored));
  EXPECT_EQ(stored[0], 10.0f);
  EXPECT_EQ(stored[1], 1.0f);
}

TEST_F(Cells, OfManyStepsMayGoBackInMemory) {
  float rewards[3] = {0, 1, 2};
  gear_cell many = cell(1);
  many.data = &rewards[2];
  many.step_stride = -4;
  float stored[3];
  store_cells((*specs_)[1], many, 0, 3, reinterpret_cast<char*>(stored));
  EXPECT_EQ(stored[0], 2.0f);
  EXPECT_EQ(stored[2], 0.0f);
}

}  // namespace
}  // namespace gear::client
