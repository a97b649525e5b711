// The directory segment of a table: everything about it but the steps themselves.
//
// The conductor alone writes it; clients map it read-only. From offset 0:
//
//   TableHeader | ColumnRecord[column_count] | LaneRecord[lanes_max] | BlockRecord[block_count]
//   | mark[block_count * block_steps] | ItemRecord[item_slots] | version[item_slots], where items have one
//   | PromptRecord[item_slots], with prompt groups | EpisodeRecord[episode_slots] | PartRecord[parts] | indexes
//
// each at the offset that the header gives.
//
// Data are in one segment, or, isolated, in `parts` of them, of which a writer gets one: part p has the blocks
// [p * block_budget, (p + 1) * block_budget), and episode slots alike. Whoever maps parts places them so that every block and
// slot has the address that it has in one segment: at data_blocks_offset + block * block_bytes from the begin. A part's own
// segment is a page with its header, its blocks, its episode cells. Not more than block_budget blocks of all parts together
// have memory at a time (kBlockBacked).
#pragma once

#include "layout/segment.h"

namespace gear::layout {

inline constexpr uint32_t kRankMax = 8;
inline constexpr uint32_t kColumnsMax = 256;
inline constexpr uint32_t kNameBytesMax = 255;
inline constexpr uint32_t kNamedSelectorsMax = 4;
inline constexpr uint32_t kIndexesMax = 4 + kNamedSelectorsMax;  // sampler, remover, largest, smallest, and the named ones
inline constexpr uint32_t kSelectorNameBytesMax = 31;
inline constexpr uint32_t kPartsMax = 32;

// kSetAside: the server that adopted it found it contradicting itself. Nobody changes it any more; it can only be dropped.
enum class TableState : uint32_t { kOpen = 1, kClosed = 2, kDropped = 3, kSetAside = 4 };

// One selector's memory within the directory; see layout/index.h.
struct IndexRecord {
  uint32_t selector;  // gear_selector
  uint32_t top_k;
  uint64_t offset;    // from the start of the directory
  uint64_t bytes;     // 0 for a mixture, which draws from the named ones
  double alpha;
  double epsilon;
  double half_life;
  double proportion;  // named ones: of a mixture's draws
  char name[kSelectorNameBytesMax + 1];  // empty unless named
};
static_assert(sizeof(IndexRecord) == 88);

struct LimiterRecord {
  double samples_per_insert;
  int64_t min_size;
  double min_diff;
  double max_diff;
};
static_assert(sizeof(LimiterRecord) == 32);

// `version` only grows: a reader that sees an earlier one draws an item that was new enough a moment ago.
// Conductor writes (relaxed; `items` and `epoch` with release), everyone reads. Single words are exact; two words
// read one after the other may be from different moments.
struct TableCounters {
  uint64_t items;       // = inserts - deletes
  uint64_t inserts;
  uint64_t samples;     // leased draws handed to a caller
  uint64_t deletes;
  uint64_t steps;
  uint64_t episodes;
  uint64_t evictions;
  uint64_t blocks_free;
  uint64_t lanes_open;
  double priority_max;  // largest raw priority ever given; 0 when none
  uint64_t epoch;       // resets so far
  uint64_t bytes;       // of the steps of the items, each item counted whole
  uint64_t version;     // what items' versions are measured against
  uint64_t items_hidden;  // members of incomplete prompt groups
  uint64_t prompt_groups_dropped;
  uint64_t items_rejected;
};
static_assert(sizeof(TableCounters) == 128);

// What the conductor is about to do to the table, for the one that adopts it after a death in the middle. Conductor writes,
// nobody else reads while it lives. At most one record is applied at a time over all tables; `channel` and `position` tell
// which, and each of its steps writes down beforehand what it will change that cannot be recognised afterwards: the slot
// and its generation (an item is made exactly when that has changed), and counters as they were. Everything else is
// either recognised (rows of blocks, generations, end flags) or derived anew (indexes, holds, free lists).
enum class IntentOp : uint32_t {
  kNothing = 0,
  kRow = 1,     // append row `row` to lane, with the item that the policy asks for
  kEnd = 2,     // end the episode of lane, which has rows up to `row`
  kItem = 3,    // make an item of lane
  kDraw = 4,    // draw `slot` as lease `number`
  kTake = 5,    // count lease `number` as sampled
  kReturn = 6,  // take lease `number` back, uncounted
  kReset = 8,   // from epoch `number` to the next
  kGrantBlock = 9,    // grant block `slot` to lane; `number`: LaneRecord::wants after it
  kGrantEpisode = 10, // as kGrantBlock, an episode slot
  kCells = 11,  // the cells of episode `slot` are given
  kRelease = 12 // lease `number` of a consumer group is acknowledged; `steps`: acknowledged as it was. kTake in a group:
                // `steps` and `episodes` are delivered and redelivered as they were
};
// Of a writer's record, which makes an item, or may.
constexpr bool makes_item(IntentOp op) { return op == IntentOp::kRow || op == IntentOp::kEnd || op == IntentOp::kItem; }
struct IntentRecord {
  uint32_t op;  // IntentOp; written last, and 0 first when the step is done
  uint32_t channel;
  uint64_t position;         // of the record in the channel's submission ring
  uint64_t done;             // position + 1 once that record's whole effect is here, 0 before; kEnd, kItem and kCells
  uint32_t lane;
  uint32_t slot;             // of the item to be made or drawn; kNone: none, or one that is rejected
  uint64_t slot_generation;  // as it was
  uint64_t row;
  uint64_t first_row;        // kRow: of the rows that `steps` is without; kEnd: of the episode
  uint64_t number;           // kEnd: kIntent... bits, and the slot of its cells in the upper half
  uint64_t steps;            // counters as they were
  uint64_t episodes;
  uint64_t samples;
  uint64_t rejected;
  uint64_t evictions;        // these two with `evicting`
  uint64_t deletes;
  uint32_t evicting;         // 1 while an item gives way to others
  uint32_t times_sampled;    // of the slot's item, as it was
};
static_assert(sizeof(IntentRecord) == 120);
// kEnd: the end flag as in marks, and what follows.
inline constexpr uint64_t kIntentMakesItem = 1;
inline constexpr uint64_t kIntentShort = 2;
inline constexpr uint64_t kIntentByWriter = 4;  // its writer asked for it: nobody stores the episode's cells any more
inline constexpr uint64_t kIntentFinal = 8;

struct TableHeader {
  SegmentHeader segment;

