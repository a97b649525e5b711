#include "gather/copy_payload.h"

#if defined(GEAR_COPY_UNSEEN)

#include <cstdint>

namespace gear {

// Words and bytes by hand: the sanitizer intercepts memcpy even when this function is not
// instrumented.
__attribute__((no_sanitize("thread"))) void copy_payload(void* to, const void* from, size_t bytes) {
  auto* out = static_cast<char*>(to);
  auto* in = static_cast<const char*>(from);
  if ((reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(in)) % sizeof(uint64_t) ==
      0) {
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
      uint64_t word = __atomic_load_n(reinterpret_cast<const uint64_t*>(in), __ATOMIC_RELAXED);
      __atomic_store_n(reinterpret_cast<uint64_t*>(out), word, __ATOMIC_RELAXED);
      in += sizeof word;
      out += sizeof word;
    }
  }
  for (; bytes > 0; --bytes) {
    __atomic_store_n(out++, __atomic_load_n(in++, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  }
}

}  // namespace gear

#endif
