#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "server/event_loop.h"
#include "shm/descriptor.h"
#include "shm/descriptor_error.h"

namespace gear {
namespace {

constexpr size_t kEventsMax = 64;

timespec to_timespec(int64_t ns) {
  return {ns / 1'000'000'000, ns % 1'000'000'000};
}

class EpollLoop final : public EventLoop {
 public:
  explicit EpollLoop(Descriptor epoll) : epoll_(std::move(epoll)) {}

  const char* name() const override { return "epoll"; }

  Status add(int fd, uint64_t token) override {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.u64 = token;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
    if (errno == EEXIST)
      return error(GEAR_EINVAL, "event loop: descriptor %d was added before", fd);
    if (errno == EBADF) return error(GEAR_EINVAL, "event loop: %d is no open descriptor", fd);
    return system_error(errno, format("event loop: adding descriptor %d", fd));
  }

  void remove(int fd) override {
    epoll_event unused{};
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused);
  }

  size_t wait(int64_t timeout_ns, LoopEvent* events, size_t events_max) override {
    std::array<epoll_event, kEventsMax> found;
    int count = wait_for(timeout_ns, found.data(), std::min(events_max, found.size()));
    for (int i = 0; i < count; ++i) {
      events[i].token = found[i].data.u64;
      events[i].hangup = (found[i].events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0;
    }
    return count > 0 ? static_cast<size_t>(count) : 0;
  }

 private:
  int wait_for(int64_t timeout_ns, epoll_event* found, size_t found_max) {
    int max = static_cast<int>(found_max);
    if (timeout_ns <= 0) return epoll_wait(epoll_.get(), found, max, timeout_ns < 0 ? -1 : 0);
    timespec timeout = to_timespec(timeout_ns);
    if (has_pwait2_) {
      int count = epoll_pwait2(epoll_.get(), found, max, &timeout, nullptr);
      if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
      has_pwait2_ = false;
    }
    // Milliseconds are too coarse for the conductor's drowsy sleep; an epoll descriptor can itself
    // be polled.
    pollfd entry{epoll_.get(), POLLIN, 0};
    if (ppoll(&entry, 1, &timeout, nullptr) <= 0) return 0;
    return epoll_wait(epoll_.get(), found, max, 0);
  }

  Descriptor epoll_;
  bool has_pwait2_ = true;
};

}  // namespace

Result<std::unique_ptr<EventLoop>> create_epoll_loop() {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return descriptor_error(errno, "event loop: epoll_create1");
  return std::unique_ptr<EventLoop>(std::make_unique<EpollLoop>(std::move(epoll)));
}

}  // namespace gear
