// One number that changes whenever any shared struct does.
#pragma once

#include "layout/channel.h"
#include "layout/control.h"
#include "layout/directory.h"
#include "layout/index.h"
#include "layout/instance.h"
#include "layout/ledger.h"

namespace gear::layout {

namespace detail {
template <typename... Values>
constexpr uint64_t hash_values(Values... values) {
  uint64_t hash = 0xcbf29ce484222325u;
  ((hash = (hash ^ static_cast<uint64_t>(values)) * 0x100000001b3u), ...);
  return hash;
}
}  // namespace detail

inline constexpr uint64_t kLayoutFingerprint = detail::hash_values(
    kLayoutVersion, sizeof(SegmentHeader), offsetof(SegmentHeader, fingerprint),
    sizeof(InstanceSegment), offsetof(InstanceSegment, conductor_state),
    offsetof(InstanceSegment, fences_for_clients), offsetof(InstanceSegment, ending), offsetof(InstanceSegment, socket_path),
    sizeof(TableHeader),
    offsetof(TableHeader, block_steps), offsetof(TableHeader, indexes), offsetof(TableHeader, state),
    offsetof(TableHeader, direct_allowed), offsetof(TableHeader, limiter), offsetof(TableHeader, counters), sizeof(TableCounters),
    sizeof(ColumnRecord), offsetof(ColumnRecord, shape), offsetof(ColumnRecord, offset),
    sizeof(LaneRecord), sizeof(BlockRecord), offsetof(BlockRecord, rows),
    offsetof(BlockRecord, next), sizeof(ItemRecord), offsetof(ItemRecord, priority),
    sizeof(EpisodeRecord), kMarkFinal, kMarkTerminated, kMarkTruncated, sizeof(UniformIndex),
    sizeof(ListIndex), offsetof(ListIndex, head), sizeof(HeapIndex), offsetof(HeapIndex, top_places),
    kHeapFanOut, sizeof(SumTreeIndex), offsetof(SumTreeIndex, total), kSumTreeFanOut,
    sizeof(RecencyIndex), offsetof(RecencyIndex, number_offset), sizeof(ChannelHeader),
    offsetof(ChannelHeader, submission_tail), offsetof(ChannelHeader, steps_admitted), offsetof(ChannelHeader, draws_end),
    offsetof(ChannelHeader, records_refused),
    offsetof(ChannelHeader, completion_tail), offsetof(ChannelHeader, draws_revoked), offsetof(ChannelHeader, client_sleeps),
    offsetof(ChannelHeader, wake_word), sizeof(SubmissionRecord),
    offsetof(SubmissionRecord, argument), sizeof(CompletionRecord), offsetof(DrawRecord, version),
    offsetof(DrawRecord, probability), offsetof(ResultRecord, ticket), sizeof(ControlHeader),
    sizeof(TableCreateRequest), sizeof(ColumnSpec), sizeof(TableReply), sizeof(SamplerOpenRequest),
    sizeof(IndexRecord), offsetof(TableHeader, indexes), sizeof(SelectorSpec), sizeof(WriterOpenRequest),
    sizeof(GroupStatsReply), sizeof(HelloRequest), sizeof(HelloReply), offsetof(BlockRecord, writer), sizeof(PromptRecord),
    sizeof(IntentRecord), offsetof(IntentRecord, samples), offsetof(LaneRecord, wants), offsetof(LaneRecord, episodes_granted), offsetof(EpisodeRecord, number), offsetof(TableHeader, prompts_offset), offsetof(TableHeader, secret),
    offsetof(TableHeader, intent), sizeof(LedgerHeader), sizeof(SessionRecord), sizeof(ChannelRecord),
    offsetof(ChannelRecord, applied), offsetof(ChannelRecord, sampler), offsetof(ChannelRecord, note), sizeof(LeasesHeader),
    offsetof(LeasesHeader, revoked), sizeof(LeaseRecord), sizeof(GroupHeader), offsetof(GroupHeader, cursor),
    offsetof(GroupHeader, first), kGroupObjects);

}  // namespace gear::layout
