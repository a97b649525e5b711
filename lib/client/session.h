// The client's end of a control connection.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/shared_word.h"
#include "base/status.h"
#include "client/fork_guard.h"
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

// How a client comes back to its server once that has gone and another serves the instance.
struct Comeback {
  std::function<Result<Descriptor>(int64_t deadline_ns)> reach;  // none: never
  int64_t timeout_ns = 0;  // how long after the loss it is tried
};

// Any thread: requests are answered one after the other under a mutex.
//
//   whole --hang-up--> away --the next server knows the session--> whole
//                        '--no comeback, timeout, another server, stopped--> lost
//
// Nobody works on the connection in the background: whoever needs it, looks at it and, where it is away, does the next step
// to mend it, at intervals that grow. What this process mapped stays as it is; only socket and doorbell change, and these
// keep their numbers, for other threads may be using them.
class Session {
 public:
  enum class Link : uint32_t { kWhole, kAway, kLost };

  // Greets the server at the other end of `socket`. Errors: EVERSION, ELIMIT, ETIMEDOUT,
  // EDISCONNECTED, EPROTOCOL, EMFILE, ENOMEM.
  static Result<std::unique_ptr<Session>> open(Descriptor socket, const std::string& client_name,
                                               int64_t request_timeout_ns, int64_t deadline_ns,
                                               Comeback comeback = {});
  // Says goodbye: the server then takes everything back that this client held.
  ~Session();

  // Sends a request and waits for its reply, up to request_timeout_ns; while the server is away, for its return. The
  // server's own failure comes back as it is; ETIMEDOUT, EDISCONNECTED and EPROTOCOL are of the connection, ECLOSED of
  // end_calls. What a request that timed out may still make is undone when its reply comes.
  // Where the connection breaks before the reply, the request is asked again after the return, but for a reset. A drop
  // or close that then finds nothing is done; a create that then finds the table is EDISCONNECTED, for it may be
  // another's. EDISCONNECTED says whether the request may have been done.
  Result<Reply> ask(layout::ControlOp op, const void* body, size_t body_bytes);
  template <typename Body>
  Result<Reply> ask(layout::ControlOp op, const Body& body) {
    return ask(op, &body, sizeof body);
  }

  // Asks for the end of a channel, and waits for no server that is away: then it ends when the session resumes, or with it.
  Status close_channel(uint32_t id);

  // What is known of the connection. One relaxed load.
  Link link() const { return link_.load(std::memory_order_relaxed); }
  // Looks at the connection, and mends it as far as that goes without waiting beyond the deadline. One system call while
  // it is whole. Where another thread is at it already, what is known.
  Link look(int64_t deadline_ns);
  // How long to sleep before the next look.
  int64_t look_after_ns() const;
  // EDISCONNECTED: why there is no connection and what to do. Needs a link that is not whole.
  Status lost() const;

  // Wakes the conductor. Where another server serves the instance than the one this session greeted, first goes to it.
  void ring();
  // Changes when another server serves the instance. Acquire: it changed before whatever that server did.
  uint64_t server_mark() const { return observe(instance()->started_ns); }

  // From here on requests and waits answer ECLOSED, those under way too. Any thread.
  void end_calls();
  bool calls_end() const { return calls_end_.load(std::memory_order_relaxed); }

  // Who makes the fence after a record was published to this server.
  ClientFence fence() const { return fence_.load(std::memory_order_relaxed); }
  const layout::InstanceSegment* instance() const {
    return static_cast<const layout::InstanceSegment*>(instance_map_.data());
  }
  uint64_t instance_id() const { return instance_id_; }
  int64_t request_timeout_ns() const { return request_timeout_ns_; }

 private:
  // A request whose reply nobody waits for any more.
  struct Abandoned {
    uint32_t request_id;
    std::string table;  // that it creates; empty for other requests
  };

  using Lock = std::unique_lock<std::mutex>;

  Session(Descriptor socket, const std::string& client_name, int64_t request_timeout_ns,
          Comeback comeback);
  void say_goodbye();
  void take_late_replies(int64_t deadline_ns);
  Status hello(int64_t deadline_ns);
  std::vector<char> hello_request(bool returning) const;
  Result<Reply> ask_again_if_broken(Lock& lock, layout::ControlOp op, const void* body,
                                    size_t body_bytes, int64_t deadline_ns);

  // session_comeback.cc; all under the mutex
  bool socket_closed() const;
  Status await_whole(Lock& lock, int64_t deadline_ns);
  void note_hang_up();
  void mend(int64_t deadline_ns);
  Status call(int64_t deadline_ns);
  Status hear(int64_t deadline_ns);
  Status resume(Received& reply);
  void close_those_of_meanwhile();
  void note_failed(const Status& why);
  void give_up(const std::string& why);

  Result<Reply> exchange(layout::ControlOp op, const void* body, size_t body_bytes,
                         int64_t deadline_ns);
  Result<Reply> await_reply(layout::ControlOp op, uint32_t request_id, const void* body,
                            int64_t deadline_ns);
  Status send(layout::ControlOp op, uint32_t request_id, const void* body, size_t body_bytes,
              int64_t deadline_ns);
  void abandon(layout::ControlOp op, uint32_t request_id, const void* body);
  void undo(const layout::ControlHeader& late);
  static Status calls_ended();
  void keep_channel(layout::ControlOp op, const Reply& reply);

  const std::string client_name_;
  PrivateDescriptor socket_;
  PrivateDescriptor doorbell_;
  Mapping instance_map_;
  std::atomic<ClientFence> fence_{ClientFence::kOwn};
  uint64_t instance_id_ = 0;
  int64_t request_timeout_ns_;
  std::atomic<Link> link_{Link::kWhole};
  std::atomic<uint64_t> greeted_mark_{0};  // server_mark of the server that socket and doorbell are of
  std::atomic<int64_t> next_call_ns_{0};
  std::atomic<bool> calls_end_{false};

  mutable std::mutex why_mutex_;  // guards the next two; taken last
  int64_t away_since_ns_ = 0;
  std::string why_;               // away: what the last attempt met with; lost: the whole text

  std::mutex mutex_;  // guards what follows, and the order of messages
  std::condition_variable changed_;  // calls_end_
  Comeback comeback_;
  uint64_t id_ = 0;
  uint8_t token_[16] = {};
  std::vector<uint32_t> channels_;  // that the server has for this client, as far as it knows
  std::vector<uint32_t> closed_meanwhile_;  // that calling_ has named as still there
  PrivateDescriptor calling_;       // away: greeted, its answer awaited
  uint64_t calling_mark_ = 0;       // server_mark when it was reached
  int64_t pause_ns_ = 0;            // between attempts
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
