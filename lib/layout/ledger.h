// The ledger: what a server knows beside its tables, kept in shared memory so that the next server of the instance knows it
// too. Segments of kind kLedger, kLeases and kGroup. No client maps them; a server trusts them as its own memory, once
// header and bounds are checked.
//
//   ledger:  LedgerHeader | SessionRecord[sessions_max] | ChannelRecord[channels_max]
//   leases:  LeasesHeader | LeaseRecord[lease_slots]
//   group:   GroupHeader  | uint64_t number[item_slots] | uint8_t progress[item_slots]
//
// One server writes each word, and only the next one of the instance reads it, after the first is dead. "Release" and "relaxed"
// say how it is stored, all the same: what an adopter finds in one word tells it which stores before it were made.
#pragma once

#include "layout/channel.h"
#include "layout/control.h"

namespace gear::layout {

struct LedgerHeader {
  SegmentHeader segment;
  // Constant.
  uint32_t sessions_max;
  uint32_t channels_max;
  uint64_t sessions_offset;
  uint64_t channels_offset;
  // Server writes (relaxed), before the number below it is used: none is given twice.
  uint64_t next_session;
  uint64_t next_table_id;
  uint32_t next_channel_id;
  uint32_t reserved;
};
static_assert(sizeof(LedgerHeader) == 112);

// One client. Server writes; `id` last when the record is filled, and 0 first when it is freed (both release). The rest is
// constant between the two, but for start_ticks, which may come later (release).
struct SessionRecord {
  uint64_t id;           // 0: free
  int32_t pid;           // 0 when the process cannot be seen from here: then only its return tells that it lives
  uint32_t uid;
  uint64_t start_ticks;  // of the process, from /proc; tells it from a later one of the same pid
  uint8_t token[16];
  char name[64];
  uint64_t reserved[3];
};
static_assert(sizeof(SessionRecord) == 128);

// One channel, as its conductor's end (Port) was made. Server writes id .. uid, as above, and `sampler`; constant but for
// `closing` (release). The conductor writes the others.
struct ChannelRecord {
  uint32_t id;                // 0: free; last and first as above
  uint32_t kind;              // ChannelKind
  uint64_t session;
  uint64_t table_id;
  uint32_t submission_slots;
  uint32_t completion_slots;
  uint32_t lanes;             // writer
  uint32_t closing;           // 1: what is in the ring is still admitted, then it goes
  uint32_t uid;               // whose quotas it counts in, also when its session has ended
  uint32_t reserved;
  uint64_t applied;           // release: records [.., applied) had their effect; written after each one's, so the one at
                              // `applied` may be applied in part, and IntentRecord says how far
  uint64_t steps_admitted;    // writer; relaxed, before `applied`
  uint32_t records_refused;   // writer; relaxed, before `applied`
  uint32_t answered;          // items: low bits of the position behind the latest kAnswer; release, before `applied`
  SamplerOpenRequest sampler; // sampler: as checked
  // What must be known to apply the record at note_position once more as if for the first time; `note` is written first (both
  // release).
  // Writer: what its record adds to, as it was before: steps_admitted; or records_refused, and then note_position has kNoteRefused
  // too, for a record that waited and was admitted in part may be refused in the end.
  // Items: note_position is of the latest kUpdates, `note` its count; written the other way round (items_port.cc).
  // Direct sampler: the size that it watches for (release); note_position is not used.
  uint64_t note_position;
  uint64_t note;
};
static_assert(sizeof(ChannelRecord) % 8 == 0);
inline constexpr uint64_t kNoPosition = ~uint64_t{0};
inline constexpr uint64_t kNoteRefused = uint64_t{1} << 63;

enum class LeaseRecordState : uint32_t { kNone = 0, kPosted = 1, kTaken = 2 };

struct LeasesHeader {
  SegmentHeader segment;
  uint64_t lease_slots;  // a power of two; constant, as is `group`. The conductor writes the others (release)
  uint64_t resolved;     // leases [resolved, posted) are posted, neither taken nor returned
  uint64_t posted;       // so far; one that is posted at this number was posted just before the server died
  uint64_t revoked;      // ChannelHeader::draws_revoked; before any draw is taken back for it
  uint64_t group;        // 0: none; else ordinal + 1 of the consumer group in its table
  uint64_t lapsed;       // 1: nothing is posted until the client speaks
  uint64_t demand_through;  // of the latest kDemand; after demand_least
  uint64_t demand_least;
};
static_assert(sizeof(LeasesHeader) == 128);

// Conductor writes; `state` last (release): a lease is posted, taken or ended exactly when its state says so.
struct LeaseRecord {
  uint64_t number;  // the position of its record in the completion ring
  uint32_t state;  // LeaseRecordState
  uint32_t slot;
  int64_t posted_ns;
  int64_t taken_ns;
  DrawRecord record;
  uint32_t pin_block;
  uint32_t pin_position;
  uint32_t pin_length;
  uint32_t pin_episode;
  uint64_t item_generation;
  uint64_t epoch;
};
static_assert(sizeof(LeaseRecord) == 128);

// What became of an item in a group, by item slot, as its insertion's number: both are written (relaxed) before the item's
// generation turns odd, and the progress later too (release). An item whose insertion has a number below the cursor was walked
// past.
enum class GroupProgress : uint8_t {
  kNone = 0,       // not walked past, or drawn and returned: no consumer had it
  kDelivered = 1,  // a consumer has it, or had it and did not acknowledge
  kSettled = 2     // acknowledged, skipped or missed: never delivered again
};

// Its table is in the segment's object_id. What the group missed the next server works out from all others: an item that left
// the table while it waited to be delivered again is one.
struct GroupHeader {
  SegmentHeader segment;
  // Constant.
  char name[kGroupNameBytesMax + 1];
  uint64_t item_slots;
  // Conductor writes (release).
  uint64_t cursor;     // number of the next undelivered insertion
  uint64_t insertions; // number of the last insertion into the table
  uint64_t first;      // what insertions was less the items that the group began with: insertions - first items were for it
  uint64_t delivered;
  uint64_t acknowledged;
  uint64_t redelivered;
  uint64_t skipped;
  uint64_t reserved[8];
};
static_assert(sizeof(GroupHeader) == 256);

}  // namespace gear::layout
