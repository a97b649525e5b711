#include "client/session.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "client/fork_guard.h"
#include "client/handle.h"
#include "client/text.h"
#include "layout/fingerprint.h"

namespace gear::client {

using layout::ControlHeader;
using layout::ControlOp;

namespace {

constexpr int64_t kReturnToLeaveNs = 300'000'000;
// Long enough for any server that lives; a goodbye that is lost costs the server nothing but a
// warning.
constexpr int64_t kGoodbyeTimeoutNs = 1'000'000'000;
// Between looks at whether the client is being closed.
constexpr int64_t kReplySliceNs = 50'000'000;

const char* name_of(ControlOp op) {
  switch (op) {
    case ControlOp::kHello:
      return "hello";
    case ControlOp::kTableCreate:
      return "create table";
    case ControlOp::kTableOpen:
      return "open table";
    case ControlOp::kTableAttach:
      return "attach table";
    case ControlOp::kTableDrop:
      return "drop table";
    case ControlOp::kTableClose:
      return "close table";
    case ControlOp::kTableReset:
      return "reset table";
    case ControlOp::kTableList:
      return "list tables";
    case ControlOp::kWriterOpen:
      return "open writer";
    case ControlOp::kSamplerOpen:
      return "open sampler";
    case ControlOp::kItemsOpen:
      return "open items channel";
    case ControlOp::kChannelClose:
      return "close channel";
    case ControlOp::kServerInfo:
      return "server info";
    case ControlOp::kTableRetune:
      return "retune table";
    case ControlOp::kTableVersion:
      return "set version of table";
    case ControlOp::kGroupStats:
      return "group stats";
    case ControlOp::kGroupList:
      return "list groups";
    case ControlOp::kGroupDrop:
      return "drop group";
    case ControlOp::kGoodbye:
      return "goodbye";
  }
  return "request";
}

// A reply that the server could not give to any request of ours: it refuses the connection itself.
bool refuses_connection(const ControlHeader& header) {
  return header.request_id == 0 && header.status != GEAR_OK;
}

}  // namespace

Session::Session(Descriptor socket, const std::string& client_name, int64_t request_timeout_ns,
                 Comeback comeback)
    : client_name_(client_name),
      socket_(std::move(socket)),
      request_timeout_ns_(request_timeout_ns),
      comeback_(std::move(comeback)) {}

// Nobody else is in a call. A server that is away is waited for a little: the next one keeps what a client has that did not
// say goodbye until its process ends.
Session::~Session() {
  calls_end_.store(false, std::memory_order_relaxed);
  for (int tries = 0; tries < 2; ++tries) {
    if (link() == Link::kAway) {
      Lock lock(mutex_);
      static_cast<void>(await_whole(lock, deadline_after(kReturnToLeaveNs)));
    }
    if (link() != Link::kWhole) return;
    say_goodbye();
    if (link() == Link::kWhole) return;
  }
}

Result<std::unique_ptr<Session>> Session::open(Descriptor socket, const std::string& client_name,
                                               int64_t request_timeout_ns, int64_t deadline_ns,
                                               Comeback comeback) {
  std::unique_ptr<Session> session(
      new Session(std::move(socket), client_name, request_timeout_ns, {}));
  GEAR_TRY(session->hello(deadline_ns));
  // A server that gives its sessions no number knows none again.
  if (session->id_ != 0) session->comeback_ = std::move(comeback);
  return session;
}

// Sent and not waited for: the server reads it before it sees the connection end. Unless a late
// reply may still come: left unread it would turn that end into an error.
void Session::say_goodbye() {
  int64_t deadline_ns = deadline_after(kGoodbyeTimeoutNs);
  if (!abandoned_.empty()) {
    take_late_replies(deadline_ns);
    deadline_ns = deadline_after(kGoodbyeTimeoutNs);
    // The first takes late replies in, and asks for them to be undone; once the second is answered, they are.
    for (int i = 0; i < 2; ++i) static_cast<void>(exchange(ControlOp::kGoodbye, nullptr, 0, deadline_ns));
  } else {
    // Unheard, it leaves the server with what this client has until the process ends; so a shortage is waited out.
    for (int tries = 0; tries < 3; ++tries) {
      if (send(ControlOp::kGoodbye, next_request_, nullptr, 0, deadline_ns).ok() || link() != Link::kWhole) break;
    }
  }
}

// Of tables that are being made: these are answered later than what was asked after them.
void Session::take_late_replies(int64_t deadline_ns) {
  auto creates = [](const Abandoned& one) { return !one.table.empty(); };
  while (std::any_of(abandoned_.begin(), abandoned_.end(), creates) && left_until(deadline_ns) > 0) {
    ControlHeader late{};
    Result<Received> received =
        receive_message(socket_.get(), buffer_.get(), layout::kControlBytesMax, deadline_ns, &late);
    if (received.ok()) late = received.value().header;
    if (late.magic == 0) return;  // none came
    undo(late);
  }
}

// HelloRequest and, of a client that returns, the channels it has.
std::vector<char> Session::hello_request(bool returning) const {
  layout::HelloRequest request{};
  request.layout_version = layout::kLayoutVersion;
  request.fingerprint = layout::kLayoutFingerprint;
  memcpy(request.name, client_name_.data(),
         std::min(client_name_.size(), sizeof request.name - 1));
  size_t ids_bytes = returning ? channels_.size() * sizeof(uint32_t) : 0;
  if (returning) {
    request.channels = static_cast<uint32_t>(channels_.size());
    request.session = id_;
    memcpy(request.token, token_, sizeof request.token);
  }
  std::vector<char> body(sizeof request + ids_bytes);
  memcpy(body.data(), &request, sizeof request);
  if (ids_bytes > 0) memcpy(body.data() + sizeof request, channels_.data(), ids_bytes);
  return body;
}

Status Session::hello(int64_t deadline_ns) {
  std::vector<char> request = hello_request(false);
  Result<Reply> reply = exchange(ControlOp::kHello, request.data(), request.size(), deadline_ns);
  if (!reply.ok()) return reply.status();
  layout::HelloReply body;
  GEAR_TRY(read_reply(reply.value(), 2, &body));
  instance_id_ = body.instance_id;
  id_ = body.session;
  memcpy(token_, body.token, sizeof token_);
  doorbell_ = PrivateDescriptor(std::move(reply.value().descriptors[1]));
  Result<Mapping> map = map_segment("connect", reply.value().descriptors[0].get(),
                                    layout::SegmentKind::kInstance, false);
  if (!map.ok()) return map.status();
  instance_map_ = map.take();
  fence_ = register_for_fences(instance());
  if (fence() == ClientFence::kConductor) detail::closer_fences.store(true, std::memory_order_relaxed);
  greeted_mark_ = server_mark();
  // The mark is that of the server that answered, unless that has gone meanwhile.
  if (socket_closed()) greeted_mark_ = 0;
  return {};
}

Result<Reply> Session::ask(ControlOp op, const void* body, size_t body_bytes) {
  int64_t deadline_ns = deadline_after(request_timeout_ns_);
  Lock lock(mutex_);
  return ask_again_if_broken(lock, op, body, body_bytes, deadline_ns);
}

namespace {

// What a request that is asked a second time answers, though the first one may have been done.
Result<Reply> answer_again(ControlOp op, Result<Reply> reply) {
  int code = reply.ok() ? GEAR_OK : reply.status().code();
  bool ends = op == ControlOp::kTableDrop || op == ControlOp::kGroupDrop;
  if (ends && code == GEAR_ENOTFOUND) return Reply();
  if (op == ControlOp::kTableClose && code == GEAR_ECLOSED) return Reply();
  if (op == ControlOp::kTableCreate && code == GEAR_EEXISTS) {
    return error(GEAR_EDISCONNECTED,
                 "create table: the server went away while it made the table, and has one of that name now, of this call "
                 "or another's; open it, and look whether it is the one you want");
  }
  return reply;
}

// Of a request that was sent before the server went away.
Status broken(ControlOp op, const Status& why) {
  bool harmless = opens_channel(op) || op == ControlOp::kTableOpen ||
                  op == ControlOp::kTableAttach || op == ControlOp::kTableList ||
                  op == ControlOp::kServerInfo || op == ControlOp::kGroupStats ||
                  op == ControlOp::kGroupList;
  return Status(why.code(), format("%s: %s%s", name_of(op), why.text().c_str(),
                                   harmless ? "" : " (it was asked before the server went away and may have been done)"));
}

}  // namespace

Result<Reply> Session::ask_again_if_broken(Lock& lock, ControlOp op, const void* body,
                                           size_t body_bytes, int64_t deadline_ns) {
  for (bool again = false;; again = true) {
    if (calls_end()) return calls_ended();
    if (link() == Link::kWhole && socket_closed()) note_hang_up();
    Status whole = await_whole(lock, deadline_ns);
    if (!whole.ok()) return again ? broken(op, whole) : within(name_of(op), whole);
    Result<Reply> reply = exchange(op, body, body_bytes, deadline_ns);
    if (link() == Link::kWhole) {
      if (reply.ok()) keep_channel(op, reply.value());
      return again ? answer_again(op, std::move(reply)) : std::move(reply);
    }
    // A refusal that came before the end, say.
    if (!reply.ok() && reply.status().code() != GEAR_EDISCONNECTED) return reply;
    if (link() == Link::kLost || op == ControlOp::kTableReset) return broken(op, lost());
  }
}

Status Session::close_channel(uint32_t id) {
  Lock lock(mutex_);
  channels_.erase(std::remove(channels_.begin(), channels_.end(), id), channels_.end());
  if (link() == Link::kWhole && socket_closed()) note_hang_up();
  if (link() != Link::kWhole) {
    if (calling_.valid()) closed_meanwhile_.push_back(id);
    return lost();
  }
  layout::ChannelIdRequest request{id, 0};
  Status closed = exchange(ControlOp::kChannelClose, &request, sizeof request,
                           deadline_after(request_timeout_ns_))
                      .status();
  // The server that came back ended the channel with its table, which was dropped.
  return closed.code() == GEAR_ENOTFOUND ? Status() : closed;
}

void Session::keep_channel(ControlOp op, const Reply& reply) {
  layout::ChannelReply opened;
  if (opens_channel(op) && read_reply(reply, 1, &opened).ok()) {
    channels_.push_back(opened.channel_id);
  }
}

// Under the mutex, but for the first one.
Result<Reply> Session::exchange(ControlOp op, const void* body, size_t body_bytes,
                                int64_t deadline_ns) {
  uint32_t request_id = next_request_++;
  Status sent = send(op, request_id, body, body_bytes, deadline_ns);
  if (!sent.ok() && sent.code() != GEAR_EDISCONNECTED) return within(name_of(op), sent);
  // A server that refuses the connection says why before it closes it, perhaps before we said a
  // word.
  return await_reply(op, request_id, body, sent.ok() ? deadline_ns : 0);
}

Status Session::send(ControlOp op, uint32_t request_id, const void* body, size_t body_bytes,
                     int64_t deadline_ns) {
  ControlHeader header{};
  header.op = static_cast<uint16_t>(op);
  header.request_id = request_id;
  Status sent = send_message(socket_.get(), header, body, body_bytes, nullptr, 0, deadline_ns);
  if (sent.code() != GEAR_EDISCONNECTED) return sent;
  note_hang_up();
  return lost();
}

// What is not answered, well or ill, is abandoned.
Result<Reply> Session::await_reply(ControlOp op, uint32_t request_id, const void* body,
                                   int64_t deadline_ns) {
  bool closed = false;
  for (;;) {
    ControlHeader refused{};
    int64_t slice_ns = std::min(deadline_ns, deadline_after(kReplySliceNs));
    Result<Received> received = receive_message(socket_.get(), buffer_.get(),
                                                layout::kControlBytesMax, slice_ns, &refused);
    if (!received.ok()) {
      int code = received.status().code();
      // That the connection was reset is told before what still waits in it.
      if (code == GEAR_ETIMEDOUT && left_until(deadline_ns) > 0) {
        if (op == ControlOp::kGoodbye || !calls_end()) continue;
        abandon(op, request_id, body);
        return calls_ended();
      }
      if (code == GEAR_EDISCONNECTED && !closed) {
        closed = true;
        continue;
      }
      if (code == GEAR_EDISCONNECTED) {
        note_hang_up();
        return within(name_of(op), lost());
      }
      abandon(op, request_id, body);
      if (code != GEAR_ETIMEDOUT) {
        // What came without its descriptors must leave nothing behind in the server.
        undo(refused);
        return within(name_of(op), received.status());
      }
      return error(GEAR_ETIMEDOUT,
                   "%s: no answer from the server in time; see whether it runs, or raise "
                   "request_timeout_ns",
                   name_of(op));
    }
    Received& message = received.value();
    const ControlHeader& header = message.header;
    if (header.request_id != request_id && !refuses_connection(header)) {
      undo(header);
      continue;
    }
    if (header.status != GEAR_OK) {
      return Status(header.status, std::string(buffer_.get(), header.body_bytes));
    }
    Reply reply;
    reply.body.assign(buffer_.get(), buffer_.get() + header.body_bytes);
    reply.descriptors = std::move(message.descriptors);
    reply.descriptor_count = header.descriptor_count;
    return reply;
  }
}

void Session::abandon(ControlOp op, uint32_t request_id, const void* body) {
  if (link() != Link::kWhole) return;  // no reply will come
  Abandoned one{request_id, {}};
  if (op == ControlOp::kTableCreate) {
    one.table = static_cast<const layout::TableCreateRequest*>(body)->name;
  }
  abandoned_.push_back(std::move(one));
}

// Its caller was told that the request failed, so it must leave nothing behind. The answer to what
// is sent here is itself a late reply, and nothing is left to undo of it.
void Session::undo(const ControlHeader& late) {
  auto found = std::find_if(abandoned_.begin(), abandoned_.end(), [&late](const Abandoned& one) {
    return one.request_id == late.request_id;
  });
  if (found == abandoned_.end()) return;
  Abandoned request = std::move(*found);
  abandoned_.erase(found);
  if (late.status != GEAR_OK) return;

  int64_t deadline_ns = deadline_after(kGoodbyeTimeoutNs);
  if (opens_channel(static_cast<ControlOp>(late.op)) && late.body_bytes == sizeof(layout::ChannelReply)) {
    layout::ChannelReply opened;
    memcpy(&opened, buffer_.get(), sizeof opened);
    layout::ChannelIdRequest close{opened.channel_id, 0};
    static_cast<void>(
        send(ControlOp::kChannelClose, next_request_++, &close, sizeof close, deadline_ns));
  } else if (!request.table.empty()) {
    layout::TableNameRequest drop{};
    memcpy(drop.name, request.table.data(), request.table.size());
    static_cast<void>(
        send(ControlOp::kTableDrop, next_request_++, &drop, sizeof drop, deadline_ns));
  }
}

Status check_reply(const Reply& reply, size_t body_bytes, uint32_t descriptor_count) {
  if (reply.body.size() == body_bytes && reply.descriptor_count >= descriptor_count) return {};
  return error(
      GEAR_EPROTOCOL,
      "the server answered with %zu bytes and %u descriptors, not %zu and %u; use builds of "
      "one version on both sides",
      reply.body.size(), reply.descriptor_count, body_bytes, descriptor_count);
}

}  // namespace gear::client
