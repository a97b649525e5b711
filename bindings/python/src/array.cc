#include "array.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <algorithm>

#include "status.h"

namespace gear_python {
namespace {

static_assert(sizeof(npy_intp) == sizeof(int64_t), "shapes and strides are passed on as they are");

PyArrayObject* as_array(nb::handle object) {
  return reinterpret_cast<PyArrayObject*>(object.ptr());
}

PyArray_Descr* as_descr(nb::handle object) {
  return reinterpret_cast<PyArray_Descr*>(object.ptr());
}

nb::object steal_or_throw(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

// numpy's type number of ml_dtypes.bfloat16; -1 where the package is not installed.
int bfloat16_type_num() {
  static const int type_num = [] {
    try {
      nb::object scalar = nb::module_::import_("ml_dtypes").attr("bfloat16");
      PyArray_Descr* descr = nullptr;
      if (PyArray_DescrConverter(scalar.ptr(), &descr) != NPY_SUCCEED) throw nb::python_error();
      const int number = descr->type_num;
      Py_DECREF(descr);
      return number;
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_ImportError)) throw;
      return -1;
    }
  }();
  return type_num;
}

int integer_dtype(int type_num) {
  const bool is_signed = PyTypeNum_ISSIGNED(type_num);
  switch (type_num) {
    case NPY_BYTE:
    case NPY_UBYTE:
      return is_signed ? GEAR_I8 : GEAR_U8;
    case NPY_SHORT:
    case NPY_USHORT:
      return is_signed ? GEAR_I16 : GEAR_U16;
    case NPY_INT:
    case NPY_UINT:
      return is_signed ? GEAR_I32 : GEAR_U32;
    default:
      return is_signed ? GEAR_I64 : GEAR_U64;
  }
}

// The GEAR dtype of an array meant for `column`; 0 when there is none.
int dtype_of(PyArrayObject* array, const Column& column) {
  const int type_num = PyArray_TYPE(array);
  if (column.dtype == GEAR_BF16 && (type_num == NPY_USHORT || type_num == bfloat16_type_num())) {
    return GEAR_BF16;
  }
  if (PyTypeNum_ISINTEGER(type_num)) return integer_dtype(type_num);
  switch (type_num) {
    case NPY_BOOL:
      return GEAR_BOOL;
    case NPY_HALF:
      return GEAR_F16;
    case NPY_FLOAT:
      return GEAR_F32;
    case NPY_DOUBLE:
      return GEAR_F64;
    case NPY_CFLOAT:
      return GEAR_C64;
    case NPY_VOID:
    case NPY_STRING:
      return GEAR_BYTES;
    default:
      return 0;
  }
}

// Whether a Python scalar may take the column's dtype: bool < int < float < complex, upwards only.
bool takes_scalar(PyObject* value, const Column& column) {
  const char kind = as_descr(column.descr)->kind;
  // ml_dtypes.bfloat16 is of kind 'V'.
  const bool is_float = kind == 'f' || (column.dtype == GEAR_BF16 && kind != 'u');
  if (PyBool_Check(value)) return kind == 'b';
  if (PyLong_Check(value)) return kind == 'i' || kind == 'u' || is_float || kind == 'c';
  if (PyFloat_Check(value)) return is_float || kind == 'c';
  return kind == 'c';
}

[[noreturn]] void raise_dtype(PyObject* value, const Column& column, const std::string& what) {
  raise(GEAR_EDTYPE, "column \"" + column.text() + "\" holds " +
                         nb::cast<std::string>(nb::str(column.descr)) + "; " + what + " of type " +
                         Py_TYPE(value)->tp_name + " is not stored in it (GEAR never casts)");
}

nb::object new_scalar_array(const Column& column) {
  PyArray_Descr* descr = as_descr(column.descr);
  Py_INCREF(descr);
  return steal_or_throw(
      PyArray_NewFromDescr(&PyArray_Type, descr, 0, nullptr, nullptr, nullptr, 0, nullptr));
}

nb::object array_of_scalar(PyObject* value, const Column& column) {
  if (!takes_scalar(value, column)) raise_dtype(value, column, "a scalar");
  nb::object array = new_scalar_array(column);
  PyArrayObject* raw = as_array(array);
  if (PyArray_SETITEM(raw, static_cast<char*>(PyArray_DATA(raw)), value) != 0) {
    throw nb::python_error();
  }
  return array;
}

nb::object array_of_bytes(PyObject* value, const Column& column) {
  const Py_ssize_t size = PyBytes_GET_SIZE(value);
  if (column.dtype != GEAR_BYTES) raise_dtype(value, column, "a value");
  if (size != static_cast<Py_ssize_t>(column.element_bytes)) {
    raise(GEAR_ESHAPE, "column \"" + column.text() + "\" holds " +
                           std::to_string(column.element_bytes) + " bytes an element; " +
                           std::to_string(size) + " were given");
  }
  nb::object array = new_scalar_array(column);
  std::copy_n(PyBytes_AS_STRING(value), size, static_cast<char*>(PyArray_DATA(as_array(array))));
  return array;
}

// Views or converts anything but a numpy array.
nb::object array_of_object(PyObject* value, const Column& column) {
  if (PyArray_IsScalar(value, Generic)) return steal_or_throw(PyArray_FromScalar(value, nullptr));
  if (PyBytes_Check(value)) return array_of_bytes(value, column);
  if (PyBool_Check(value) || PyLong_Check(value) || PyFloat_Check(value) ||
      PyComplex_Check(value)) {
    return array_of_scalar(value, column);
  }
  if (PyObject_HasAttrString(value, "__dlpack__")) {
    return nb::module_::import_("numpy").attr("from_dlpack")(nb::handle(value));
  }
  if (PyObject_CheckBuffer(value)) {
    return steal_or_throw(PyArray_FromAny(value, nullptr, 0, 0, 0, nullptr));
  }
  raise_dtype(value, column, "a value");
}

nb::object vector_of(nb::handle value, const char* what) {
  if (!PyArray_Check(value.ptr())) {
    raise(GEAR_EDTYPE,
          std::string(what) + " must be a numpy array, not " + Py_TYPE(value.ptr())->tp_name);
  }
  if (PyArray_NDIM(as_array(value)) != 1) {
    raise(GEAR_ESHAPE, std::string(what) + " must have one axis, not " +
                           std::to_string(PyArray_NDIM(as_array(value))));
  }
  return nb::borrow(value);
}

nb::object contiguous(nb::handle array, int type_num) {
  return steal_or_throw(PyArray_FROMANY(array.ptr(), type_num, 1, 1, NPY_ARRAY_CARRAY_RO));
}

[[noreturn]] void raise_vector_dtype(nb::handle array, const char* what, const char* wanted) {
  nb::object descr = nb::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(as_array(array))));
  raise(GEAR_EDTYPE, std::string(what) + " must be " + wanted + ", not " +
                         nb::cast<std::string>(nb::str(descr)) + " (GEAR never casts)");
}

}  // namespace