  // Constant once the directory is handed out.
  char name[kNameBytesMax + 1];
  uint64_t table_id;
  uint64_t directory_bytes;
  uint64_t data_bytes;
  uint64_t capacity_items;
  uint64_t capacity_steps;
  uint64_t episode_steps_max;
  uint32_t column_count;
  uint32_t step_column_count;
  uint32_t item_policy;
  uint32_t item_length;
  uint32_t item_period;
  uint32_t short_episodes;
  uint32_t item_steps_max;   // longest item range; what a window of length 0 becomes
  uint32_t max_times_sampled;
  uint32_t window_before_max;
  uint32_t window_after_max;
  uint32_t lanes_max;
  uint32_t block_steps;
  uint32_t block_count;
  uint32_t item_slots;       // = capacity_items + 1: the incoming item is in before the remover picks
  uint32_t slot_bits;        // bits of a key that hold the slot
  uint32_t episode_slots;    // 0 without per-episode columns
  uint32_t memory;           // gear_memory
  uint32_t lease_timeout_ms;
  uint32_t presence_bytes;   // of the presence bits of one row
  uint32_t reserved_bytes;
  uint64_t block_bytes;
  uint64_t presence_offset;  // of the presence bits within a block
  uint64_t episode_cell_bytes; // stride of the per-episode cells of one episode slot
  uint64_t columns_offset;   // offsets from the start of the directory
  uint64_t lanes_offset;
  uint64_t blocks_offset;
  uint64_t marks_offset;
  uint64_t items_offset;
  uint64_t episodes_offset;
  uint64_t data_blocks_offset;   // offsets from the start of the data segment
  uint64_t data_episodes_offset;
  uint64_t capacity_bytes;       // of `counters.bytes`; 0 is without limit
  uint64_t step_bytes;           // of one step's cells, what `counters.bytes` counts
  uint64_t versions_offset;      // u64[item_slots] within the directory; 0: items have no version
  uint32_t new_priority;         // gear_new_priority
  uint32_t table_weights;
  uint32_t prompt_groups_max;
  uint32_t optional_columns;     // how many; with any, every row has presence bits
  uint32_t index_count;
  uint32_t sampler_index;
  uint32_t remover_index;
  uint32_t largest_index;        // max_heap of all items, kNone when there is none
  uint32_t smallest_index;       // min_heap of all items of weight above 0, kNone when there is none
  uint32_t named_index;          // the first named selector; named_count follow one another
  uint32_t named_count;
  uint32_t reserved_count;
  IndexRecord indexes[kIndexesMax];
  uint64_t prompts_offset;       // PromptRecord[item_slots] within the directory; 0 without prompt groups
  // Who may do what, as for a file: the owner, and the nine permission bits (read: open, attach, sample; write: append, and
  // change items and settings; drop, close and reset are the owner's).
  uint32_t owner_uid;
  uint32_t owner_gid;
  uint32_t mode;
  uint32_t reserved_mode;
  uint8_t secret[16];            // of the table's handles; whoever maps this was let in
  uint32_t parts;                // segments of data, a writer's each; 0: one segment for all writers
  uint32_t block_budget;         // how many blocks may be granted at one time; block_count without parts
  uint64_t parts_offset;         // PartRecord[parts] within the directory; 0 without

