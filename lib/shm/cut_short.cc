#include "shm/cut_short.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

namespace gear {

// `begin` is written last when a range is taken, and zeroed first when it is free again. Written by the owner of the watch, but
// for `cut`, which the handler writes.
struct CutWatch::Range {
  std::atomic<uintptr_t> begin{0};  // 0: free
  std::atomic<size_t> bytes{0};
  std::atomic<bool> cut{false};
  Range* next = nullptr;  // constant from when the handler can see the range
  Range* next_free = nullptr;  // under the mutex
};

namespace {

using Range = CutWatch::Range;

// Ranges are never freed, so that the handler can walk over them at any time.
std::atomic<Range*> ranges{nullptr};
std::mutex ranges_mutex;
Range* free_ranges = nullptr;  // under the mutex

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<Range*>::is_always_lock_free);

Range* range_of(uintptr_t address) {
  for (Range* one = ranges.load(std::memory_order_acquire); one != nullptr; one = one->next) {
    uintptr_t begin = one->begin.load(std::memory_order_acquire);
    if (begin != 0 && address >= begin && address - begin < one->bytes.load(std::memory_order_relaxed)) return one;
  }
  return nullptr;
}

void on_bus_error(int, siginfo_t* info, void*) {
  int kept = errno;
  Range* range = range_of(reinterpret_cast<uintptr_t>(info->si_addr));
  void* begin = range == nullptr ? nullptr : reinterpret_cast<void*>(range->begin.load());
  bool mended = begin != nullptr &&
                mmap(begin, range->bytes.load(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == begin;
  if (mended) {
    range->cut.store(true, std::memory_order_release);
    CutWatch::any_.store(true, std::memory_order_release);
  } else {
    signal(SIGBUS, SIG_DFL);  // the access is made once more, and ends the process
  }
  errno = kept;
}

Range* free_range() {
  if (Range* one = free_ranges; one != nullptr) {
    free_ranges = one->next_free;
    return one;
  }
  auto* made = new Range;
  made->next = ranges.load(std::memory_order_relaxed);
  ranges.store(made, std::memory_order_release);
  return made;
}

}  // namespace

void survive_cuts() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

CutWatch::CutWatch(void* data, size_t bytes) {
  std::lock_guard lock(ranges_mutex);
  range_ = free_range();
  range_->cut.store(false, std::memory_order_relaxed);
  range_->bytes.store(bytes, std::memory_order_relaxed);
  range_->begin.store(reinterpret_cast<uintptr_t>(data), std::memory_order_release);
}

CutWatch::~CutWatch() {
  std::lock_guard lock(ranges_mutex);
  range_->begin.store(0, std::memory_order_release);
  range_->next_free = std::exchange(free_ranges, range_);
}

bool CutWatch::found_cut() const { return range_->cut.load(std::memory_order_acquire); }

}  // namespace gear
