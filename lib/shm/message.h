// The control socket: Unix sockets of type SOCK_SEQPACKET, and one message of the control protocol
// over them.
//
// Every function here is bounded by a deadline on base/clock.h; a deadline that has passed (0, say)
// never blocks, so the same functions serve the client, which waits, and the server's event loop,
// which does not. Interrupted system calls are repeated. All descriptors are close-on-exec.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/control.h"
#include "shm/descriptor.h"

namespace gear {

// A message as received and checked: magic and version are ours, the body has header.body_bytes
// bytes, and the first header.descriptor_count descriptors are valid.
struct Received {
  layout::ControlHeader header;
  std::array<Descriptor, layout::kControlDescriptorsMax> descriptors;
};

// Sends header, body and descriptors as one message. magic, version, body_bytes and
// descriptor_count are filled in here; the descriptors stay the caller's. The whole message is
// sent, or none of it. Errors: EDISCONNECTED, ETIMEDOUT, EMFILE (too many descriptors under way),
// ENOMEM, EINVAL (body over kControlBytesMax, descriptors over kControlDescriptorsMax), ESYSTEM.
Status send_message(int socket, const layout::ControlHeader& header, const void* body,
                    size_t body_bytes, const int* descriptors, size_t descriptor_count,
                    int64_t deadline_ns);

// Receives one message; its body goes to `body`. On an error no descriptor stays open and nothing
// of the message remains in the socket. Errors: ETIMEDOUT (nothing came yet), EDISCONNECTED (the
// peer has closed), EMFILE (no room in the descriptor table for what was sent), EVERSION (both
// versions in the text), EPROTOCOL, ESYSTEM.
// `refused`, if given, takes the header of a message that came and was refused, EMFILE say: its body is
// then in `body`. It is untouched otherwise.
Result<Received> receive_message(int socket, void* body, size_t body_bytes_max,
                                 int64_t deadline_ns, layout::ControlHeader* refused = nullptr);

// Listens at a path, of that mode from the first moment. A socket file nobody listens at is replaced;
// the caller holds the lock of the path. Errors: EINVAL (path empty or over 107 bytes), ENOTSOCKET,
// EADDRINUSE, EPERM, EMFILE, ESYSTEM.
Result<Descriptor> listen_unix(const std::string& path, mode_t mode = 0600);

// Listens at a name that has no file and goes with the socket. Any user of the network namespace
// can connect: look at peer_of. Errors: as listen_unix.
Result<Descriptor> listen_abstract(const std::string& name);

// The next waiting connection, without blocking. Errors: ETIMEDOUT (none waits), EMFILE, ESYSTEM.
Result<Descriptor> accept_unix(int listener);

// Errors: EINVAL (path empty or over 107 bytes), ENOSERVER (no such file), ENOTSOCKET, ESTALESOCKET
// (nobody listens), EPERM, EPROTOCOL (another type of socket), ETIMEDOUT, EMFILE, ESYSTEM.
Result<Descriptor> connect_unix(const std::string& path, int64_t deadline_ns);

// Errors: as connect_unix; ENOSERVER when nobody listens.
Result<Descriptor> connect_abstract(const std::string& name, int64_t deadline_ns);

// Bytes of sent messages that the peer has not read; 0 where the kernel cannot tell.
size_t unread_bytes(int socket);

struct Peer {
  uid_t uid;
  gid_t gid;
  pid_t pid;  // 0 when the peer is in a PID namespace that this process cannot see into
  std::vector<gid_t> groups;  // supplementary; none where the kernel cannot tell (before 4.13)
};

// Who connected, as the kernel noted at that moment. Errors: ESYSTEM.
Result<Peer> peer_of(int socket);

}  // namespace gear
