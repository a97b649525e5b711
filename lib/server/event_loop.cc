#include "server/event_loop.h"

#include <atomic>

#include "base/log.h"

namespace gear {

Result<std::unique_ptr<EventLoop>> EventLoop::create(bool allow_io_uring) {
  if (!allow_io_uring) return create_epoll_loop();
  Result<std::unique_ptr<EventLoop>> loop = create_uring_loop();
  if (loop.ok() || loop.status().code() != GEAR_EUNSUPPORTED) return loop;
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    log(LogLevel::kWarning, "%s; going on with epoll", loop.status().text().c_str());
  }
  return create_epoll_loop();
}

}  // namespace gear
