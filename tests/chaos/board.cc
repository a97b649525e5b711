#include "chaos/board.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace gear::chaos {

Board* make_board() {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("chaos: map the board");
    exit(2);
  }
  return static_cast<Board*>(memory);  // zero is the begin of every word
}

void Board::begin_round() {
  stop = 0;
  rows = 0;
  for (auto& count : acked) count = 0;
  for (auto& count : tales_acked) count = 0;
  for (auto& count : delivered) count = 0;
  for (auto& flag : acknowledged) flag = 0;
}

Pause* Board::begin_pause(int64_t begin) {
  Pause& pause = pauses[pause_count.load() % kPauses];
  pause.end_ns = 0;
  pause.begin_ns = begin;
  ++pause_count;
  return &pause;
}

bool Board::paused_in(int64_t begin, int64_t end) const {
  uint32_t count = pause_count.load();
  for (uint32_t back = 1; back <= count && back <= kPauses; ++back) {
    const Pause& pause = pauses[(count - back) % kPauses];
    int64_t ended = pause.end_ns.load();
    if (pause.begin_ns.load() <= end && (ended == 0 || ended >= begin)) return true;
  }
  return false;
}

}  // namespace gear::chaos
