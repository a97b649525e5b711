// A server played by a test: the other end of a client's control connection.
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "base/clock.h"
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
    segment_ = made.take();
    segment_.publish_magic();
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
    layout::HelloReply reply{7, 1, 2, 1, {}};
    answer(hello, GEAR_OK, &reply, sizeof reply, {segment_.read_only_fd(), doorbell_.get()});
  }
  // Any thread.
  void hang_up() { shutdown(socket_.get(), SHUT_RDWR); }

 private:
  Descriptor socket_;
  Descriptor doorbell_;
  Segment segment_;
  char body_[layout::kControlBytesMax];
};

}  // namespace gear::test
