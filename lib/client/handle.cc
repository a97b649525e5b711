#include "client/handle.h"

#include <unistd.h>

#include <mutex>
#include <new>

#include "base/clock.h"
#include "client/text.h"
#include "shm/doorbell.h"

namespace gear::client {
namespace {

constexpr unsigned kNapUs = 20;

// Never destroyed: handles may be closed while the process exits.
struct ClosedHandles {
  std::mutex mutex;
  void* memory[Handle::kClosedKept] = {};
  size_t next = 0;
};

ClosedHandles& closed_handles() {
  static auto* closed = new ClosedHandles();
  return *closed;
}

}  // namespace

void* Handle::operator new(size_t bytes) {
  return ::operator new(bytes);
}

void Handle::operator delete(void* memory) {
  ClosedHandles& closed = closed_handles();
  {
    std::lock_guard lock(closed.mutex);
    std::swap(memory, closed.memory[closed.next]);
    closed.next = (closed.next + 1) % kClosedKept;
  }
  ::operator delete(memory);
}

void Handle::refuse_calls() {
  closing_.store(true, std::memory_order_seq_cst);
  fence_store_before_look();
  if (detail::closer_fences.load(std::memory_order_relaxed)) fence_clients();
}

bool Handle::await_calls(int64_t deadline_ns) const {
  // Acquire: what the calls did is done.
  while (calls_.load(std::memory_order_acquire) != 0) {
    if (left_until(deadline_ns) == 0) return false;
    usleep(kNapUs);
  }
  return true;
}

Status calls_remain(const char* noun, int64_t patience_ns) {
  return error(GEAR_EBUSY,
               "close %s: a call of another thread on it has not returned in %s (or it is this very call that was called "
               "from within one); let it return, and close again",
               noun, duration_text(patience_ns).c_str());
}

Status unusable_handle(const char* noun, bool recognised) {
  if (recognised) {
    return error(
        GEAR_ESTATE,
        "this %s was opened before fork and belongs to the parent process; connect anew in "
        "the child, and attach by the table's handle",
        noun);
  }
  return error(GEAR_EINVAL,
               "%s is NULL, closed, or no %s of this library; give one that an open call returned",
               noun, noun);
}

}  // namespace gear::client
