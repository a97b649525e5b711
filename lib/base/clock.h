// Monotonic time and deadlines, in nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

namespace gear {

// CLOCK_MONOTONIC: one clock for all processes of the machine. No system call where the vdso serves it.
inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// The moment a relative timeout ends; saturates, and a negative timeout counts as 0.
inline int64_t deadline_after(int64_t timeout_ns) {
  int64_t now = now_ns();
  if (timeout_ns <= 0) return now;
  return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

// What is left until a deadline, never negative.
inline int64_t left_until(int64_t deadline_ns) {
  int64_t left = deadline_ns - now_ns();
  return left > 0 ? left : 0;
}

}  // namespace gear
