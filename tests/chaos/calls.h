// Calls of the actors: which failures are to be expected, and how long a survivor's may take.
#pragma once

#include <unistd.h>

#include <cstdio>

#include "base/clock.h"
#include "chaos/actors.h"
#include "chaos/rows.h"

namespace gear::chaos {

inline constexpr int64_t kCallNs = 1'000'000'000;
inline constexpr int64_t kBlockedNs = 200'000'000;

// geard is being started again, or was a moment ago: what every client of a server that may die must expect.
inline bool server_away(int status) {
  return status == GEAR_EDISCONNECTED || status == GEAR_ENOSERVER || status == GEAR_ESTALESOCKET ||
         status == GEAR_ETIMEDOUT;
}

inline void complain(const Place& place, const char* what, int status) {
  ++place.board->errors;
  fprintf(stderr, "chaos: process %d: %s: %s: %s\n", getpid(), what, gear_status_string(status), gear_last_error());
}

// A survivor's call: how long it took is held against the rule that nobody's death blocks it.
class Timed {
 public:
  Timed(const Place& place, bool survivor) : board_(*place.board), survivor_(survivor), begin_ns_(now_ns()) {}
  ~Timed() {
    if (!survivor_) return;
    int64_t end_ns = now_ns();
    int64_t took_ns = end_ns - begin_ns_;
    if (took_ns > kBlockedNs && board_.paused_in(begin_ns_, end_ns)) {
      ++board_.excused;
      return;
    }
    if (took_ns > kBlockedNs) ++board_.blocked;
    int64_t longest = board_.longest_call_ns.load();
    while (took_ns > longest && !board_.longest_call_ns.compare_exchange_weak(longest, took_ns)) {
    }
  }

 private:
  Board& board_;
  bool survivor_;
  int64_t begin_ns_;
};

// Opens with `make` until it succeeds, the round ends, or it fails for a reason of its own.
template <typename Make>
bool open_one(const Place& place, const char* what, Make make) {
  while (place.board->stop == 0) {
    int status = make();
    if (status == GEAR_OK) return true;
    if (!server_away(status)) {
      complain(place, what, status);
      return false;
    }
    usleep(2'000);
  }
  return false;
}

inline void repeated(const Place& place, const char* where, uint64_t id, uint64_t number) {
  ++place.board->duplicates;
  fprintf(stderr, "chaos: twice in %s: writer %llu, number %llu\n", where, static_cast<unsigned long long>(id),
          static_cast<unsigned long long>(number));
}

struct Cells {
  const uint64_t* id;
  const uint64_t* seq;
  const uint64_t* data;
  explicit Cells(const gear_batch* batch) {
    const uint64_t** const all[] = {&id, &seq, &data};
    for (uint32_t i = 0; i < 3; ++i) {
      gear_tensor tensor{};
      gear_batch_tensor(batch, i, &tensor);
      *all[i] = static_cast<const uint64_t*>(tensor.data);
    }
  }
};

// True when the row is what one writer committed.
inline bool check_row(const Place& place, const Cells& cells, uint32_t row) {
  ++place.board->rows_checked;
  bool known = cells.id[row] < kWriterIds && cells.seq[row] < kSeqs;
  if (known && whole(cells.id[row], cells.seq[row], cells.data + size_t{row} * kWords)) return true;
  ++place.board->torn;
  fprintf(stderr, "chaos: torn row: writer %llu, row %llu\n", static_cast<unsigned long long>(cells.id[row]),
          static_cast<unsigned long long>(cells.seq[row]));
  return false;
}

}  // namespace gear::chaos
