#include "client/embedded.h"

#include "server/embedded_entry.h"

namespace gear::client {

Result<EmbeddedLink> join_embedded_server(const std::string& name) {
  Result<std::shared_ptr<EmbeddedServer>> server = acquire_embedded_server(name);
  if (!server.ok()) return server.status();
  std::string abstract_name = server.value()->abstract_name();
  return EmbeddedLink{server.take(), std::move(abstract_name)};
}

}  // namespace gear::client
