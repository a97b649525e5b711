#include "shm/message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "support/child.h"

namespace gear {
namespace {

using layout::ControlHeader;

constexpr int64_t kMs = 1'000'000;

bool says(const Status& status, const std::string& words) {
  return status.text().find(words) != std::string::npos;
}

// Two ends of one connection.
class Message : public testing::Test {
 protected:
  Message() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    near_.reset(ends[0]);
    far_.reset(ends[1]);
    header_.op = static_cast<uint16_t>(layout::ControlOp::kTableOpen);
    header_.request_id = 42;
    header_.status = -7;
  }

  Status send(const std::string& body, const std::vector<int>& descriptors = {}) {
    return send_message(near_.get(), header_, body.data(), body.size(), descriptors.data(),
                        descriptors.size(), deadline_after(1000 * kMs));
  }
  Result<Received> receive(int64_t timeout_ns = 1000 * kMs) {
    return receive_message(far_.get(), body_.data(), body_.size(), deadline_after(timeout_ns));
  }
  // A message as a peer that is not GEAR, or a newer one, would send it.
  void send_raw(const ControlHeader& header, const std::string& body,
                const std::vector<int>& descriptors = {}) {
    iovec parts[2] = {{const_cast<ControlHeader*>(&header), sizeof header},
                      {const_cast<char*>(body.data()), body.size()}};
    alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    if (!descriptors.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
    }
    ASSERT_GE(sendmsg(near_.get(), &message, MSG_NOSIGNAL), 0) << strerror(errno);
  }
  ControlHeader raw_header(const std::string& body) {
    ControlHeader header = header_;
    header.magic = layout::kControlMagic;
    header.version = layout::kControlVersion;
    header.body_bytes = static_cast<uint32_t>(body.size());
    return header;
  }
  // The socket is in order again: the next message comes whole.
  void expect_next_message_comes() {
    ASSERT_TRUE(send("next").ok());
    Result<Received> received = receive();
    ASSERT_TRUE(received.ok()) << received.status().text();
    EXPECT_EQ(std::string(body_.data(), received.value().header.body_bytes), "next");
  }

