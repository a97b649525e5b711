// One selector and its index, in memory of their own that ends at a page nobody may touch.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "layout/index.h"
#include "select/direct.h"
#include "select/selector.h"

namespace gear::testing {

// A seed for random tests: $GEAR_TEST_SEED, else a fixed one; printed.
inline uint64_t test_seed() {
  const char* given = getenv("GEAR_TEST_SEED");
  uint64_t seed = given != nullptr ? strtoull(given, nullptr, 10) : 20260101;
  printf("seed %llu (GEAR_TEST_SEED)\n", static_cast<unsigned long long>(seed));
  return seed;
}

// Looks like a directory whose only index is this one. Untouched pages cost nothing, so billions of slots can be simulated.
class SelectIndex {
 public:
  SelectIndex(uint32_t selector, uint64_t capacity, double alpha = 1, double epsilon = 0) {
    uint64_t index_bytes = selector_index_bytes(selector, capacity);
    uint64_t used = sizeof(layout::TableHeader) + index_bytes;
    uint64_t before_guard = layout::align_up(used, layout::kPageBytes);
    map_bytes_ = before_guard + layout::kPageBytes;
    map_ = static_cast<char*>(mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (map_ == MAP_FAILED) abort();
    if (mprotect(map_ + before_guard, layout::kPageBytes, PROT_NONE) != 0) abort();
    // The index's last byte is the last one before the guard.
    header_ = reinterpret_cast<layout::TableHeader*>(map_ + before_guard - used);
    header_->item_slots = static_cast<uint32_t>(capacity);
    record_ = {selector, 0, sizeof(layout::TableHeader), index_bytes, alpha, epsilon, 0, 0, {}};
    format_index(record_, header_, capacity);
    selector_ = open_selector(record_, header_);
  }
  ~SelectIndex() { munmap(map_, map_bytes_); }
  SelectIndex(const SelectIndex&) = delete;
  SelectIndex& operator=(const SelectIndex&) = delete;

  Selector* operator->() { return selector_.get(); }
  uint32_t pick(Rng& rng, uint32_t count, Pick* picks) const {
    return direct_pick(record_, header_, rng, count, picks);
  }

  layout::IndexRecord& record() { return record_; }
  void* bytes() const { return reinterpret_cast<char*>(header_) + record_.offset; }
  const layout::SumTreeIndex& tree() const {
    return *static_cast<const layout::SumTreeIndex*>(bytes());
  }
  double* nodes() const {
    return layout::at_offset<double>(bytes(), sizeof(layout::SumTreeIndex));
  }

 private:
  char* map_;
  size_t map_bytes_;
  layout::TableHeader* header_;
  layout::IndexRecord record_;
  std::unique_ptr<Selector> selector_;
};

}  // namespace gear::testing
