// A client that speaks the control protocol and writes its channels by hand, so that it can do what no client should.
#pragma once

#include <string>
#include <vector>

#include "layout/channel.h"
#include "layout/control.h"
#include "shm/message.h"
#include "shm/segment.h"

namespace gear::test {

inline constexpr int64_t kPatienceNs = 20'000'000'000;

struct RawReply {
  int status = GEAR_EDISCONNECTED;  // of the request, or why no reply came
  std::string text;                 // of an error
  std::vector<char> body;
  std::vector<Descriptor> descriptors;

  template <typename Body>
  Body as() const {
    Body value{};
    if (body.size() == sizeof value) __builtin_memcpy(&value, body.data(), sizeof value);
    return value;
  }
};

// A channel that it opened, mapped.
struct RawChannel {
  uint32_t id = 0;
  Mapping mapping;
  layout::ChannelHeader* header() const { return static_cast<layout::ChannelHeader*>(mapping.data()); }
  // Puts a record at the tail; the conductor sees it after show().
  void push(const layout::SubmissionRecord& record);
  void show();
  // Waits until the conductor has taken all, or gave up on the channel; its failure, or ETIMEDOUT.
  int settle() const;
  uint64_t tail = 0;
};

// One thread. Not greeted until hello.
class RawClient {
 public:
  // `endpoint` is "unix:...". Not connected after a failure.
  explicit RawClient(const std::string& endpoint);
  explicit RawClient(Descriptor socket) : socket_(std::move(socket)) {}

  int socket() const { return socket_.get(); }
  void disconnect() { socket_.reset(); }
  bool connected() const { return socket_.valid(); }

  RawReply hello(const char* name = "raw", uint64_t session = 0, const uint8_t* token = nullptr);
  RawReply ask(layout::ControlOp op, const void* body, size_t bytes);
  template <typename Body>
  RawReply ask(layout::ControlOp op, const Body& body) {
    return ask(op, &body, sizeof body);
  }
  // Without waiting for the reply.
  bool send(uint16_t op, const void* body, size_t bytes, const std::vector<int>& descriptors = {});
  // Any bytes as a message. False when the connection has ended.
  bool send_bytes(const void* bytes, size_t count, const std::vector<int>& descriptors = {});
  RawReply receive();
  // Reads until the server has closed the connection; false when it did not in time.
  bool closed_by_server();

  uint64_t open_table(const char* name);  // 0 on failure
  RawChannel open_writer(uint64_t table, uint32_t lanes = 1);
  // `more`, if given, has the other fields.
  RawChannel open_sampler(uint64_t table, bool direct = false, uint32_t prefetch = 0,
                          const layout::SamplerOpenRequest* more = nullptr);
  RawChannel open_items(uint64_t table);
  void ring();  // the doorbell

 private:
  RawChannel channel_of(RawReply reply);

  Descriptor socket_;
  Descriptor doorbell_;
  uint32_t next_request_ = 1;
};

layout::SubmissionRecord raw_record(layout::SubmissionOp op, uint32_t lane = 0, uint32_t count = 0,
                                    uint64_t argument = 0, double value = 0, uint32_t flags = 0);

}  // namespace gear::test
