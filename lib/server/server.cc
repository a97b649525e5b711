#include "server/server.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "base/shared_word.h"
#include "server/conductor.h"
#include "server/event_loop.h"
#include "server/instance.h"
#include "server/requests.h"
#include "server/session.h"
#include "server/sessions.h"
#include "server/table_maker.h"
#include "shm/doorbell.h"

namespace gear {
namespace {

using layout::ConductorState;

constexpr size_t kEventsAtOnce = 64;
// While the rings keep the conductor busy, sockets are looked at this often.
constexpr uint32_t kPollsPerLook = 64;
// Longer than waking a process takes on a virtual machine.
constexpr int64_t kSpinNsMost = 200'000;
// Between two looks at the rings, so that a crowd at the door does not keep the conductor from them.
constexpr int kAcceptsAtOnce = 32;
// Of replies that a client has not read. Each holds a buffer, and descriptors that count against this user's limit of those
// under way; a client of ours has one request at a time, and late answers to the few that it gave up.
constexpr uint32_t kUnreadRepliesMost = 32;
constexpr uint32_t kUnreadDescriptorsMost = 3 * layout::kControlDescriptorsMax;

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
        quotas_(options_.user_quotas, conductor_),
        sessions_(options_, *loop_, conductor_, instance_->ledger(), quotas_),
        requests_(options_, *instance_, conductor_, maker_, sessions_, quotas_) {
    requests_.facts.event_loop = loop_->name();
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
  void turn_away(int listener);
  void serve_request(Session& session);
  void settle_adopted();
  void reply_to(Session& session, uint16_t op, uint32_t request_id, const Reply& reply);
  void send_made_tables();

  ServerOptions options_;
  std::unique_ptr<Instance> instance_;
  std::unique_ptr<EventLoop> loop_;
  Descriptor stop_;
  std::atomic<bool> stopping_{false};
  Conductor conductor_;
  TableMaker maker_;
  Quotas quotas_;
  Sessions sessions_;
  Requests requests_;
  int64_t tick_due_ = INT64_MAX;
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
      sessions_.expel(one.session, one.deed);
    }
    if (++polls >= kPollsPerLook) {
      polls = 0;
      done += look(0);
    }
    int64_t now = now_ns();
    if (done > 0) note_work(now);
    conductor_.tick(now);
    sessions_.tick(now);
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
    due = std::min(due, sessions_.due());
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

