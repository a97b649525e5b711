// The instance segment: one per server, mapped read-only by every client.
#pragma once

#include "layout/segment.h"

namespace gear::layout {

// How deeply the conductor sleeps. A client that published a record looks at it, after a full fence, and writes
// to its doorbell (an eventfd) only if the conductor would not see the record soon enough by itself.
enum class ConductorState : uint32_t {
  kAwake = 0,   // polls the rings now
  kDrowsy = 1,  // polls them every kDrowsyPollNs; ring only for what somebody waits for
  kAsleep = 2   // sleeps until a doorbell rings
};
inline constexpr int64_t kDrowsyPollNs = 200'000;

struct InstanceSegment {
  SegmentHeader segment;
  // Conductor writes, clients read.
  alignas(kContentionBytes) uint32_t conductor_state;  // ConductorState; release
  // Relaxed at the start, before started_ns; 0 (release): the server was asked to end and gives everything back, so there is
  // nothing to adopt. The next server reads it too.
  uint32_t pid;
  // Of the server that serves now: it differs once another has adopted the instance (release).
  alignas(kContentionBytes) uint64_t started_ns;
  // Constant while that server lives. 1: before the conductor sleeps it makes every registered client's fence by membarrier,
  // so a client that registered needs none of its own after it published a record.
  uint32_t fences_for_clients;
  uint32_t reserved_fences;
  uint64_t reserved[6];
  // Of the server, NUL-terminated; empty when it has none. Written before started_ns, after an adoption while clients map it.
  // For people: the identity does not tell it.
  alignas(kContentionBytes) char socket_path[kContentionBytes];
};
static_assert(sizeof(InstanceSegment) == 4 * kContentionBytes);

}  // namespace gear::layout
