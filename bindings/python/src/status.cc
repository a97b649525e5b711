#include "status.h"

#include <cmath>
#include <cstdio>

namespace gear_python {
namespace {

// Lives as long as the process: exceptions are raised until the very end.
PyObject* error_factory = nullptr;

}  // namespace

void set_error_factory(nb::object factory) {
  error_factory = factory.release().ptr();
}

void raise(int status, const std::string& text, int64_t accepted) {
  nb::object error = nb::borrow(error_factory)(status, text);
  if (accepted >= 0) error.attr("accepted") = accepted;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

void raise_last(int status) {
  raise(status, gear_last_error());
}

int64_t to_nanoseconds(double seconds) {
  if (!(seconds >= 0.0)) {
    raise(GEAR_EINVAL,
          "timeout is " + std::to_string(seconds) + " seconds; give a number that is not negative");
  }
  constexpr double kSecondsMax = 4e9;  // over a century, and safely inside an int64 of nanoseconds
  return static_cast<int64_t>(std::min(seconds, kSecondsMax) * 1e9);
}

std::string timed_out_text(double seconds) {
  char given[64];
  std::snprintf(given, sizeof given, " (%g s given)", seconds);
  return gear_last_error() + std::string(given);
}

}  // namespace gear_python
