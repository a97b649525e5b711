// Invariants of GEAR itself. Never for what a caller or a peer may do: that has a status.
#pragma once

#include <cstdio>
#include <cstdlib>

#define GEAR_ASSERT(condition, pattern, ...)                                                       \
  do {                                                                                             \
    if (__builtin_expect(!(condition), 0)) {                                                       \
      fprintf(stderr, "gear: broken invariant %s at %s:%d: " pattern "\n", #condition, __FILE__,   \
              __LINE__ __VA_OPT__(, ) __VA_ARGS__);                                                \
      abort();                                                                                     \
    }                                                                                              \
  } while (false)
