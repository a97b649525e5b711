// The client's end of a channel: the two rings to the conductor, and waiting for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/shared_word.h"
#include "base/status.h"
#include "client/session.h"
#include "client/text.h"
#include "layout/channel.h"
#include "layout/directory.h"
#include "shm/doorbell.h"
#include "shm/ring.h"
#include "shm/segment.h"

namespace gear::client {

// How long a call with timeout 0 may take for one round trip to a conductor that is there: such a
// call does not wait for the table to change, but it must be able to ask.
inline constexpr int64_t kRoundTripNs = 1'000'000;

// ECLOSED or EDROPPED once the table is.
Status table_health(const layout::TableHeader& table);

// One thread at a time for each ring; wait_until belongs to the thread of the completion ring.
class Channel {
 public:
  // `op` opens a channel: its request is `body`. Errors: those of the server, of Session::ask and
  // of map_segment.
  template <typename Body>
  static Result<std::unique_ptr<Channel>> open(Session& session, layout::ControlOp op,
                                               const Body& body, const std::string& purpose,
                                               const layout::TableHeader* table) {
    return open(session, op, &body, sizeof body, purpose, table);
  }
  static Result<std::unique_ptr<Channel>> open(Session& session, layout::ControlOp op,
                                               const void* body, size_t body_bytes,
                                               const std::string& purpose,
                                               const layout::TableHeader* table) {
    Result<Reply> reply = session.ask(op, body, body_bytes);
    if (!reply.ok()) return within(purpose, reply.status());
    return adopt(session, reply.take(), purpose, table);
  }

  // The conductor still admits what was published. Returns at once; the answer of the server.
  Status close();

  SubmissionProducer& submissions() { return submissions_; }
  CompletionConsumer& completions() { return completions_; }
  const layout::ChannelHeader& header() const { return *header_; }
  // The descriptors of the reply that opened the channel, in its order: those after the channel's
  // own.
  int descriptor(size_t index) const { return descriptors_[index].get(); }
  void drop_descriptors() { descriptors_ = {}; }

  // Of a writer's: its part of the table's data, as layout::ChannelReply.
  uint32_t part() const { return part_; }

  // Publishes the records pushed, and tells the conductor if it would not look by itself soon
  // enough.
  void submit(Urgency urgency) {
    submissions_.publish_tail();
    ring(urgency);
  }
  void ring(Urgency urgency) {
    if (conductor_needs_bell(session_.instance(), urgency, session_.fence())) session_.ring();
  }

  // Changes when another server serves the instance: what the former one kept to itself, an answer that it owed or what it
  // was asked to watch, has gone with it. One load, of a line that is hardly ever written.
  uint64_t server_mark() const { return session_.server_mark(); }

  // Waits end with ECLOSED from here on, the one under way too. Any thread.
  void end_waits();
  void accept_waits() { waits_end_.store(false, std::memory_order_relaxed); }

  // Whether the table still takes steps and gives draws. The word's observer may conclude that
  // whatever it asks for now is answered, or refused with the same state. One load, of a line that
  // is written once in the table's life.
  bool table_is_open() const {
    return observe(table_->state) == static_cast<uint32_t>(layout::TableState::kOpen);
  }
  // The same, and the conductor has not given the channel up: it does where the table went with the server before. For samplers
  // that draw by themselves, who would meet with that nowhere else. One load more, of a line that nobody writes in their channels.
  bool is_served() const { return table_is_open() && peek(header_->failure) == 0; }
  // ECLOSED, EDROPPED, or why the conductor takes no more records.
  Status health() const;

  // Returns once ready() is true, which is called often and must be cheap. Otherwise why there is
  // no point in waiting on (health), or, at the deadline, ETIMEDOUT, and EDISCONNECTED where the server is away then. Spins
  // briefly, then sleeps. An answer that takes the conductor `work_ns` to make is waited for that much longer before the sleep.
  template <typename Ready>
  Status wait_until(int64_t deadline_ns, Ready ready, int64_t work_ns = 0);

 private:
  Channel(Session& session, uint32_t id, Mapping mapping, const layout::TableHeader* table);
  static Result<std::unique_ptr<Channel>> adopt(Session& session, Reply reply,
                                                const std::string& purpose,
                                                const layout::TableHeader* table);

  template <typename Ready>
  bool spin(int64_t deadline_ns, Ready& ready, int64_t work_ns);
  uint32_t announce_sleep();
  void withdraw_sleep();
  Status timed_out();

  Session& session_;
  uint32_t id_;
  uint32_t part_ = 0;
  Mapping mapping_;
  layout::ChannelHeader* header_;
  const layout::TableHeader* table_;
  SubmissionProducer submissions_;
  CompletionConsumer completions_;
  int64_t spin_ns_;
  std::atomic<bool> waits_end_{false};
  std::array<Descriptor, layout::kControlDescriptorsMax> descriptors_;
};

// Spinning pays where the conductor runs on another core meanwhile. It does not yield the core: a
// process that yields on a busy machine waits for whole time slices of others, one that sleeps is
// woken as soon as there is an answer.
struct SpinPolicy {
  int64_t longest_ns;
  int64_t shortest_ns;
};
const SpinPolicy& spin_policy();
inline constexpr int kLooksATurn = 32;

// Adaptive: a spin that was answered may be longer next time, one that was in vain is shorter: on a
// busy machine the conductor may need this very core to answer.
template <typename Ready>
bool Channel::spin(int64_t deadline_ns, Ready& ready, int64_t work_ns) {
  const SpinPolicy& policy = spin_policy();
  int64_t begin_ns = now_ns();
  int64_t end_ns = std::min(begin_ns + spin_ns_ + work_ns, deadline_ns);
  do {
    for (int look = 0; look < kLooksATurn; ++look) {
      if (ready()) {
        spin_ns_ = std::min(spin_ns_ * 2, policy.longest_ns);
        return true;
      }
      spin_pause();
    }
  } while (now_ns() < end_ns);
  spin_ns_ = std::max(spin_ns_ / 2, policy.shortest_ns);
  return false;
}

template <typename Ready>
Status Channel::wait_until(int64_t deadline_ns, Ready ready, int64_t work_ns) {
  if (ready() || spin(deadline_ns, ready, work_ns)) return {};
  for (;;) {
    uint32_t seen = announce_sleep();
    bool done = ready();
    Status state = done ? Status() : health();
    int64_t left_ns = done || !state.ok() ? 0 : left_until(deadline_ns);
    int64_t sleep_ns = std::min(left_ns, session_.look_after_ns());
    if (left_ns > 0) futex_wait(&header_->wake_word, seen, sleep_ns);
    withdraw_sleep();

    if (done || ready()) return {};
    // The conductor publishes what it did before it publishes that it will do no more, so after a
    // look at the second the first was complete.
    if (!state.ok()) return state;
    if (left_ns == 0) return timed_out();
    session_.look(std::min(deadline_ns, deadline_after(kRoundTripNs)));
  }
}

}  // namespace gear::client
