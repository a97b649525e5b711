// What stands behind the opaque pointers of gear.h: client, table, writer and sampler.
//
// Such an object derives from Handle, names itself by kMagic and kNoun, and is handed out as a
// pointer to its own C type. A pointer that comes back is believed only when the magic word is
// there.
#pragma once

#include <cstdint>

#include "base/shared_word.h"
#include "base/status.h"
#include "client/fork_guard.h"

namespace gear::client {

class Handle {
 public:
  explicit Handle(uint64_t magic) : magic_(magic), forks_(fork_generation()) {}
  // Relaxed atomic, so that the compiler keeps the store: a pointer used after close is mostly
  // recognised.
  ~Handle() { note(magic_, uint64_t{0}); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  bool is(uint64_t magic) const { return peek(magic_) == magic; }
  bool of_this_process() const { return forks_ == fork_generation(); }

 private:
  uint64_t magic_;
  uint32_t forks_;
};

// EINVAL for NULL and for what is no such handle, ESTATE in a forked child.
Status unusable_handle(const char* noun, bool recognised);

template <typename T>
Status check_handle(const T* handle) {
  bool recognised = handle != nullptr && handle->is(T::kMagic);
  if (recognised && handle->of_this_process()) return {};
  return unusable_handle(T::kNoun, recognised);
}

}  // namespace gear::client
