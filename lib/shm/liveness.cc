#include "shm/liveness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "shm/descriptor_error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace gear {
namespace {

enum class Seen { kRunning, kDead, kHidden };

struct ProcessLook {
  Seen seen;
  uint64_t start_ticks;  // since boot; kRunning only
};

// Nothing under /proc: the process may be gone, or /proc hidden from us.
ProcessLook look_without_proc(pid_t pid) {
  bool gone = kill(pid, 0) != 0 && errno == ESRCH;
  return {gone ? Seen::kDead : Seen::kHidden, 0};
}

// Fields 3 (state) and 22 (start time) of /proc/<pid>/stat; the name before them may contain
// anything.
ProcessLook look_at(pid_t pid) {
  Descriptor file(open(format("/proc/%d/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid())
    return errno == ENOENT ? look_without_proc(pid) : ProcessLook{Seen::kHidden, 0};
  char text[1024];
  ssize_t length = read(file.get(), text, sizeof text - 1);
  if (length <= 0) return look_without_proc(pid);
  text[length] = '\0';
  const char* field = strrchr(text, ')');
  if (field == nullptr || field[1] == '\0') return {Seen::kHidden, 0};
  field += 2;
  if (*field == 'Z' || *field == 'X' || *field == 'x') return {Seen::kDead, 0};
  for (int number = 3; number < 22; ++number) {
    field = strchr(field, ' ');
    if (field == nullptr) return {Seen::kHidden, 0};
    ++field;
  }
  return {Seen::kRunning, strtoull(field, nullptr, 10)};
}

Status process_has_gone(pid_t pid) {
  return error(GEAR_EDISCONNECTED, "watch process %d: it has gone already", pid);
}

bool out_of_descriptors(int errno_value) {
  return errno_value == EMFILE || errno_value == ENFILE;
}

}  // namespace

Result<ProcessWatch> ProcessWatch::of_peer(int socket, WatchWay best) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return system_error(errno, "watch the peer: SO_PEERCRED");
  }
  if (best == WatchWay::kPeerPidfd) {
    int pidfd = -1;
    bytes = sizeof pidfd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0) {
      ProcessWatch watch;
      watch.pidfd_.reset(pidfd);
      watch.pid_ = credentials.pid;
      watch.way_ = WatchWay::kPeerPidfd;
      return watch;
    }
    if (errno == ESRCH) return process_has_gone(credentials.pid);
    if (out_of_descriptors(errno)) return descriptor_error(errno, "watch the peer");
    best = WatchWay::kPidfd;
  }
  if (credentials.pid == 0) {
    return error(
        GEAR_EUNSUPPORTED,
        "watch the peer: it is in another PID namespace; run both in one, or use Linux 6.5 "
        "(SO_PEERPIDFD)");
  }
  return of_process(credentials.pid, best);
}

Result<ProcessWatch> ProcessWatch::of_process(pid_t pid, WatchWay best) {
  ProcessWatch watch;
  watch.pid_ = pid;
  // Before pidfd_open: a process that ends in between and whose pid is given anew shows by another
  // start time.
  ProcessLook before = look_at(pid);
  if (before.seen == Seen::kDead) return process_has_gone(pid);
  watch.start_ticks_ = before.start_ticks;
  if (best != WatchWay::kStartTime) {
    watch.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (watch.pidfd_.valid()) {
      watch.way_ = WatchWay::kPidfd;
      ProcessLook after = look_at(pid);
      bool another = before.seen == Seen::kRunning && after.seen == Seen::kRunning &&
                     after.start_ticks != before.start_ticks;
      if (another) return process_has_gone(pid);
      return watch;
    }
    if (errno == ESRCH) return process_has_gone(pid);
    if (out_of_descriptors(errno)) {
      return descriptor_error(errno, format("watch process %d", pid));
    }
  }
  if (before.seen == Seen::kHidden) {
    return error(GEAR_EUNSUPPORTED,
                 "watch process %d: neither a pidfd (Linux 5.3) nor /proc/%d/stat is to be had",
                 pid, pid);
  }
  watch.way_ = WatchWay::kStartTime;
  return watch;
}

Result<ProcessWatch> ProcessWatch::of_process_started(pid_t pid, uint64_t start_ticks,
                                                      WatchWay best) {
  // The watch first: once it holds the process, whoever has the pid now has it for as long as the look takes.
  Result<ProcessWatch> watch = of_process(pid, best);
  if (!watch.ok()) return watch;
  ProcessLook now = look_at(pid);
  if (now.seen == Seen::kDead) return process_has_gone(pid);
  if (now.seen == Seen::kRunning && now.start_ticks != start_ticks) return process_has_gone(pid);
  return watch;
}

ProcessWatch ProcessWatch::to_ask(pid_t pid, uint64_t start_ticks) {
  ProcessWatch watch;
  watch.pid_ = pid;
  watch.start_ticks_ = start_ticks;
  return watch;
}

uint64_t process_start_ticks(pid_t pid) {
  ProcessLook now = look_at(pid);
  return now.seen == Seen::kRunning ? now.start_ticks : 0;
}

bool ProcessWatch::dead() const {
  if (pidfd_.valid()) {
    pollfd entry{pidfd_.get(), POLLIN, 0};
    return poll(&entry, 1, 0) > 0;
  }
  if (pid_ == 0) return false;
  ProcessLook now = look_at(pid_);
  // Hidden (no descriptor left, say) proves nothing.
  bool another = start_ticks_ != 0 && now.seen == Seen::kRunning && now.start_ticks != start_ticks_;
  return now.seen == Seen::kDead || another;
}

}  // namespace gear
