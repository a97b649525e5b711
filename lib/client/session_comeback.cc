// A session whose server has gone: how it finds the next server of the instance.

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "client/session.h"
#include "client/text.h"

namespace gear::client {

using layout::ControlHeader;
using layout::ControlOp;

namespace {

constexpr int64_t kPauseLeastNs = 1'000'000;
constexpr int64_t kPauseMostNs = 250'000'000;
// Between looks at a connection that was whole, and the longest sleep of a request that waits for the return.
constexpr int64_t kLookNs = 100'000'000;
// A look at whether the server answered by now, where somebody sleeps until then.
constexpr int64_t kAnswerLookNs = 1'000'000;
// How long ring() waits for the answer of a server that is new to it, and for room to send what follows.
constexpr int64_t kRingLookNs = 1'000'000;

// Three quarters to five quarters of it: clients of one server do not come back all at once.
int64_t with_jitter(int64_t pause_ns) {
  int64_t half = pause_ns / 2;
  return pause_ns - half / 2 + now_ns() % std::max<int64_t>(half, 1);
}

}  // namespace

bool Session::socket_closed() const {
  pollfd entry{socket_.get(), POLLRDHUP, 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Session::Link Session::look(int64_t deadline_ns) {
  if (link() == Link::kWhole && !socket_closed()) return Link::kWhole;
  Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return link();
  if (link() == Link::kWhole && socket_closed()) note_hang_up();
  if (link() == Link::kAway) mend(deadline_ns);
  return link();
}

int64_t Session::look_after_ns() const {
  if (link() != Link::kAway) return kLookNs;
  int64_t wait_ns = next_call_ns_.load(std::memory_order_relaxed) - now_ns();
  return std::clamp(wait_ns, kAnswerLookNs, kLookNs);
}

Status Session::lost() const {
  std::lock_guard lock(why_mutex_);
  if (link() == Link::kLost) return Status(GEAR_EDISCONNECTED, why_);
  return error(GEAR_EDISCONNECTED,
               "the server has been gone for %s (%s); start it again: this client finds it by itself; or raise the timeout",
               duration_text(now_ns() - away_since_ns_).c_str(), why_.c_str());
}

void Session::ring() {
  uint64_t mark = server_mark();
  if (mark != greeted_mark_.load(std::memory_order_relaxed) &&
      look(deadline_after(kRingLookNs)) == Link::kWhole && !socket_closed()) {
    // Of two servers the one that came later lives, and this one does.
    greeted_mark_.store(mark, std::memory_order_relaxed);
  }
  ring_bell(doorbell_.get());
}

void Session::end_calls() {
  calls_end_.store(true, std::memory_order_relaxed);
  changed_.notify_all();
}

Status Session::calls_ended() {
  return Status(GEAR_ECLOSED, "the client is being closed by another thread; connect anew");
}

// OK once the connection is whole, which is waited for.
Status Session::await_whole(Lock& lock, int64_t deadline_ns) {
  for (;;) {
    if (calls_end()) return calls_ended();
    if (link() == Link::kAway) mend(std::min(deadline_ns, deadline_after(kAnswerLookNs)));
    if (link() == Link::kWhole) return {};
    int64_t left_ns = left_until(deadline_ns);
    if (link() == Link::kLost || left_ns == 0) return lost();
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left_ns, look_after_ns())));
  }
}

void Session::note_hang_up() {
  if (link() != Link::kWhole) return;
  {
    std::lock_guard lock(why_mutex_);
    away_since_ns_ = now_ns();
    why_ = "its connection ended";
  }
  abandoned_.clear();  // their replies went with it
  pause_ns_ = kPauseLeastNs;
  next_call_ns_.store(0, std::memory_order_relaxed);
  link_.store(Link::kAway, std::memory_order_relaxed);
  if (!comeback_.reach) {
    give_up("the server has gone; start it again, then connect and open the table anew");
  } else if (peek(instance()->pid) == 0) {
    give_up("the server was stopped; start it again, then connect and open the table anew");
  }
}

// The next step: a new connection where it is time for one, and what came on it.
void Session::mend(int64_t deadline_ns) {
  if (!calling_.valid()) {
    if (now_ns() < next_call_ns_.load(std::memory_order_relaxed)) return;
    Status called = call(deadline_ns);
    if (!called.ok()) return note_failed(called);
  }
  Status heard = hear(deadline_ns);
  if (heard.ok()) return;
  // An answer that did not come yet is found by whoever looks next.
  if (heard.code() != GEAR_ETIMEDOUT) calling_.reset();
  note_failed(heard);
}

