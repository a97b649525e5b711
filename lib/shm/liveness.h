// Whether another process is alive, certified by the kernel.
//
// A hang-up of a socket is no proof of death: a forked child may hold the socket still, and a live
// process may have closed it. Memory that a process could write comes back only when the process
// itself is gone.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/status.h"
#include "shm/descriptor.h"

namespace gear {

// Ways to watch a process, best first. A watch takes the best at or below the one asked that the
// kernel, or the container, grants; EPERM and ENOSYS both mean that it does not.
enum class WatchWay {
  kPeerPidfd,  // SO_PEERPIDFD: the very process that connected, also across PID namespaces
  kPidfd,      // pidfd_open of the pid that SO_PEERCRED tells
  kStartTime   // pid and start time in /proc; nothing to poll
};

// Watches one process; a later one that is given the same pid is told apart. Not thread safe.
class ProcessWatch {
 public:
  ProcessWatch() = default;

  // The process that connected the other end of this socket. Errors: EDISCONNECTED (it is gone
  // already), EUNSUPPORTED (it is in a PID namespace that cannot be seen into, and SO_PEERPIDFD is
  // not to be had; or there is no /proc), EMFILE, ESYSTEM.
  static Result<ProcessWatch> of_peer(int socket, WatchWay best = WatchWay::kPeerPidfd);
  static Result<ProcessWatch> of_process(pid_t pid, WatchWay best = WatchWay::kPidfd);
  // The process of that pid that started then (process_start_ticks); EDISCONNECTED also when another has the pid now.
  static Result<ProcessWatch> of_process_started(pid_t pid, uint64_t start_ticks,
                                                 WatchWay best = WatchWay::kPidfd);
  // The same, to be asked: needs nothing, so that it can stand in where no other watch is to be had. start_ticks 0: not known.
  static ProcessWatch to_ask(pid_t pid, uint64_t start_ticks);

  // True when fd() becomes readable at the death of the process. Otherwise fd() is -1, and dead()
  // is to be asked now and then.
  bool pollable() const { return pidfd_.valid(); }
  int fd() const { return pidfd_.get(); }

  // True once the process will run no further instruction, reaped or not. A few system calls.
  bool dead() const;

  pid_t pid() const { return pid_; }  // 0 when it cannot be seen from here
  WatchWay way() const { return way_; }

 private:
  Descriptor pidfd_;
  pid_t pid_ = 0;
  uint64_t start_ticks_ = 0;
  WatchWay way_ = WatchWay::kStartTime;
};

// When the process started, in ticks since boot; 0 when that cannot be seen, or it is gone.
uint64_t process_start_ticks(pid_t pid);

}  // namespace gear
