#include "server/server.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "base/log.h"
#include "base/shared_word.h"
#include "server/access.h"
#include "server/complaints.h"
#include "server/conductor.h"
#include "server/event_loop.h"
#include "server/instance.h"
#include "server/requests.h"
#include "server/session.h"
#include "server/table_maker.h"
#include "shm/doorbell.h"

namespace gear {
namespace {

using layout::ConductorState;

// Tokens of the event loop: what in the upper byte, which session below.
enum class Source : uint64_t { kStop = 1, kListener, kTables, kSocket, kDoorbell, kProcess };
constexpr uint64_t token(Source source, uint64_t which) {
  return static_cast<uint64_t>(source) << 56 | which;
}
constexpr Source token_source(uint64_t token) { return static_cast<Source>(token >> 56); }
constexpr uint64_t token_which(uint64_t token) { return token & 0x00ffffffffffffffu; }

constexpr size_t kEventsAtOnce = 64;
// While the rings keep the conductor busy, sockets are looked at this often.
constexpr uint32_t kPollsPerLook = 64;
// Longer than waking a process takes on a virtual machine.
constexpr int64_t kSpinNsMost = 200'000;
constexpr int64_t kDeadLookNs = 100'000'000;
// Between two looks at the rings, so that a crowd at the door does not keep the conductor from them.
constexpr int kAcceptsAtOnce = 32;
// Of replies that a client has not read. Each holds a buffer, and descriptors that count against this user's limit of those
// under way; a client of ours has one request at a time, and late answers to the few that it gave up.
constexpr uint32_t kUnreadRepliesMost = 32;
// Connections that have said no hello.
constexpr uint64_t kMuteMost = 256;

// A hello of a client that was here before, whole: with the channels it has.
bool returns(const layout::ControlHeader& header, const char* body) {
  layout::HelloRequest request;
  if (header.op != static_cast<uint16_t>(layout::ControlOp::kHello)) return false;
  if (header.body_bytes < sizeof request) return false;
  memcpy(&request, body, sizeof request);
  uint64_t bytes = sizeof request + request.channels * sizeof(uint32_t);
  return request.session != 0 && header.body_bytes == bytes;
}

void drain_eventfd(int fd) {
  uint64_t count;
  [[maybe_unused]] ssize_t ignored = read(fd, &count, sizeof count);
}

// Thread rule: run and everything it calls in one thread; stop from any.
class ServerLoop final : public Server {
 public:
  ServerLoop(const ServerOptions& options, std::unique_ptr<Instance> instance,
             std::unique_ptr<EventLoop> loop)
      : options_(options),
        instance_(std::move(instance)),
        loop_(std::move(loop)),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        conductor_(instance_->ledger()),
        requests_(options_, *instance_, conductor_, maker_) {
    requests_.facts.event_loop = loop_->name();
    requests_.bury_the_dead = [this](uint64_t but) { end_dead_sessions(true, but); };
  }

  // What a dead server of the instance left. Errors: as adopt_remains.
  Status adopt();

  Status watch_own_descriptors() {
    GEAR_TRY(loop_->add(stop_.get(), token(Source::kStop, 0)));
    GEAR_TRY(loop_->add(maker_.ready_fd(), token(Source::kTables, 0)));
    GEAR_TRY(loop_->add(instance_->abstract_listener(), token(Source::kListener, 0)));
    if (instance_->path_listener() >= 0) {
      GEAR_TRY(loop_->add(instance_->path_listener(), token(Source::kListener, 1)));
    }
    return {};
  }

  void run(std::function<void()> tick, int64_t tick_ns) override;
  void stop() override {
    stopping_.store(true, std::memory_order_release);
    uint64_t one = 1;
    [[maybe_unused]] ssize_t ignored = write(stop_.get(), &one, sizeof one);
  }
  const std::string& abstract_name() const override { return instance_->abstract_name(); }
  uint64_t instance_id() const override { return instance_->id(); }

