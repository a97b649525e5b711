// The sessions of a server: who may have one, what is watched of each, and how one ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/complaints.h"
#include "server/conductor.h"
#include "server/event_loop.h"
#include "server/ledger.h"
#include "server/quotas.h"
#include "server/server.h"
#include "server/session.h"

namespace gear {

// Tokens of the event loop: what in the upper byte, which session below. The last three are what a session has.
enum class Source : uint64_t { kStop = 1, kListener, kTables, kSocket, kDoorbell, kProcess };
constexpr uint64_t token(Source source, uint64_t which) { return static_cast<uint64_t>(source) << 56 | which; }
constexpr Source token_source(uint64_t token) { return static_cast<Source>(token >> 56); }
constexpr uint64_t token_which(uint64_t token) { return token & 0x00ffffffffffffffu; }

// A hello of a client that was here before, whole: with the channels it has.
bool is_return(const layout::ControlHeader& header, const char* body);

// Server's thread only. Sessions stay where they are until they end. O(sessions): whatever looks for some of them.
class Sessions {
 public:
  Sessions(const ServerOptions& options, EventLoop& loop, Conductor& conductor, Ledger& ledger, const Quotas& quotas)
      : options_(options), loop_(loop), conductor_(conductor), ledger_(ledger), quotas_(quotas) {}

  Session* find(uint64_t id);  // nullptr: it ended
  size_t count() const { return sessions_.size(); }
  // Clients that there may be, beside the server's own process.
  uint32_t clients_most() const;

  // Whether a process may connect, before anything is made for it. Errors: EPERM, ELIMIT.
  Status check_peer(const Peer& who) const;
  // Watches a connection that has peer, process and doorbell. It is moved from unless an error is returned: those of EventLoop::add.
  Status admit(Session& session);
  // Whether there is a place for one that greets. Who returns has its place already. Errors: ELIMIT.
  Status check_place(const Session& session) const;
  // The session that a returning client had, which has the new connection then; `fresh` is gone. Errors: ENOTFOUND, EPERM,
  // those of EventLoop::add; `fresh` stays. `body` as is_return found it.
  Result<Session*> resume(Session& fresh, const char* body);

  // Those of a server that died, without sockets; watched once `watch_adopted` is called in the thread that serves.
  void adopt(std::vector<Session> sessions);
  void watch_adopted();

  // No longer served, for it broke the protocol.
  void expel(uint64_t id, const char* why);
  // No longer served. Its process lives and may still write into blocks it was granted, so these stay its own until it is
  // dead; one that has no channel was granted nothing, and ends now.
  void hang_up(Session& session);
  void end(uint64_t id, const char* why);  // nullptr: as it should

  // Closes those that said no hello in time, and ends those whose death is not told by the kernel. At once unless one is due.
  void tick(int64_t now);
  int64_t due() const { return std::min(hello_due_, dead_due_); }  // INT64_MAX: never
  // Ends those of processes that are dead, told or not. All but `but`, whose request is being served.
  void bury_the_dead(uint64_t but, const char* why = "its process ended");

  // A line of the log about what a client did, or what became of one.
  void complain(const std::string& text) { complaints_.say(text); }

 private:
  Status move_connection(Session& from, Session& to);
  void close_the_silent(int64_t now);
  void look_for_the_dead(int64_t now);
  void end_dead(bool pollable_too, uint64_t but, const char* why);
  // Without a pidfd that can be watched: its death is asked for instead of told.
  void ask_from(int64_t when) { dead_due_ = std::min(dead_due_, when); }
  void close_socket(Session& session);

  const ServerOptions& options_;
  EventLoop& loop_;
  Conductor& conductor_;
  Ledger& ledger_;
  const Quotas& quotas_;
  std::unordered_map<uint64_t, Session> sessions_;
  int64_t dead_due_ = INT64_MAX;   // when processes without a pidfd are asked next
  int64_t hello_due_ = INT64_MAX;  // when a connection may have been silent for too long
  Complaints complaints_;
  Complaints expulsions_;  // of their own, so that refusals do not hide them
};

}  // namespace gear
