#include "shm/doorbell.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "base/shared_word.h"

namespace gear {

void futex_wait(const uint32_t* word, uint32_t seen, int64_t timeout_ns) {
  if (timeout_ns <= 0) return;
  timespec timeout;
  timeout.tv_sec = timeout_ns / 1'000'000'000;
  timeout.tv_nsec = timeout_ns % 1'000'000'000;
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void futex_wake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void wake_client_if_asleep(layout::ChannelHeader* channel) {
  fence_store_before_look();
  if (peek(channel->client_sleeps) == 0) return;
  publish_change(channel->wake_word);
  futex_wake(&channel->wake_word);
}

bool conductor_needs_bell(const layout::InstanceSegment* instance, Urgency urgency, ClientFence fence) {
  if (fence == ClientFence::kOwn) {
    fence_store_before_look();
  } else {
    // The compiler's order is enough here, the processor's is the conductor's to make.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  auto state = static_cast<layout::ConductorState>(peek(instance->conductor_state));
  if (state == layout::ConductorState::kAwake) return false;
  return state != layout::ConductorState::kDrowsy || urgency != Urgency::kCommit;
}

void ring_bell(int doorbell_fd) {
  uint64_t one = 1;
  // EAGAIN: the counter is full, so the conductor has been told already.
  while (write(doorbell_fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void ring_conductor(const layout::InstanceSegment* instance, int doorbell_fd, Urgency urgency,
                    ClientFence fence) {
  if (conductor_needs_bell(instance, urgency, fence)) ring_bell(doorbell_fd);
}

bool can_fence_clients() {
  long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  constexpr long kNeeded =
      MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
  return commands > 0 && (commands & kNeeded) == kNeeded;
}

void fence_clients() { syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0); }

ClientFence register_for_fences(const layout::InstanceSegment* instance) {
  bool offered = peek(instance->fences_for_clients) == 1;
  bool registered =
      offered && syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  return registered ? ClientFence::kConductor : ClientFence::kOwn;
}

}  // namespace gear
