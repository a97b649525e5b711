#include "geard/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace gear::daemon {
namespace {

// A datagram socket connected to $NOTIFY_SOCKET, a path or an abstract name after "@"; -1 without
// one.
int connect_to_manager() {
  const char* name = getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  if (name == nullptr || (name[0] != '/' && name[0] != '@')) return -1;
  const size_t length = strlen(name);
  if (length < 2 || length >= sizeof address.sun_path) return -1;
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

int64_t number_of(const char* variable) {
  const char* text = getenv(variable);
  return text == nullptr ? 0 : strtoll(text, nullptr, 10);
}

}  // namespace

ServiceNotifier::ServiceNotifier() : socket_(connect_to_manager()) {
  const int64_t pid = number_of("WATCHDOG_PID");
  const int64_t period_us = number_of("WATCHDOG_USEC");
  if (period_us > 0 && period_us < INT64_MAX / 1000 && (pid == 0 || pid == getpid())) {
    watchdog_interval_ns_ = period_us * 1000 / 2;
  }
}

ServiceNotifier::~ServiceNotifier() {
  if (socket_ >= 0) close(socket_);
}

void ServiceNotifier::send(const std::string& state) const {
  if (socket_ < 0) return;
  [[maybe_unused]] const ssize_t ignored =
      ::send(socket_, state.data(), state.size(), MSG_NOSIGNAL);
}

}  // namespace gear::daemon
