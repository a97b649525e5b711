// What the processes of a chaos run know in common: one anonymous shared mapping, made before any of them is forked. A process
// that is killed leaves in it what it had noted, and nothing half done: every word is one atomic.
#pragma once

#include <atomic>
#include <cstdint>

namespace gear::chaos {

inline constexpr uint32_t kWriterIds = 512;   // writers born in one round
inline constexpr uint32_t kSeqs = 32'768;     // rows of one of them
inline constexpr uint32_t kPauses = 4'096;
inline constexpr uint64_t kRowsARound = 250'000;

// A time in which calls may take long for reasons that are no client's death.
struct Pause {
  std::atomic<int64_t> begin_ns;
  std::atomic<int64_t> end_ns;  // 0 while it lasts
};

struct Board {
  std::atomic<uint32_t> stop;  // survivors end by themselves
  std::atomic<uint64_t> rows;  // appended in this round, to each table

  // Failures. Each must be 0 at the end.
  std::atomic<uint64_t> torn;
  std::atomic<uint64_t> lost;
  std::atomic<uint64_t> holes;
  std::atomic<uint64_t> duplicates;
  std::atomic<uint64_t> after_acknowledged;
  std::atomic<uint64_t> direct_errors;
  std::atomic<uint64_t> errors;  // a status that no documented reason explains
  std::atomic<uint64_t> blocked;
  std::atomic<uint64_t> leaked;

  // What was done.
  std::atomic<uint64_t> steps_acknowledged;
  std::atomic<uint64_t> tales;  // episodes, likewise
  std::atomic<uint64_t> rows_checked;
  std::atomic<uint64_t> delivered_rows;
  std::atomic<uint64_t> redelivered_rows;
  std::atomic<uint64_t> acknowledged_rows;
  std::atomic<uint64_t> excused;        // long calls while geard was down or the machine stood still
  std::atomic<int64_t> longest_call_ns;  // of survivors, not excused

  // geard down, from its kill to a little after it serves again; and the machine standing still, as a bystander saw it.
  std::atomic<uint32_t> pause_count;
  Pause pauses[kPauses];

  // By writer id and row of this round.
  std::atomic<uint64_t> acked[kWriterIds];  // rows below were acknowledged by flush
  std::atomic<uint64_t> tales_acked[kWriterIds];
  std::atomic<uint8_t> delivered[kWriterIds * kSeqs];
  std::atomic<uint8_t> acknowledged[kWriterIds * kSeqs];

  void begin_round();
  // Whether [begin, end] touches a pause.
  bool paused_in(int64_t begin_ns, int64_t end_ns) const;
  Pause* begin_pause(int64_t begin_ns);
};

// A mapping that forked children share. Exits when there is no memory.
Board* make_board();

}  // namespace gear::chaos