 private:
  size_t look(int64_t timeout_ns);
  void note_work(int64_t now);
  void handle(const LoopEvent& event);
  void rest(int64_t idle_ns);
  void announce(ConductorState state) {
    publish(instance_->words()->conductor_state, static_cast<uint32_t>(state));
  }

  void accept_clients(int listener);
  void accept_client(Session session);
  Status check_peer(const Session& session) const;
  Status check_place(const Session& session) const;
  void close_the_silent(int64_t now);
  void admit_client(Session session);
  void look_for_the_dead(int64_t now);
  void end_dead_sessions(bool pollable_too, uint64_t but);
  void turn_away(int listener);
  void serve_request(Session& session);
  Session* resume(Session& fresh, const layout::ControlHeader& header, Status* refused);
  Status move_connection(Session& from, Session& to);
  void settle_adopted();
  void reply_to(Session& session, uint16_t op, uint32_t request_id, const Reply& reply);
  void send_made_tables();
  void close_socket(Session& session);
  void hang_up(Session& session);
  void expel(uint64_t id, const char* why);
  void end_session(uint64_t id, const char* why);

  ServerOptions options_;
  std::unique_ptr<Instance> instance_;
  std::unique_ptr<EventLoop> loop_;
  Descriptor stop_;
  std::atomic<bool> stopping_{false};
  Conductor conductor_;
  TableMaker maker_;
  Requests requests_;
  std::unordered_map<uint64_t, Session> sessions_;
  int64_t tick_due_ = INT64_MAX;
  size_t unpollable_ = 0;  // sessions whose process has no pidfd
  int64_t dead_due_ = 0;
  int64_t hello_due_ = INT64_MAX;  // when a connection may have been silent for too long
  Complaints complaints_;  // about who was not let in, and replies that did not go out
  Complaints expulsions_;
  int64_t spin_ns_ = 0;    // how long it polls without sleeping now; at least options_.spin_ns
  int64_t worked_ns_ = 0;  // when a ring had a record last
  Descriptor reserve_{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  std::vector<char> body_ = std::vector<char>(layout::kControlBytesMax);
};

void ServerLoop::run(std::function<void()> tick, int64_t tick_ns) {
  // Here and not at creation: an io_uring poll belongs to the thread that asked for it, and ends with it.
  Status watched = watch_own_descriptors();
  if (!watched.ok()) return log(LogLevel::kError, "serve: %s", watched.text().c_str());
  settle_adopted();
  if (tick) tick_due_ = now_ns();
  worked_ns_ = now_ns();
  spin_ns_ = options_.spin_ns;
  uint32_t polls = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    size_t done = conductor_.poll();
    for (auto one = conductor_.next_offender(); one.session != 0; one = conductor_.next_offender()) {
      expel(one.session, one.deed);
    }
    if (++polls >= kPollsPerLook) {
      polls = 0;
      done += look(0);
    }
    int64_t now = now_ns();
    if (done > 0) note_work(now);
    conductor_.tick(now);
    look_for_the_dead(now);
    close_the_silent(now);
    if (tick && now >= tick_due_) {
      tick();
      tick_due_ = now + tick_ns;
    }
    if (done == 0 && now - worked_ns_ > spin_ns_) {
      rest(now - worked_ns_);
      polls = 0;
    } else if (done == 0) {
      spin_pause();
    }
  }
  // Of no process any more: clients that lose their connection now know that it is for good.
  publish(instance_->words()->pid, 0u);
  // Whoever waits for a table is told now, not by its own timeout.
  for (const auto& table : conductor_.tables()) conductor_.close_table(*table);
}

// Spins for as long as it would have paid lately: two sides that wake each other by system calls, each sleeping just before the
// other answers, would stay in that state; work that comes rarely is not worth spinning for.
void ServerLoop::note_work(int64_t now) {
  int64_t gap = now - worked_ns_;
  worked_ns_ = now;
  if (gap <= spin_ns_) return;
  spin_ns_ = gap < kSpinNsMost ? std::min(spin_ns_ * 2, kSpinNsMost)
                               : std::max(spin_ns_ - spin_ns_ / 8, options_.spin_ns);
}

// One turn without work: sleep shallowly while work was recent, deeply after that.
void ServerLoop::rest(int64_t idle_ns) {
  bool deep = idle_ns > options_.drowsy_ns;
  announce(deep ? ConductorState::kAsleep : ConductorState::kDrowsy);
  // The announcement before the last look: a client that published a record before it saw the announcement is seen here,
  // one that published after it sees the announcement and rings.
  fence_store_before_look();
  if (instance_->words()->fences_for_clients == 1) fence_clients();
  int64_t timeout = layout::kDrowsyPollNs;
  if (conductor_.poll() > 0) {
    note_work(now_ns());
    timeout = 0;
  } else if (deep) {
    int64_t due = std::min(conductor_.tick_due(), tick_due_);
    due = std::min(due, hello_due_);
    if (unpollable_ > 0) due = std::min(due, dead_due_);
    timeout = due == INT64_MAX ? -1 : left_until(due);
  }
  size_t events = look(timeout);
  announce(ConductorState::kAwake);
  if (events > 0) ++requests_.facts.wakeups;
}

size_t ServerLoop::look(int64_t timeout_ns) {
  LoopEvent events[kEventsAtOnce];
  size_t count = loop_->wait(timeout_ns, events, kEventsAtOnce);
  for (size_t i = 0; i < count; ++i) handle(events[i]);
  return count;
}

void ServerLoop::handle(const LoopEvent& event) {
  uint64_t which = token_which(event.token);
  Source source = token_source(event.token);
  if (source == Source::kStop) return;
  if (source == Source::kListener) {
    return accept_clients(which == 0 ? instance_->abstract_listener()
                                     : instance_->path_listener());
  }
  if (source == Source::kTables) return send_made_tables();

  auto found = sessions_.find(which);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  switch (source) {
    case Source::kSocket: return serve_request(session);
    case Source::kDoorbell: return drain_eventfd(session.doorbell.get());
    case Source::kProcess: return end_session(which, "its process died");
    default: return;
  }
}

void ServerLoop::accept_clients(int listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    Result<Descriptor> accepted = accept_unix(listener);
    if (!accepted.ok()) {
      if (accepted.status().code() == GEAR_EMFILE) return turn_away(listener);
      if (accepted.status().code() != GEAR_ETIMEDOUT) {
        complaints_.say("accept a client: " + accepted.status().text());
      }
      return;
    }
    Session session;
    session.id = instance_->ledger().take_session_id();
    session.socket = accepted.take();
    accept_client(std::move(session));
  }
}

void ServerLoop::accept_client(Session session) {
  Result<Peer> peer = peer_of(session.socket.get());
  Status refused = peer.status();
  if (peer.ok()) {
    session.peer = peer.take();
    refused = check_peer(session);
  }
  if (!refused.ok()) {
    complaints_.say("refused a client: " + refused.text());
    return reply_to(session, 0, 0, Reply::failed(refused));
  }
  Result<ProcessWatch> watch = ProcessWatch::of_peer(session.socket.get());
  session.doorbell.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!watch.ok() || !session.doorbell.valid()) {
    Status why = watch.ok() ? system_error(errno, "make a doorbell") : watch.status();
    complaints_.say("accept a client: " + why.text());
    return reply_to(session, 0, 0, Reply::failed(why));
  }
  session.process = watch.take();
  admit_client(std::move(session));
}

