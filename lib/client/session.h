// The client's end of a control connection.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/control.h"
#include "layout/instance.h"
#include "shm/descriptor.h"
#include "shm/message.h"
#include "shm/doorbell.h"
#include "shm/segment.h"

namespace gear::client {

struct Reply {
  std::vector<char> body;
  std::array<Descriptor, layout::kControlDescriptorsMax> descriptors;
  uint32_t descriptor_count = 0;
};

// Any thread: requests are answered one after the other under a mutex. Once the server has gone
// every request answers EDISCONNECTED.
class Session {
 public:
  // Greets the server at the other end of `socket`. Errors: EVERSION, ELIMIT, ETIMEDOUT,
  // EDISCONNECTED, EPROTOCOL, EMFILE, ENOMEM.
  static Result<std::unique_ptr<Session>> open(Descriptor socket, const std::string& client_name,
                                               int64_t request_timeout_ns, int64_t deadline_ns);
  // Says goodbye: the server then takes everything back that this client held.
  ~Session();

  // Sends a request and waits for its reply, up to request_timeout_ns. The server's own failure
  // comes back as it is; ETIMEDOUT, EDISCONNECTED and EPROTOCOL are of the connection. What a
  // request that timed out may still make is undone when its reply comes.
  Result<Reply> ask(layout::ControlOp op, const void* body, size_t body_bytes);
  template <typename Body>
  Result<Reply> ask(layout::ControlOp op, const Body& body) {
    return ask(op, &body, sizeof body);
  }

  // True once the server's end of the connection is closed. One system call; no lock.
  bool hung_up();
  // True once that was noticed. One relaxed load.
  bool gone() const { return disconnected_.load(std::memory_order_relaxed); }
  // EDISCONNECTED, from here on for every call.
  Status lost();

  // Who makes the fence after a record was published to this server.
  ClientFence fence() const { return fence_; }
  const layout::InstanceSegment* instance() const {
    return static_cast<const layout::InstanceSegment*>(instance_map_.data());
  }
  uint64_t instance_id() const { return instance_id_; }
  int doorbell_fd() const { return doorbell_.get(); }
  int64_t request_timeout_ns() const { return request_timeout_ns_; }

 private:
  // A request whose reply nobody waits for any more.
  struct Abandoned {
    uint32_t request_id;
    std::string table;  // that it creates; empty for other requests
  };

  Session(Descriptor socket, int64_t request_timeout_ns);
  void say_goodbye();
  Status hello(const std::string& client_name, int64_t deadline_ns);
  Result<Reply> exchange(layout::ControlOp op, const void* body, size_t body_bytes,
                         int64_t deadline_ns);
  Result<Reply> await_reply(layout::ControlOp op, uint32_t request_id, int64_t deadline_ns);
  Status send(layout::ControlOp op, uint32_t request_id, const void* body, size_t body_bytes,
              int64_t deadline_ns);
  void abandon(layout::ControlOp op, uint32_t request_id, const void* body);
  void undo(const Received& late);

  Descriptor socket_;
  Descriptor doorbell_;
  Mapping instance_map_;
  ClientFence fence_ = ClientFence::kOwn;
  uint64_t instance_id_ = 0;
  int64_t request_timeout_ns_;
  std::atomic<bool> disconnected_{false};

  std::mutex mutex_;  // guards what follows, and the order of messages
  uint32_t next_request_ = 1;
  std::vector<Abandoned> abandoned_;
  // Not initialised: most replies touch one page of it.
  std::unique_ptr<char[]> buffer_{new char[layout::kControlBytesMax]};
};

// A reply's body as the struct of its op; EPROTOCOL when it is of another size, or has too few
// descriptors.
Status check_reply(const Reply& reply, size_t body_bytes, uint32_t descriptor_count);
template <typename Body>
Status read_reply(const Reply& reply, uint32_t descriptor_count, Body* body) {
  GEAR_TRY(check_reply(reply, sizeof *body, descriptor_count));
  __builtin_memcpy(body, reply.body.data(), sizeof *body);
  return {};
}

}  // namespace gear::client
