// Where gear_sample_into puts the windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "client/batch.h"
#include "gear.h"

namespace gear::client {

// The sampler's thread; kept by the sampler, so that a call allocates nothing.
//
// Rows are gathered straight into a destination where its steps follow one another; where they do not,
// into the batch's own memory, and copied from there.
class Destinations {
 public:
  explicit Destinations(const BatchLayout& layout);

  // Those of one call. nullptr: none, all goes to the batch's own memory. Errors: ECOUNT, EINVAL,
  // ESTRUCT; then none are set.
  Status set(const gear_destination* given, size_t count, uint32_t rows);

  // Before the rows are gathered.
  void place(Batch& batch) const;
  // After it: whatever is still in the batch's own memory and belongs elsewhere.
  void copy_out(Batch& batch) const;

 private:
  struct Place {
    char* data = nullptr;  // nullptr: the batch's own memory
    uint64_t row_stride = 0;
    uint64_t step_stride = 0;
  };
  Status read(const gear_destination& given, uint32_t index, uint32_t rows);
  bool step_by_step(uint32_t index) const;

  const BatchLayout& layout_;
  std::vector<Place> places_;
  bool any_ = false;
};

}  // namespace gear::client