  Descriptor near_;
  Descriptor far_;
  ControlHeader header_{};
  std::vector<char> body_ = std::vector<char>(4096);
};

TEST_F(Message, ArrivesWithHeaderAndBody) {
  ASSERT_TRUE(send("hello").ok());
  Result<Received> received = receive();
  ASSERT_TRUE(received.ok()) << received.status().text();
  const ControlHeader& header = received.value().header;
  EXPECT_EQ(header.op, header_.op);
  EXPECT_EQ(header.request_id, 42u);
  EXPECT_EQ(header.status, -7);
  EXPECT_EQ(header.body_bytes, 5u);
  EXPECT_EQ(header.descriptor_count, 0u);
  EXPECT_EQ(std::string(body_.data(), 5), "hello");
}

TEST_F(Message, ArrivesWithoutABody) {
  ASSERT_TRUE(send("").ok());
  Result<Received> received = receive_message(far_.get(), nullptr, 0, 0);
  ASSERT_TRUE(received.ok()) << received.status().text();
  EXPECT_EQ(received.value().header.body_bytes, 0u);
}

TEST_F(Message, OfTheLargestSizeArrives) {
  std::string body(layout::kControlBytesMax, 'x');
  body_.resize(body.size());
  ASSERT_TRUE(send(body).ok());
  Result<Received> received = receive();
  ASSERT_TRUE(received.ok()) << received.status().text();
  EXPECT_EQ(std::string(body_.data(), body_.size()), body);
}

TEST_F(Message, CarriesDescriptorsInOrderAndCloseOnExec) {
  std::vector<int> pipes;
  for (int i = 0; i < 4; ++i) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    char mark = static_cast<char>('a' + i);
    ASSERT_EQ(write(ends[1], &mark, 1), 1);
    close(ends[1]);
    pipes.push_back(ends[0]);
  }
  ASSERT_TRUE(send("four", pipes).ok());
  for (int fd : pipes) close(fd);
  Result<Received> received = receive();
  ASSERT_TRUE(received.ok()) << received.status().text();
  EXPECT_EQ(received.value().header.descriptor_count, 4u);
  for (int i = 0; i < 4; ++i) {
    int fd = received.value().descriptors[static_cast<size_t>(i)].get();
    char mark = 0;
    EXPECT_EQ(read(fd, &mark, 1), 1);
    EXPECT_EQ(mark, 'a' + i);
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
}

TEST_F(Message, ThatIsTooLargeIsNotSent) {
  std::string body(layout::kControlBytesMax + 1, 'x');
  EXPECT_EQ(send(body).code(), GEAR_EINVAL);
  EXPECT_EQ(send("x", std::vector<int>(layout::kControlDescriptorsMax + 1)).code(), GEAR_EINVAL);
  EXPECT_EQ(receive(0).status().code(), GEAR_ETIMEDOUT);
}

TEST_F(Message, ThatDoesNotFitTheReceiverIsRefusedWithItsDescriptors) {
  size_t descriptors = test::open_descriptors();
  ASSERT_TRUE(send(std::string(5000, 'x'), {0, 0}).ok());
  Status status = receive().status();
  EXPECT_EQ(status.code(), GEAR_EPROTOCOL);
  EXPECT_TRUE(says(status, "5000") && says(status, "4096")) << status.text();
  EXPECT_EQ(test::open_descriptors(), descriptors);
  expect_next_message_comes();
}

TEST_F(Message, OfAnotherMagicIsRefusedWithBothNamed) {
  ControlHeader header = raw_header("x");
  header.magic = 0x11223344;
  send_raw(header, "x");
  Status status = receive().status();
  EXPECT_EQ(status.code(), GEAR_EPROTOCOL);
  EXPECT_TRUE(says(status, "11223344") && says(status, "52414547")) << status.text();
  expect_next_message_comes();
}

TEST_F(Message, OfAnotherVersionIsRefusedWithBothNamed) {
  ControlHeader header = raw_header("x");
  header.version = 9;
  header.body_bytes = 77;  // may mean something else there
  send_raw(header, "x");
  Status status = receive().status();
  EXPECT_EQ(status.code(), GEAR_EVERSION);
  EXPECT_TRUE(says(status, "version is 9") && says(status, "ours is 1")) << status.text();
  expect_next_message_comes();
}

TEST_F(Message, WhoseSizesContradictItIsRefused) {
  ControlHeader header = raw_header("four");
  header.body_bytes = 5;
  send_raw(header, "four");
  EXPECT_EQ(receive().status().code(), GEAR_EPROTOCOL);

  size_t descriptors = test::open_descriptors();
  header = raw_header("four");
  header.descriptor_count = 1;
  send_raw(header, "four", {0, 0});
  EXPECT_EQ(receive().status().code(), GEAR_EPROTOCOL);
  EXPECT_EQ(test::open_descriptors(), descriptors);

  ASSERT_EQ(::send(near_.get(), "GEAR", 4, 0), 4);
  EXPECT_EQ(receive().status().code(), GEAR_EPROTOCOL);
  expect_next_message_comes();
}

TEST_F(Message, WithMoreDescriptorsThanAllowedIsRefusedAndLeaksNone) {
  size_t descriptors = test::open_descriptors();
  ControlHeader header = raw_header("x");
  header.descriptor_count = layout::kControlDescriptorsMax + 5;
  send_raw(header, "x", std::vector<int>(layout::kControlDescriptorsMax + 5));
  Status status = receive().status();
  EXPECT_EQ(status.code(), GEAR_EPROTOCOL) << status.text();
  EXPECT_EQ(test::open_descriptors(), descriptors);
  expect_next_message_comes();
}

TEST_F(Message, WhoseDescriptorsFindNoRoomIsDescriptorExhaustion) {
  for (unsigned room : {0u, 1u, 3u}) {
    ASSERT_TRUE(send("four", {0, 0, 0, 0}).ok());
    std::string end = test::in_child([this, room] {
      int lowest = dup(0);
      close(lowest);
      test::allow_descriptors(room);
      Status status = receive().status();
      if (status.code() != GEAR_EMFILE) return status.text();
      if (!says(status, "descriptor table is full")) return status.text();
      int after = dup(0);
      if (room > 0 && after != lowest) return std::string("a descriptor was left");
      return std::string();
    });
    EXPECT_EQ(end, "");
  }
}

TEST_F(Message, FromAPeerThatClosedIsADisconnection) {
  ASSERT_TRUE(send("last words").ok());
  near_.reset();
  EXPECT_TRUE(receive().ok());
  EXPECT_EQ(receive().status().code(), GEAR_EDISCONNECTED);
  EXPECT_EQ(receive(0).status().code(), GEAR_EDISCONNECTED);
}

TEST_F(Message, ToAPeerThatClosedIsADisconnectionAndNoSignal) {
  far_.reset();
  EXPECT_EQ(send("anyone?").code(), GEAR_EDISCONNECTED);
}

TEST_F(Message, ThatDoesNotComeIsWaitedForAsLongAsAsked) {
  int64_t begin = now_ns();
  EXPECT_EQ(receive(30 * kMs).status().code(), GEAR_ETIMEDOUT);
  EXPECT_GE(now_ns() - begin, 30 * kMs);
  begin = now_ns();
  EXPECT_EQ(receive(0).status().code(), GEAR_ETIMEDOUT);
  EXPECT_LT(now_ns() - begin, 20 * kMs);
}

TEST_F(Message, ThatComesEndsTheWait) {
  std::thread sender([this] { EXPECT_TRUE(send("late").ok()); });
  EXPECT_TRUE(receive(10'000 * kMs).ok());
  sender.join();
}

TEST_F(Message, ToAPeerThatDoesNotReadIsBoundedByTheTime) {
  std::string body(60'000, 'x');
  int64_t begin = now_ns();
  Status status;
  for (int i = 0; i < 10'000 && status.ok(); ++i) {
    begin = now_ns();
    status = send_message(near_.get(), header_, body.data(), body.size(), nullptr, 0,
                          deadline_after(30 * kMs));
  }
  EXPECT_EQ(status.code(), GEAR_ETIMEDOUT);
  EXPECT_GE(now_ns() - begin, 30 * kMs);
  // None of the message that failed was sent: what comes is whole.
  body_.resize(body.size());
  int whole = 0;
  while (receive(0).ok()) ++whole;
  EXPECT_GT(whole, 0);
}

TEST_F(Message, IsWaitedForAcrossSignals) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction old;
  sigaction(SIGALRM, &action, &old);
  itimerval every{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &every, nullptr);
  int64_t begin = now_ns();
  Status status = receive(40 * kMs).status();
  int64_t took = now_ns() - begin;
  itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  EXPECT_EQ(status.code(), GEAR_ETIMEDOUT) << status.text();
  EXPECT_GE(took, 40 * kMs);
}

}  // namespace
}  // namespace gear
