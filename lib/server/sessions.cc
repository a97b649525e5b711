#include "server/sessions.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "server/access.h"

namespace gear {
namespace {

constexpr int64_t kDeadLookNs = 100'000'000;
// Connections that have said no hello.
constexpr uint64_t kMuteMost = 256;

}  // namespace

bool is_return(const layout::ControlHeader& header, const char* body) {
  layout::HelloRequest request;
  if (header.op != static_cast<uint16_t>(layout::ControlOp::kHello)) return false;
  if (header.body_bytes < sizeof request) return false;
  memcpy(&request, body, sizeof request);
  uint64_t bytes = sizeof request + request.channels * sizeof(uint32_t);
  return request.session != 0 && header.body_bytes == bytes;
}

Session* Sessions::find(uint64_t id) {
  auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

// An adopted ledger may have fewer records than the options of this server ask for; one is for the server's own process.
uint32_t Sessions::clients_most() const { return std::min(options_.clients_max, ledger_.sessions_max() - 1); }

// The abstract socket has no mode bits of its own, so the user is looked at here.
Status Sessions::check_peer(const Peer& who) const {
  if (options_.access != ConnectAccess::kAny && !is_privileged(who)) {
    return error(GEAR_EPERM, "connect: not permitted to user %u: the server is user %u's alone; start geard with --access any to let others in",
                 who.uid, geteuid());
  }
  // Places among the clients are counted at hello, for who returns has its place already; those who have said nothing yet
  // are few, and few of each user.
  auto mute = [](const auto& one) { return one.second.socket.valid() && !one.second.greeted(); };
  auto of_user = [&](const auto& one) { return mute(one) && one.second.peer.uid == who.uid; };
  auto all = static_cast<uint64_t>(std::count_if(sessions_.begin(), sessions_.end(), mute));
  auto own = static_cast<uint64_t>(std::count_if(sessions_.begin(), sessions_.end(), of_user));
  const uint64_t most = is_privileged(who) ? 2 * kMuteMost : kMuteMost;
  if ((all < most && own < most / 2) || who.pid == getpid()) return {};
  return error(GEAR_ELIMIT, "%llu connections, %llu of user %u, have not greeted yet, which is the most; try again",
               static_cast<unsigned long long>(all), static_cast<unsigned long long>(own), who.uid);
}

Status Sessions::check_place(const Session& session) const {
  const Peer& who = session.peer;
  // The server's own process asks for the tables of its configuration, at its start, when all places may be taken.
  const pid_t own = getpid();
  if (who.pid == own) return {};
  auto greeted = [own](const auto& one) { return one.second.greeted() && one.second.peer.pid != own; };
  auto same_user = [&](const auto& one) { return greeted(one) && one.second.peer.uid == who.uid; };
  if (static_cast<uint64_t>(std::count_if(sessions_.begin(), sessions_.end(), greeted)) >= clients_most()) {
    return error(GEAR_ELIMIT, "the server has its %u clients; close some, or raise clients_max", clients_most());
  }
  auto clients = std::count_if(sessions_.begin(), sessions_.end(), same_user);
  return quotas_.check_client(who, static_cast<uint64_t>(clients));
}

Status Sessions::admit(Session& session) {
  uint64_t id = session.id;
  Status watched = loop_.add(session.socket.get(), token(Source::kSocket, id));
  if (watched.ok()) watched = loop_.add(session.doorbell.get(), token(Source::kDoorbell, id));
  if (watched.ok() && session.process.pollable()) {
    watched = loop_.add(session.process.fd(), token(Source::kProcess, id));
  }
  if (!watched.ok()) {
    loop_.remove(session.socket.get());
    loop_.remove(session.doorbell.get());
    return watched;
  }
  session.accepted_ns = now_ns();
  if (!session.process.pollable()) ask_from(session.accepted_ns + kDeadLookNs);
  hello_due_ = std::min(hello_due_, session.accepted_ns + options_.hello_timeout_ns);
  sessions_.emplace(id, std::move(session));
  return {};
}

void Sessions::adopt(std::vector<Session> sessions) {
  for (Session& session : sessions) sessions_.emplace(session.id, std::move(session));
}

void Sessions::watch_adopted() {
  for (auto& [id, session] : sessions_) {
    bool told = session.process.pollable() && loop_.add(session.process.fd(), token(Source::kProcess, id)).ok();
    if (told) continue;
    if (session.process.pollable()) {
      session.process = ProcessWatch::to_ask(session.record->pid, session.record->start_ticks);
    }
    ask_from(now_ns() + kDeadLookNs);
  }
}

void Sessions::tick(int64_t now) {
  look_for_the_dead(now);
  close_the_silent(now);
}

// A connection that says nothing counts among the few that have not greeted, and has descriptors.
void Sessions::close_the_silent(int64_t now) {
  if (now < hello_due_) return;
  hello_due_ = INT64_MAX;
  std::vector<uint64_t> silent;
  for (const auto& [id, session] : sessions_) {
    if (session.greeted() || !session.socket.valid()) continue;
    int64_t due = session.accepted_ns + options_.hello_timeout_ns;
    if (due <= now) {
      silent.push_back(id);
    } else {
      hello_due_ = std::min(hello_due_, due);
    }
  }
  for (uint64_t id : silent) expel(id, "said no hello in time");
}

void Sessions::look_for_the_dead(int64_t now) {
  if (now < dead_due_) return;
  end_dead(false, 0, "its process ended");
  bool any = std::any_of(sessions_.begin(), sessions_.end(), [](const auto& one) { return !one.second.process.pollable(); });
  dead_due_ = any ? now + kDeadLookNs : INT64_MAX;
}

void Sessions::bury_the_dead(uint64_t but, const char* why) { end_dead(true, but, why); }

void Sessions::end_dead(bool pollable_too, uint64_t but, const char* why) {
  std::vector<uint64_t> dead;
  for (const auto& [id, session] : sessions_) {
    bool asked = pollable_too || !session.process.pollable();
    if (id != but && asked && session.process.dead()) dead.push_back(id);
  }
  for (uint64_t id : dead) end(id, why);
}

Result<Session*> Sessions::resume(Session& fresh, const char* body) {
  layout::HelloRequest request;
  memcpy(&request, body, sizeof request);
  std::vector<uint32_t> channels(request.channels);
  if (!channels.empty()) memcpy(channels.data(), body + sizeof request, channels.size() * sizeof(uint32_t));
  auto id = static_cast<unsigned long long>(request.session);
  Session* session = find(request.session);
  bool known = session != nullptr && session->greeted() && !fresh.greeted();
  if (!known || session->expelled) {
    return error(GEAR_ENOTFOUND, "resume session %llu: %s; connect anew", id,
                 known ? "it was expelled, for it broke the protocol"
                       : "this server does not know it, for it ended, or its server kept nothing (memory = memfd)");
  }
  bool same_process = session->peer.uid == fresh.peer.uid && session->peer.pid == fresh.peer.pid;
  if (!same_secret(session->record->token, request.token) || !same_process) {
    return error(GEAR_EPERM, "resume session %llu: it is another process's, or the token is not its; connect anew", id);
  }
  conductor_.close_ports_of(session->id, channels);
  GEAR_TRY(move_connection(fresh, *session));
  log(LogLevel::kInfo, "client \"%s\" (process %d) is back", session->name.c_str(), session->peer.pid);
  return session;
}

// After an error both are as they were.
Status Sessions::move_connection(Session& from, Session& to) {
  auto watch = [&](uint64_t id) -> Status {
    GEAR_TRY(loop_.add(from.socket.get(), token(Source::kSocket, id)));
    return loop_.add(from.doorbell.get(), token(Source::kDoorbell, id));
  };
  auto unwatch = [&] {
    loop_.remove(from.socket.get());
    loop_.remove(from.doorbell.get());
  };
  unwatch();
  Status watched = watch(to.id);
  if (!watched.ok()) {
    unwatch();
    (void)watch(from.id);
    return watched;
  }
  close_socket(to);
  if (to.doorbell.valid()) loop_.remove(to.doorbell.get());
  to.peer = std::move(from.peer);  // with its groups, which the ledger does not keep
  to.socket = std::move(from.socket);
  to.doorbell = std::move(from.doorbell);
  if (from.process.pollable()) {
    loop_.remove(from.process.fd());
    // Where it cannot be watched, it is asked for as before.
    bool better = !to.process.pollable() && loop_.add(from.process.fd(), token(Source::kProcess, to.id)).ok();
    if (better) to.process = std::move(from.process);
  }
  sessions_.erase(from.id);
  return {};
}

void Sessions::close_socket(Session& session) {
  if (!session.socket.valid()) return;
  loop_.remove(session.socket.get());
  session.socket.reset();
}

void Sessions::hang_up(Session& session) {
  if (!conductor_.has_ports_of(session.id)) return end(session.id, nullptr);
  close_socket(session);
}

void Sessions::expel(uint64_t id, const char* why) {
  Session* session = find(id);
  if (session == nullptr) return;
  expulsions_.say(format("client \"%s\" (process %d, user %u) expelled: %s", session->name.c_str(), session->peer.pid,
                         session->peer.uid, why));
  session->expelled = true;
  hang_up(*session);
}

void Sessions::end(uint64_t id, const char* why) {
  Session* session = find(id);
  if (session == nullptr) return;
  if (why != nullptr) {
    log(LogLevel::kInfo, "client \"%s\" (process %d) ended: %s", session->name.c_str(), session->peer.pid, why);
  }
  close_socket(*session);
  if (session->doorbell.valid()) loop_.remove(session->doorbell.get());
  if (session->process.pollable()) loop_.remove(session->process.fd());
  conductor_.close_ports_of(id);
  if (session->record != nullptr) ledger_.remove(session->record);
  sessions_.erase(id);
}

}  // namespace gear
