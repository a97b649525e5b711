// The one door between client and server: an embedded server, run by a thread of this process.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace gear {

// A running server; stops, and gives its memory back, when the last holder lets go. Any thread.
class EmbeddedServer {
 public:
  virtual ~EmbeddedServer() = default;
  virtual const std::string& abstract_name() const = 0;
};

// The server of this name in this process, started if there is none; an empty name always starts a new one. In a forked
// child the parent's servers do not count.
Result<std::shared_ptr<EmbeddedServer>> acquire_embedded_server(const std::string& name);

}  // namespace gear
