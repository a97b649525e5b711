// ctest: labels=tsan
// The control connection against a server that answers late, wrongly, or not at all.
#include "client/session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "layout/fingerprint.h"
#include "unit/client_peer.h"

namespace gear::client {
namespace {

using layout::ControlHeader;
using layout::ControlOp;
using test::kPatienceNs;
using test::Peer;

class ControlConnection : public ::testing::Test {
 protected:
  ControlConnection() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    client_end_.reset(ends[0]);
    peer_ = std::make_unique<Peer>(ends[1]);
  }
  ~ControlConnection() override {
    peer_->hang_up();
    if (script_.joinable()) script_.join();
  }

  // What the server does meanwhile.
  void play(std::function<void(Peer&)> script) {
    if (script_.joinable()) script_.join();
    script_ = std::thread([this, script = std::move(script)] { script(*peer_); });
  }

  Session* connect(int64_t request_timeout_ns = kPatienceNs) {
    play([](Peer& peer) { peer.greet(); });
    Result<std::unique_ptr<Session>> session = Session::open(
        std::move(client_end_), "test", request_timeout_ns, deadline_after(kPatienceNs));
    EXPECT_TRUE(session.ok()) << session.status().text();
    if (session.ok()) session_ = session.take();
    return session_.get();
  }

