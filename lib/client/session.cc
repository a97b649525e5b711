#include "client/session.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "client/fork_guard.h"
#include "client/text.h"
#include "layout/fingerprint.h"

namespace gear::client {

using layout::ControlHeader;
using layout::ControlOp;

namespace {

// Long enough for any server that lives; a goodbye that is lost costs the server nothing but a
// warning.
constexpr int64_t kGoodbyeTimeoutNs = 1'000'000'000;

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

bool opens_channel(uint16_t op) {
  auto which = static_cast<ControlOp>(op);
  return which == ControlOp::kWriterOpen || which == ControlOp::kSamplerOpen ||
         which == ControlOp::kItemsOpen;
}

// A reply that the server could not give to any request of ours: it refuses the connection itself.
bool refuses_connection(const ControlHeader& header) {
  return header.request_id == 0 && header.status != GEAR_OK;
}

}  // namespace

Session::Session(Descriptor socket, int64_t request_timeout_ns)
    : socket_(std::move(socket)), request_timeout_ns_(request_timeout_ns) {
  close_in_child(socket_.get());
}

Session::~Session() {
  if (!gone()) say_goodbye();
  keep_in_child(socket_.get());
  if (doorbell_.valid()) keep_in_child(doorbell_.get());
}

Result<std::unique_ptr<Session>> Session::open(Descriptor socket, const std::string& client_name,
                                               int64_t request_timeout_ns, int64_t deadline_ns) {
  std::unique_ptr<Session> session(new Session(std::move(socket), request_timeout_ns));
  GEAR_TRY(session->hello(client_name, deadline_ns));
  return session;
}

// Sent and not waited for: the server reads it before it sees the connection end. Unless a late
// reply may still come: left unread it would turn that end into an error.
void Session::say_goodbye() {
  int64_t deadline_ns = deadline_after(kGoodbyeTimeoutNs);
  if (!abandoned_.empty()) {
    static_cast<void>(exchange(ControlOp::kGoodbye, nullptr, 0, deadline_ns));
  } else {
    static_cast<void>(send(ControlOp::kGoodbye, next_request_, nullptr, 0, deadline_ns));
  }
}

Status Session::hello(const std::string& client_name, int64_t deadline_ns) {
  layout::HelloRequest request{};
  request.layout_version = layout::kLayoutVersion;
  request.fingerprint = layout::kLayoutFingerprint;
  memcpy(request.name, client_name.data(), std::min(client_name.size(), sizeof request.name - 1));
  Result<Reply> reply = exchange(ControlOp::kHello, &request, sizeof request, deadline_ns);
  if (!reply.ok()) return reply.status();
  layout::HelloReply body;
  GEAR_TRY(read_reply(reply.value(), 2, &body));
  instance_id_ = body.instance_id;
  doorbell_ = std::move(reply.value().descriptors[1]);
  close_in_child(doorbell_.get());
  Result<Mapping> map = map_segment("connect", reply.value().descriptors[0].get(),
                                    layout::SegmentKind::kInstance, false);
  if (!map.ok()) return map.status();
  instance_map_ = map.take();
  fence_ = register_for_fences(instance());
  return {};
}

Result<Reply> Session::ask(ControlOp op, const void* body, size_t body_bytes) {
  return exchange(op, body, body_bytes, deadline_after(request_timeout_ns_));
}

Result<Reply> Session::exchange(ControlOp op, const void* body, size_t body_bytes,
                                int64_t deadline_ns) {
  std::lock_guard lock(mutex_);
  if (gone()) return lost();
  uint32_t request_id = next_request_++;
  Status sent = send(op, request_id, body, body_bytes, deadline_ns);
  if (!sent.ok() && sent.code() != GEAR_EDISCONNECTED) return within(name_of(op), sent);
  // A server that refuses the connection says why before it closes it, perhaps before we said a
  // word.
  Result<Reply> reply = await_reply(op, request_id, sent.ok() ? deadline_ns : 0);
  if (!reply.ok() && reply.status().code() == GEAR_ETIMEDOUT) abandon(op, request_id, body);
  return reply;
}

Status Session::send(ControlOp op, uint32_t request_id, const void* body, size_t body_bytes,
                     int64_t deadline_ns) {
  ControlHeader header{};
  header.op = static_cast<uint16_t>(op);
  header.request_id = request_id;
  Status sent = send_message(socket_.get(), header, body, body_bytes, nullptr, 0, deadline_ns);
  return sent.code() == GEAR_EDISCONNECTED ? lost() : sent;
}

Result<Reply> Session::await_reply(ControlOp op, uint32_t request_id, int64_t deadline_ns) {
  bool closed = false;
  for (;;) {
    Result<Received> received =
        receive_message(socket_.get(), buffer_.get(), layout::kControlBytesMax, deadline_ns);
    if (!received.ok()) {
      int code = received.status().code();
      // That the connection was reset is told before what still waits in it.
      if (code == GEAR_EDISCONNECTED && !closed) {
        closed = true;
        continue;
      }
      if (code == GEAR_EDISCONNECTED) return within(name_of(op), lost());
      if (code != GEAR_ETIMEDOUT) return within(name_of(op), received.status());
      return error(GEAR_ETIMEDOUT,
                   "%s: no answer from the server in time; see whether it runs, or raise "
                   "request_timeout_ns",
                   name_of(op));
    }
    Received& message = received.value();
    const ControlHeader& header = message.header;
    if (header.request_id != request_id && !refuses_connection(header)) {
      undo(message);
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
  Abandoned one{request_id, {}};
  if (op == ControlOp::kTableCreate) {
    one.table = static_cast<const layout::TableCreateRequest*>(body)->name;
  }
  abandoned_.push_back(std::move(one));
}

// Its caller was told that the request failed, so it must leave nothing behind. The answer to what
// is sent here is itself a late reply, and nothing is left to undo of it.
void Session::undo(const Received& late) {
  auto found = std::find_if(abandoned_.begin(), abandoned_.end(), [&late](const Abandoned& one) {
    return one.request_id == late.header.request_id;
  });
  if (found == abandoned_.end()) return;
  Abandoned request = std::move(*found);
  abandoned_.erase(found);
  if (late.header.status != GEAR_OK) return;

  int64_t deadline_ns = deadline_after(kGoodbyeTimeoutNs);
  if (opens_channel(late.header.op) && late.header.body_bytes == sizeof(layout::ChannelReply)) {
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

Status Session::lost() {
  disconnected_.store(true, std::memory_order_relaxed);
  return error(GEAR_EDISCONNECTED,
               "the server has gone; start it again, then connect and open the table anew");
}

bool Session::hung_up() {
  if (gone()) return true;
  pollfd entry{socket_.get(), POLLRDHUP, 0};
  bool closed = poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  if (closed) disconnected_.store(true, std::memory_order_relaxed);
  return closed;
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