  Session* session = sessions_.find(which);
  if (session == nullptr) return;
  switch (source) {
    case Source::kSocket: return serve_request(*session);
    case Source::kDoorbell: return drain_eventfd(session->doorbell.get());
    case Source::kProcess: return sessions_.end(which, "its process ended");
    default: return;
  }
}

void ServerLoop::accept_clients(int listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    Result<Descriptor> accepted = accept_unix(listener);
    if (!accepted.ok()) {
      if (accepted.status().code() == GEAR_EMFILE) return turn_away(listener);
      if (accepted.status().code() != GEAR_ETIMEDOUT) {
        sessions_.complain("accept a client: " + accepted.status().text());
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
    refused = sessions_.check_peer(session.peer);
  }
  if (!refused.ok()) {
    sessions_.complain("refused a client: " + refused.text());
    return reply_to(session, 0, 0, Reply::failed(refused));
  }
  Result<ProcessWatch> watch = ProcessWatch::of_peer(session.socket.get());
  session.doorbell.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!watch.ok() || !session.doorbell.valid()) {
    Status why = watch.ok() ? system_error(errno, "make a doorbell") : watch.status();
    sessions_.complain("accept a client: " + why.text());
    return reply_to(session, 0, 0, Reply::failed(why));
  }
  session.process = watch.take();
  Status watched = sessions_.admit(session);
  if (watched.ok()) return;
  sessions_.complain("watch a client: " + watched.text());
  reply_to(session, 0, 0, Reply::failed(watched));
}

// No descriptor is left: the one kept for this lets a client be told so, instead of its waiting and our spinning.
void ServerLoop::turn_away(int listener) {
  reserve_.reset();
  Result<Descriptor> accepted = accept_unix(listener);
  if (accepted.ok()) {
    Session session;
    session.socket = accepted.take();
    sessions_.complain("turned a client away: no file descriptor is left; raise LimitNOFILE");
    reply_to(session, 0, 0,
             Reply::failed(error(GEAR_EMFILE, "the server has no file descriptor left; raise its LimitNOFILE, or close clients")));
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
    if (code == GEAR_ENOMEM) return sessions_.complain("receive a request: " + received.status().text());
    if (code == GEAR_EDISCONNECTED) {
      // After goodbye nothing is left in use. Otherwise the process may have only closed the socket and may go on writing
      // into its blocks: they come back when the kernel certifies its death.
      if (session.said_goodbye || session.process.dead()) {
        return sessions_.end(session.id, nullptr);
      }
      log(LogLevel::kDebug, "client \"%s\" (process %d) hung up without goodbye", session.name.c_str(),
          session.peer.pid);
      return sessions_.hang_up(session);
    }
    reply_to(session, 0, 0, Reply::failed(received.status()));
    return sessions_.expel(session.id, received.status().text().c_str());
  }
  const layout::ControlHeader& header = received.value().header;
  if (header.descriptor_count > 0) return sessions_.expel(session.id, "sent descriptors, which no request has");
  if (unread_bytes(session.socket.get()) == 0) session.unread_replies = session.unread_descriptors = 0;
  if (session.unread_replies >= kUnreadRepliesMost || session.unread_descriptors >= kUnreadDescriptorsMost) {
    return sessions_.expel(session.id, "does not read its replies");
  }
  ++session.unread_replies;
  Session* asks = &session;
  if (is_return(header, body_.data())) {
    Result<Session*> resumed = sessions_.resume(session, body_.data());
    if (!resumed.ok()) return reply_to(session, header.op, header.request_id, Reply::failed(resumed.status()));
    asks = resumed.value();
  }
  Reply reply = requests_.answer(*asks, header, body_.data());
  if (reply.later) return;
  reply_to(*asks, header.op, header.request_id, reply);
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
  sessions_.adopt(std::move(adopted.value().sessions));
  log(LogLevel::kWarning,
      "adopted from a dead server in %.1f ms: %zu tables (%zu set aside), %zu channels, %zu clients",
      static_cast<double>(now_ns() - started) / 1e6, conductor_.tables().size(),
      requests_.set_aside.size(), conductor_.port_count(), sessions_.count());
  return {};
}

// Before anyone is served: what was accepted has its effect, and who died meanwhile is gone.
void ServerLoop::settle_adopted() {
  sessions_.watch_adopted();
  conductor_.drain();
  conductor_.end_closed();
  sessions_.bury_the_dead(0, "its process ended while no server ran");
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
  if (sent.ok()) {
    session.unread_descriptors += header.status == GEAR_OK ? static_cast<uint32_t>(reply.descriptors.size()) : 0;
    return;
  }
  requests_.take_back(op, reply);
  if (sent.code() == GEAR_EDISCONNECTED) return;
  // That much may go where descriptors, or many bytes, did not. A client that does not read its replies waits for none.
  if (reply.status.ok() && sent.code() != GEAR_ETIMEDOUT) {
    reply_to(session, op, request_id, Reply::failed(sent));
  } else {
    sessions_.complain(format("reply to client \"%s\": %s", session.name.c_str(), sent.text().c_str()));
  }
}

void ServerLoop::send_made_tables() {
  for (TableMade& made : maker_.collect()) {
    uint64_t session_id = made.job.session;
    uint32_t request_id = made.job.request_id;
    Reply reply = requests_.table_made(std::move(made));
    Session* session = sessions_.find(session_id);
    bool awaited = session != nullptr && session->socket.valid() && !session->said_goodbye;
    if (!awaited) {
      requests_.take_back(static_cast<uint16_t>(layout::ControlOp::kTableCreate), reply);
      continue;
    }
    reply_to(*session, static_cast<uint16_t>(layout::ControlOp::kTableCreate), request_id, reply);
  }
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
