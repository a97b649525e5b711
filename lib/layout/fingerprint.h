// One number by which two builds recognise each other: it has the size of every shared struct, offsets of words within them, and
// the values by which another process, or an adopter, decides what a word means. Words of one size that change places, or a value
// that gets another meaning, may leave it as it was: such a change needs another kLayoutVersion.
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
    kLayoutVersion, sizeof(SegmentHeader), offsetof(SegmentHeader, fingerprint), offsetof(SegmentHeader, object_id), kGroupObjects,
    kPartObjects, SegmentKind::kPart,
    // instance.h
    sizeof(InstanceSegment), offsetof(InstanceSegment, conductor_state), offsetof(InstanceSegment, pid),
    offsetof(InstanceSegment, started_ns), offsetof(InstanceSegment, fences_for_clients), offsetof(InstanceSegment, socket_path),
    ConductorState::kAwake, ConductorState::kDrowsy, ConductorState::kAsleep,
    // directory.h
    sizeof(TableHeader), offsetof(TableHeader, block_steps), offsetof(TableHeader, indexes), offsetof(TableHeader, prompts_offset),
    offsetof(TableHeader, secret), offsetof(TableHeader, parts), offsetof(TableHeader, parts_offset), offsetof(TableHeader, state), offsetof(TableHeader, direct_allowed),
    offsetof(TableHeader, limiter), offsetof(TableHeader, counters), offsetof(TableHeader, intent), sizeof(IndexRecord),
    sizeof(LimiterRecord), sizeof(TableCounters), TableState::kOpen, TableState::kClosed, TableState::kDropped,
    TableState::kSetAside, sizeof(ColumnRecord), offsetof(ColumnRecord, shape), offsetof(ColumnRecord, offset),
    sizeof(LaneRecord), offsetof(LaneRecord, episode_row), offsetof(LaneRecord, wants), offsetof(LaneRecord, episodes_granted),
    kLaneOpen, kLaneNamed, kLaneLeaving, make_wants(1, 0, 0), make_wants(0, 1, 0), make_wants(0, 0, 1),
    sizeof(BlockRecord), offsetof(BlockRecord, rows), offsetof(BlockRecord, next), offsetof(BlockRecord, writer),
    offsetof(BlockRecord, backing), kBlockBacked, sizeof(PartRecord), offsetof(PartRecord, given),
    kMarkFinal, kMarkTerminated, kMarkTruncated, sizeof(ItemRecord), offsetof(ItemRecord, priority), kItemShort,
    sizeof(EpisodeRecord), offsetof(EpisodeRecord, writer), offsetof(EpisodeRecord, number),
    sizeof(PromptRecord), offsetof(PromptRecord, size), kPromptWhole, kPromptDropped,
    sizeof(IntentRecord), offsetof(IntentRecord, done), offsetof(IntentRecord, samples), offsetof(IntentRecord, evicting),
    IntentOp::kRow, IntentOp::kEnd, IntentOp::kItem, IntentOp::kDraw, IntentOp::kTake, IntentOp::kReturn, IntentOp::kReset,
    IntentOp::kGrantBlock, IntentOp::kGrantEpisode, IntentOp::kCells, IntentOp::kRelease,
    kIntentMakesItem, kIntentShort, kIntentByWriter, kIntentFinal,
    // index.h
    sizeof(UniformIndex), sizeof(ListIndex), offsetof(ListIndex, head), sizeof(HeapIndex), offsetof(HeapIndex, top_places),
    kHeapFanOut, sizeof(SumTreeIndex), offsetof(SumTreeIndex, total), kSumTreeFanOut, sizeof(RecencyIndex),
    offsetof(RecencyIndex, number_offset),
    // channel.h
    ChannelKind::kWriter, ChannelKind::kSampler, ChannelKind::kItems, sizeof(ChannelHeader),
    offsetof(ChannelHeader, submission_tail), offsetof(ChannelHeader, steps_admitted), offsetof(ChannelHeader, records_refused),
    offsetof(ChannelHeader, draws_end), offsetof(ChannelHeader, completion_tail), offsetof(ChannelHeader, draws_revoked),
    offsetof(ChannelHeader, takes_void), offsetof(ChannelHeader, completion_head), offsetof(ChannelHeader, client_sleeps),
    offsetof(ChannelHeader, wake_word), sizeof(SubmissionRecord), offsetof(SubmissionRecord, argument), sizeof(UpdateRecord),
    SubmissionOp::kNeedBlock, SubmissionOp::kNeedEpisode, SubmissionOp::kCommit, SubmissionOp::kEnd,
    SubmissionOp::kEpisodeCells, SubmissionOp::kItem, SubmissionOp::kPriority, SubmissionOp::kVersion,
    SubmissionOp::kPromptGroup, SubmissionOp::kDemand, SubmissionOp::kTake, SubmissionOp::kReturn, SubmissionOp::kRelease,
    SubmissionOp::kWatch, SubmissionOp::kReject, SubmissionOp::kUpdates, SubmissionOp::kDelete, SubmissionOp::kAnswer,
    kEndHasFinal, sizeof(CompletionRecord), offsetof(GrantRecord, start_row), offsetof(DrawRecord, version),
    offsetof(DrawRecord, probability), offsetof(ResultRecord, ticket), CompletionType::kBlock, CompletionType::kEpisode,
    CompletionType::kNoBlock, CompletionType::kItem, CompletionType::kResult, CompletionType::kWatched,
    CompletionType::kItemAgain, CompletionType::kLaneLost,
    // control.h
    sizeof(ControlHeader), sizeof(HelloRequest), sizeof(HelloReply), sizeof(ColumnSpec), sizeof(SelectorSpec),
    sizeof(TableCreateRequest), sizeof(TableNameRequest), sizeof(TableAttachRequest), sizeof(TableIdRequest),
    sizeof(TableReply), sizeof(WriterOpenRequest), sizeof(SamplerOpenRequest), sizeof(TableRetuneRequest),
    sizeof(TableVersionRequest), sizeof(GroupRequest), sizeof(GroupStatsReply), sizeof(ChannelReply), sizeof(ChannelIdRequest),
    sizeof(ServerInfoReply), sizeof(HandleBytes),
    // ledger.h
    sizeof(LedgerHeader), sizeof(SessionRecord), sizeof(ChannelRecord), offsetof(ChannelRecord, applied),
    offsetof(ChannelRecord, sampler), offsetof(ChannelRecord, note), kNoteRefused, sizeof(LeasesHeader),
    offsetof(LeasesHeader, revoked), sizeof(LeaseRecord), LeaseRecordState::kPosted, LeaseRecordState::kTaken,
    sizeof(GroupHeader), offsetof(GroupHeader, cursor), offsetof(GroupHeader, first), GroupProgress::kNone,
    GroupProgress::kDelivered, GroupProgress::kSettled);

}  // namespace gear::layout
