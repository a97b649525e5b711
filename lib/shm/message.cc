#include "shm/message.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "shm/descriptor_error.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

namespace gear {
namespace {

constexpr int kBacklog = 1024;
constexpr size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;
constexpr size_t kControlSpace = CMSG_SPACE(layout::kControlDescriptorsMax * sizeof(int));
// No alignment gap in which one more descriptor than the array holds could arrive.
static_assert(kControlSpace == CMSG_LEN(layout::kControlDescriptorsMax * sizeof(int)));

// Waits until the socket may be ready. ETIMEDOUT when the deadline passed.
Status wait_ready(int socket, short events, int64_t deadline_ns, const char* what) {
  for (;;) {
    int64_t left_ns = left_until(deadline_ns);
    if (left_ns == 0) return error(GEAR_ETIMEDOUT, "%s: the time given ran out", what);
    timespec left{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    pollfd entry{socket, events, 0};
    int ready = ppoll(&entry, 1, &left, nullptr);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR && errno != EAGAIN) return system_error(errno, what);
  }
}

// Descriptors of a received message, owned from the first moment.
size_t take_descriptors(msghdr* message, Received* received) {
  size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    size_t bytes = part->cmsg_len - CMSG_LEN(0);
    for (size_t offset = 0; offset + sizeof(int) <= bytes; offset += sizeof(int)) {
      int fd;
      memcpy(&fd, CMSG_DATA(part) + offset, sizeof fd);
      if (count < received->descriptors.size())
        received->descriptors[count++].reset(fd);
      else
        close(fd);
    }
  }
  return count;
}

Status check_received(const Received& received, size_t bytes, size_t descriptors, int flags,
                      size_t body_bytes_max) {
  const layout::ControlHeader& header = received.header;
  if (flags & MSG_CTRUNC) {
    if (descriptors == layout::kControlDescriptorsMax) {
      return error(GEAR_EPROTOCOL, "control message: more than %u descriptors came",
                   layout::kControlDescriptorsMax);
    }
    return descriptor_error(EMFILE,
                            format("control message: %zu of its descriptors were lost",
                                   bytes >= sizeof header && header.descriptor_count > descriptors
                                       ? header.descriptor_count - descriptors
                                       : size_t{1}));
  }
  if (bytes < sizeof header) {
    return error(GEAR_EPROTOCOL, "control message: %zu bytes, a header alone has %zu", bytes,
                 sizeof header);
  }
  if (header.magic != layout::kControlMagic) {
    return error(GEAR_EPROTOCOL, "control message: magic %08x, not %08x; the peer is not GEAR",
                 header.magic, layout::kControlMagic);
  }
  if (header.version != layout::kControlVersion) {
    return error(GEAR_EVERSION,
                 "control message: the peer's protocol version is %u, ours is %u; use one GEAR "
                 "release on both sides",
                 header.version, layout::kControlVersion);
  }
  if (flags & MSG_TRUNC) {
    return error(GEAR_EPROTOCOL,
                 "control message: its body has %u bytes, at most %zu are taken here",
                 header.body_bytes, body_bytes_max);
  }
  if (header.body_bytes != bytes - sizeof header) {
    return error(GEAR_EPROTOCOL, "control message: its body has %zu bytes, its header says %u",
                 bytes - sizeof header, header.body_bytes);
  }
  if (header.descriptor_count != descriptors) {
    return error(GEAR_EPROTOCOL, "control message: %zu descriptors came, its header says %u",
                 descriptors, header.descriptor_count);
  }
  return {};
}

bool peer_has_gone(int errno_value) {
  return errno_value == EPIPE || errno_value == ECONNRESET || errno_value == ENOTCONN;
}

Result<Descriptor> new_socket(const std::string& what) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return descriptor_error(errno, what);
  return socket;
}

