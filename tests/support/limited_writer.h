// A raw writer whose last commit waits at the rate limiter.
#pragma once

#include <unistd.h>

#include "base/clock.h"
#include "base/shared_word.h"
#include "support/int_table.h"
#include "support/raw_client.h"

namespace gear::test {

// A table of that name, which admits 4 items until some are drawn.
inline int create_limited_table(gear_client* client, const char* name) {
  gear_table* table = nullptr;
  return create_int_table_with(client, name, &table,
                               [](gear_table_options* options) { options->limiter = {1.0, 1, -4.0, 4.0}; });
}

// One lane of that name.
inline RawReply open_named_writer(RawClient& raw, uint64_t table, uint64_t name, RawChannel* channel) {
  struct {
    layout::WriterOpenRequest request{};
    uint64_t name = 0;
  } named;
  named.request.table_id = table;
  named.request.lanes = named.request.named = named.request.take_over = 1;
  named.name = name;
  RawReply reply = raw.ask(layout::ControlOp::kWriterOpen, named);
  if (reply.status != GEAR_OK) return reply;
  auto opened = reply.as<layout::ChannelReply>();
  channel->id = opened.channel_id;
  channel->mapping = Mapping::map(reply.descriptors[0].get(), opened.channel_bytes, true).take();
  return reply;
}

// Commits 2 rows, which are admitted, and 6, of which 2 are. "" when all is so.
inline std::string commit_more_than_the_limit(RawClient& raw, RawChannel& channel) {
  using layout::SubmissionOp;
  auto* header = channel.header();
  int64_t deadline = deadline_after(kPatienceNs);
  channel.push(raw_record(SubmissionOp::kNeedBlock, 0, 1));
  channel.show();
  raw.ring();
  while (observe(header->completion_tail) < 1 && left_until(deadline) > 0) usleep(100);
  channel.push(raw_record(SubmissionOp::kCommit, 0, 2, 2));
  channel.push(raw_record(SubmissionOp::kCommit, 0, 6, 8));
  channel.show();
  raw.ring();
  while (observe(header->steps_admitted) < 4 && left_until(deadline) > 0) usleep(100);
  if (observe(header->steps_admitted) != 4) return "admitted " + std::to_string(observe(header->steps_admitted));
  return observe(header->submission_head) == 2 ? "" : "the second commit does not wait";
}

}  // namespace gear::test
