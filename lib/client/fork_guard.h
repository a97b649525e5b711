// What a forked child may not do with its parent's clients.
//
// The child has copies of the handles, but not the shared memory behind them (MADV_DONTFORK), and
// the connection is its parent's. So every call looks whether it runs in the process that made the
// handle, and the child gives up the descriptors at once: a copy kept open would hide the parent's
// death from the server.
#pragma once

#include <atomic>
#include <cstdint>

namespace gear::client {

namespace detail {
inline std::atomic<uint32_t> forks{0};
}

// Grows in each forked child: a handle with another number is the parent's. One relaxed load.
inline uint32_t fork_generation() {
  return detail::forks.load(std::memory_order_relaxed);
}

// From here on forks are counted. Any thread, any number of times.
void watch_forks();

// A descriptor that a forked child closes. Any thread.
void close_in_child(int fd);
void keep_in_child(int fd);  // undoes close_in_child, before the descriptor is closed

}  // namespace gear::client