// The abstract socket has no mode bits of its own, so the user is looked at here.
Status ServerLoop::check_peer(const Session& session) const {
  const Peer& who = session.peer;
  if (options_.access != ConnectAccess::kAny && !is_privileged(who)) {
    return error(GEAR_EPERM, "connect: not permitted to user %u: the server is user %u's alone; start geard with --access any to let others in",
                 who.uid, geteuid());
  }
  // Places among the clients are counted at hello, for who returns has its place already; those who have said nothing yet
  // are few, and few of each user.
  auto mute = [](const auto& one) { return one.second.socket.valid() && !one.second.greeted; };
  auto of_user = [&](const auto& one) { return mute(one) && one.second.peer.uid == who.uid; };
  auto all = static_cast<uint64_t>(std::count_if(sessions_.begin(), sessions_.end(), mute));
  auto own = static_cast<uint64_t>(std::count_if(sessions_.begin(), sessions_.end(), of_user));
  const uint64_t most = is_privileged(who) ? 2 * kMuteMost : kMuteMost;
  if ((all < most && own < most / 2) || who.pid == getpid()) return {};
  return error(GEAR_ELIMIT, "%llu connections, %llu of user %u, have not greeted yet, which is the most; try again",
               static_cast<unsigned long long>(all), static_cast<unsigned long long>(own), who.uid);
}