  Descriptor client_end_;
  std::unique_ptr<Peer> peer_;
  std::unique_ptr<Session>
      session_;  // goes after the peer hung up, so its goodbye waits for no answer
  std::thread script_;
};

TEST_F(ControlConnection, GreetsWithTheLayoutOfThisLibrary) {
  play([](Peer& peer) {
    ControlHeader hello = peer.receive();
    auto request = peer.body<layout::HelloRequest>();
    EXPECT_EQ(request.fingerprint, layout::kLayoutFingerprint);
    EXPECT_STREQ(request.name, "test");
    peer.answer(hello, GEAR_EVERSION, "other layout; update", 20);
    peer.hang_up();
  });
  Result<std::unique_ptr<Session>> session =
      Session::open(std::move(client_end_), "test", kPatienceNs, deadline_after(kPatienceNs));
  EXPECT_EQ(session.status().code(), GEAR_EVERSION);
  EXPECT_EQ(session.status().text(), "other layout; update");
}

TEST_F(ControlConnection, IsRefusedByAReplyToNoRequest) {
  play([](Peer& peer) {
    peer.answer(ControlHeader{}, GEAR_ELIMIT, "full; wait", 10);
    peer.hang_up();
  });
  Result<std::unique_ptr<Session>> session =
      Session::open(std::move(client_end_), "test", kPatienceNs, deadline_after(kPatienceNs));
  EXPECT_EQ(session.status().code(), GEAR_ELIMIT);
}

TEST_F(ControlConnection, GivesTheServersOwnFailureAsItIs) {
  Session* session = connect();
  play([](Peer& peer) { peer.answer(peer.receive(), GEAR_ENOTFOUND, "no; look", 8); });
  Status status = session->ask(ControlOp::kTableList, nullptr, 0).status();
  EXPECT_EQ(status.code(), GEAR_ENOTFOUND);
  EXPECT_EQ(status.text(), "no; look");
}

TEST_F(ControlConnection, TimesOutWhenNoAnswerComes) {
  Session* session = connect(5'000'000);
  Status status = session->ask(ControlOp::kTableList, nullptr, 0).status();
  EXPECT_EQ(status.code(), GEAR_ETIMEDOUT);
  EXPECT_NE(status.text().find("list tables"), std::string::npos) << status.text();
}

TEST_F(ControlConnection, TakesNoLateAnswerForThatOfTheNextRequest) {
  Session* session = connect(5'000'000);
  EXPECT_EQ(session->ask(ControlOp::kTableList, nullptr, 0).status().code(), GEAR_ETIMEDOUT);
  ControlHeader first = peer_->receive();
  EXPECT_EQ(session->ask(ControlOp::kServerInfo, nullptr, 0).status().code(), GEAR_ETIMEDOUT);
  ControlHeader second = peer_->receive();
  peer_->answer(first, GEAR_OK, "late", 4);
  peer_->answer(second, GEAR_EPERM, "late", 4);
  play([](Peer& peer) { peer.answer(peer.receive(), GEAR_OK, "right", 5); });
  // The third has all the time that the test has, but only as long as a request may take.
  Result<Reply> reply = session->ask(ControlOp::kTableList, nullptr, 0);
  for (int tries = 0; !reply.ok() && tries < 100; ++tries) {
    ASSERT_EQ(reply.status().code(), GEAR_ETIMEDOUT);
    play([](Peer& peer) { peer.answer(peer.receive(), GEAR_OK, "right", 5); });
    reply = session->ask(ControlOp::kTableList, nullptr, 0);
  }
  ASSERT_TRUE(reply.ok()) << reply.status().text();
  EXPECT_EQ(std::string(reply.value().body.begin(), reply.value().body.end()), "right");
}

TEST_F(ControlConnection, ClosesAChannelThatWasOpenedTooLate) {
  Session* session = connect(5'000'000);
  layout::WriterOpenRequest open{};
  EXPECT_EQ(session->ask(ControlOp::kWriterOpen, open).status().code(), GEAR_ETIMEDOUT);
  layout::ChannelReply opened{77, 0, 4096};
  peer_->answer(peer_->receive(), GEAR_OK, &opened, sizeof opened);
  static_cast<void>(session->ask(ControlOp::kTableList, nullptr, 0));
  EXPECT_EQ(peer_->receive().op, static_cast<uint16_t>(ControlOp::kTableList));
  EXPECT_EQ(peer_->receive().op, static_cast<uint16_t>(ControlOp::kChannelClose));
  EXPECT_EQ(peer_->body<layout::ChannelIdRequest>().channel_id, 77u);
}

TEST_F(ControlConnection, DropsATableThatWasCreatedTooLate) {
  Session* session = connect(5'000'000);
  layout::TableCreateRequest create{};
  strcpy(create.name, "too late");
  EXPECT_EQ(session->ask(ControlOp::kTableCreate, create).status().code(), GEAR_ETIMEDOUT);
  layout::TableReply created{};
  peer_->answer(peer_->receive(), GEAR_OK, &created, sizeof created);
  static_cast<void>(session->ask(ControlOp::kTableList, nullptr, 0));
  EXPECT_EQ(peer_->receive().op, static_cast<uint16_t>(ControlOp::kTableList));
  EXPECT_EQ(peer_->receive().op, static_cast<uint16_t>(ControlOp::kTableDrop));
  EXPECT_STREQ(peer_->body<layout::TableNameRequest>().name, "too late");
}

TEST_F(ControlConnection, AnswersThatTheServerHasGoneFromThenOn) {
  Session* session = connect();
  play([](Peer& peer) {
    peer.receive();
    peer.hang_up();
  });
  EXPECT_EQ(session->ask(ControlOp::kTableList, nullptr, 0).status().code(), GEAR_EDISCONNECTED);
  EXPECT_EQ(session->ask(ControlOp::kTableList, nullptr, 0).status().code(), GEAR_EDISCONNECTED);
  EXPECT_EQ(session->link(), Session::Link::kLost);
}

TEST_F(ControlConnection, KnowsWithoutAskingThatTheServerHasGone) {
  Session* session = connect();
  EXPECT_EQ(session->look(0), Session::Link::kWhole);
  script_.join();
  peer_->hang_up();
  EXPECT_EQ(session->look(0), Session::Link::kLost);
  EXPECT_EQ(session->lost().code(), GEAR_EDISCONNECTED);
}

TEST_F(ControlConnection, SaysGoodbyeAtItsEndAndWaitsForNoAnswer) {
  connect();
  session_.reset();
  EXPECT_EQ(peer_->receive().op, static_cast<uint16_t>(ControlOp::kGoodbye));
}

TEST_F(ControlConnection, RefusesAReplyOfAnotherSize) {
  Reply reply;
  reply.body.resize(3);
  layout::TableReply body;
  EXPECT_EQ(read_reply(reply, 0, &body).code(), GEAR_EPROTOCOL);
  reply.body.resize(sizeof body);
  EXPECT_EQ(read_reply(reply, 2, &body).code(), GEAR_EPROTOCOL);
  reply.descriptor_count = 2;
  EXPECT_EQ(read_reply(reply, 2, &body).code(), GEAR_OK);
}

}  // namespace
}  // namespace gear::client