  // Conductor writes, everyone reads.
  alignas(kContentionBytes) uint32_t state;  // TableState; release
  // Relaxed, as are the limiter's words, each whole, two of them perhaps of different moments (while they change, min_diff is
  // -DBL_MAX, and so it stays if the conductor dies there): who opens a sampler asks the conductor, which decides by its own; a
  // direct sampler reads min_size anew at each draw.
  uint32_t direct_allowed;
  LimiterRecord limiter;  // changed by retune
  alignas(kContentionBytes) TableCounters counters;
  alignas(kContentionBytes) IntentRecord intent;
};
static_assert(sizeof(TableHeader) % kContentionBytes == 0);

// Constant.
struct ColumnRecord {
  char name[kNameBytesMax + 1];
  uint32_t dtype;          // gear_dtype
  uint32_t rank;
  uint32_t element_bytes;
  uint32_t flags;          // GEAR_COLUMN_...
  int64_t shape[kRankMax];
  uint64_t cell_bytes;
  uint64_t offset;         // within a block (rows are contiguous), or within an episode slot's cells
  uint64_t reserved[2];
};
static_assert(sizeof(ColumnRecord) == 368);

// A lane is a stream of rows numbered from 0, kept in a chain of blocks. Conductor writes; for status and adoption: all of a
// lane that does not follow from its blocks, marks and episodes is here.
struct LaneRecord {
  uint32_t state;           // kLaneOpen, kLaneNamed, kLaneLeaving; or 0: free
  uint32_t channel;         // its writer
  uint32_t tail_block;      // newest block with a row, or kNone
  uint32_t open_episode;    // slot of the open episode's cells, or kNone
  uint64_t episode_row;     // first row of the open episode; that of the next row when none is open. Release, after the two
                            // above
  uint64_t name;            // the user's, valid with kLaneNamed in state
  uint32_t owner_index;     // the writer's own number of the lane
  uint32_t priority_given;  // of coming items: priority, version, prompt_group
  uint64_t wants;           // make_wants: asked for, not granted yet
  double priority;
  uint64_t version;
  uint64_t prompt_group;
  uint32_t prompt_size;     // 0: they are members of none
  uint32_t episodes_granted; // EpisodeRecord::number of the next grant; stored after the slot's generation turns
};
inline constexpr uint32_t kLaneOpen = 1;
inline constexpr uint32_t kLaneNamed = 2;
inline constexpr uint32_t kLaneLeaving = 4;  // its end began: nothing more is admitted
static_assert(sizeof(LaneRecord) == 80);

// One word, so that it is of one moment: blocks (16 bits), episode slots (16 bits), and of the record that asked last the
// low 32 bits of its position + 1, by which a record that was applied already is recognised.
constexpr uint64_t make_wants(uint32_t blocks, uint32_t episodes, uint32_t record) {
  return uint64_t{record} << 32 | uint64_t{episodes} << 16 | blocks;
}
constexpr uint32_t wanted_blocks(uint64_t wants) { return wants & 0xffff; }
constexpr uint32_t wanted_episodes(uint64_t wants) { return wants >> 16 & 0xffff; }
constexpr uint32_t wants_record(uint64_t wants) { return static_cast<uint32_t>(wants >> 32); }

// A run of block_steps rows of one lane.
//
// generation: odd while the block belongs to a lane, even while it is free. The conductor adds one when it grants the
// block and one when it takes it back, before any later writer can store into it. A reader that saw an odd
// generation, copied, and after fence_copy_before_check sees the same one, copied rows of that lane only.
// rows: published after the marks of those rows, and after the writer's stores, which the conductor acquired through
// the ring: who observes `rows` sees that many whole rows.
// next, previous: set once while the block has its generation, and cleared to kNone when that neighbour is taken back.
// writer: the channel whose process may store into rows that are not admitted, 0 once there are none. It stays when the lane
// is taken over: such a block comes back when the channel is closed or its process is dead.
// backing: kBlockBacked while its pages are allocated; in tables with parts alone, where memory moves from one part to another.
// Cleared before the pages go, set after they are there, so what is not said to be backed may be either. Conductor writes
// (release); an adopter reads it, and fsck, under an odd generation alone.
struct BlockRecord {
  uint64_t generation;
  uint64_t start_row;
  uint32_t lane;
  uint32_t rows;
  uint32_t previous;
  uint32_t next;
  uint32_t writer;
  uint32_t backing;
};
static_assert(sizeof(BlockRecord) == 40);
inline constexpr uint32_t kBlockBacked = 1;

// Who has a part. Conductor writes; for adoption. `channel` (release) last when it is given, after uid and then given (relaxed,
// held in order by order_for_adopter), and 0 first when that channel is closed or its process is dead. The user stays: a
// process of that user may have kept the descriptor, so no other user ever gets it.
struct PartRecord {
  uint32_t channel;  // the writer's; 0: nobody has it
  uint32_t uid;      // of whom it is, with `given`
  uint32_t given;    // 0: nobody ever had it
  uint32_t reserved;
};
static_assert(sizeof(PartRecord) == 16);

// One mark a row: its place in its episode. Conductor writes it before the row is published through BlockRecord::rows;
// the two end flags are added to the last step's mark when the episode ends (release). A final observation's mark has
// them too, since its row is published before: who sees that row knows how the episode ended.
//
// Rows r and r+1 of a lane belong to one episode exactly when step(r+1) == step(r) + 1.
inline constexpr uint32_t kMarkFinal = 1u << 31;       // no step: the final observation, presence bits tell which
inline constexpr uint32_t kMarkTerminated = 1u << 30;  // this step was the last, and terminal
inline constexpr uint32_t kMarkTruncated = 1u << 29;   // this step was the last, cut off
inline constexpr uint32_t kMarkStepMask = kMarkTruncated - 1;
inline constexpr uint64_t kEpisodeStepsLimit = kMarkStepMask - 1;

constexpr uint32_t mark_step(uint32_t mark) { return mark & kMarkStepMask; }

// What a sampler draws: rows [position, position + length) counted from the begin of `block`, running on in the blocks
// that follow it. Always steps of one episode.
//
// generation: odd while the item is in the table. The conductor makes it even, changes the rest, and publishes the
// next odd one: who reads the same odd value before and after has one item's fields. priority and times_sampled
// change in place; each is one word.
struct ItemRecord {
  uint64_t generation;
  double priority;         // raw; beside generation, for an update needs these two and seldom a second cache line
  uint32_t block;
  uint32_t position;
  uint32_t length;
  uint32_t episode;        // episode slot, kNone without per-episode columns
  uint32_t times_sampled;
  uint32_t flags;          // kItemShort
};
static_assert(sizeof(ItemRecord) == 40);
inline constexpr uint32_t kItemShort = 1u;

// The per-episode cells of one episode; conductor writes. generation as in BlockRecord; `given` is published after the
// cells.
struct EpisodeRecord {
  uint64_t generation;
  uint32_t given;
  uint32_t lane;
  uint32_t writer;  // as in BlockRecord: who may store the cells, 0 once they are given or the episode ended
  uint32_t number;  // of the lane's grants: they are used in this order
};
static_assert(sizeof(EpisodeRecord) == 24);

// A member of an incomplete prompt group: the item is filled, but in no index and of an even generation. For adoption.
// A group that is whole is told so at all its members before the first is shown, and a group that gives way before the first
// is freed: one member that says so is enough to complete it.
struct PromptRecord {
  uint64_t group;
  uint32_t size;    // of the whole group, and kPrompt... bits; 0: the slot's item is in no incomplete group. Written last
  uint32_t number;  // of the group's begin: the smallest gives way first
};
static_assert(sizeof(PromptRecord) == 16);
inline constexpr uint32_t kPromptWhole = 1u << 31;
inline constexpr uint32_t kPromptDropped = 1u << 30;
inline constexpr uint32_t kPromptSizeMask = kPromptDropped - 1;


// key = node (8 bits, 0 here) | generation of the item | slot (slot_bits)
constexpr uint64_t make_key(uint64_t generation, uint32_t slot, uint32_t slot_bits) {
  return ((generation << slot_bits) | slot) & 0x00ffffffffffffffu;
}
constexpr uint32_t key_slot(uint64_t key, uint32_t slot_bits) {
  return static_cast<uint32_t>(key & ((uint64_t{1} << slot_bits) - 1));
}

// Whether an item's version is more than `lag` behind the table's.
constexpr bool version_behind(uint64_t version, uint64_t now, uint64_t lag) {
  return now > lag && version < now - lag;
}

// The longest episode a lane may have: what was declared; with episode items, what one item may span.
inline constexpr uint32_t kEpisodeItems = 1;  // GEAR_ITEMS_EPISODE
constexpr uint64_t episode_limit(const TableHeader& header) {
  if (header.episode_steps_max != 0) return header.episode_steps_max;
  return header.item_policy == kEpisodeItems ? header.item_steps_max : kEpisodeStepsLimit;
}

// Where blocks and episode slots are. Without parts all are in part 0.
constexpr uint32_t part_slots(const TableHeader& header) {
  return header.parts == 0 ? header.episode_slots : header.episode_slots / header.parts;
}
constexpr uint32_t part_of_block(const TableHeader& header, uint32_t block) {
  return header.parts == 0 ? 0 : block / header.block_budget;
}
constexpr uint32_t part_of_slot(const TableHeader& header, uint32_t slot) {
  return header.parts == 0 ? 0 : slot / part_slots(header);
}
// Tables with parts: what one part's segment has, and of it the run of episode cells.
constexpr uint64_t part_blocks_bytes(const TableHeader& header) { return header.block_budget * header.block_bytes; }
constexpr uint64_t part_episodes_bytes(const TableHeader& header) {
  return header.parts == 0 ? 0 : part_slots(header) * header.episode_cell_bytes;
}
constexpr uint64_t part_bytes(const TableHeader& header) {
  return header.data_blocks_offset + part_blocks_bytes(header) + part_episodes_bytes(header);
}
// Memory that the data have; addresses take header.data_bytes.
constexpr uint64_t data_memory_bytes(const TableHeader& header) {
  if (header.parts == 0) return header.data_bytes;
  return part_blocks_bytes(header) + header.parts * (header.data_blocks_offset + part_episodes_bytes(header));
}

template <typename T>
T* at_offset(void* base, uint64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(base) + offset);
}
template <typename T>
const T* at_offset(const void* base, uint64_t offset) {
  return reinterpret_cast<const T*>(static_cast<const char*>(base) + offset);
}

}  // namespace gear::layout
