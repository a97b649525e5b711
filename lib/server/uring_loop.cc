#include <fcntl.h>
#include <liburing.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "server/event_loop.h"
#include "shm/descriptor_error.h"

namespace gear {
namespace {

constexpr unsigned kSubmissionEntries = 256;
constexpr uint64_t kUnheard = UINT64_MAX;  // user data of operations whose end tells nothing
constexpr size_t kCompletionsAtOnce = 64;

// One poll a descriptor, armed anew after each event: arming looks at the descriptor first, so what
// the consumer left unread completes the poll at once. (A multishot poll tells of changes only, and
// would not.)
//
// Invariant: a watch is armed (one poll under way, in the ring or prepared), or it is in to_arm_.
// Polls belong to the thread that submits them and end with it, so everything is submitted by the
// thread that waits.
class UringLoop final : public EventLoop {
 public:
  explicit UringLoop(const io_uring& ring) : ring_(ring) {}
  ~UringLoop() override {
    // The ring is torn down in the background; a socket whose poll lasted until then would hang up
    // late.
    while (!slots_.empty()) remove(slots_.begin()->first);
    io_uring_queue_exit(&ring_);
  }

  const char* name() const override { return "io_uring"; }

  Status add(int fd, uint64_t token) override {
    if (fcntl(fd, F_GETFD) < 0)
      return error(GEAR_EINVAL, "event loop: %d is no open descriptor", fd);
    if (slots_.count(fd) != 0) {
      return error(GEAR_EINVAL, "event loop: descriptor %d was added before", fd);
    }
    uint32_t slot = free_slot();
    watches_[slot].fd = fd;
    watches_[slot].token = token;
    slots_[fd] = slot;
    to_arm_.push_back(slot);
    return {};
  }

  void remove(int fd) override {
    auto found = slots_.find(fd);
    if (found == slots_.end()) return;
    uint32_t slot = found->second;
    slots_.erase(found);
    Watch& watch = watches_[slot];
    if (watch.armed) {
      cancel(user_data(slot));
    } else {
      to_arm_.erase(std::find(to_arm_.begin(), to_arm_.end(), slot));
    }
    // Completions that are on their way bear the old generation.
    ++watch.generation;
    watch.armed = false;
    watch.fd = -1;
    free_slots_.push_back(slot);
  }

  size_t wait(int64_t timeout_ns, LoopEvent* events, size_t events_max) override {
    // What is there already is told before anything is armed, so that a full ring drains.
    size_t count = collect(events, events_max);
    if (count > 0) return count;
    bool prepared = arm_watches();
    if (timeout_ns == 0) {
      if (prepared) io_uring_submit(&ring_);
    } else {
      sleep(timeout_ns);
    }
    return collect(events, events_max);
  }

 private:
  struct Watch {
    int fd = -1;
    uint32_t generation = 0;
    uint64_t token = 0;
    bool armed = false;
  };

  uint64_t user_data(uint32_t slot) const {
    return static_cast<uint64_t>(watches_[slot].generation) << 32 | slot;
  }

  uint32_t free_slot() {
    if (free_slots_.empty()) {
      watches_.emplace_back();
      return static_cast<uint32_t>(watches_.size() - 1);
    }
    uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  // nullptr when the ring takes nothing now (memory, signal).
  io_uring_sqe* next_entry() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry != nullptr) return entry;
    io_uring_submit(&ring_);
    return io_uring_get_sqe(&ring_);
  }

  // True when there is something to submit.
  bool arm_watches() {
    while (!to_arm_.empty()) {
      io_uring_sqe* entry = next_entry();
      if (entry == nullptr) break;
      uint32_t slot = to_arm_.back();
      to_arm_.pop_back();
      Watch& watch = watches_[slot];
      io_uring_prep_poll_add(entry, watch.fd, POLLIN | POLLRDHUP);
      io_uring_sqe_set_data64(entry, user_data(slot));
      watch.armed = true;
    }
    return io_uring_sq_ready(&ring_) > 0;
  }

  // At once: the poll holds the file open. A prepared poll that is still to be submitted goes to
  // the ring before its cancellation.
  void cancel(uint64_t poll) {
    io_uring_sqe* entry = next_entry();
    if (entry == nullptr) return;
    io_uring_prep_poll_remove(entry, poll);
    io_uring_sqe_set_data64(entry, kUnheard);
    while (io_uring_submit(&ring_) == -EINTR) {
    }
  }

  void sleep(int64_t timeout_ns) {
    io_uring_cqe* first = nullptr;
    if (timeout_ns < 0) {
      io_uring_submit_and_wait(&ring_, 1);
      return;
    }
    __kernel_timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    io_uring_submit_and_wait_timeout(&ring_, &first, 1, &timeout, nullptr);
  }

  // No system call, unless completions did not fit into the ring.
  size_t collect(LoopEvent* events, size_t events_max) {
    size_t count = 0;
    io_uring_cqe* completions[kCompletionsAtOnce];
    while (count < events_max) {
      unsigned wanted = static_cast<unsigned>(std::min(events_max - count, kCompletionsAtOnce));
      unsigned found = io_uring_peek_batch_cqe(&ring_, completions, wanted);
      if (found == 0) break;
      for (unsigned i = 0; i < found; ++i) count += take(*completions[i], &events[count]);
      io_uring_cq_advance(&ring_, found);
    }
    return count;
  }

  // 1 when the completion is an event of a watch.
  size_t take(const io_uring_cqe& completion, LoopEvent* event) {
    uint64_t data = completion.user_data;
    if (data == kUnheard) return 0;
    uint32_t slot = static_cast<uint32_t>(data);
    Watch& watch = watches_[slot];
    if (watch.fd < 0 || watch.generation != static_cast<uint32_t>(data >> 32)) return 0;
    watch.armed = false;
    to_arm_.push_back(slot);
    if (completion.res == -ECANCELED || completion.res == -EINTR) return 0;
    event->token = watch.token;
    event->hangup =
        completion.res < 0 || (completion.res & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)) != 0;
    return 1;
  }

  io_uring ring_;
  std::vector<Watch> watches_;
  std::vector<uint32_t> free_slots_;
  std::vector<uint32_t> to_arm_;
  std::unordered_map<int, uint32_t> slots_;
};

// Old kernels say EINVAL or ENOMEM (they charge rings to RLIMIT_MEMLOCK) where containers say
// EPERM.
bool not_granted(int errno_value) {
  return errno_value == EPERM || errno_value == EACCES || errno_value == ENOSYS ||
         errno_value == EINVAL || errno_value == ENOMEM;
}

}  // namespace

Result<std::unique_ptr<EventLoop>> create_uring_loop() {
  io_uring ring;
  int result = io_uring_queue_init(kSubmissionEntries, &ring, 0);
  if (result < 0 && not_granted(-result)) {
    return error(GEAR_EUNSUPPORTED, "event loop: io_uring is not available here: %s (errno %d)",
                 strerror(-result), -result);
  }
  if (result < 0) return descriptor_error(-result, "event loop: io_uring_queue_init");
  // Timed waits without a timer operation of their own, and completions that are never dropped.
  constexpr unsigned kNeeded = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP;
  if ((ring.features & kNeeded) != kNeeded) {
    io_uring_queue_exit(&ring);
    return error(GEAR_EUNSUPPORTED,
                 "event loop: io_uring of this kernel is too old (Linux 5.11 is new enough)");
  }
  io_uring_ring_dontfork(&ring);
  return std::unique_ptr<EventLoop>(std::make_unique<UringLoop>(ring));
}

}  // namespace gear
