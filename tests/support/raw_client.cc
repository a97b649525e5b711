#include "support/raw_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "base/clock.h"
#include "base/shared_word.h"
#include "layout/fingerprint.h"

namespace gear::test {

using layout::ControlOp;

layout::SubmissionRecord raw_record(layout::SubmissionOp op, uint32_t lane, uint32_t count, uint64_t argument,
                                    double value, uint32_t flags) {
  return {static_cast<uint32_t>(op), lane, count, flags, argument, value};
}

void RawChannel::push(const layout::SubmissionRecord& record) {
  auto* records = layout::at_offset<layout::SubmissionRecord>(header(), header()->submission_offset);
  records[tail++ & (header()->submission_slots - 1)] = record;
}

void RawChannel::show() { publish(header()->submission_tail, tail); }

int RawChannel::settle() const {
  int64_t deadline = deadline_after(kPatienceNs);
  while (left_until(deadline) > 0) {
    int failure = observe(header()->failure);
    if (failure != 0) return failure;
    if (observe(header()->submission_head) == tail) return GEAR_OK;
    usleep(200);
  }
  return GEAR_ETIMEDOUT;
}

RawClient::RawClient(const std::string& endpoint) {
  Result<Descriptor> socket = connect_unix(endpoint.substr(strlen("unix:")), deadline_after(kPatienceNs));
  if (socket.ok()) socket_ = socket.take();
}

RawReply RawClient::hello(const char* name, uint64_t session, const uint8_t* token) {
  layout::HelloRequest request{};
  request.layout_version = layout::kLayoutVersion;
  request.fingerprint = layout::kLayoutFingerprint;
  strncpy(request.name, name, sizeof request.name - 1);
  request.session = session;
  if (token != nullptr) memcpy(request.token, token, sizeof request.token);
  RawReply reply = ask(ControlOp::kHello, request);
  if (reply.status == GEAR_OK && reply.descriptors.size() == 2) doorbell_ = std::move(reply.descriptors[1]);
  return reply;
}

bool RawClient::send(uint16_t op, const void* body, size_t bytes, const std::vector<int>& descriptors) {
  layout::ControlHeader header{};
  header.op = op;
  header.request_id = next_request_++;
  return send_message(socket_.get(), header, body, bytes, descriptors.data(), descriptors.size(),
                      deadline_after(kPatienceNs))
      .ok();
}

bool RawClient::send_bytes(const void* bytes, size_t count, const std::vector<int>& descriptors) {
  iovec part{const_cast<void*>(bytes), count};
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  return sendmsg(socket_.get(), &message, MSG_NOSIGNAL) >= 0;
}

RawReply RawClient::receive() {
  RawReply reply;
  std::vector<char> body(layout::kControlBytesMax);
  Result<Received> received = receive_message(socket_.get(), body.data(), body.size(), deadline_after(kPatienceNs));
  if (!received.ok()) {
    reply.status = received.status().code();
    reply.text = received.status().text();
    return reply;
  }
  const layout::ControlHeader& header = received.value().header;
  reply.status = header.status;
  if (header.status != GEAR_OK) reply.text.assign(body.data(), header.body_bytes);
  reply.body.assign(body.begin(), body.begin() + header.body_bytes);
  for (uint32_t i = 0; i < header.descriptor_count; ++i) {
    reply.descriptors.push_back(std::move(received.value().descriptors[i]));
  }
  return reply;
}

RawReply RawClient::ask(ControlOp op, const void* body, size_t bytes) {
  if (!send(static_cast<uint16_t>(op), body, bytes)) return receive();
  return receive();
}

bool RawClient::closed_by_server() {
  for (;;) {
    RawReply reply = receive();
    if (reply.status == GEAR_EDISCONNECTED) return true;
    if (reply.status == GEAR_ETIMEDOUT) return false;
  }
}

uint64_t RawClient::open_table(const char* name) {
  layout::TableNameRequest request{};
  strncpy(request.name, name, sizeof request.name - 1);
  RawReply reply = ask(ControlOp::kTableOpen, request);
  return reply.status == GEAR_OK ? reply.as<layout::TableReply>().table_id : 0;
}

RawChannel RawClient::channel_of(RawReply reply) {
  RawChannel channel;
  if (reply.status != GEAR_OK || reply.descriptors.empty()) return channel;
  channel.id = reply.as<layout::ChannelReply>().channel_id;
  Result<Mapping> mapping =
      map_segment("raw channel", reply.descriptors[0].get(), layout::SegmentKind::kChannel, true);
  if (mapping.ok()) channel.mapping = mapping.take();
  return channel;
}

RawChannel RawClient::open_writer(uint64_t table, uint32_t lanes) {
  layout::WriterOpenRequest request{};
  request.table_id = table;
  request.lanes = lanes;
  return channel_of(ask(ControlOp::kWriterOpen, request));
}

RawChannel RawClient::open_sampler(uint64_t table, bool direct, uint32_t prefetch,
                                   const layout::SamplerOpenRequest* more) {
  layout::SamplerOpenRequest request{};
  if (more != nullptr) request = *more;
  request.table_id = table;
  request.direct = direct ? 1 : 0;
  if (more == nullptr) request.prefetch = prefetch;
  request.batch_rows_max = 8;
  request.batches_max = 2;
  request.seed = 1;
  return channel_of(ask(ControlOp::kSamplerOpen, request));
}

RawChannel RawClient::open_items(uint64_t table) {
  return channel_of(ask(ControlOp::kItemsOpen, layout::TableIdRequest{table}));
}

void RawClient::ring() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t ignored = write(doorbell_.get(), &one, sizeof one);
}

}  // namespace gear::test
