#include "batch.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "client.h"
#include "status.h"

namespace gear_python {

Lease::~Lease() {
  release();
}

int Lease::release() {
  gear_batch* raw = std::exchange(raw_, nullptr);
  if (raw == nullptr) return GEAR_OK;
  return gear_batch_release(raw);
}

Batch::Batch(gear_batch* raw)
    : lease_(nb::cast(new Lease(raw), nb::rv_policy::take_ownership)),
      rows_(gear_batch_rows(raw)) {}

gear_batch* Batch::raw() const {
  if (released()) raise(GEAR_ESTALE, "the batch was released; sample another");
  return nb::cast<Lease*>(lease_)->raw();
}

std::vector<std::string> Batch::names() const {
  gear_batch* batch = raw();
  std::vector<std::string> names;
  for (uint32_t index = 0; index < gear_batch_tensor_count(batch); ++index) {
    gear_tensor tensor;
    check(gear_batch_tensor(batch, index, &tensor));
    names.emplace_back(tensor.name);
  }
  return names;
}

gear_tensor Batch::tensor(nb::handle name) const {
  gear_batch* batch = raw();
  const char* wanted = PyUnicode_Check(name.ptr()) ? PyUnicode_AsUTF8(name.ptr()) : nullptr;
  if (wanted == nullptr) {
    PyErr_Clear();
    throw nb::type_error("a window's name is a str");
  }
  for (uint32_t index = 0; index < gear_batch_tensor_count(batch); ++index) {
    gear_tensor tensor;
    check(gear_batch_tensor(batch, index, &tensor));
    if (std::string_view(tensor.name) == wanted) return tensor;
  }
  throw nb::key_error(wanted);
}

nb::object Batch::array(nb::handle name) const {
  const gear_tensor source = tensor(name);
  return make_array(source.data, descr_of(source.dtype, source.element_bytes), source.rank,
                    source.shape, source.strides, lease_, true);
}

nb::object Batch::mask(nb::handle name) const {
  const gear_tensor source = tensor(name);
  const int64_t shape[2] = {rows_, source.length};
  return make_array(const_cast<uint8_t*>(source.mask), descr_of(GEAR_BOOL, 0), 2, shape, nullptr,
                    lease_, false);
}

nb::object Batch::lengths(nb::handle name) const {
  const gear_tensor source = tensor(name);
  const int64_t shape[1] = {rows_};
  return make_array(const_cast<uint32_t*>(source.lengths), descr_of(GEAR_U32, 0), 1, shape, nullptr,
                    lease_, false);
}

template <typename T>
nb::object Batch::rows_of(const T* (*accessor)(const gear_batch*), uint32_t dtype) const {
  const T* values = accessor(raw());
  if (values == nullptr) raise(GEAR_ESTALE, "the batch was released; sample another");
  const int64_t shape[1] = {rows_};
  return make_array(const_cast<T*>(values), descr_of(dtype, 0), 1, shape, nullptr, lease_, false);
}

void Batch::release() {
  if (released()) raise(GEAR_ESTALE, "the batch was released already");
  nb::object lease = std::exchange(lease_, nb::none());
  // Arrays that are alive hold the lease as their base: the last of them releases.
  if (Py_REFCNT(lease.ptr()) == 1) check(nb::cast<Lease*>(lease)->release());
}

namespace {

bool contains(const Batch& batch, nb::handle name) {
  for (const std::string& known : batch.names()) {
    if (nb::str(known.c_str()).equal(name)) return true;
  }
  return false;
}

void leave(Batch& batch, nb::handle error, nb::handle, nb::handle) {
  if (batch.released()) return;
  try {
    batch.release();
  } catch (const nb::python_error&) {
    // An exception on its way says more than an expired lease.
    if (error.is_none()) throw;
  }
}

}  // namespace

void bind_batch(nb::module_& module) {
  nb::class_<Lease>(module, "_Lease");
  nb::class_<Batch>(
      module, "Batch",
      "Rows drawn by one Sampler.sample, as numpy arrays without a copy.\n\n"
      "batch[name] is the window of that name: [rows, length, shape...], without the length axis\n"
      "when the window's length is 1. It is writable, and nobody else sees what is written. Arrays "
      "keep\n"
      "the batch's memory: release() (or leaving `with`) ends access through the batch, and the\n"
      "memory serves another batch once the last array is gone. All arrays speak DLPack.")
      .def("__len__", &Batch::rows)
      .def("__getitem__", &Batch::array, nb::arg("name"))
      .def("__contains__", &contains, nb::arg("name"))
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", &leave, nb::arg("kind").none(), nb::arg("error").none(),
           nb::arg("trace").none())
      .def("names", &Batch::names, "Names of the windows, in order.")
      .def("mask", &Batch::mask, nb::arg("name"),
           "[rows, length] bool: true where a step exists, false where it is padding.")
      .def("lengths", &Batch::lengths, nb::arg("name"),
           "[rows] uint32: how many steps exist in the window.")
      .def("release", &Batch::release,
           "Ends the batch. Errors: Stale when it was released before, or when its lease had\n"
           "expired (the rows read were right all the same).")
      .def_prop_ro("released", &Batch::released)
      .def_prop_ro(
          "keys", [](const Batch& batch) { return batch.rows_of(gear_batch_keys, GEAR_U64); },
          "[rows] uint64: names the items, for update_priorities and delete.")
      .def_prop_ro(
          "priorities",
          [](const Batch& batch) { return batch.rows_of(gear_batch_priorities, GEAR_F64); },
          "[rows] float64: raw priorities at the draw.")
      .def_prop_ro(
          "probabilities",
          [](const Batch& batch) { return batch.rows_of(gear_batch_probabilities, GEAR_F64); },
          "[rows] float64: of these draws under the selector; 1 for fifo.")
      .def_prop_ro(
          "weights", [](const Batch& batch) { return batch.rows_of(gear_batch_weights, GEAR_F32); },
          "[rows] float32: importance weights, see `beta` of Table.sampler.")
      .def_prop_ro(
          "times_sampled",
          [](const Batch& batch) { return batch.rows_of(gear_batch_times_sampled, GEAR_U32); },
          "[rows] uint32: including this draw; 0 in direct mode.")
      .def_prop_ro(
          "item_lengths",
          [](const Batch& batch) { return batch.rows_of(gear_batch_item_lengths, GEAR_U32); },
          "[rows] uint32: steps of the items.")
      .def_prop_ro(
          "anchors", [](const Batch& batch) { return batch.rows_of(gear_batch_anchors, GEAR_U32); },
          "[rows] uint32: which step of the item is the drawn step.");
}

}  // namespace gear_python
