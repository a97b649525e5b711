// The rate limiter of a table: pure arithmetic over counts, no clocks, no waiting.
//
//   may_sample(n): size >= min_size  and  inserts*s - samples - n >= min_diff
//   may_insert(n): size + n <= min_size  or  (inserts + n)*s - samples <= max_diff
//
// with size = inserts - deletes, in doubles. (Cassirer et al., Reverb, 2021, section 3.3.)
#pragma once

#include <cstdint>

#include "base/status.h"
#include "gear.h"

namespace gear {

struct LimiterCounts {
  uint64_t inserts = 0;
  uint64_t samples = 0;
  uint64_t deletes = 0;
};

// Conductor only (or any single thread). Complexity O(1) throughout.
class RateLimiter {
 public:
  RateLimiter() = default;
  explicit RateLimiter(const gear_rate_limiter& limits, const LimiterCounts& counts = {})
      : limits_(limits), counts_(counts) {}

  bool may_sample(uint64_t n) const;
  bool may_insert(uint64_t n) const;

  void inserted(uint64_t n) { counts_.inserts += n; }
  void sampled(uint64_t n) { counts_.samples += n; }
  void deleted(uint64_t n) { counts_.deletes += n; }

  const LimiterCounts& counts() const { return counts_; }
  const gear_rate_limiter& limits() const { return limits_; }
  void retune(const gear_rate_limiter& limits) { limits_ = limits; }

 private:
  gear_rate_limiter limits_{1.0, 1, 0.0, 0.0};
  LimiterCounts counts_;
};

// EINVAL with the reason and the values: s not finite or <= 0, min_size < 1, bounds NaN or crossed (min_diff > max_diff).
Status check_limiter(const gear_rate_limiter& limits);
// The same for a table of so many items: EINVAL also where min_size can never be reached.
Status check_limiter_of(const gear_rate_limiter& limits, uint64_t capacity_items);

// True for limiters that only ask for a minimum size: nothing has to be counted, so direct sampling is allowed.
bool limiter_counts_nothing(const gear_rate_limiter& limits);

// The presets. min_size(m): s 1, bounds -DBL_MAX and DBL_MAX. ratio(s, m, e): bounds s*m - e and s*m + e; EINVAL when
// m < 1, s <= 0 or e < max(1, s) (the width under 2*max(1, s) could stall both sides).
Status min_size_limiter(int64_t min_size, gear_rate_limiter* limits);
Status ratio_limiter(double samples_per_insert, int64_t min_size, double error_buffer,
                     gear_rate_limiter* limits);

}  // namespace gear
