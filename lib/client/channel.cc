#include "client/channel.h"

#include <thread>

namespace gear::client {
namespace {

constexpr int64_t kSpinNs = 20'000;
constexpr int64_t kSpinLeastNs = 1'000;

SpinPolicy choose_spin_policy() {
  if (std::thread::hardware_concurrency() == 1) return {0, 0};
  return {kSpinNs, kSpinLeastNs};
}

}  // namespace

const SpinPolicy& spin_policy() {
  static const SpinPolicy policy = choose_spin_policy();
  return policy;
}

Channel::Channel(Session& session, uint32_t id, Mapping mapping, const layout::TableHeader* table)
    : session_(session),
      id_(id),
      mapping_(std::move(mapping)),
      header_(static_cast<layout::ChannelHeader*>(mapping_.data())),
      table_(table),
      submissions_(header_),
      completions_(header_),
      spin_ns_(spin_policy().longest_ns) {}

Result<std::unique_ptr<Channel>> Channel::adopt(Session& session, Reply reply,
                                                const std::string& purpose,
                                                const layout::TableHeader* table) {
  layout::ChannelReply body;
  GEAR_TRY(read_reply(reply, 1, &body));
  Result<Mapping> mapping =
      map_segment(purpose, reply.descriptors[0].get(), layout::SegmentKind::kChannel, true);
  if (!mapping.ok()) {
    static_cast<void>(session.close_channel(body.channel_id));
    return mapping.status();
  }
  std::unique_ptr<Channel> channel(new Channel(session, body.channel_id, mapping.take(), table));
  channel->descriptors_ = std::move(reply.descriptors);
  channel->part_ = body.part;
  return channel;
}

Status Channel::close() {
  return session_.close_channel(id_);
}

// The conductor adds to the word too; whoever sleeps on it looks again.
void Channel::end_waits() {
  waits_end_.store(true, std::memory_order_relaxed);
  publish_change(header_->wake_word);
  futex_wake(&header_->wake_word);
}

Status table_health(const layout::TableHeader& table) {
  switch (static_cast<layout::TableState>(observe(table.state))) {
    case layout::TableState::kOpen:
      break;
    case layout::TableState::kClosed:
      return error(GEAR_ECLOSED,
                   "the table \"%s\" is closed, or its server was told to end; drop and create it anew, after a new "
                   "connect where the server has gone",
                   table.name);
    case layout::TableState::kDropped:
      return error(GEAR_EDROPPED,
                   "the table \"%s\" was dropped; detach it, and open or create another",
                   table.name);
    case layout::TableState::kSetAside:
      return error(GEAR_ECORRUPT,
                   "the table \"%s\" contradicted itself when the server was started again, and is set aside; drop it, "
                   "and create it anew",
                   table.name);
  }
  return {};
}

Status Channel::health() const {
  GEAR_TRY(table_health(*table_));
  // Acquire: what the conductor did before it gave the channel up is visible.
  int32_t failure = observe(header_->failure);
  if (failure != 0) {
    return error(failure,
                 "the server takes no more records of this channel (%s); close it and open another, of a table that is there",
                 gear_status_string(failure));
  }
  if (waits_end_.load(std::memory_order_relaxed) || session_.calls_end()) {
    return Status(GEAR_ECLOSED, "it is being closed by another thread; open another");
  }
  return session_.link() == Session::Link::kLost ? session_.lost() : Status();
}

// The store of client_sleeps comes before the caller's last look at the rings, on both sides of a
// full fence: either that look sees what the conductor did, or the conductor sees the announcement
// and changes wake_word.
uint32_t Channel::announce_sleep() {
  uint32_t seen = observe(header_->wake_word);
  note(header_->client_sleeps, uint32_t{1});
  fence_store_before_look();
  return seen;
}

// Relaxed: a conductor that still sees the announcement makes one system call too many.
void Channel::withdraw_sleep() {
  note(header_->client_sleeps, uint32_t{0});
}

Status Channel::timed_out() {
  if (session_.look(0) != Session::Link::kWhole) return session_.lost();
  return Status(GEAR_ETIMEDOUT, "the time given ran out");
}

}  // namespace gear::client
