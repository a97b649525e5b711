#include "limit/rate_limiter.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace gear {

bool RateLimiter::may_sample(uint64_t n) const {
  uint64_t size = counts_.inserts - counts_.deletes;
  if (size < static_cast<uint64_t>(limits_.min_size)) return false;
  double difference = static_cast<double>(counts_.inserts) * limits_.samples_per_insert -
                      static_cast<double>(counts_.samples) - static_cast<double>(n);
  return difference >= limits_.min_diff;
}

bool RateLimiter::may_insert(uint64_t n) const {
  uint64_t size = counts_.inserts - counts_.deletes;
  if (size + n <= static_cast<uint64_t>(limits_.min_size)) return true;
  double difference =
      static_cast<double>(counts_.inserts + n) * limits_.samples_per_insert -
      static_cast<double>(counts_.samples);
  return difference <= limits_.max_diff;
}

Status check_limiter(const gear_rate_limiter& limits) {
  double s = limits.samples_per_insert;
  if (!std::isfinite(s) || s <= 0) {
    return error(GEAR_EINVAL, "rate limiter: samples_per_insert %g; give a finite number above 0", s);
  }
  if (limits.min_size < 1) {
    return error(GEAR_EINVAL, "rate limiter: min_size %lld; give at least 1",
                 static_cast<long long>(limits.min_size));
  }
  if (std::isnan(limits.min_diff) || std::isnan(limits.max_diff) ||
      limits.min_diff > limits.max_diff) {
    return error(GEAR_EINVAL, "rate limiter: bounds %g to %g; give min_diff <= max_diff", limits.min_diff,
                 limits.max_diff);
  }
  return {};
}

Status check_limiter_of(const gear_rate_limiter& limits, uint64_t capacity_items) {
  GEAR_TRY(check_limiter(limits));
  if (static_cast<uint64_t>(limits.min_size) <= capacity_items) return {};
  return error(GEAR_EINVAL,
               "rate limiter: min_size %lld, capacity_items %llu: nothing could ever be drawn; give a min_size of at most the capacity",
               static_cast<long long>(limits.min_size), static_cast<unsigned long long>(capacity_items));
}

bool limiter_counts_nothing(const gear_rate_limiter& limits) {
  return limits.min_diff <= -DBL_MAX && limits.max_diff >= DBL_MAX;
}

Status min_size_limiter(int64_t min_size, gear_rate_limiter* limits) {
  gear_rate_limiter made{1.0, min_size, -DBL_MAX, DBL_MAX};
  GEAR_TRY(check_limiter(made));
  *limits = made;
  return {};
}

Status ratio_limiter(double samples_per_insert, int64_t min_size, double error_buffer,
                     gear_rate_limiter* limits) {
  double middle = samples_per_insert * static_cast<double>(min_size);
  gear_rate_limiter made{samples_per_insert, min_size, middle - error_buffer, middle + error_buffer};
  GEAR_TRY(check_limiter(made));
  double least = std::max(1.0, samples_per_insert);
  if (!(error_buffer >= least)) {
    return error(GEAR_EINVAL, "rate limiter: error_buffer %g; give at least max(1, samples_per_insert) = %g, or inserts and samples can stall each other",
                 error_buffer, least);
  }
  *limits = made;
  return {};
}

}  // namespace gear
