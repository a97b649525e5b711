// A batch, and the lease that its arrays keep.
#pragma once

#include <gear.h>
#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "array.h"

namespace gear_python {

namespace nb = nanobind;

// Owns a gear_batch. The Python object of it is the base of every array over the batch's memory, so
// that the memory outlives them all.
class Lease {
 public:
  explicit Lease(gear_batch* raw) : raw_(raw) {}
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  gear_batch* raw() const { return raw_; }
  int release();

 private:
  gear_batch* raw_;
};

// What Sampler.sample returns. Reading is safe from several threads under the GIL.
class Batch {
 public:
  // Takes ownership of `raw`, also when it throws.
  explicit Batch(gear_batch* raw);

  uint32_t rows() const { return rows_; }
  std::vector<std::string> names() const;
  nb::object array(nb::handle name) const;
  nb::object mask(nb::handle name) const;
  nb::object lengths(nb::handle name) const;
  // One value a row, from the accessor of gear.h that returns them.
  template <typename T>
  nb::object rows_of(const T* (*accessor)(const gear_batch*), uint32_t dtype) const;

  // No array of the batch can be had any more. Its memory goes back now, or with the last array
  // alive.
  void release();
  bool released() const { return lease_.is_none(); }

 private:
  gear_batch* raw() const;
  gear_tensor tensor(nb::handle name) const;

  nb::object lease_;
  uint32_t rows_;
};

}  // namespace gear_python
