// The first bytes of every shared-memory segment.
//
// lib/layout is the only place where bytes that two processes share are defined. Words are plain integers and
// doubles of fixed width; they are accessed through base/shared_word.h. The sizes of the structs, offsets within them, and
// the values of words by which another process decides enter the fingerprint (fingerprint.h): two builds that disagree about
// any of those refuse each other. What it does not show, a word whose meaning changes in its place, needs another
// kLayoutVersion.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gear::layout {

inline constexpr uint64_t kSegmentMagic = 0x3130474553524147u;  // "GARSEG01" in memory order
inline constexpr uint32_t kLayoutVersion = 1;
inline constexpr size_t kPageBytes = 4096;
// Two neighbouring lines: the adjacent-line prefetcher of x86 makes pairs of lines contend.
inline constexpr size_t kContentionBytes = 128;
inline constexpr uint32_t kNone = 0xffffffffu;  // "no block, no slot, no lane"

enum class SegmentKind : uint32_t {
  kInstance = 1,
  kDirectory = 2,
  kData = 3,
  kChannel = 4,
  // Never handed out: what one server leaves to the next one of its instance (ledger.h).
  kLedger = 5,
  kLeases = 6,  // of a sampler; object_id is its channel
  kGroup = 7,   // a consumer group; object_id is kGroupObjects * table_id + ordinal
  kPart = 8     // one writer's share of a table's data; object_id is kPartObjects * table_id + number of the part
};
inline constexpr uint64_t kGroupObjects = 256;
inline constexpr uint64_t kPartObjects = 64;

// Written by the server before any descriptor is handed out, `magic` last; constant from then on. An adopter writes it anew
// where clients can write (channels, data, parts), for nothing there is believed; what follows it in a segment may change.
struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t kind;
  uint64_t fingerprint;
  uint64_t size_bytes;
  uint64_t instance_id;
  uint64_t object_id;  // table, channel, consumer group (kGroup), or part (kPart)
  uint64_t reserved[2];
};
static_assert(sizeof(SegmentHeader) == 64);

constexpr uint64_t align_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace gear::layout
