// The client's side of the door to an embedded server.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace gear::client {

// Keeps a server of this process running; it ends with its last holder.
struct EmbeddedLink {
  std::shared_ptr<void> server;
  std::string abstract_name;  // of the socket it listens at
};

// The server of this name, started if there is none; an empty name always starts a new one. Any
// thread.
Result<EmbeddedLink> join_embedded_server(const std::string& name);

}  // namespace gear::client