struct Address {
  sockaddr_un name;
  socklen_t bytes;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

Result<Address> path_address(const std::string& what, const std::string& path) {
  Address address{};
  if (path.empty() || path.size() > kPathBytesMax || path.find('\0') != std::string::npos) {
    return error(GEAR_EINVAL, "%s: a socket path has 1 to %zu bytes, this one has %zu",
                 what.c_str(), kPathBytesMax, path.size());
  }
  address.name.sun_family = AF_UNIX;
  memcpy(address.name.sun_path, path.c_str(), path.size() + 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

Result<Address> abstract_address(const std::string& what, const std::string& name) {
  Address address{};
  if (name.empty() || name.size() > kPathBytesMax) {
    return error(GEAR_EINVAL, "%s: an abstract socket name has 1 to %zu bytes, this one has %zu",
                 what.c_str(), kPathBytesMax, name.size());
  }
  address.name.sun_family = AF_UNIX;
  memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// errno of a connect that is bounded by the deadline, 0 on success. A full backlog is waited for:
// poll does not tell about it, the send timeout bounds it.
int connect_by(int socket, const Address& address, int64_t deadline_ns) {
  for (;;) {
    int64_t left_us = (left_until(deadline_ns) + 999) / 1000;
    timeval left{left_us / 1'000'000, left_us % 1'000'000};
    // 0 would be without limit.
    if (left_us == 0) left.tv_usec = 1;
    if (setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof left) != 0) return errno;
    if (::connect(socket, address.get(), address.bytes) == 0) return 0;
    if (errno != EINTR) return errno == EAGAIN ? ETIMEDOUT : errno;
    if (left_us == 0) return ETIMEDOUT;
  }
}

Status connect_failure(int why, const std::string& path) {
  const char* at = path.c_str();
  struct stat file;
  switch (why) {
    case ENOENT:
    case ENOTDIR:
      return error(GEAR_ENOSERVER,
                   "no geard listens at %s; start geard, or set GEAR_ENDPOINT to where one listens",
                   at);
    case ECONNREFUSED:
      if (stat(at, &file) == 0 && !S_ISSOCK(file.st_mode)) {
        return error(GEAR_ENOTSOCKET,
                     "connect to %s: it is not a socket; set GEAR_ENDPOINT to the "
                     "socket of a geard",
                     at);
      }
      return error(
          GEAR_ESTALESOCKET,
          "connect to %s: nobody listens there any more; the socket was left by a geard that "
          "has gone: start geard again, it replaces the file",
          at);
    case EACCES:
    case EPERM:
      return error(GEAR_EPERM,
                   "connect to %s: not permitted to user %u; its directory or the socket keeps other users out: "
                   "geard --access any makes a socket for all, in a directory that they may enter",
                   at, geteuid());
    case EPROTOTYPE:
      return error(GEAR_EPROTOCOL,
                   "connect to %s: it is the socket of another program (not of type "
                   "SOCK_SEQPACKET)",
                   at);
    case ETIMEDOUT:
      return error(GEAR_ETIMEDOUT,
                   "connect to %s: the server takes no connection; the time given ran "
                   "out",
                   at);
    default:
      return system_error(why, "connect to " + path);
  }
}

Status start_listening(const Descriptor& socket, const std::string& what) {
  if (::listen(socket.get(), kBacklog) != 0) return system_error(errno, what);
  return {};
}

std::vector<gid_t> groups_of(int socket) {
  std::vector<gid_t> groups(16);
  for (;;) {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    bool told = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes) == 0;
    if (!told && errno == ERANGE && bytes > groups.size() * sizeof(gid_t)) {
      groups.resize(bytes / sizeof(gid_t));
      continue;
    }
    groups.resize(told ? bytes / sizeof(gid_t) : 0);
    return groups;
  }
}

// Why the path could not be bound; removes a socket file that nobody listens at, and then is OK.
Status make_way(const std::string& what, const Address& address, const std::string& path) {
  struct stat file;
  if (lstat(path.c_str(), &file) != 0) {
    return errno == ENOENT ? Status() : system_error(errno, what);
  }
  if (!S_ISSOCK(file.st_mode)) {
    return error(GEAR_ENOTSOCKET,
                 "%s: there is a file that is not a socket; remove it, or choose "
                 "another path",
                 what.c_str());
  }
  Result<Descriptor> probe = new_socket(what);
  if (!probe.ok()) return probe.status();
  int why = connect_by(probe.value().get(), address, 0);
  if (why == EACCES || why == EPERM) {
    return error(GEAR_EPERM, "%s: the socket there belongs to another user", what.c_str());
  }
  if (why != ECONNREFUSED && why != ENOENT) {
    return error(GEAR_EADDRINUSE,
                 "%s: another server listens there; stop it, or choose another path", what.c_str());
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return system_error(errno, what + ": removing the socket of a server that has gone");
  }
  return {};
}

Status bind_failure(int why, const std::string& what) {
  if (why == ENOENT || why == ENOTDIR) {
    return error(GEAR_ESYSTEM, "%s: its folder does not exist; create it (errno %d)", what.c_str(),
                 why);
  }
  if (why == EADDRINUSE) {
    return error(GEAR_EADDRINUSE,
                 "%s: another server listens there; stop it, or choose another path", what.c_str());
  }
  return system_error(why, what);
}

}  // namespace

Status send_message(int socket, const layout::ControlHeader& header, const void* body,
                    size_t body_bytes, const int* descriptors, size_t descriptor_count,
                    int64_t deadline_ns) {
  if (body_bytes > layout::kControlBytesMax || descriptor_count > layout::kControlDescriptorsMax) {
    return error(
        GEAR_EINVAL, "control message: body of %zu bytes and %zu descriptors; at most %u and %u",
        body_bytes, descriptor_count, layout::kControlBytesMax, layout::kControlDescriptorsMax);
  }
  layout::ControlHeader filled = header;
  filled.magic = layout::kControlMagic;
  filled.version = layout::kControlVersion;
  filled.body_bytes = static_cast<uint32_t>(body_bytes);
  filled.descriptor_count = static_cast<uint32_t>(descriptor_count);

  iovec parts[2] = {{&filled, sizeof filled}, {const_cast<void*>(body), body_bytes}};
  alignas(cmsghdr) char control[kControlSpace] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = body_bytes > 0 ? 2 : 1;
  if (descriptor_count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptor_count * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptor_count * sizeof(int));
    memcpy(CMSG_DATA(rights), descriptors, descriptor_count * sizeof(int));
  }
  for (;;) {
    if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      GEAR_TRY(wait_ready(socket, POLLOUT, deadline_ns, "sending a control message"));
      continue;
    }
    if (peer_has_gone(errno)) {
      return error(GEAR_EDISCONNECTED,
                   "sending a control message: the peer has closed the connection");
    }
    if (errno == ETOOMANYREFS) {
      return error(GEAR_EMFILE,
                   "sending a control message: too many descriptors are under way "
                   "(ETOOMANYREFS); peers do not take theirs, or RLIMIT_NOFILE is too low");
    }
    return system_error(errno, "sending a control message");
  }
}