// A new one; those who return count already.
Status ServerLoop::check_place(const Session& session) const {
  const Peer& who = session.peer;
  // The server's own process asks for the tables of its configuration, at its start, when all places may be taken.
  const pid_t own = getpid();
  if (who.pid == own) return {};
  auto greeted = [own](const auto& one) { return one.second.greeted && one.second.peer.pid != own; };
  auto same_user = [&](const auto& one) { return greeted(one) && one.second.peer.uid == who.uid; };
  if (static_cast<uint64_t>(std::count_if(sessions_.begin(), sessions_.end(), greeted)) >= options_.clients_max) {
    return error(GEAR_ELIMIT, "the server has its %u clients; close some, or raise clients_max", options_.clients_max);
  }
  auto clients = std::count_if(sessions_.begin(), sessions_.end(), same_user);
  return requests_.quotas.check_client(who, static_cast<uint64_t>(clients));
}

void ServerLoop::admit_client(Session session) {
  uint64_t id = session.id;
  Status watched = loop_->add(session.socket.get(), token(Source::kSocket, id));
  if (watched.ok()) watched = loop_->add(session.doorbell.get(), token(Source::kDoorbell, id));
  if (watched.ok() && session.process.pollable()) {
    watched = loop_->add(session.process.fd(), token(Source::kProcess, id));
  }
  if (!watched.ok()) {
    log(LogLevel::kError, "watch a client: %s", watched.text().c_str());
    reply_to(session, 0, 0, {watched, {}, {}, false});
    loop_->remove(session.socket.get());
    loop_->remove(session.doorbell.get());
    return;
  }
  if (!session.process.pollable()) ++unpollable_;
  session.accepted_ns = now_ns();
  hello_due_ = std::min(hello_due_, session.accepted_ns + options_.hello_timeout_ns);
  sessions_.emplace(id, std::move(session));
  requests_.facts.clients = sessions_.size();
}

// A connection that says nothing holds a place among the clients.
void ServerLoop::close_the_silent(int64_t now) {
  if (now < hello_due_) return;
  hello_due_ = INT64_MAX;
  std::vector<uint64_t> silent;
  for (const auto& [id, session] : sessions_) {
    if (session.greeted || !session.socket.valid()) continue;
    int64_t due = session.accepted_ns + options_.hello_timeout_ns;
    if (due <= now) {
      silent.push_back(id);
    } else {
      hello_due_ = std::min(hello_due_, due);
    }
  }
  for (uint64_t id : silent) expel(id, "said no hello in time");
}

// Where the kernel gives no pidfd, death is asked for instead of told.
void ServerLoop::look_for_the_dead(int64_t now) {
  if (unpollable_ == 0 || now < dead_due_) return;
  dead_due_ = now + kDeadLookNs;
  end_dead_sessions(false, 0);
}

