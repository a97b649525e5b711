// A session: one client's control connection, as the server keeps it.
#pragma once

#include <string>

#include "layout/ledger.h"
#include "shm/descriptor.h"
#include "shm/liveness.h"
#include "shm/message.h"

namespace gear {

// Looks at every byte, so that time tells nothing.
inline bool same_secret(const uint8_t (&one)[16], const uint8_t (&other)[16]) {
  uint8_t difference = 0;
  for (size_t i = 0; i < sizeof one; ++i) difference |= static_cast<uint8_t>(one[i] ^ other[i]);
  return difference == 0;
}

// Server's thread only. A session ends when the client says goodbye or its process died, certified by the kernel. A
// connection that closed without either keeps the session: its process may still write into blocks it was granted, and may
// come back to the session over another connection. Through the ledger a session outlives its server; until its client is back
// it has neither socket nor doorbell.
struct Session {
  uint64_t id = 0;
  Descriptor socket;    // invalid once closed by the client
  Descriptor doorbell;  // the eventfd that the client rings
  ProcessWatch process;
  Peer peer{};
  int64_t accepted_ns = 0;
  // At most; since the client was last seen to have read all.
  uint32_t unread_replies = 0;
  uint32_t unread_descriptors = 0;
  std::string name;
  layout::SessionRecord* record = nullptr;  // in the ledger, once it greeted
  bool expelled = false;
  bool said_goodbye = false;

  bool greeted() const { return record != nullptr; }
};

}  // namespace gear
