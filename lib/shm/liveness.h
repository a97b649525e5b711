// Whether the process behind a socket is alive, certified by the kernel.
#pragma once

#include <sys/types.h>

#include "base/status.h"
#include "shm/descriptor.h"

namespace gear {

// Watches the process that connected a Unix socket. Not thread safe.
class ProcessWatch {
 public:
  ProcessWatch() = default;

  // By SO_PEERPIDFD where the kernel has it, else SO_PEERCRED and pidfd_open, which is right unless the pid was reused
  // before the call. Errors: EMFILE, EUNSUPPORTED (neither is to be had), ESYSTEM.
  static Result<ProcessWatch> of_peer(int socket);

  int fd() const { return pidfd_.get(); }  // readable once the process died
  pid_t pid() const { return pid_; }
  // True also for a zombie nobody reaped.
  bool dead() const;

 private:
  Descriptor pidfd_;
  pid_t pid_ = 0;
};

}  // namespace gear
