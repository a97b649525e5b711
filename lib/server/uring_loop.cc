#include <liburing.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "server/event_loop.h"

namespace gear {
namespace {

// One-shot polls, armed again by the wait after they fired: what is still readable then fires at once, which is level
// semantics. A removed descriptor's poll is cancelled; completions are matched to a registration number, so a late one of a
// removed registration is passed over.
class UringLoop final : public EventLoop {
 public:
  ~UringLoop() override {
    if (made_) io_uring_queue_exit(&ring_);
  }

  Status open() {
    int made = io_uring_queue_init(kEntries, &ring_, IORING_SETUP_CLAMP);
    if (made == -EMFILE || made == -ENFILE || made == -ENOMEM) {
      return system_error(-made, "make an io_uring");
    }
    if (made < 0) {
      return error(GEAR_EUNSUPPORTED, "io_uring is not to be had (%s)", strerror(-made));
    }
    made_ = true;
    return {};
  }

  const char* name() const override { return "io_uring"; }

  Status add(int fd, uint64_t token) override {
    uint64_t number = next_++;
    watches_[number] = {fd, token};
    numbers_[fd] = number;
    return arm(number, fd);
  }

  void remove(int fd) override {
    auto found = numbers_.find(fd);
    if (found == numbers_.end()) return;
    uint64_t number = found->second;
    numbers_.erase(found);
    watches_.erase(number);
    std::erase(fired_, number);
    if (io_uring_sqe* entry = next_entry()) {
      io_uring_prep_poll_remove(entry, number);
      io_uring_sqe_set_data64(entry, kIgnored);
      io_uring_submit(&ring_);
    }
  }

  size_t wait(int64_t timeout_ns, LoopEvent* events, size_t events_max) override {
    rearm();
    if (timeout_ns != 0 && io_uring_cq_ready(&ring_) == 0) sleep(timeout_ns);
    size_t count = 0;
    io_uring_cqe* completion = nullptr;
    while (count < events_max && io_uring_peek_cqe(&ring_, &completion) == 0) {
      uint64_t number = io_uring_cqe_get_data64(completion);
      int result = completion->res;
      io_uring_cqe_seen(&ring_, completion);
      auto found = watches_.find(number);
      if (found == watches_.end()) continue;
      fired_.push_back(number);
      bool hangup = result < 0 || (result & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
      events[count++] = {found->second.token, hangup};
    }
    return count;
  }

 private:
  static constexpr unsigned kEntries = 256;
  static constexpr uint64_t kIgnored = 0;
  struct Watch {
    int fd;
    uint64_t token;
  };

  io_uring_sqe* next_entry() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry != nullptr) return entry;
    io_uring_submit(&ring_);
    return io_uring_get_sqe(&ring_);
  }

  Status prepare(uint64_t number, int fd) {
    io_uring_sqe* entry = next_entry();
    if (entry == nullptr) return error(GEAR_ENOMEM, "io_uring takes no more entries");
    io_uring_prep_poll_add(entry, fd, POLLIN | POLLRDHUP);
    io_uring_sqe_set_data64(entry, number);
    return {};
  }

  Status arm(uint64_t number, int fd) {
    GEAR_TRY(prepare(number, fd));
    int submitted = io_uring_submit(&ring_);
    return submitted >= 0 ? Status() : system_error(-submitted, "submit to io_uring");
  }

  void rearm() {
    if (fired_.empty()) return;
    for (uint64_t number : fired_) {
      auto found = watches_.find(number);
      if (found != watches_.end()) static_cast<void>(prepare(number, found->second.fd).ok());
    }
    fired_.clear();
    io_uring_submit(&ring_);
  }

  void sleep(int64_t timeout_ns) {
    io_uring_cqe* completion = nullptr;
    if (timeout_ns < 0) {
      io_uring_wait_cqe(&ring_, &completion);
      return;
    }
    __kernel_timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    io_uring_wait_cqe_timeout(&ring_, &completion, &timeout);
  }

  io_uring ring_{};
  bool made_ = false;
  uint64_t next_ = 1;
  std::unordered_map<uint64_t, Watch> watches_;  // by registration number
  std::unordered_map<int, uint64_t> numbers_;    // by descriptor
  std::vector<uint64_t> fired_;                  // to be armed again
};

}  // namespace

Result<std::unique_ptr<EventLoop>> create_uring_loop() {
  auto loop = std::make_unique<UringLoop>();
  GEAR_TRY(loop->open());
  return std::unique_ptr<EventLoop>(std::move(loop));
}

}  // namespace gear
