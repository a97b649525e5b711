#include <mutex>
#include <thread>
#include <unistd.h>
#include <unordered_map>

#include "server/embedded_entry.h"
#include "server/server.h"

namespace gear {
namespace {

class EmbeddedServerThread final : public EmbeddedServer {
 public:
  explicit EmbeddedServerThread(std::unique_ptr<Server> server)
      : server_(std::move(server)), owner_(getpid()), thread_([this] { server_->run(); }) {}

  ~EmbeddedServerThread() override {
    if (getpid() != owner_) {
      // A forked child has a copy of the handle but not the thread; nothing here is the child's to end.
      thread_.detach();
      static_cast<void>(server_.release());
      return;
    }
    server_->stop();
    thread_.join();
  }

  const std::string& abstract_name() const override { return server_->abstract_name(); }

 private:
  std::unique_ptr<Server> server_;
  pid_t owner_;
  std::thread thread_;
};

struct NamedServer {
  pid_t owner;
  std::weak_ptr<EmbeddedServer> server;
};

std::mutex named_mutex;
std::unordered_map<std::string, NamedServer>& named_servers() {
  static auto* servers = new std::unordered_map<std::string, NamedServer>();
  return *servers;
}

Result<std::shared_ptr<EmbeddedServer>> start_server() {
  Result<std::unique_ptr<Server>> server = Server::create(ServerOptions{});
  if (!server.ok()) return server.status();
  return std::shared_ptr<EmbeddedServer>(
      std::make_shared<EmbeddedServerThread>(server.take()));
}

}  // namespace

Result<std::shared_ptr<EmbeddedServer>> acquire_embedded_server(const std::string& name) {
  if (name.empty()) return start_server();
  std::lock_guard lock(named_mutex);
  NamedServer& named = named_servers()[name];
  if (named.owner == getpid()) {
    if (auto running = named.server.lock()) return running;
  }
  auto server = start_server();
  if (server.ok()) named = {getpid(), server.value()};
  return server;
}

}  // namespace gear
