// ctest: labels=unit,tsan
// A client whose server goes and comes back: the control connection, and what waits meanwhile.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "client/channel.h"
#include "client/session.h"
#include "unit/client_peer.h"

namespace gear::client {
namespace {

using layout::ChannelHeader;
using layout::ControlHeader;
using layout::ControlOp;
using test::kPatienceNs;
using test::Peer;

constexpr uint32_t kSlots = 8;
constexpr uint64_t kCompletionOffset =
    sizeof(ChannelHeader) + kSlots * sizeof(layout::SubmissionRecord);
constexpr uint32_t kChannelId = 3;

size_t open_descriptors() {
  auto entries = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

class ComebackOfTheServer : public ::testing::Test {
 protected:
  ComebackOfTheServer() {
    Result<Segment> made = Segment::create("test", layout::SegmentKind::kChannel,
                                           kCompletionOffset + kSlots * 64, 7, kChannelId, {});
    channel_segment_ = made.take();
    header().submission_slots = header().completion_slots = kSlots;
    header().submission_offset = sizeof(ChannelHeader);
    header().completion_offset = kCompletionOffset;
    channel_segment_.publish_magic();
    publish(table_.state, static_cast<uint32_t>(layout::TableState::kOpen));
    strcpy(table_.name, "t");
  }
  ~ComebackOfTheServer() override {
    if (peer_ != nullptr) peer_->hang_up();
    if (script_.joinable()) script_.join();
  }

  ChannelHeader& header() { return *static_cast<ChannelHeader*>(channel_segment_.data()); }

  void connect(int64_t comeback_timeout_ns = kPatienceNs, int64_t request_timeout_ns = kPatienceNs) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    peer_ = std::make_unique<Peer>(ends[1]);
    play([this] { peer_->greet(); });
    Comeback comeback{[this](int64_t) { return reach(); }, comeback_timeout_ns};
    Result<std::unique_ptr<Session>> session =
        Session::open(Descriptor(ends[0]), "test", request_timeout_ns, deadline_after(kPatienceNs),
                      comeback);
    ASSERT_TRUE(session.ok()) << session.status().text();
    session_ = session.take();
    script_.join();
  }
  void open_channel() {
    play([this] {
      layout::ChannelReply reply{kChannelId, 0, channel_segment_.size()};
      peer_->answer(peer_->receive(), GEAR_OK, &reply, sizeof reply,
                    {channel_segment_.writable_fd()});
    });
    channel_ = Channel::open(*session_, ControlOp::kItemsOpen, layout::TableIdRequest{1}, "test",
                             &table_)
                   .take();
    channel_->drop_descriptors();
    script_.join();
  }

  void play(std::function<void()> script) {
    if (script_.joinable()) script_.join();
    script_ = std::thread(std::move(script));
  }

  // The server dies, and nobody listens yet.
  void die() { peer_->hang_up(); }
  // The next one listens.
  void start_next() {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    auto next = std::make_unique<Peer>(ends[1], *peer_);
    peer_ = std::move(next);
    std::lock_guard lock(mutex_);
    waiting_.emplace_back(ends[0]);
  }
  // The hello of the client that returns, as it came.
  layout::HelloRequest expect_return() {
    ControlHeader hello = peer_->receive();
    EXPECT_EQ(hello.op, static_cast<uint16_t>(ControlOp::kHello));
    layout::HelloRequest request = peer_->body<layout::HelloRequest>();
    EXPECT_EQ(request.session, Peer::kSession);
    EXPECT_EQ(request.token[0], Peer::kTokenByte);
    EXPECT_EQ(hello.body_bytes, sizeof request + request.channels * sizeof(uint32_t));
    last_hello_ = hello;
    return request;
  }

  Result<Descriptor> reach() {
    std::lock_guard lock(mutex_);
    ++attempts_;
    if (waiting_.empty()) return error(GEAR_ESTALESOCKET, "nobody listens");
    Descriptor socket = std::move(waiting_.front());
    waiting_.pop_front();
    return socket;
  }

  Segment channel_segment_;
  layout::TableHeader table_{};
  std::unique_ptr<Peer> peer_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Channel> channel_;
  ControlHeader last_hello_{};
  std::thread script_;
  std::mutex mutex_;
  std::deque<Descriptor> waiting_;
  std::atomic<int> attempts_{0};
};

TEST_F(ComebackOfTheServer, IsWaitedForByARequestWhichThenIsAsked) {
  connect();
  die();
  play([this] {
    while (attempts_ < 3) std::this_thread::yield();
    start_next();
    EXPECT_EQ(expect_return().channels, 0u);
    peer_->welcome(last_hello_);
    peer_->answer(peer_->receive(), GEAR_OK, "right", 5);
  });
  Result<Reply> reply = session_->ask(ControlOp::kTableList, nullptr, 0);
  ASSERT_TRUE(reply.ok()) << reply.status().text();
  EXPECT_EQ(reply.value().body.size(), 5u);
  EXPECT_EQ(session_->link(), Session::Link::kWhole);
}

TEST_F(ComebackOfTheServer, LetsARequestThatWasUnderWayBeAskedAgain) {
  connect();
  play([this] {
    EXPECT_EQ(peer_->receive().op, static_cast<uint16_t>(ControlOp::kTableOpen));
    die();
    start_next();
    expect_return();
    peer_->welcome(last_hello_);
    ControlHeader again = peer_->receive();
    EXPECT_EQ(again.op, static_cast<uint16_t>(ControlOp::kTableOpen));
    peer_->answer(again, GEAR_OK, "right", 5);
  });
  Result<Reply> reply = session_->ask(ControlOp::kTableOpen, layout::TableNameRequest{});
  ASSERT_TRUE(reply.ok()) << reply.status().text();
}

TEST_F(ComebackOfTheServer, CountsATableThatIsGoneAsDroppedByTheRequestThatBroke) {
  connect();
  auto script = [this](int status) {
    return [this, status] {
      peer_->receive();
      die();
      start_next();
      expect_return();
      peer_->welcome(last_hello_);
      peer_->answer(peer_->receive(), status, "as it is", 8);
    };
  };
  play(script(GEAR_ENOTFOUND));
  EXPECT_TRUE(session_->ask(ControlOp::kTableDrop, layout::TableNameRequest{}).ok());
  play(script(GEAR_EEXISTS));
  Status created = session_->ask(ControlOp::kTableCreate, layout::TableCreateRequest{}).status();
  EXPECT_EQ(created.code(), GEAR_EDISCONNECTED);
  EXPECT_NE(created.text().find("open it"), std::string::npos) << created.text();
  // Not asked twice: steps of others that came meanwhile would go.
  play([this] {
    peer_->receive();
    die();
  });
  Status reset = session_->ask(ControlOp::kTableReset, layout::TableIdRequest{1}).status();
  EXPECT_EQ(reset.code(), GEAR_EDISCONNECTED);
  EXPECT_NE(reset.text().find("may have been done"), std::string::npos) << reset.text();
}

TEST_F(ComebackOfTheServer, EndsForGoodWhereItDoesNotKnowTheClient) {
  for (int code : {GEAR_ENOTFOUND, GEAR_EVERSION}) {
    session_.reset();
    connect();
    die();
    start_next();
    play([this, code] {
      expect_return();
      peer_->answer(last_hello_, code, "no such session", 15);
    });
    Status status = session_->ask(ControlOp::kTableList, nullptr, 0).status();
    EXPECT_EQ(status.code(), GEAR_EDISCONNECTED);
    EXPECT_NE(status.text().find("no such session"), std::string::npos) << status.text();
    EXPECT_EQ(session_->link(), Session::Link::kLost);
    int attempts = attempts_;
    EXPECT_EQ(session_->ask(ControlOp::kTableList, nullptr, 0).status().code(), GEAR_EDISCONNECTED);
    EXPECT_EQ(attempts_, attempts);
  }
}

TEST_F(ComebackOfTheServer, EndsForGoodWhereAnotherServerTookThePlace) {
  connect();
  die();
  start_next();
  play([this] {
    expect_return();
    layout::HelloReply other{8, 1, 2, 1, {}};
    peer_->answer(last_hello_, GEAR_OK, &other, sizeof other);
  });
  EXPECT_EQ(session_->ask(ControlOp::kTableList, nullptr, 0).status().code(), GEAR_EDISCONNECTED);
  EXPECT_EQ(session_->link(), Session::Link::kLost);
}

TEST_F(ComebackOfTheServer, IsNotWaitedForAfterItWasStopped) {
  connect();
  publish(peer_->words().pid, 0u);
  die();
  Status status = session_->ask(ControlOp::kTableList, nullptr, 0).status();
  EXPECT_EQ(status.code(), GEAR_EDISCONNECTED);
  EXPECT_NE(status.text().find("stopped"), std::string::npos) << status.text();
  EXPECT_EQ(attempts_, 0);
}

TEST_F(ComebackOfTheServer, IsWaitedForNoLongerThanAsked) {
  connect(20'000'000);
  die();
  int64_t begin_ns = now_ns();
  Status status = session_->ask(ControlOp::kTableList, nullptr, 0).status();
  EXPECT_EQ(status.code(), GEAR_EDISCONNECTED);
  EXPECT_NE(status.text().find("reconnect_timeout_ns"), std::string::npos) << status.text();
  EXPECT_GE(now_ns() - begin_ns, 20'000'000);
  EXPECT_LT(now_ns() - begin_ns, kPatienceNs);
}

TEST_F(ComebackOfTheServer, IsTriedAtGrowingIntervals) {
  connect(kPatienceNs, 100'000'000);
  die();
  Status status = session_->ask(ControlOp::kTableList, nullptr, 0).status();
  EXPECT_EQ(status.code(), GEAR_EDISCONNECTED);
  EXPECT_NE(status.text().find("nobody listens"), std::string::npos) << status.text();
  EXPECT_EQ(session_->link(), Session::Link::kAway);
  // 1, 2, 4, ... ms, each a quarter less at the least: 8 fit in 100 ms, and one more at the end.
  EXPECT_GE(attempts_, 2);
  EXPECT_LE(attempts_, 9);
}

TEST_F(ComebackOfTheServer, IsToldWhichChannelsTheClientHas) {
  connect();
  open_channel();
  die();
  start_next();
  play([this] {
    EXPECT_EQ(expect_return().channels, 1u);
    uint32_t id = 0;
    memcpy(&id, peer_->raw_body() + sizeof(layout::HelloRequest), sizeof id);
    EXPECT_EQ(id, kChannelId);
    peer_->welcome(last_hello_);
    peer_->answer(peer_->receive(), GEAR_OK, nullptr, 0);
  });
  EXPECT_TRUE(session_->ask(ControlOp::kTableList, nullptr, 0).ok());
  script_.join();
  // Closed while the server is away: the next one is not told of it.
  die();
  int64_t begin_ns = now_ns();
  EXPECT_EQ(channel_->close().code(), GEAR_EDISCONNECTED);
  EXPECT_LT(now_ns() - begin_ns, kPatienceNs);
  start_next();
  play([this] {
    EXPECT_EQ(expect_return().channels, 0u);
    peer_->welcome(last_hello_);
    peer_->answer(peer_->receive(), GEAR_OK, nullptr, 0);
  });
  EXPECT_TRUE(session_->ask(ControlOp::kTableList, nullptr, 0).ok());
}

TEST_F(ComebackOfTheServer, IsNoticedByAWaitWhichGoesOn) {
  connect();
  open_channel();
  std::atomic<bool> flag{false};
  bool rung = false;
  play([this, &flag, &rung] {
    die();
    while (attempts_ < 2) std::this_thread::yield();
    start_next();
    expect_return();
    peer_->welcome(last_hello_);
    int64_t deadline_ns = deadline_after(kPatienceNs);
    while (!rung && left_until(deadline_ns) > 0) rung = peer_->rung();
    flag = true;
    wake_client_if_asleep(&header());
  });
  Status status = channel_->wait_until(deadline_after(2 * kPatienceNs), [&flag] { return flag.load(); });
  EXPECT_TRUE(status.ok()) << status.text();
  script_.join();
  EXPECT_TRUE(rung) << "what was published for the old one would wait";
}

TEST_F(ComebackOfTheServer, IsMissedByAWaitOnceItsOwnTimeEnds) {
  connect();
  open_channel();
  die();
  int64_t begin_ns = now_ns();
  Status status = channel_->wait_until(deadline_after(10'000'000), [] { return false; });
  EXPECT_GE(now_ns() - begin_ns, 10'000'000);
  EXPECT_EQ(status.code(), GEAR_EDISCONNECTED);
  EXPECT_NE(status.text().find("gone for"), std::string::npos) << status.text();
  EXPECT_EQ(session_->link(), Session::Link::kAway);
}

TEST_F(ComebackOfTheServer, IsFoundByAWriterThatOnlyRings) {
  connect();
  open_channel();
  die();
  start_next();
  publish(peer_->words().conductor_state, static_cast<uint32_t>(layout::ConductorState::kAsleep));
  play([this] {
    expect_return();
    peer_->welcome(last_hello_);
  });
  // The answer may take longer than a ring waits for it.
  while (session_->link() != Session::Link::kWhole || attempts_ == 0) {
    channel_->ring(Urgency::kCommit);
  }
  script_.join();
  EXPECT_TRUE(peer_->rung());
  EXPECT_EQ(attempts_, 1);
}

// Neither the doorbell's number nor the socket's is ever another file's, and nothing is left open.
TEST_F(ComebackOfTheServer, LeavesNoDescriptorBehindAndTakesNone) {
  connect();
  open_channel();
  size_t before = open_descriptors();
  std::atomic<bool> stop{false};
  publish(peer_->words().conductor_state, static_cast<uint32_t>(layout::ConductorState::kAsleep));
  std::thread ringer([this, &stop] {
    while (!stop) channel_->ring(Urgency::kCommit);
  });
  for (int i = 0; i < 20; ++i) {
    die();
    start_next();
    play([this] {
      expect_return();
      peer_->welcome(last_hello_);
      peer_->answer(peer_->receive(), GEAR_OK, nullptr, 0);
    });
    EXPECT_TRUE(session_->ask(ControlOp::kTableList, nullptr, 0).ok());
    script_.join();
  }
  stop = true;
  ringer.join();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ComebackOfTheServer, IsNotWaitedForByCallsOfAClientThatIsClosed) {
  connect();
  open_channel();
  die();
  play([this] {
    while (attempts_ < 2) std::this_thread::yield();
    session_->end_calls();
    channel_->end_waits();
  });
  EXPECT_EQ(session_->ask(ControlOp::kTableList, nullptr, 0).status().code(), GEAR_ECLOSED);
  Status status = channel_->wait_until(deadline_after(kPatienceNs), [] { return false; });
  EXPECT_EQ(status.code(), GEAR_ECLOSED);
}

// What the client has would stay its own in the next server until the process ends.
TEST_F(ComebackOfTheServer, IsWaitedForALittleToSayGoodbye) {
  connect();
  die();
  play([this] {
    while (attempts_ < 2) std::this_thread::yield();
    start_next();
    expect_return();
    peer_->welcome(last_hello_);
    EXPECT_EQ(peer_->receive().op, static_cast<uint16_t>(ControlOp::kGoodbye));
  });
  session_.reset();
  script_.join();
}

}  // namespace
}  // namespace gear::client
