#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "server/event_loop.h"
#include "shm/descriptor.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

namespace gear {
namespace {

class EpollLoop final : public EventLoop {
 public:
  explicit EpollLoop(Descriptor epoll) : epoll_(std::move(epoll)) {}

  const char* name() const override { return "epoll"; }

  Status add(int fd, uint64_t token) override {
    epoll_event interest{};
    interest.events = EPOLLIN | EPOLLRDHUP;
    interest.data.u64 = token;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) == 0) return {};
    return system_error(errno, "add to epoll");
  }

  void remove(int fd) override { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  size_t wait(int64_t timeout_ns, LoopEvent* events, size_t events_max) override {
    epoll_event ready[kReadyMax];
    int most = static_cast<int>(std::min<size_t>(events_max, kReadyMax));
    int count = sleep(timeout_ns, ready, most);
    for (int i = 0; i < count; ++i) {
      events[i] = {ready[i].data.u64,
                   (ready[i].events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0};
    }
    return static_cast<size_t>(std::max(count, 0));
  }

 private:
  static constexpr size_t kReadyMax = 64;

  int sleep(int64_t timeout_ns, epoll_event* ready, int most) {
    if (timeout_ns <= 0) return epoll_wait(epoll_.get(), ready, most, timeout_ns < 0 ? -1 : 0);
    if (precise_) {
      timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000), static_cast<long>(timeout_ns % 1'000'000'000)};
      long count = syscall(SYS_epoll_pwait2, epoll_.get(), ready, most, &timeout, nullptr, 0);
      if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(count);
      precise_ = false;  // before Linux 5.11, or forbidden: whole milliseconds, rounded up
    }
    int64_t milliseconds = std::min<int64_t>((timeout_ns + 999'999) / 1'000'000, 1'000'000);
    return epoll_wait(epoll_.get(), ready, most, static_cast<int>(milliseconds));
  }

  Descriptor epoll_;
  bool precise_ = true;
};

}  // namespace

Result<std::unique_ptr<EventLoop>> create_epoll_loop() {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_error(errno, "make an epoll");
  return std::unique_ptr<EventLoop>(std::make_unique<EpollLoop>(std::move(epoll)));
}

}  // namespace gear
