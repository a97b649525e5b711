// The extension module gear._gear. Its Python face is python/gear.
#include <gear.h>
#include <nanobind/nanobind.h>

#include "array.h"
#include "client.h"
#include "status.h"

NB_MODULE(_gear, module) {
  using namespace gear_python;
  import_numpy();
  // Objects that a caller still holds when the interpreter ends are not worth a warning.
  nb::set_leak_warnings(false);
  module.def("set_error_factory", &set_error_factory, nb::arg("factory"));
  module.def("status_name", &gear_status_string, nb::arg("status"));
  module.attr("version") = gear_version_string();
  bind_client(module);
  bind_table(module);
  bind_writer(module);
  bind_sampler(module);
  bind_batch(module);
}