Result<Received> receive_message(int socket, void* body, size_t body_bytes_max,
                                 int64_t deadline_ns, layout::ControlHeader* refused) {
  Received received{};
  iovec parts[2] = {{&received.header, sizeof received.header}, {body, body_bytes_max}};
  alignas(cmsghdr) char control[kControlSpace];
  msghdr message{};
  ssize_t bytes;
  for (;;) {
    message = msghdr{};
    message.msg_iov = parts;
    message.msg_iovlen = body_bytes_max > 0 ? 2 : 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    bytes = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes >= 0) break;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      GEAR_TRY(wait_ready(socket, POLLIN, deadline_ns, "receiving a control message"));
      continue;
    }
    if (peer_has_gone(errno)) {
      return error(GEAR_EDISCONNECTED,
                   "receiving a control message: the peer has closed the connection");
    }
    return system_error(errno, "receiving a control message");
  }
  size_t descriptors = take_descriptors(&message, &received);
  // A message of no bytes cannot be told from the end; no peer of ours sends one.
  if (bytes == 0 && descriptors == 0) {
    return error(GEAR_EDISCONNECTED,
                 "receiving a control message: the peer has closed the connection");
  }
  Status sound = check_received(received, static_cast<size_t>(bytes), descriptors,
                                message.msg_flags, body_bytes_max);
  if (sound.ok()) return received;
  if (refused != nullptr) *refused = received.header;
  return sound;
}