void import_numpy() {
  if (_import_array() < 0) throw nb::python_error();
}

nb::object descr_of(uint32_t dtype, uint32_t element_bytes) {
  int type_num = NPY_NOTYPE;
  switch (dtype) {
    case GEAR_BOOL:
      type_num = NPY_BOOL;
      break;
    case GEAR_U8:
      type_num = NPY_UINT8;
      break;
    case GEAR_I8:
      type_num = NPY_INT8;
      break;
    case GEAR_U16:
      type_num = NPY_UINT16;
      break;
    case GEAR_I16:
      type_num = NPY_INT16;
      break;
    case GEAR_U32:
      type_num = NPY_UINT32;
      break;
    case GEAR_I32:
      type_num = NPY_INT32;
      break;
    case GEAR_U64:
      type_num = NPY_UINT64;
      break;
    case GEAR_I64:
      type_num = NPY_INT64;
      break;
    case GEAR_F16:
      type_num = NPY_HALF;
      break;
    case GEAR_F32:
      type_num = NPY_FLOAT;
      break;
    case GEAR_F64:
      type_num = NPY_DOUBLE;
      break;
    case GEAR_C64:
      type_num = NPY_CFLOAT;
      break;
    case GEAR_BF16:
      type_num = bfloat16_type_num() >= 0 ? bfloat16_type_num() : static_cast<int>(NPY_UINT16);
      break;
    case GEAR_BYTES: {
      PyArray_Descr* descr = PyArray_DescrNewFromType(NPY_VOID);
      if (descr == nullptr) throw nb::python_error();
      PyDataType_SET_ELSIZE(descr, static_cast<npy_intp>(element_bytes));
      return nb::steal(reinterpret_cast<PyObject*>(descr));
    }
    default:
      raise(GEAR_EUNSUPPORTED, "dtype " + std::to_string(dtype) + " is newer than this binding");
  }
  return steal_or_throw(reinterpret_cast<PyObject*>(PyArray_DescrFromType(type_num)));
}

