// What the server sleeps on: its sockets, doorbells and process watches, by io_uring or by epoll.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace gear {

struct LoopEvent {
  uint64_t token;
  bool hangup;  // the other end has closed, or the descriptor failed; there may be data to read all
                // the same
};

// Tells which descriptors are readable. Level semantics: what is left unread is told again by the
// next wait.
//
// One thread, throughout; only create may happen in another. A descriptor is removed before it is
// closed: an implementation may hold its file open.
class EventLoop {
 public:
  virtual ~EventLoop() = default;

  // io_uring where it is allowed, else epoll, which is said once in the log. Errors: EMFILE,
  // ENOMEM, ESYSTEM.
  static Result<std::unique_ptr<EventLoop>> create(bool allow_io_uring);

  virtual const char* name() const = 0;  // "io_uring" or "epoll"

  // A descriptor may be added once; its events carry `token`. Errors: ENOMEM, EINVAL, ESYSTEM.
  virtual Status add(int fd, uint64_t token) = 0;

  // No event of fd comes after this, and its file is held no more. Not added: no effect.
  virtual void remove(int fd) = 0;

  // Sleeps until a descriptor is readable, up to timeout_ns: 0 only looks, negative is without
  // limit. Returns the number of events, 0 at the end of the time and possibly before it (a signal,
  // say).
  virtual size_t wait(int64_t timeout_ns, LoopEvent* events, size_t events_max) = 0;
};

// The two implementations. create_uring_loop: EUNSUPPORTED where the kernel or the container does
// not grant it.
Result<std::unique_ptr<EventLoop>> create_uring_loop();
Result<std::unique_ptr<EventLoop>> create_epoll_loop();

}  // namespace gear
