#include "support/server_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "server/server.h"
#include "shm/cut_short.h"

namespace gear::test {
namespace {

Server* served = nullptr;

int serve(const std::string& path, int ready_fd, const std::function<void(ServerOptions*)>& change) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  ServerOptions options;
  options.socket_path = path;
  options.memory = GEAR_MEMORY_POSIX;
  if (change) change(&options);
  // The folder is made private; the socket's own mode decides.
  if (options.access == ConnectAccess::kAny) chmod(path.substr(0, path.rfind('/')).c_str(), 0755);
  Result<std::unique_ptr<Server>> server = Server::create(options);
  if (!server.ok()) {
    fprintf(stderr, "server process: %s\n", server.status().text().c_str());
    return 1;
  }
  served = server.value().get();
  signal(SIGTERM, [](int) { served->stop(); });
  survive_cuts();
  if (write(ready_fd, "r", 1) != 1) return 1;
  close(ready_fd);
  server.value()->run();
  return 0;
}

}  // namespace

ServerProcess::ServerProcess(const std::function<void(ServerOptions*)>& change) {
  char folder[] = "/tmp/gear-test-XXXXXX";
  if (mkdtemp(folder) == nullptr) abort();
  folder_ = folder;
  std::string path = folder_ + "/geard.sock";
  endpoint_ = "unix:" + path;
  int ready[2];
  if (pipe(ready) != 0) abort();
  fflush(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    close(ready[0]);
    int status = serve(path, ready[1], change);
    fflush(nullptr);
    _exit(status);
  }
  close(ready[1]);
  char byte;
  if (read(ready[0], &byte, 1) != 1) {
    fprintf(stderr, "the server process did not start\n");
    abort();
  }
  close(ready[0]);
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
  rmdir(folder_.c_str());
}

Children::~Children() {
  for (pid_t pid : pids_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

pid_t Children::start(std::function<int()> body) {
  fflush(nullptr);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = body();
    fflush(nullptr);
    _exit(status);
  }
  pids_.push_back(pid);
  return pid;
}

bool Children::all_succeed(double seconds) {
  int64_t deadline = deadline_after(static_cast<int64_t>(seconds * 1e9));
  bool succeeded = true;
  while (!pids_.empty()) {
    int status = 0;
    pid_t pid = waitpid(pids_.back(), &status, WNOHANG);
    if (pid == 0) {
      if (left_until(deadline) == 0) return false;
      usleep(2000);
      continue;
    }
    succeeded = succeeded && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    pids_.pop_back();
  }
  return succeeded;
}

}  // namespace gear::test
