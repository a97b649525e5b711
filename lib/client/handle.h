// What stands behind the opaque pointers of gear.h: client, table, writer and sampler.
//
// Such an object derives from Handle, names itself by kMagic and kNoun, and is handed out as a
// pointer to its own C type. A pointer that comes back is believed only when the magic word is
// there.
//
// Each function of gear.h is a Call on its handle. Who closes a handle first lets no further call begin (Closing), wakes
// those that wait, and goes on once the last one returned. The memory of a closed handle is kept for a while, so that a
// thread which comes too late reads that it is closed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/shared_word.h"
#include "base/status.h"
#include "client/fork_guard.h"

namespace gear::client {

namespace detail {
// True once this process has its fences made by membarrier (shm/doorbell.h), so that who closes can make those of the
// callers.
inline std::atomic<bool> closer_fences{false};
}  // namespace detail

class Handle {
 public:
  explicit Handle(uint64_t magic) : magic_(magic), forks_(fork_generation()) {}
  // Relaxed atomic, so that the compiler keeps the store.
  ~Handle() { note(magic_, uint64_t{0}); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  // Kept as it is until as many others were closed.
  static constexpr size_t kClosedKept = 256;
  static void* operator new(size_t bytes);
  static void operator delete(void* memory);

  bool is(uint64_t magic) const { return peek(magic_) == magic; }
  bool of_this_process() const { return forks_ == fork_generation(); }

  // A call begins, unless the handle is being closed. `shared`: other threads may be in calls too; else two plain stores
  // a call. The announcement comes before the look at closing_, and at its other side the other way round, both with a
  // full fence between: either the closer sees the call, or the call sees the closer.
  bool enter(bool shared) const {
    if (shared) {
      calls_.fetch_add(1, std::memory_order_seq_cst);
    } else {
      calls_.store(1, std::memory_order_relaxed);
      if (detail::closer_fences.load(std::memory_order_relaxed)) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
      } else {
        fence_store_before_look();
      }
    }
    if (!closing_.load(std::memory_order_relaxed)) return true;
    leave(shared);
    return false;
  }
  // Release: who sees that the call has returned may free what it used.
  void leave(bool shared) const {
    if (shared) {
      calls_.fetch_sub(1, std::memory_order_release);
    } else {
      calls_.store(0, std::memory_order_release);
    }
  }

  // No further call begins.
  void refuse_calls();
  void accept_calls() { closing_.store(false, std::memory_order_relaxed); }
  // After refuse_calls: waits until the calls under way have returned. False when the deadline passed.
  bool await_calls(int64_t deadline_ns) const;
  // One thread at a time closes.
  bool begin_close() { return !closer_.exchange(true, std::memory_order_acq_rel); }
  void cancel_close() { closer_.store(false, std::memory_order_release); }

 private:
  uint64_t magic_;
  uint32_t forks_;
  mutable std::atomic<uint32_t> calls_{0};
  std::atomic<bool> closing_{false};
  std::atomic<bool> closer_{false};
};

// EINVAL for NULL and for what is no such handle, ESTATE in a forked child.
Status unusable_handle(const char* noun, bool recognised);

// EBUSY: a call of another thread did not return.
Status calls_remain(const char* noun, int64_t patience_ns);

template <typename T>
Status check_handle(const T* handle) {
  bool recognised = handle != nullptr && handle->is(T::kMagic);
  if (recognised && handle->of_this_process()) return {};
  return unusable_handle(T::kNoun, recognised);
}

// A function of gear.h while it uses a handle.
template <typename T>
class Call {
 public:
  explicit Call(const T* handle) : status_(check_handle(handle)) {
    if (!status_.ok()) return;
    if (handle->enter(T::kShared)) {
      handle_ = handle;
    } else {
      status_ = unusable_handle(T::kNoun, false);
    }
  }
  ~Call() {
    if (handle_ != nullptr) handle_->leave(T::kShared);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Status& status() const { return status_; }

 private:
  const T* handle_ = nullptr;
  Status status_;
};

}  // namespace gear::client