Status Session::call(int64_t deadline_ns) {
  Result<Descriptor> socket = comeback_.reach(deadline_ns);
  if (!socket.ok()) return socket.status();
  PrivateDescriptor reached(socket.take());
  // Read after that server was reached and before it answers, so it is its own or that of one before.
  calling_mark_ = server_mark();
  std::vector<char> request = hello_request(true);
  closed_meanwhile_.clear();  // this greeting no longer names them
  ControlHeader header{};
  header.op = static_cast<uint16_t>(ControlOp::kHello);
  header.request_id = next_request_++;
  GEAR_TRY(send_message(reached.get(), header, request.data(), request.size(), nullptr, 0, deadline_ns));
  calling_ = std::move(reached);
  return {};
}

// The answer to call(), and what follows from it.
Status Session::hear(int64_t deadline_ns) {
  Result<Received> received =
      receive_message(calling_.get(), buffer_.get(), layout::kControlBytesMax, deadline_ns);
  if (!received.ok()) return received.status();
  const ControlHeader& header = received.value().header;
  if (header.status == GEAR_OK) return resume(received.value());
  Status refused(header.status, std::string(buffer_.get(), header.body_bytes));
  if (refused.code() == GEAR_ENOTFOUND) {
    give_up("the server that is there now does not know this client (" + refused.text() +
            "); connect and open the table anew");
  } else if (refused.code() == GEAR_EVERSION) {
    give_up("the server that is there now is of another version (" + refused.text() + ")");
  }
  return refused;
}

Status Session::resume(Received& reply) {
  layout::HelloReply body;
  if (reply.header.body_bytes != sizeof body || reply.header.descriptor_count < 2) {
    give_up("the server that is there now answers in another form; use builds of one version on both sides");
    return Status(GEAR_EPROTOCOL, "hello of another form");
  }
  memcpy(&body, buffer_.get(), sizeof body);
  if (body.instance_id != instance_id_ || body.session != id_) {
    give_up(format("the server that is there now is another (%016llx, not %016llx); connect and open the table anew",
                   static_cast<unsigned long long>(body.instance_id),
                   static_cast<unsigned long long>(instance_id_)));
    return Status(GEAR_ENOTFOUND, "another server");
  }
  PrivateDescriptor doorbell(std::move(reply.descriptors[1]));
  if (!doorbell_.become(doorbell) || !socket_.become(calling_)) {
    return Status(GEAR_ESYSTEM, "dup3 failed");
  }
  calling_.reset();
  fence_.store(register_for_fences(instance()), std::memory_order_relaxed);
  greeted_mark_.store(calling_mark_, std::memory_order_relaxed);
  link_.store(Link::kWhole, std::memory_order_relaxed);
  // For what was published while the old one was still rung.
  ring_bell(doorbell_.get());
  close_those_of_meanwhile();
  return {};
}

// The greeting that was answered named them as still there. The replies are late ones, and nobody's.
void Session::close_those_of_meanwhile() {
  for (uint32_t id : std::exchange(closed_meanwhile_, {})) {
    layout::ChannelIdRequest request{id, 0};
    static_cast<void>(send(ControlOp::kChannelClose, next_request_++, &request, sizeof request, deadline_after(kRingLookNs)));
  }
}

void Session::note_failed(const Status& why) {
  if (link() == Link::kLost) return;
  int64_t now = now_ns();
  int64_t away_ns;
  {
    std::lock_guard lock(why_mutex_);
    why_ = why.text();
    away_ns = now - away_since_ns_;
  }
  next_call_ns_.store(now + with_jitter(pause_ns_), std::memory_order_relaxed);
  pause_ns_ = std::min(pause_ns_ * 2, kPauseMostNs);
  if (away_ns < comeback_.timeout_ns) return;
  give_up(format("the server has been gone for %s, and reconnect_timeout_ns is %s (%s); start it again, then connect and "
                 "open the table anew",
                 duration_text(away_ns).c_str(), duration_text(comeback_.timeout_ns).c_str(),
                 why.text().c_str()));
}

void Session::give_up(const std::string& why) {
  std::lock_guard lock(why_mutex_);
  why_ = why;
  link_.store(Link::kLost, std::memory_order_relaxed);
}

}  // namespace gear::client
