#include "client/cells.h"

#include <algorithm>
#include <bitset>
#include <cstring>

#include "base/copy_bytes.h"
#include "client/text.h"

namespace gear::client {
namespace {

using Columns = std::bitset<layout::kColumnsMax>;

bool same_shape(const CellSpec& spec, const gear_cell& cell) {
  for (uint32_t axis = 0; axis < spec.rank; ++axis) {
    if (cell.shape[axis] != spec.shape[axis]) return false;
  }
  return true;
}

bool fits(const CellSpec& spec, const gear_cell& cell) {
  if (cell.dtype != spec.dtype || cell.rank != spec.rank || cell.data == nullptr) return false;
  if (spec.dtype == GEAR_BYTES && cell.element_bytes != spec.element_bytes) return false;
  return spec.rank == 0 || (cell.shape != nullptr && same_shape(spec, cell));
}

// The elements from `axis` on, in the column's order; returns where the next go.
char* copy_strided(const CellSpec& spec, const int64_t* strides, uint32_t axis, const char* from,
                   char* to) {
  if (axis == spec.rank) {
    copy_bytes(to, from, spec.element_bytes);
    return to + spec.element_bytes;
  }
  for (int64_t i = 0; i < spec.shape[axis]; ++i) {
    to = copy_strided(spec, strides, axis + 1, from, to);
    from += strides[axis];
  }
  return to;
}

const char* kind_text(bool per_episode) {
  return per_episode ? "per episode" : "per step";
}

}  // namespace

CellSpecs::CellSpecs(const TableView& table) : columns_(table.columns) {
  specs_.resize(table.header->column_count);
  for (uint32_t i = 0; i < count(); ++i) {
    const layout::ColumnRecord& column = columns_[i];
    CellSpec& spec = specs_[i];
    spec = {column.dtype,
            column.rank,
            column.element_bytes,
            (column.flags & GEAR_COLUMN_PER_EPISODE) != 0,
            (column.flags & GEAR_COLUMN_OPTIONAL) != 0,
            column.cell_bytes,
            column.offset,
            {}};
    std::copy(std::begin(column.shape), std::end(column.shape), spec.shape);
    if (spec.per_episode) ++per_episode_count_;
    if (spec.optional) ++optional_count_;
  }
}

uint32_t CellSpecs::wanted(CellSet set) const {
  return set == CellSet::kEveryEpisodeColumn ? per_episode_count_ : count() - per_episode_count_;
}

uint32_t CellSpecs::required(CellSet set) const {
  switch (set) {
    case CellSet::kEveryStepColumn:
      return wanted(set) - optional_count_;
    case CellSet::kEveryEpisodeColumn:
      return wanted(set);
    default:
      return 0;
  }
}

bool CellSpecs::fit(const gear_cell* cells, size_t cell_count, CellSet set) const {
  if (cell_count > wanted(set)) return false;
  uint32_t missing = required(set);
  if (cell_count < missing) return false;
  bool per_episode = set == CellSet::kEveryEpisodeColumn;
  Columns seen;
  for (size_t i = 0; i < cell_count; ++i) {
    uint32_t column = cells[i].column;
    if (column >= count() || specs_[column].per_episode != per_episode || seen[column]) {
      return false;
    }
    seen[column] = true;
    if (!fits(specs_[column], cells[i])) return false;
    if (missing > 0 && !specs_[column].optional) --missing;
  }
  return missing == 0;
}

Status CellSpecs::explain(const std::string& tried, const gear_cell* cells, size_t cell_count,
                          CellSet set) const {
  GEAR_TRY(explain_count(tried, cells, cell_count, set));
  Columns seen;
  for (size_t i = 0; i < cell_count; ++i) {
    GEAR_TRY(explain_cell(tried, cells[i], set));
    if (seen[cells[i].column]) {
      return error(GEAR_EDUPLICATE,
                   "%s: column \"%s\" is given twice; give one cell for each column", tried.c_str(),
                   name(cells[i].column));
    }
    seen[cells[i].column] = true;
  }
  return {};
}

Status CellSpecs::explain_count(const std::string& tried, const gear_cell* cells, size_t cell_count,
                                CellSet set) const {
  bool per_episode = set == CellSet::kEveryEpisodeColumn;
  uint32_t wants = wanted(set);
  if (cell_count > wants) {
    return error(GEAR_ECOUNT, "%s: %zu cells, the table has %u columns %s; give one cell for each",
                 tried.c_str(), cell_count, wants, kind_text(per_episode));
  }
  if (cell_count == wants || set == CellSet::kSomeStepColumns) return {};
  for (uint32_t column = 0; column < count(); ++column) {
    if (specs_[column].per_episode != per_episode || specs_[column].optional) continue;
    bool given = std::any_of(cells, cells + cell_count,
                             [column](const gear_cell& cell) { return cell.column == column; });
    if (!given) {
      return error(GEAR_ECOUNT,
                   "%s: %zu cells, the table has %u columns %s; give column \"%s\" (%u) too",
                   tried.c_str(), cell_count, wants, kind_text(per_episode), name(column), column);
    }
  }
  return {};
}

Status CellSpecs::explain_cell(const std::string& tried, const gear_cell& cell, CellSet set) const {
  if (cell.column >= count()) {
    return error(GEAR_ENOCOLUMN, "%s: column %u of a table that has %u; give an index below that",
                 tried.c_str(), cell.column, count());
  }
  const CellSpec& spec = specs_[cell.column];
  const char* column = name(cell.column);
  bool per_episode = set == CellSet::kEveryEpisodeColumn;
  if (spec.per_episode != per_episode) {
    return error(GEAR_ENOCOLUMN, "%s: column \"%s\" is %s, this call gives columns %s; use %s",
                 tried.c_str(), column, kind_text(spec.per_episode), kind_text(per_episode),
                 per_episode ? "gear_writer_append" : "gear_writer_episode_cells");
  }
  if (cell.data == nullptr) {
    return error(GEAR_EINVAL, "%s: column \"%s\" has data NULL; give the cell's bytes",
                 tried.c_str(), column);
  }
  if (cell.rank == spec.rank && spec.rank > 0 && cell.shape == nullptr) {
    return error(GEAR_EINVAL, "%s: column \"%s\" of rank %u has shape NULL; give its extents",
                 tried.c_str(), column, spec.rank);
  }
  if (fits(spec, cell)) return {};
  bool same_dtype = cell.dtype == spec.dtype &&
                    (spec.dtype != GEAR_BYTES || cell.element_bytes == spec.element_bytes);
  return error(same_dtype ? GEAR_ESHAPE : GEAR_EDTYPE,
               "%s: column \"%s\" wants %s, got %s; GEAR never %s", tried.c_str(), column,
               shape_text(spec.dtype, spec.element_bytes, spec.rank, spec.shape).c_str(),
               shape_text(cell.dtype, cell.element_bytes, cell.rank, cell.shape).c_str(),
               same_dtype ? "reshapes" : "casts");
}

// Strides of a C-contiguous cell; those of axes of extent 1 do not matter.
bool contiguous(const CellSpec& spec, const gear_cell& cell) {
  if (cell.strides == nullptr) return true;
  int64_t wanted = spec.element_bytes;
  for (uint32_t axis = spec.rank; axis-- > 0;) {
    if (spec.shape[axis] != 1 && cell.strides[axis] != wanted) return false;
    wanted *= spec.shape[axis];
  }
  return true;
}

void store_cell(const CellSpec& spec, const gear_cell& cell, char* to) {
  const char* from = static_cast<const char*>(cell.data);
  if (contiguous(spec, cell)) {
    copy_bytes(to, from, spec.cell_bytes);
  } else {
    copy_strided(spec, cell.strides, 0, from, to);
  }
}

void store_cells(const CellSpec& spec, const gear_cell& cell, size_t first, size_t rows, char* to) {
  auto cell_bytes = static_cast<int64_t>(spec.cell_bytes);
  int64_t step_stride = cell.step_stride != 0 ? cell.step_stride : cell_bytes;
  const char* from =
      static_cast<const char*>(cell.data) + static_cast<int64_t>(first) * step_stride;
  if (!contiguous(spec, cell)) {
    for (size_t row = 0; row < rows; ++row, from += step_stride) {
      to = copy_strided(spec, cell.strides, 0, from, to);
    }
  } else if (step_stride == cell_bytes) {
    copy_bytes(to, from, rows * spec.cell_bytes);
  } else {
    for (size_t row = 0; row < rows; ++row, from += step_stride, to += cell_bytes) {
      copy_bytes(to, from, spec.cell_bytes);
    }
  }
}

}  // namespace gear::client
