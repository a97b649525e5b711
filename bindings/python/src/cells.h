// The cells of one call, gathered from a mapping and keyword arguments.
#pragma once

#include <gear.h>
#include <nanobind/nanobind.h>

#include <vector>

#include "client.h"

namespace gear_python {

namespace nb = nanobind;

// Reused from call to call by one writer: in steady state it allocates nothing of its own.
// References taken by gather live until release().
class CellSet {
 public:
  explicit CellSet(const Table& table);

  // Fills one cell for each entry of `columns` (None, or a dict) and of `named`. With `lead`,
  // arrays have a leading axis of steps or lanes, alike in all of them. Raises NoColumn,
  // DtypeError, ShapeError.
  void gather(nb::handle columns, const nb::kwargs& named, bool lead);
  void gather(nb::handle columns, bool lead);
  void release();

  gear_cell* data() { return cells_.data(); }
  size_t size() const { return count_; }
  size_t lead() const { return lead_; }      // extent of the leading axis
  uint64_t bytes() const { return bytes_; }  // of one step

  // Makes the cells those of the step or lane `by` further along the leading axis.
  void move(size_t by);

 private:
  void add_all(PyObject* entries, bool lead);
  void add(PyObject* name, PyObject* value, bool lead);
  void check_lead(const Column& column, size_t extent);

  const Table& table_;
  std::vector<gear_cell> cells_;
  std::vector<nb::object> kept_;
  size_t count_ = 0;
  size_t lead_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace gear_python
