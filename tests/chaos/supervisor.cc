#include "chaos/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/clock.h"
#include "support/child.h"

namespace gear::chaos {
namespace {

constexpr int64_t kStartNs = 20'000'000'000;
// After it serves again: the time in which clients come back, each by its own back-off.
constexpr int64_t kReturnNs = 500'000'000;

bool answers(const std::string& path) {
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  bool connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

}  // namespace

Supervisor::Supervisor(Board* board, std::string program) : board_(board), program_(std::move(program)) {
  char folder[] = "/tmp/gear-chaos-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    perror("chaos: make a folder");
    exit(2);
  }
  folder_ = folder;
  socket_ = folder_ + "/geard.sock";
}

Supervisor::~Supervisor() {
  stop();
  std::string log = folder_ + "/geard.log";
  unlink(log.c_str());
  rmdir(folder_.c_str());
}

bool Supervisor::start() {
  int64_t begin_ns = now_ns();
  pid_ = fork();
  if (pid_ == 0) {
    std::string log = folder_ + "/geard.log";
    int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, STDERR_FILENO);
    dup2(fd, STDOUT_FILENO);
    execl(program_.c_str(), program_.c_str(), "--socket", socket_.c_str(), "--memory", "posix", "--log-level", "warning",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  while (!answers(socket_)) {
    if (now_ns() - begin_ns > kStartNs || waitpid(pid_, nullptr, WNOHANG) == pid_) return false;
    usleep(1'000);
  }
  if (down_ != nullptr) {
    int64_t now = now_ns();
    longest_down_ns_ = std::max(longest_down_ns_, now - down_->begin_ns.load());
    down_->end_ns = now + kReturnNs;
    down_ = nullptr;
  }
  return true;
}

void Supervisor::kill_now() {
  if (down_ == nullptr) down_ = board_->begin_pause(now_ns());
  kill(pid_, SIGKILL);
  ++kills_;
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool Supervisor::keep_alive() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) {
    ++deaths_;
    down_ = board_->begin_pause(now_ns());
    pid_ = -1;
    fprintf(stderr, "chaos: geard ended by itself; its log is in %s\n", folder_.c_str());
  }
  return pid_ > 0 || start();
}

bool Supervisor::stop() {
  if (pid_ <= 0) return false;
  kill(pid_, SIGTERM);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

size_t Supervisor::descriptors() const {
  return test::count_entries(("/proc/" + std::to_string(pid_) + "/fd").c_str());
}

void Supervisor::print_descriptors() const {
  std::string folder = "/proc/" + std::to_string(pid_) + "/fd";
  for (int fd = 0; fd < 4'096; ++fd) {
    char target[512] = {};
    if (readlink((folder + "/" + std::to_string(fd)).c_str(), target, sizeof target - 1) > 0) {
      fprintf(stderr, "chaos:   descriptor %d: %s\n", fd, target);
    }
  }
}

// Of its maps: the begin of its segments' names, up to the instance.
void Supervisor::learn_instance() {
  std::ifstream maps("/proc/" + std::to_string(pid_) + "/maps");
  std::string begin = "gear." + std::to_string(getuid()) + ".";
  for (std::string line; std::getline(maps, line);) {
    size_t at = line.find("/dev/shm/" + begin);
    if (at == std::string::npos) continue;
    std::string name = line.substr(at + strlen("/dev/shm/"));
    segment_prefix_ = name.substr(0, name.find('.', begin.size()) + 1);
    return;
  }
}

size_t Supervisor::segments() {
  for (int i = 0; segment_prefix_.empty() && i < 1'000; ++i, usleep(1'000)) learn_instance();
  return test::count_entries("/dev/shm", segment_prefix_);
}

}  // namespace gear::chaos
