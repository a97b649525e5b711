// A server played by a test: the other end of a client's control connection.
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/shared_word.h"
#include "layout/control.h"
#include "layout/instance.h"
#include "shm/message.h"
#include "shm/segment.h"

namespace gear::test {

using layout::ControlHeader;
using layout::ControlOp;

inline constexpr int64_t kPatienceNs = 10'000'000'000;

// The server's end of a connection, played by the test.
class Peer {
 public:
  explicit Peer(int fd) : socket_(fd), doorbell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    Result<Segment> made = Segment::create("test", layout::SegmentKind::kInstance,
                                           sizeof(layout::InstanceSegment), 7, 0, {});
    EXPECT_TRUE(made.ok()) << made.status().text();
    segment_ = std::make_shared<Segment>(made.take());
    words().pid = 1;
    words().started_ns = 1;
    segment_->publish_magic();
  }
  // The next server of the instance of `before`.
  Peer(int fd, Peer& before)
      : socket_(fd), doorbell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), segment_(before.segment_) {
    publish(words().started_ns, words().started_ns + 1);
  }

  layout::InstanceSegment& words() {
    return *static_cast<layout::InstanceSegment*>(segment_->data());
  }
  bool rung() {
    uint64_t count = 0;
    return read(doorbell_.get(), &count, sizeof count) == sizeof count;
  }

  ControlHeader receive() {
    Result<Received> received =
        receive_message(socket_.get(), body_, sizeof body_, deadline_after(kPatienceNs));
    EXPECT_TRUE(received.ok()) << received.status().text();
    return received.ok() ? received.value().header : ControlHeader{};
  }
  template <typename Body>
  Body body() const {
    Body copy;
    memcpy(&copy, body_, sizeof copy);
    return copy;
  }

  void answer(ControlHeader to, int status, const void* body, size_t bytes,
              const std::vector<int>& descriptors = {}) {
    to.status = status;
    Status sent = send_message(socket_.get(), to, body, bytes, descriptors.data(),
                               descriptors.size(), deadline_after(kPatienceNs));
    EXPECT_TRUE(sent.ok()) << sent.text();
  }
  void greet() {
    ControlHeader hello = receive();
    EXPECT_EQ(hello.op, static_cast<uint16_t>(ControlOp::kHello));
    welcome(hello);
  }
  void welcome(const ControlHeader& hello) {
    layout::HelloReply reply{7, 1, 2, kSession, {}};
    memset(reply.token, kTokenByte, sizeof reply.token);
    answer(hello, GEAR_OK, &reply, sizeof reply, {segment_->read_only_fd(), doorbell_.get()});
  }
  static constexpr uint64_t kSession = 11;
  static constexpr int kTokenByte = 0x5a;
  const char* raw_body() const { return body_; }
  // Any thread.
  void hang_up() { shutdown(socket_.get(), SHUT_RDWR); }

 private:
  Descriptor socket_;
  Descriptor doorbell_;
  std::shared_ptr<Segment> segment_;
  char body_[layout::kControlBytesMax];
};

}  // namespace gear::test
