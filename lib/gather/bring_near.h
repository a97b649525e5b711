// Loads whose only purpose is that a later load of the same line is quick.
#pragma once

#include "base/shared_word.h"

namespace gear {

// A real load, where __builtin_prefetch would be a hint: a hint that misses the TLB is dropped or
// slow, while independent loads miss side by side. The address must be mapped.
inline void bring_near(const void* address) {
  char byte = peek(*static_cast<const char*>(address));
  asm volatile("" : : "r"(byte));  // or the compiler would drop the load
}

}  // namespace gear
