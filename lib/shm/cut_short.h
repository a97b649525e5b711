// Shared memory that another process may cut short, and this one goes on.
#pragma once

#include <atomic>
#include <cstddef>

namespace gear {

// A named segment cannot be sealed, so whoever has a writable descriptor of it can truncate it; to touch a page that is gone is
// SIGBUS. After survive_cuts, in memory that a CutWatch watches zero pages of this process alone take the place of all its
// pages, and the watch is told. SIGBUS anywhere else ends the process, as before.
//
// For a process that is nothing but a server: it sets the handler of SIGBUS.
void survive_cuts();

// Not copied nor moved. Any thread makes and ends it; it ends before its memory is unmapped.
class CutWatch {
 public:
  CutWatch(void* data, size_t bytes);
  ~CutWatch();
  CutWatch(const CutWatch&) = delete;
  CutWatch& operator=(const CutWatch&) = delete;

  // The memory was found cut short: what is there now is nobody else's. One load, as long as none ever was.
  bool cut() const { return any_.load(std::memory_order_acquire) && found_cut(); }

  struct Range;  // where the handler finds it
  static inline std::atomic<bool> any_{false};  // the handler's: some memory was found cut short

 private:
  bool found_cut() const;

  Range* range_;
};

}  // namespace gear
