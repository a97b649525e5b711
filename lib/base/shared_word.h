// Access to words that two processes share. Each helper is named for what the observer may conclude.
//
// Words in shared memory are plain integers and doubles in structs of lib/layout; they are only ever touched
// through these helpers once another process can see them.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef GEAR_CRASH_POINTS
#include "base/crash_point.h"
// Stores know where they are written; see base/crash_point.h.
#define GEAR_STORE_PLACE , const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define GEAR_STORE_DONE ::gear::crash_point(file, line)
#else
#define GEAR_STORE_PLACE
#define GEAR_STORE_DONE
#endif

namespace gear {

// Release: an observer that sees this value also sees everything this thread wrote before it.
template <typename T>
inline void publish(T& word, T value GEAR_STORE_PLACE) {
  __atomic_store(&word, &value, __ATOMIC_RELEASE);
  GEAR_STORE_DONE;
}

// Acquire: what the publisher wrote before the value seen is visible from here on.
template <typename T>
inline T observe(const T& word) {
  T value;
  __atomic_load(&word, &value, __ATOMIC_ACQUIRE);
  return value;
}

// Relaxed: the word is whole, nothing else may be concluded.
template <typename T>
inline T peek(const T& word) {
  T value;
  __atomic_load(&word, &value, __ATOMIC_RELAXED);
  return value;
}

template <typename T>
inline void note(T& word, T value GEAR_STORE_PLACE) {
  __atomic_store(&word, &value, __ATOMIC_RELAXED);
  GEAR_STORE_DONE;
}

// Release, for words that several processes change: none of their changes is lost.
template <typename T>
inline void publish_change(T& word GEAR_STORE_PLACE) {
  __atomic_fetch_add(&word, T{1}, __ATOMIC_RELEASE);
  GEAR_STORE_DONE;
}

// Copy-then-check readers: orders the reads of a copy before the read of the generation that judges it.
inline void fence_copy_before_check() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }

// Writers of what copy-then-check readers read: orders the generation seen or changed before the payload stores that
// follow it.
inline void fence_generation_before_payload() { __atomic_thread_fence(__ATOMIC_RELEASE); }

// For who adopts the memory of a process that was killed: it sees the stores before this when it sees those after it. A
// processor stops between two instructions, so only the compiler is held to their order.
inline void order_for_adopter() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

// Sleep protocols (store mine, then look at yours, on both sides): one of the two sees the other.
inline void fence_store_before_look() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Told to the processor inside spin loops.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Asks for the line of a word that this thread will write and others read: the store then need not wait for their copies to go.
// A hint; the compilers' own emits it only for newer machines than the build is for.
inline void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace gear
