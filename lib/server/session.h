// A session: one client's control connection, as the server keeps it.
#pragma once

#include <string>

#include "shm/descriptor.h"
#include "shm/liveness.h"
#include "shm/message.h"

namespace gear {

// Server's thread only. A session ends when the client says goodbye or its process died, certified by the kernel. A
// connection that closed without either keeps the session: its process may still write into blocks it was granted.
struct Session {
  uint64_t id = 0;
  Descriptor socket;    // invalid once closed by the client
  Descriptor doorbell;  // the eventfd that the client rings
  ProcessWatch process;
  Peer peer{};
  std::string name;
  bool greeted = false;
  bool said_goodbye = false;
};

}  // namespace gear
