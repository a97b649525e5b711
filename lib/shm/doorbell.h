// Sleeping and waking across processes.
//
// A client sleeps on its channel's wake_word (a futex, in memory both map). The conductor sleeps in its event loop; a
// client wakes it by writing to an eventfd. Either side pays a system call only when the other sleeps: the sleeper
// announces itself, fences, looks once more, sleeps; the waker changes its word, fences, looks at the announcement.
// Whichever fence comes second sees the other's store, so a wake-up is never lost. (tests/model/doorbell.pml)
//
// The client's fence would stall each commit until its store reached a line that the conductor polls. So where the kernel
// allows it the conductor makes it for the client: after its announcement, membarrier makes every registered process pass
// a full fence on each processor, at some moment before the conductor looks once more. Whatever a client published before
// that moment is seen by the look, and whatever it looks at after that moment is the announcement.
// (tests/model/doorbell_membarrier.pml)
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

// Who makes the client's fence.
enum class ClientFence {
  kOwn,       // the client
  kConductor  // the conductor: the segment says so, and this process is registered
};

// Client's side: after it published records. Includes the fence.
// Whether the conductor would not see them soon enough by itself.
bool conductor_needs_bell(const layout::InstanceSegment* instance, Urgency urgency, ClientFence fence);
void ring_bell(int doorbell_fd);
// Both.
void ring_conductor(const layout::InstanceSegment* instance, int doorbell_fd, Urgency urgency,
                    ClientFence fence = ClientFence::kOwn);

// Whether membarrier's global expedited command is to be had.
bool can_fence_clients();
// Conductor's side, between its announcement and its last look; needs can_fence_clients.
void fence_clients();
// Client's side, once a connection: what it may rely on with this server.
ClientFence register_for_fences(const layout::InstanceSegment* instance);

}  // namespace gear