Result<Descriptor> listen_unix(const std::string& path, mode_t mode) {
  std::string what = "listen at " + path;
  Result<Address> address = path_address(what, path);
  if (!address.ok()) return address.status();
  for (int attempt = 0; attempt < 2; ++attempt) {
    Result<Descriptor> socket = new_socket(what);
    if (!socket.ok()) return socket;
    // bind makes the file with the mode of the socket: there is no moment in which others could
    // connect.
    if (fchmod(socket.value().get(), mode) != 0) return system_error(errno, what);
    if (bind(socket.value().get(), address.value().get(), address.value().bytes) == 0) {
      // The umask took from it. Nobody can connect before we listen.
      Status ready;
      if ((mode & 077) != 0 && chmod(path.c_str(), mode) != 0) ready = system_error(errno, what);
      if (ready.ok()) ready = start_listening(socket.value(), what);
      if (ready.ok()) return socket;
      unlink(path.c_str());
      return ready;
    }
    if (errno != EADDRINUSE) return bind_failure(errno, what);
    GEAR_TRY(make_way(what, address.value(), path));
  }
  return bind_failure(EADDRINUSE, what);
}

Result<Descriptor> listen_abstract(const std::string& name) {
  std::string what = "listen at abstract socket " + name;
  Result<Address> address = abstract_address(what, name);
  if (!address.ok()) return address.status();
  Result<Descriptor> socket = new_socket(what);
  if (!socket.ok()) return socket;
  if (bind(socket.value().get(), address.value().get(), address.value().bytes) != 0) {
    return bind_failure(errno, what);
  }
  GEAR_TRY(start_listening(socket.value(), what));
  return socket;
}

Result<Descriptor> accept_unix(int listener) {
  for (;;) {
    // A listener that blocks would wait although its connection may have gone since it was
    // announced.
    pollfd entry{listener, POLLIN, 0};
    if (poll(&entry, 1, 0) == 0) return error(GEAR_ETIMEDOUT, "accept: no connection waits");
    Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.valid()) return socket;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return error(GEAR_ETIMEDOUT, "accept: no connection waits");
    }
    return descriptor_error(errno, "accept");
  }
}

Result<Descriptor> connect_unix(const std::string& path, int64_t deadline_ns) {
  Result<Address> address = path_address("connect to " + path, path);
  if (!address.ok()) return address.status();
  Result<Descriptor> socket = new_socket("connect to " + path);
  if (!socket.ok()) return socket;
  int why = connect_by(socket.value().get(), address.value(), deadline_ns);
  if (why != 0) return connect_failure(why, path);
  return socket;
}

Result<Descriptor> connect_abstract(const std::string& name, int64_t deadline_ns) {
  std::string what = "connect to abstract socket " + name;
  Result<Address> address = abstract_address(what, name);
  if (!address.ok()) return address.status();
  Result<Descriptor> socket = new_socket(what);
  if (!socket.ok()) return socket;
  int why = connect_by(socket.value().get(), address.value(), deadline_ns);
  if (why == 0) return socket;
  if (why == ECONNREFUSED) {
    return error(GEAR_ENOSERVER,
                 "%s: nobody listens there: the server has gone, or runs in another "
                 "network namespace",
                 what.c_str());
  }
  if (why == ETIMEDOUT) {
    return error(GEAR_ETIMEDOUT, "%s: the server takes no connection; the time given ran out",
                 what.c_str());
  }
  return system_error(why, what);
}

Result<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return system_error(errno, "asking who connected (SO_PEERCRED)");
  }
  return Peer{credentials.uid, credentials.gid, credentials.pid, groups_of(socket)};
}

size_t unread_bytes(int socket) {
  int bytes = 0;
  return ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

}  // namespace gear