nb::object fill_cell(PyObject* value, const Column& column, gear_cell* cell, size_t* steps) {
  nb::object array = PyArray_Check(value) ? nb::borrow(value) : array_of_object(value, column);
  PyArrayObject* raw = as_array(array);
  const int dtype = dtype_of(raw, column);
  if (dtype == 0 || PyArray_ISBYTESWAPPED(raw)) {
    nb::object descr = nb::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(raw)));
    raise_dtype(value, column, "dtype " + nb::cast<std::string>(nb::repr(descr)));
  }
  const int lead = steps == nullptr ? 0 : 1;
  if (PyArray_NDIM(raw) < lead) {
    raise(GEAR_ESHAPE, "column \"" + column.text() +
                           "\": a leading axis is needed, one entry a "
                           "step or lane; a scalar was given");
  }
  if (lead == 1) {
    *steps = static_cast<size_t>(PyArray_DIM(raw, 0));
    // A stride of 0 would read as "contiguous"; a broadcast axis is written out instead.
    if (PyArray_STRIDE(raw, 0) == 0 && *steps > 1) {
      array = steal_or_throw(PyArray_NewCopy(raw, NPY_CORDER));
      raw = as_array(array);
    }
  }
  cell->column = column.index;
  cell->dtype = static_cast<uint16_t>(dtype);
  cell->rank = static_cast<uint16_t>(PyArray_NDIM(raw) - lead);
  cell->element_bytes = dtype == GEAR_BYTES ? static_cast<uint32_t>(PyArray_ITEMSIZE(raw)) : 0;
  cell->reserved = 0;
  cell->data = PyArray_DATA(raw);
  cell->shape = reinterpret_cast<const int64_t*>(PyArray_DIMS(raw) + lead);
  cell->strides = reinterpret_cast<const int64_t*>(PyArray_STRIDES(raw) + lead);
  cell->step_stride = lead == 1 ? static_cast<int64_t>(PyArray_STRIDE(raw, 0)) : 0;
  return array;
}

nb::object make_array(void* data, const nb::object& descr, size_t rank, const int64_t* shape,
                      const int64_t* strides, nb::handle owner, bool writable) {
  Py_INCREF(descr.ptr());
  nb::object array = steal_or_throw(
      PyArray_NewFromDescr(&PyArray_Type, as_descr(descr), static_cast<int>(rank),
                           const_cast<npy_intp*>(reinterpret_cast<const npy_intp*>(shape)),
                           const_cast<npy_intp*>(reinterpret_cast<const npy_intp*>(strides)), data,
                           writable ? NPY_ARRAY_WRITEABLE : 0, nullptr));
  if (PyArray_SetBaseObject(as_array(array), owner.inc_ref().ptr()) != 0) throw nb::python_error();
  return array;
}

void forbid_writing(nb::handle array) {
  PyArray_CLEARFLAGS(as_array(array), NPY_ARRAY_WRITEABLE);
}

nb::object keys_array(nb::handle value, const char* what) {
  nb::object array = vector_of(value, what);
  const int type_num = PyArray_TYPE(as_array(array));
  if (!PyTypeNum_ISINTEGER(type_num) || integer_dtype(type_num) != GEAR_U64) {
    raise_vector_dtype(array, what, "uint64");
  }
  return contiguous(array, NPY_UINT64);
}

nb::object priorities_array(nb::handle value, const char* what) {
  nb::object array = vector_of(value, what);
  const int type_num = PyArray_TYPE(as_array(array));
  if (type_num != NPY_DOUBLE && type_num != NPY_FLOAT) {
    raise_vector_dtype(array, what, "float64 or float32");
  }
  return contiguous(array, NPY_DOUBLE);
}

nb::object mask_array(nb::handle value, const char* what) {
  nb::object array = vector_of(value, what);
  if (PyArray_TYPE(as_array(array)) != NPY_BOOL) raise_vector_dtype(array, what, "bool");
  return contiguous(array, NPY_BOOL);
}

size_t array_length(nb::handle array) {
  return static_cast<size_t>(PyArray_DIM(as_array(array), 0));
}

const void* array_data(nb::handle array) {
  return PyArray_DATA(as_array(array));
}

}  // namespace gear_python
