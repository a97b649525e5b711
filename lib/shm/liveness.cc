#include "shm/liveness.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace gear {

Result<ProcessWatch> ProcessWatch::of_peer(int socket) {
  ProcessWatch watch;
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return system_error(errno, "read the peer's credentials");
  }
  watch.pid_ = credentials.pid;
  int pidfd = -1;
  length = sizeof pidfd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0) {
    watch.pidfd_.reset(pidfd);
    return watch;
  }
  if (errno == EMFILE || errno == ENFILE) return system_error(errno, "watch the peer");
  watch.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, credentials.pid, 0)));
  if (watch.pidfd_.valid()) return watch;
  if (errno == EMFILE || errno == ENFILE) return system_error(errno, "watch the peer");
  return error(GEAR_EUNSUPPORTED, "watch process %d: this kernel gives no pidfd (SO_PEERPIDFD, pidfd_open); Linux 5.3 or later is needed",
               credentials.pid);
}

bool ProcessWatch::dead() const {
  if (!pidfd_.valid()) return false;
  pollfd entry{pidfd_.get(), POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace gear
