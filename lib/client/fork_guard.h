// What a forked child may not do with its parent's clients.
//
// The child has copies of the handles, but not the shared memory behind them (MADV_DONTFORK), and
// the connection is its parent's. So every call looks whether it runs in the process that made the
// handle, and the child gives up the descriptors at once: a copy kept open would hide the parent's
// death from the server.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "shm/descriptor.h"

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

// A descriptor that is closed in forked children too. Not thread safe, but for get.
class PrivateDescriptor {
 public:
  PrivateDescriptor() = default;
  explicit PrivateDescriptor(Descriptor fd) : fd_(std::move(fd)) {
    if (fd_.valid()) close_in_child(fd_.get());
  }
  PrivateDescriptor(PrivateDescriptor&&) noexcept = default;
  PrivateDescriptor& operator=(PrivateDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::move(other.fd_);
    }
    return *this;
  }
  ~PrivateDescriptor() { reset(); }

  int get() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  void reset() {
    if (fd_.valid()) keep_in_child(fd_.get());
    fd_.reset();
  }
  // From here on this number is the other's open file. Atomic: a thread that uses the number meanwhile meets the one
  // or the other, never a number that is closed or somebody else's. False when the system refuses.
  bool become(const PrivateDescriptor& other) {
    return dup3(other.get(), fd_.get(), O_CLOEXEC) == fd_.get();
  }

 private:
  Descriptor fd_;
};

}  // namespace gear::client
