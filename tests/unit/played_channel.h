// A client's channel whose conductor is the test.
#pragma once

#include <thread>

#include "client/channel.h"
#include "shm/ring.h"
#include "unit/client_peer.h"

namespace gear::test {

class PlayedChannel {
 protected:
  // The table outlives this.
  PlayedChannel(uint32_t submission_slots, uint32_t completion_slots, const layout::TableHeader* table) {
    const uint64_t submissions = sizeof(layout::ChannelHeader);
    const uint64_t completions = submissions + submission_slots * sizeof(layout::SubmissionRecord);
    segment_ = Segment::create("test", layout::SegmentKind::kChannel,
                               completions + completion_slots * sizeof(layout::CompletionRecord), 7, 3, {})
                   .take();
    header().submission_slots = submission_slots;
    header().completion_slots = completion_slots;
    header().submission_offset = submissions;
    header().completion_offset = completions;
    segment_.publish_magic();
    submissions_ = SubmissionConsumer(&header(), submissions, submission_slots);
    completions_ = CompletionProducer(&header(), completions, completion_slots);

    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    peer_ = std::make_unique<Peer>(ends[1]);
    std::thread server([this] {
      peer_->greet();
      layout::ChannelReply reply{3, 0, segment_.size()};
      peer_->answer(peer_->receive(), GEAR_OK, &reply, sizeof reply, {segment_.writable_fd()});
    });
    session_ = client::Session::open(Descriptor(ends[0]), "test", kPatienceNs, deadline_after(kPatienceNs)).take();
    channel_ = client::Channel::open(*session_, layout::ControlOp::kItemsOpen, layout::TableIdRequest{1}, "test", table).take();
    server.join();
  }
  ~PlayedChannel() { end(); }

  // Before what the conductor's thread uses goes.
  void end() {
    peer_->hang_up();
    join();
  }
  void join() {
    if (conductor_.joinable()) conductor_.join();
  }

  layout::ChannelHeader& header() { return *static_cast<layout::ChannelHeader*>(segment_.data()); }
  void wake() { wake_client_if_asleep(&header()); }
  void until_it_sleeps() {
    while (peek(header().client_sleeps) == 0) std::this_thread::yield();
  }
  // What the conductor does once the client sleeps.
  template <typename Action>
  void once_asleep(Action action) {
    conductor_ = std::thread([this, action] {
      until_it_sleeps();
      action();
    });
  }

  Segment segment_;
  std::unique_ptr<Peer> peer_;
  std::unique_ptr<client::Session> session_;
  std::unique_ptr<client::Channel> channel_;
  SubmissionConsumer submissions_;  // the conductor's ends
  CompletionProducer completions_;
  std::thread conductor_;
};

}  // namespace gear::test
