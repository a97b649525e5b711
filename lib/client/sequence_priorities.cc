// gear.h, section 7: the priority of a sequence.

#include <cmath>

#include "client/c_api.h"

using namespace gear;          // NOLINT: this file is the C edge of the namespace
using namespace gear::client;  // NOLINT

namespace {

// eta * max|d| + (1 - eta) * mean|d|; NaN where an error is NaN.
double priority_of(const float* errors, size_t steps, double eta) {
  if (steps == 0) return 0;
  double largest = 0;
  double sum = 0;
  for (size_t i = 0; i < steps; ++i) {
    double size = std::fabs(static_cast<double>(errors[i]));
    if (size > largest) largest = size;
    sum += size;
  }
  return eta * largest + (1 - eta) * (sum / static_cast<double>(steps));
}

Status check_lengths(const uint32_t* lengths, size_t rows, size_t length) {
  for (size_t row = 0; lengths != nullptr && row < rows; ++row) {
    if (lengths[row] <= length) continue;
    return error(GEAR_EINVAL,
                 "sequence priorities: lengths[%zu] is %u, a row has %zu errors; give at most that many",
                 row, lengths[row], length);
  }
  return {};
}

}  // namespace

int gear_sequence_priorities(const float* errors, size_t rows, size_t length,
                             const uint32_t* lengths, double eta, double* priorities) {
  return guarded([&]() -> Status {
    if (!(eta >= 0 && eta <= 1)) {
      return error(GEAR_EINVAL, "sequence priorities: eta %g; give 0 to 1", eta);
    }
    if (rows == 0) return {};
    if (length > 0) GEAR_TRY(need(errors, "gear_sequence_priorities", "errors"));
    GEAR_TRY(need(priorities, "gear_sequence_priorities", "priorities"));
    GEAR_TRY(check_lengths(lengths, rows, length));
    for (size_t row = 0; row < rows; ++row) {
      size_t steps = lengths != nullptr ? lengths[row] : length;
      priorities[row] = priority_of(errors + row * length, steps, eta);
    }
    return {};
  });
}
