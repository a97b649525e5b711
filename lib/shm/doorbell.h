// Sleeping and waking across processes.
//
// A client sleeps on its channel's wake_word (a futex, in memory both map). The conductor sleeps in its event loop; a
// client wakes it by writing to an eventfd. Either side pays a system call only when the other sleeps: the sleeper
// announces itself, fences, looks once more, sleeps; the waker changes its word, fences, looks at the announcement.
// Whichever fence comes second sees the other's store, so a wake-up is never lost. (tests/model/doorbell.pml)
#pragma once

#include <cstdint>

#include "layout/channel.h"
#include "layout/instance.h"

namespace gear {

// Sleeps while *word == seen, up to timeout_ns. Returns also on a spurious wake-up.
void futex_wait(const uint32_t* word, uint32_t seen, int64_t timeout_ns);
void futex_wake(uint32_t* word);

// Conductor's side: after it changed words of a channel.
void wake_client_if_asleep(layout::ChannelHeader* channel);

enum class Urgency {
  kCommit,  // the conductor may take up to kDrowsyPollNs to see it
  kAnswer   // somebody waits for the effect
};

// Client's side: after it published records. Includes the full fence.
void ring_conductor(const layout::InstanceSegment* instance, int doorbell_fd, Urgency urgency);

}  // namespace gear
