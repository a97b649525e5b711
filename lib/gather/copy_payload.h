// The one place that reads payload while a writer may be storing into it.
#pragma once

#include <cstddef>

#include "base/copy_bytes.h"
#include "gather/bring_near.h"

#if defined(__SANITIZE_THREAD__)
#define GEAR_COPY_UNSEEN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GEAR_COPY_UNSEEN 1
#endif
#endif

namespace gear {

// Copies `bytes` of a block, or of an episode's cells, into memory of this thread.
//
// This is a race by design: a block may be granted anew and filled during the copy. The bytes mean
// nothing until the generation, re-read after fence_copy_before_check, is the one from before. So
// the copy is plain (a loop of atomics would be several times slower), and this function alone is
// hidden from the thread sanitizer, which cannot know that torn bytes are thrown away. Nothing else
// may read payload.
#if defined(GEAR_COPY_UNSEEN)
void copy_payload(void* to, const void* from, size_t bytes);
#else
inline void copy_payload(void* to, const void* from, size_t bytes) { copy_bytes(to, from, bytes); }
#endif

// Loads the byte at each address, to bring its line near; what is read is not used.
#if defined(GEAR_COPY_UNSEEN)
inline void touch_payload(const char* const*, size_t) {}
#else
inline void touch_payload(const char* const* lines, size_t count) {
  for (size_t i = 0; i < count; ++i) bring_near(lines[i]);
}
#endif

}  // namespace gear
