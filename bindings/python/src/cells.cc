#include "cells.h"

#include <string>

namespace gear_python {
namespace {

std::string known_names(const Table& table) {
  std::string names;
  for (const Column& column : table.columns()) {
    names += names.empty() ? "" : ", ";
    names += column.text();
  }
  return names;
}

}  // namespace

CellSet::CellSet(const Table& table)
    : table_(table), cells_(2 * table.columns().size()), kept_(cells_.size()) {}

void CellSet::gather(nb::handle columns, const nb::kwargs& named, bool lead) {
  gather(columns, lead);
  add_all(named.ptr(), lead);
}

void CellSet::gather(nb::handle columns, bool lead) {
  release();
  if (!columns.is_none()) {
    if (!PyDict_Check(columns.ptr())) {
      raise(GEAR_EINVAL, std::string("columns must be a dict from name to array, not ") +
                             Py_TYPE(columns.ptr())->tp_name);
    }
    add_all(columns.ptr(), lead);
  }
}

void CellSet::release() {
  for (size_t i = 0; i < count_; ++i) kept_[i].reset();
  count_ = 0;
  lead_ = 0;
  bytes_ = 0;
}

void CellSet::move(size_t by) {
  for (size_t i = 0; i < count_; ++i) {
    cells_[i].data =
        static_cast<const char*>(cells_[i].data) + static_cast<int64_t>(by) * cells_[i].step_stride;
  }
}

void CellSet::add_all(PyObject* entries, bool lead) {
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(entries, &position, &name, &value)) add(name, value, lead);
}

void CellSet::add(PyObject* name, PyObject* value, bool lead) {
  const Column* column = table_.find(name);
  if (column == nullptr) {
    raise(GEAR_ENOCOLUMN, "the table has no column " + nb::cast<std::string>(nb::repr(name)) +
                              "; its columns are " + known_names(table_));
  }
  // Twice the columns is room for a mapping and keywords that both name all of them; the library
  // refuses such a call as a duplicate.
  if (count_ == cells_.size()) raise(GEAR_EDUPLICATE, "columns are given twice");
  size_t extent = 0;
  kept_[count_] = fill_cell(value, *column, &cells_[count_], lead ? &extent : nullptr);
  if (lead) check_lead(*column, extent);
  ++count_;
  bytes_ += column->cell_bytes;
}

void CellSet::check_lead(const Column& column, size_t extent) {
  if (count_ == 0) lead_ = extent;
  if (extent != lead_) {
    raise(GEAR_ESHAPE, "column \"" + column.text() + "\": the leading axis is " +
                           std::to_string(extent) + " long, that of the columns before " +
                           std::to_string(lead_));
  }
}

}  // namespace gear_python
