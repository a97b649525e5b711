#include "support/fault_inject.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

namespace gear::test {
namespace {

struct Order {
  std::atomic<pid_t> process;
  std::atomic<unsigned> function;  // index + 1
  std::atomic<unsigned> number;
  std::atomic<unsigned> times;
  std::atomic<unsigned> calls;
};

// Shared with the processes forked from here.
Order* order() {
  static Order* const shared = [] {
    // Not by mmap, which is one of ours.
    long address = syscall(SYS_mmap, nullptr, sizeof(Order), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (address == -1) abort();
    return reinterpret_cast<Order*>(address);
  }();
  return shared;
}

// Whether this call is the one to fail; errno is then set.
bool fails(const char* name) {
  Order* now = order();
  unsigned function = now->function.load(std::memory_order_relaxed);
  if (function == 0 || now->process.load(std::memory_order_relaxed) != static_cast<pid_t>(syscall(SYS_getpid))) return false;
  const FaultyCall& call = faulty_calls()[function - 1];
  if (strcmp(call.name, name) != 0) return false;
  unsigned call_number = now->calls.fetch_add(1) + 1;
  unsigned first = now->number.load();
  if (first == 0 || call_number < first || call_number >= first + now->times.load()) return false;
  errno = call.errno_value;
  return true;
}

template <typename Function>
Function* real(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) abort();
  return reinterpret_cast<Function*>(found);
}

}  // namespace

const std::vector<FaultyCall>& faulty_calls() {
  static const std::vector<FaultyCall> calls = {
      {"mmap", ENOMEM},        {"madvise", ENOMEM},  {"ftruncate", ENOMEM},    {"posix_fallocate", ENOSPC}, {"fallocate", EPERM},
      {"memfd_create", EMFILE}, {"shm_open", EMFILE}, {"open", EMFILE},         {"socket", EMFILE},
      {"connect", ECONNREFUSED}, {"bind", ENOMEM},   {"listen", EADDRINUSE},    {"accept4", EMFILE},
      {"sendmsg", ENOMEM},     {"recvmsg", ENOMEM},  {"eventfd", EMFILE},       {"epoll_create1", EMFILE},
      {"epoll_ctl", ENOMEM},   {"fchmod", EPERM},    {"fcntl", EPERM},          {"fstat", ENOMEM},
      {"getsockopt", ENOMEM},  {"setsockopt", ENOMEM}, {"syscall", EMFILE},     {"flock", ENOLCK}};
  return calls;
}

void arm_fault(pid_t process, const char* function, unsigned number, unsigned times) {
  Order* now = order();
  now->function = 0;
  now->process = process;
  now->number = number;
  now->times = times;
  now->calls = 0;
  for (unsigned i = 0; i < faulty_calls().size(); ++i) {
    if (strcmp(faulty_calls()[i].name, function) == 0) now->function = i + 1;
  }
  if (now->function == 0) abort();
}

unsigned disarm_fault() {
  order()->function = 0;
  return order()->calls;
}

}  // namespace gear::test

using gear::test::fails;
using gear::test::real;

// glibc declares some of these as never throwing.
#define GEAR_FAULTY(type, name, failed, parameters, arguments, ...)          \
  extern "C" type name parameters __VA_ARGS__ {                              \
    static auto* const function = real<type parameters>(#name);             \
    return fails(#name) ? (failed) : function arguments;                     \
  }

GEAR_FAULTY(void*, mmap, MAP_FAILED, (void* at, size_t size, int access, int flags, int fd, off_t offset),
            (at, size, access, flags, fd, offset), noexcept)
GEAR_FAULTY(int, madvise, -1, (void* at, size_t size, int advice), (at, size, advice), noexcept)
GEAR_FAULTY(int, ftruncate, -1, (int fd, off_t size), (fd, size), noexcept)
GEAR_FAULTY(int, posix_fallocate, errno, (int fd, off_t from, off_t size), (fd, from, size))
GEAR_FAULTY(int, fallocate, -1, (int fd, int mode, off_t from, off_t size), (fd, mode, from, size))
GEAR_FAULTY(int, memfd_create, -1, (const char* name, unsigned flags), (name, flags), noexcept)
GEAR_FAULTY(int, shm_open, -1, (const char* name, int flags, mode_t mode), (name, flags, mode))
GEAR_FAULTY(int, socket, -1, (int domain, int type, int protocol), (domain, type, protocol), noexcept)
GEAR_FAULTY(int, connect, -1, (int fd, const sockaddr* at, socklen_t bytes), (fd, at, bytes))
GEAR_FAULTY(int, bind, -1, (int fd, const sockaddr* at, socklen_t bytes), (fd, at, bytes), noexcept)
GEAR_FAULTY(int, listen, -1, (int fd, int backlog), (fd, backlog), noexcept)
GEAR_FAULTY(int, accept4, -1, (int fd, sockaddr* at, socklen_t* bytes, int flags), (fd, at, bytes, flags))
GEAR_FAULTY(ssize_t, sendmsg, -1, (int fd, const msghdr* message, int flags), (fd, message, flags))
GEAR_FAULTY(ssize_t, recvmsg, -1, (int fd, msghdr* message, int flags), (fd, message, flags))
GEAR_FAULTY(int, eventfd, -1, (unsigned count, int flags), (count, flags), noexcept)
GEAR_FAULTY(int, epoll_create1, -1, (int flags), (flags), noexcept)
GEAR_FAULTY(int, epoll_ctl, -1, (int epoll, int op, int fd, epoll_event* event), (epoll, op, fd, event), noexcept)
GEAR_FAULTY(int, fchmod, -1, (int fd, mode_t mode), (fd, mode), noexcept)
GEAR_FAULTY(int, fstat, -1, (int fd, struct stat* file), (fd, file), noexcept)
GEAR_FAULTY(int, flock, -1, (int fd, int op), (fd, op), noexcept)
GEAR_FAULTY(int, getsockopt, -1, (int fd, int level, int name, void* value, socklen_t* bytes),
            (fd, level, name, value, bytes), noexcept)
GEAR_FAULTY(int, setsockopt, -1, (int fd, int level, int name, const void* value, socklen_t bytes),
            (fd, level, name, value, bytes), noexcept)

extern "C" int open(const char* path, int flags, ...) {
  static auto* const function = real<int(const char*, int, ...)>("open");
  va_list more;
  va_start(more, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return fails("open") ? -1 : function(path, flags, mode);
}

extern "C" int fcntl(int fd, int command, ...) {
  static auto* const function = real<int(int, int, ...)>("fcntl");
  va_list more;
  va_start(more, command);
  void* argument = va_arg(more, void*);
  va_end(more);
  return fails("fcntl") ? -1 : function(fd, command, argument);
}

// pidfd_open is asked for by number; every other call by number goes through.
extern "C" long syscall(long number, ...) noexcept {
  static auto* const function = real<long(long, ...)>("syscall");
  va_list more;
  va_start(more, number);
  long a[6];
  for (long& one : a) one = va_arg(more, long);
  va_end(more);
  if (number == SYS_pidfd_open && fails("syscall")) return -1;
  return function(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