// All but the session `but`, whose request is being served; its own death is told in time.
void ServerLoop::end_dead_sessions(bool pollable_too, uint64_t but) {
  std::vector<uint64_t> dead;
  for (const auto& [id, session] : sessions_) {
    bool asked = pollable_too || !session.process.pollable();
    if (id != but && asked && session.process.dead()) dead.push_back(id);
  }
  for (uint64_t id : dead) end_session(id, "its process died");
}

// No descriptor is left: the one kept for this lets a client be told so, instead of its waiting and our spinning.
void ServerLoop::turn_away(int listener) {
  reserve_.reset();
  Result<Descriptor> accepted = accept_unix(listener);
  if (accepted.ok()) {
    Session session;
    session.socket = accepted.take();
    log(LogLevel::kWarning, "turned a client away: no file descriptor is left; raise LimitNOFILE");
    reply_to(session, 0, 0,
             {error(GEAR_EMFILE, "the server has no file descriptor left; raise its LimitNOFILE, or close clients"),
              {}, {}, false});
  }
  reserve_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void ServerLoop::serve_request(Session& session) {
  Result<Received> received =
      receive_message(session.socket.get(), body_.data(), body_.size(), 0);
  if (!received.ok()) {
    int code = received.status().code();
    if (code == GEAR_ETIMEDOUT) return;
    // Not the client's doing; the message waits.
    if (code == GEAR_ENOMEM) return complaints_.say("receive a request: " + received.status().text());
    if (code == GEAR_EDISCONNECTED) {
      // After goodbye nothing is left in use. Otherwise the process may have only closed the socket and may go on writing
      // into its blocks: they come back when the kernel certifies its death.
      if (session.said_goodbye || session.process.dead()) {
        return end_session(session.id, nullptr);
      }
      log(LogLevel::kDebug, "client \"%s\" (process %d) hung up without goodbye", session.name.c_str(),
          session.peer.pid);
      return hang_up(session);
    }
    reply_to(session, 0, 0, {received.status(), {}, {}, false});
    return expel(session.id, received.status().text().c_str());
  }
  const layout::ControlHeader& header = received.value().header;
  if (header.descriptor_count > 0) return expel(session.id, "sent descriptors, which no request has");
  if (unread_bytes(session.socket.get()) == 0) session.unread_replies = 0;
  if (session.unread_replies >= kUnreadRepliesMost) return expel(session.id, "does not read its replies");
  ++session.unread_replies;
  Session* asks = &session;
  if (returns(header, body_.data())) {
    Status refused;
    asks = resume(session, header, &refused);
    if (!refused.ok()) return reply_to(session, header.op, header.request_id, Reply::failed(refused));
  }
  bool enters = !asks->greeted && header.op == static_cast<uint16_t>(layout::ControlOp::kHello);
  Status room = enters ? check_place(*asks) : Status();
  if (!room.ok()) complaints_.say("refused a client: " + room.text());
  Reply reply = room.ok() ? requests_.answer(*asks, header, body_.data()) : Reply::failed(room);
  if (reply.later) return;
  reply_to(*asks, header.op, header.request_id, reply);
}

// The session that the client had, with the new connection; `fresh` is gone then. Or `fresh`, and why not.
Session* ServerLoop::resume(Session& fresh, const layout::ControlHeader& header, Status* refused) {
  layout::HelloRequest request;
  memcpy(&request, body_.data(), sizeof request);
  std::vector<uint32_t> channels((header.body_bytes - sizeof request) / sizeof(uint32_t));
  memcpy(channels.data(), body_.data() + sizeof request, channels.size() * sizeof(uint32_t));
  auto id = static_cast<unsigned long long>(request.session);
  auto found = sessions_.find(request.session);
  bool known = found != sessions_.end() && found->second.record != nullptr && !fresh.greeted;
  if (!known || found->second.expelled) {
    *refused = error(GEAR_ENOTFOUND, "resume session %llu: %s; connect anew", id,
                     known ? "it was expelled, for it broke the protocol"
                           : "this server does not know it, for it ended, or its server kept nothing (memory = memfd)");
    return &fresh;
  }
  Session& session = found->second;
  bool same_process = session.peer.uid == fresh.peer.uid && session.peer.pid == fresh.peer.pid;
  if (!same_secret(session.record->token, request.token) || !same_process) {
    *refused = error(GEAR_EPERM, "resume session %llu: it is another process's, or the token is not its; connect anew", id);
    return &fresh;
  }
  conductor_.close_ports_of(session.id, channels);
  *refused = move_connection(fresh, session);
  if (!refused->ok()) return &fresh;
  log(LogLevel::kInfo, "client \"%s\" (process %d) is back", session.name.c_str(), session.peer.pid);
  return &session;
}

// After an error both are as they were.
Status ServerLoop::move_connection(Session& from, Session& to) {
  auto watch = [&](uint64_t id) -> Status {
    GEAR_TRY(loop_->add(from.socket.get(), token(Source::kSocket, id)));
    return loop_->add(from.doorbell.get(), token(Source::kDoorbell, id));
  };
  auto unwatch = [&] {
    loop_->remove(from.socket.get());
    loop_->remove(from.doorbell.get());
  };
  unwatch();
  Status watched = watch(to.id);
  if (!watched.ok()) {
    unwatch();
    (void)watch(from.id);
    return watched;
  }
  close_socket(to);
  if (to.doorbell.valid()) loop_->remove(to.doorbell.get());
  to.peer = std::move(from.peer);  // with its groups, which the ledger does not keep
  to.socket = std::move(from.socket);
  to.doorbell = std::move(from.doorbell);
  if (!from.process.pollable()) {
    --unpollable_;
  } else {
    loop_->remove(from.process.fd());
    // Where it cannot be watched, it is asked for as before.
    bool better = !to.process.pollable() && loop_->add(from.process.fd(), token(Source::kProcess, to.id)).ok();
    if (better) {
      to.process = std::move(from.process);
      --unpollable_;
    }
  }
  sessions_.erase(from.id);
  requests_.facts.clients = sessions_.size();
  return {};
}

Status ServerLoop::adopt() {
  if (!instance_->adopted()) {
    if (options_.socket_path.empty()) return {};
    requests_.set_aside = find_set_aside(instance_->id());
    for (const SetAsideTable& table : requests_.set_aside) instance_->ledger().pass_table_id(table.id);
    return {};
  }
  int64_t started = now_ns();
  Result<Adopted> adopted = adopt_remains(instance_->id(), instance_->ledger(), conductor_);
  if (!adopted.ok()) return adopted.status();
  requests_.set_aside = std::move(adopted.value().set_aside);
  for (Session& session : adopted.value().sessions) sessions_.emplace(session.id, std::move(session));
  log(LogLevel::kWarning,
      "adopted from a dead server in %.1f ms: %zu tables (%zu set aside), %zu channels, %zu clients",
      static_cast<double>(now_ns() - started) / 1e6, conductor_.tables().size(),
      requests_.set_aside.size(), conductor_.port_count(), sessions_.size());
  return {};
}

// Before anyone is served: what was accepted has its effect, and who died meanwhile is gone.
void ServerLoop::settle_adopted() {
  std::vector<uint64_t> dead;
  for (auto& [id, session] : sessions_) {
    if (session.dead) dead.push_back(id);
    if (!session.process.pollable()) {
      ++unpollable_;
    } else if (!loop_->add(session.process.fd(), token(Source::kProcess, id)).ok()) {
      session.process = ProcessWatch::to_ask(session.record->pid, session.record->start_ticks);
      ++unpollable_;
    }
  }
  conductor_.drain();
  conductor_.end_closed();
  for (uint64_t id : dead) end_session(id, "its process died while no server ran");
  requests_.facts.clients = sessions_.size();
}

void ServerLoop::reply_to(Session& session, uint16_t op, uint32_t request_id,
                          const Reply& reply) {
  layout::ControlHeader header{};
  header.op = op;
  header.request_id = request_id;
  header.status = reply.status.code();
  const std::string& text = reply.status.text();
  const void* body = reply.status.ok() ? reply.body.data() : text.data();
  size_t bytes = reply.status.ok() ? reply.body.size()
                                   : std::min<size_t>(text.size(), layout::kControlTextMax);
  Status sent = send_message(session.socket.get(), header, body, bytes, reply.descriptors.data(),
                             reply.status.ok() ? reply.descriptors.size() : 0, 0);
  if (sent.ok()) return;
  requests_.take_back(op, reply);
  if (sent.code() == GEAR_EDISCONNECTED) return;
  // That much may go where descriptors, or many bytes, did not. A client that does not read its replies waits for none.
  if (reply.status.ok() && sent.code() != GEAR_ETIMEDOUT) {
    reply_to(session, op, request_id, Reply::failed(sent));
  } else {
    complaints_.say(format("reply to client \"%s\": %s", session.name.c_str(), sent.text().c_str()));
  }
}

void ServerLoop::send_made_tables() {
  for (TableMade& made : maker_.collect()) {
    uint64_t session_id = made.job.session;
    uint32_t request_id = made.job.request_id;
    Reply reply = requests_.table_made(std::move(made));
    auto found = sessions_.find(session_id);
    bool awaited = found != sessions_.end() && found->second.socket.valid() && !found->second.said_goodbye;
    if (!awaited) {
      requests_.take_back(static_cast<uint16_t>(layout::ControlOp::kTableCreate), reply);
      continue;
    }
    reply_to(found->second, static_cast<uint16_t>(layout::ControlOp::kTableCreate), request_id,
             reply);
  }
}

void ServerLoop::close_socket(Session& session) {
  if (!session.socket.valid()) return;
  loop_->remove(session.socket.get());
  session.socket.reset();
}

// No longer served. Its process lives and may still write into blocks it was granted, so these stay its own until it is
// dead; one that has no channel was granted nothing, and ends now.
void ServerLoop::hang_up(Session& session) {
  if (!conductor_.has_ports_of(session.id)) return end_session(session.id, nullptr);
  close_socket(session);
}

void ServerLoop::expel(uint64_t id, const char* why) {
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  expulsions_.say(format("client \"%s\" (process %d, user %u) expelled: %s", session.name.c_str(), session.peer.pid,
                         session.peer.uid, why));
  session.expelled = true;
  hang_up(session);
}

void ServerLoop::end_session(uint64_t id, const char* why) {
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  if (why != nullptr) {
    log(LogLevel::kInfo, "client \"%s\" (process %d) ended: %s", session.name.c_str(),
        session.peer.pid, why);
  }
  close_socket(session);
  if (session.doorbell.valid()) loop_->remove(session.doorbell.get());
  if (session.process.pollable()) {
    loop_->remove(session.process.fd());
  } else {
    --unpollable_;
  }
  conductor_.close_ports_of(id);
  if (session.record != nullptr) instance_->ledger().remove(session.record);
  sessions_.erase(found);
  requests_.facts.clients = sessions_.size();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::create(const ServerOptions& options) {
  Result<std::unique_ptr<Instance>> instance = Instance::create(options);
  if (!instance.ok()) return instance.status();
  // A server that cannot start leaves what it was to adopt to the next one.
  std::optional<NamesKept> kept;
  if (instance.value()->adopted()) kept.emplace();
  std::unique_ptr<Instance> own = instance.take();
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::create(options.allow_io_uring);
  if (!loop.ok()) return loop.status();
  auto server = std::make_unique<ServerLoop>(options, std::move(own), loop.take());
  GEAR_TRY(server->adopt());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace gear
