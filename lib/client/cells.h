// Cells as callers give them: checked against the columns, copied into rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "gather/table_view.h"
#include "gear.h"

namespace gear::client {

// What cells of a column must be, and where they go.
struct CellSpec {
  uint32_t dtype;
  uint32_t rank;
  uint32_t element_bytes;
  bool per_episode;
  bool optional;
  uint64_t cell_bytes;
  uint64_t offset;  // within a block (rows are contiguous), or within an episode slot's cells
  int64_t shape[layout::kRankMax];
};

// Which columns a call may give, and which of them it must give.
enum class CellSet {
  kEveryStepColumn,    // append; optional columns may be left out
  kSomeStepColumns,    // final observation
  kEveryEpisodeColumn  // cells of an episode
};

// Constant after construction; any thread.
class CellSpecs {
 public:
  explicit CellSpecs(const TableView& table);

  uint32_t count() const { return static_cast<uint32_t>(specs_.size()); }
  uint32_t per_episode_count() const { return per_episode_count_; }
  const CellSpec& operator[](uint32_t column) const { return specs_[column]; }
  const char* name(uint32_t column) const { return columns_[column].name; }
  uint32_t optional_count() const { return optional_count_; }
  // At most, and without the optional ones.
  uint32_t wanted(CellSet set) const;
  uint32_t required(CellSet set) const;

  // True when the cells are just what `set` asks. O(cells), no allocation.
  bool fit(const gear_cell* cells, size_t count, CellSet set) const;
  // Why they do not fit, in the order: count, then cell by cell. `tried` is the begin of the text.
  // Errors: ECOUNT, ENOCOLUMN, EDUPLICATE, EDTYPE, ESHAPE, EINVAL.
  Status explain(const std::string& tried, const gear_cell* cells, size_t count, CellSet set) const;

 private:
  Status explain_cell(const std::string& tried, const gear_cell& cell, CellSet set) const;
  Status explain_count(const std::string& tried, const gear_cell* cells, size_t count,
                       CellSet set) const;

  std::vector<CellSpec> specs_;
  const layout::ColumnRecord* columns_;
  uint32_t per_episode_count_ = 0;
  uint32_t optional_count_ = 0;
};

// Whether the cell's elements lie in the column's order without gaps.
bool contiguous(const CellSpec& spec, const gear_cell& cell);

// Stores one cell that fits, whatever its strides.
void store_cell(const CellSpec& spec, const gear_cell& cell, char* to);

// Stores `rows` cells of consecutive steps one after the other, step `first` and on.
void store_cells(const CellSpec& spec, const gear_cell& cell, size_t first, size_t rows, char* to);

}  // namespace gear::client
