// A GEAR server in a process of its own, for tests with several client processes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "server/server.h"

namespace gear::test {

// Forks a child that serves a private socket in a temporary folder; ends it with SIGTERM, and removes the folder.
// Make it before the process has threads.
class ServerProcess {
 public:
  // `change` may change the options that it serves with. With access any, every user can get at its socket.
  explicit ServerProcess(const std::function<void(ServerOptions*)>& change = nullptr);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& endpoint() const { return endpoint_; }  // "unix:..."
  pid_t pid() const { return pid_; }

 private:
  std::string folder_;
  std::string endpoint_;
  pid_t pid_ = -1;
};

// Children of the test that each run one function and exit with what it returns; killed if the test ends first.
class Children {
 public:
  ~Children();
  pid_t start(std::function<int()> body);
  // Waits for all, up to seconds; true when each exited with 0.
  bool all_succeed(double seconds);

 private:
  std::vector<pid_t> pids_;
};

}  // namespace gear::test
