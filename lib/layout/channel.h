// The channel segment: the two rings between one writer, sampler or table handle and the conductor.
//
//   ChannelHeader | SubmissionRecord[submission_slots] | CompletionRecord[completion_slots]
//
// Client and conductor both map it writable. The conductor trusts nothing in it: it keeps its own copy of every word
// that it writes, copies a record out before it looks at it, and checks every field. One that adopts the channel reads the
// positions of its predecessor once, and checks them too.
#pragma once

#include "layout/segment.h"

namespace gear::layout {

enum class ChannelKind : uint32_t { kWriter = 1, kSampler = 2, kItems = 3 };

// Positions count records since the channel was made; a record's slot is position modulo the (power of two) slots.
struct ChannelHeader {
  SegmentHeader segment;
  // Constant.
  uint32_t kind;
  uint32_t submission_slots;
  uint32_t completion_slots;
  uint32_t reserved;
  uint64_t submission_offset;
  uint64_t completion_offset;

  // Client writes (release): records [.., tail) are whole.
  alignas(kContentionBytes) uint64_t submission_tail;
  // Conductor writes (release): the effect of records [.., head) is in the directory.
  alignas(kContentionBytes) uint64_t submission_head;
  uint64_t steps_admitted;   // writer: steps behind those records; before submission_head
  int32_t failure;           // gear_status; why the conductor takes no more records, 0 while it does. Release, after all that
                             // it did; who is only to learn that it is set reads it relaxed (direct samplers, at each draw)
  uint32_t records_refused;  // writer: steps, ends, items... for lanes that were taken over; before submission_head
  uint64_t draws_end;        // sampler, unique draws: completion position at which a demand was met though it asked for
                             // more, because nothing else can be drawn; before completion_tail
  // Conductor writes (release): completion records [.., tail) are whole.
  alignas(kContentionBytes) uint64_t completion_tail;
  // Sampler; conductor writes (release). Draws below draws_revoked that were not taken are void, or about to be: the client
  // skips them and demands anew. The conductor stores the word, fences, takes the records that are in the ring, and only
  // then takes the draws back. A client publishes its kTake, fences, and looks: it sees the word as it was, then the
  // conductor sees the record in time; or it sees that the draws are revoked, waits until the record is taken, and finds
  // in takes_void whether it came too late: a kTake of draws that begin below takes_void, looked at then, counted nothing.
  uint64_t draws_revoked;
  uint64_t takes_void;  // before submission_head
  // Client writes (release): completion records [.., head) are copied out.
  alignas(kContentionBytes) uint64_t completion_head;
  // Client writes 1 before it sleeps on wake_word, 0 after. The conductor looks, after a full fence, whenever it changed
  // a word above.
  alignas(kContentionBytes) uint32_t client_sleeps;
  // Conductor adds one (release) and wakes (futex) when the client sleeps; so does the client that ends its own waits.
  alignas(kContentionBytes) uint32_t wake_word;
};
static_assert(sizeof(ChannelHeader) == 7 * kContentionBytes);

enum class SubmissionOp : uint32_t {
  // Writer. `lane` is the writer's own number of it.
  kNeedBlock = 1,     // count: blocks to grant to the lane, beyond those granted
  kNeedEpisode = 2,   // grant one episode slot to the lane
  kCommit = 3,        // count rows, one after the other in the lane's granted blocks, are steps; argument: the lane's rows
                      // with these, so that a record that was applied in part, or whole, is recognised
  kEnd = 4,           // flags: gear_end | kEndHasFinal when one more row holds the final observation; argument: the lane's
                      // rows with that one
  kEpisodeCells = 5,  // the cells of the lane's current (or coming) episode are written
  kItem = 6,          // an item of the last `count` steps; value: priority
  kPriority = 7,      // value: priority of coming items; flags 0: back to the default
  kVersion = 8,       // argument: version of coming items
  kPromptGroup = 9,   // argument: prompt group of coming items, count: its size; count 0: of none
  // Sampler. Positions are those of the completion ring.
  kDemand = 16,       // argument: the client waits for completion records up to this position; count: the least
                      // that it takes once it gives up
  kTake = 17,         // argument: first draw, count: draws handed to the caller, which count as sampled now; all, or none
                      // when the first is revoked
  kReturn = 18,       // argument: first draw, count: draws that go back to the table, uncounted
  kRelease = 19,      // argument: first lease, count: leases that end
  kWatch = 20,        // direct: wake me when the table has `argument` items
  kReject = 21,       // group: as kRelease, but the items are to be delivered again
  // Items.
  kUpdates = 32,      // count updates come in the UpdateRecords behind it, two in each; the last may be half full
  kDelete = 33,       // argument: key
  kAnswer = 34        // argument: ticket; post a result for the records since the last answer
};
inline constexpr uint32_t kEndHasFinal = 0x100;

struct SubmissionRecord {
  uint32_t op;
  uint32_t lane;
  uint32_t count;
  uint32_t flags;
  uint64_t argument;
  double value;
};
static_assert(sizeof(SubmissionRecord) == 32);

// In the place of a SubmissionRecord behind kUpdates: half the cache lines of a record an update, and moving the lines from
// one core to the other is most of what an update costs.
struct UpdateRecord {
  struct Update {
    uint64_t key;
    double priority;
  } update[2];
};
static_assert(sizeof(UpdateRecord) == sizeof(SubmissionRecord));

enum class CompletionType : uint32_t {
  // These two come in the order of start_row, without gaps. One below it that comes once more, after a restart of the server,
  // is known already.
  kBlock = 1,    // writer: lane, block, generation, start_row: rows of the lane to fill
  kEpisode = 2,  // writer: lane, block = episode slot, its generation; start_row: slots that the lane was granted before
  kNoBlock = 3,  // writer: lane; nothing is free and nothing can be evicted, or (block 1) the system had no memory to move to its
                 // part; the request stands
  kItem = 4,     // sampler: one drawn item; its lease is the record's position in the ring
  kResult = 5,   // items: argument = ticket, and the counts
  kWatched = 6,  // sampler: the watched size is reached
  kItemAgain = 7, // as kItem: a group's item that was drawn before and not acknowledged
  kLaneLost = 8  // writer: lane; another writer took it over, what comes for it is refused
};

struct GrantRecord {
  uint32_t type;
  uint32_t lane;
  uint32_t block;
  uint32_t reserved;
  uint64_t generation;
  uint64_t start_row;
  uint64_t padding[4];
};
struct DrawRecord {
  uint32_t type;
  uint32_t length;
  uint64_t version;
  uint64_t key;
  uint32_t block;
  uint32_t position;
  uint64_t block_generation;
  uint32_t episode;
  uint32_t times_sampled;
  double priority;
  double probability;
};
struct ResultRecord {
  uint32_t type;
  uint32_t reserved;
  uint64_t ticket;
  uint64_t updated;
  uint64_t stale;
  uint64_t unknown;
  uint64_t rejected;
  uint64_t padding[2];
};
union CompletionRecord {
  uint32_t type;  // CompletionType; first in each
  GrantRecord grant;
  DrawRecord draw;
  ResultRecord result;
};
static_assert(sizeof(GrantRecord) == 64 && sizeof(DrawRecord) == 64 && sizeof(ResultRecord) == 64);
static_assert(sizeof(CompletionRecord) == 64);

}  // namespace gear::layout
