// The one room that knows numpy's C interface: cells from arrays, arrays from memory.
#pragma once

#include <gear.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

namespace gear_python {

namespace nb = nanobind;

// One column of a table as the binding needs it. Read-only after load.
struct Column {
  uint32_t index = 0;
  uint32_t dtype = 0;
  uint32_t element_bytes = 0;
  uint32_t flags = 0;
  uint64_t cell_bytes = 0;
  std::vector<int64_t> shape;
  nb::object name;   // interned str
  nb::object descr;  // numpy.dtype

  bool per_episode() const { return (flags & GEAR_COLUMN_PER_EPISODE) != 0; }
  std::string text() const { return nb::cast<std::string>(name); }
};

// Must be called once, at import, before anything else here.
void import_numpy();

// The numpy.dtype of a GEAR dtype. bf16 is ml_dtypes.bfloat16 where that package is installed, else
// uint16 with the bit pattern; bytes are numpy's void of that size.
nb::object descr_of(uint32_t dtype, uint32_t element_bytes);

// Fills `cell` with what `value` holds. `steps` is null, or receives the extent of the leading
// axis, which is then not part of the cell. The returned reference keeps cell->data alive.
//
// Arrays and numpy scalars keep their dtype and are never cast; the library compares it with the
// column's. Python's bool, int, float and complex have no dtype and take the column's where that
// holds their kind, as numpy's own rules have it (NEP 50). Objects with __dlpack__ or a buffer are
// viewed as arrays. Raises DtypeError or ShapeError.
nb::object fill_cell(PyObject* value, const Column& column, gear_cell* cell, size_t* steps);

// A numpy array over memory that `owner` keeps alive. strides in bytes; null: C-contiguous.
nb::object make_array(void* data, const nb::object& descr, size_t rank, const int64_t* shape,
                      const int64_t* strides, nb::handle owner, bool writable);

// Takes the write permission from an array made by make_array.
void forbid_writing(nb::handle array);

// A C-contiguous one-dimensional array of the wanted kind. Keys are uint64 only; priorities
// float64, or float32, which widens exactly; masks bool only. Raises DtypeError or ShapeError,
// naming `what`.
nb::object keys_array(nb::handle value, const char* what);
nb::object priorities_array(nb::handle value, const char* what);
nb::object mask_array(nb::handle value, const char* what);

// Of an array returned by one of the three above.
size_t array_length(nb::handle array);
const void* array_data(nb::handle array);

}  // namespace gear_python
