// One selector and its index, in memory of their own that ends at a page nobody may touch.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

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

// What a record says of a selector, for tests that do not care: k 5, half-life 40 insertions.
inline layout::IndexRecord record_of(uint32_t selector, double alpha = 1, double epsilon = 0) {
  return {selector, 5, 0, 0, alpha, epsilon, 40, 0, {}};
}

// Looks like a directory whose only index is this one. Untouched pages cost nothing, so billions of slots can be simulated.
class SelectIndex {
 public:
  SelectIndex(uint32_t selector, uint64_t capacity, double alpha = 1, double epsilon = 0)
      : SelectIndex(record_of(selector, alpha, epsilon), capacity) {}
  SelectIndex(const layout::IndexRecord& record, uint64_t capacity) {
    uint64_t index_bytes = selector_index_bytes(record.selector, capacity);
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
    record_ = record;
    record_.offset = sizeof(layout::TableHeader);
    record_.bytes = index_bytes;
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

  double probability(uint32_t slot) const { return direct_probability(record_, header_, slot); }

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

// A directory with a mixture of these, all holding the same items.
class MixtureDirectory {
 public:
  MixtureDirectory(const std::vector<layout::IndexRecord>& parts, uint64_t capacity) {
    uint64_t bytes = sizeof(layout::TableHeader);
    for (const auto& part : parts) bytes += selector_index_bytes(part.selector, capacity);
    memory_.resize(bytes / sizeof(uint64_t) + 1);
    header_ = reinterpret_cast<layout::TableHeader*>(memory_.data());
    header_->item_slots = static_cast<uint32_t>(capacity);
    header_->index_count = static_cast<uint32_t>(parts.size() + 1);
    header_->indexes[0] = {GEAR_SELECT_MIXTURE, 0, 0, 0, 0, 0, 0, 0, {}};
    header_->named_index = 1;
    header_->named_count = static_cast<uint32_t>(parts.size());
    uint64_t at = sizeof(layout::TableHeader);
    for (size_t i = 0; i < parts.size(); ++i) {
      layout::IndexRecord& record = header_->indexes[i + 1];
      record = parts[i];
      record.offset = at;
      record.bytes = selector_index_bytes(record.selector, capacity);
      at += record.bytes;
      format_index(record, header_, capacity);
      parts_.push_back(open_selector(record, header_));
    }
    mixture_ = open_selector(header_->indexes[0], header_);
  }

  void insert(uint32_t slot, double priority) {
    for (auto& part : parts_) part->insert(slot, priority);
    ++header_->counters.items;
  }
  void remove(uint32_t slot) {
    for (auto& part : parts_) part->remove(slot);
    --header_->counters.items;
  }
  Selector* operator->() { return mixture_.get(); }
  Selector& part(size_t i) { return *parts_[i]; }
  uint32_t pick(Rng& rng, uint32_t count, Pick* picks) const {
    return direct_pick(header_->indexes[0], header_, rng, count, picks);
  }
  double probability(uint32_t slot) const {
    return direct_probability(header_->indexes[0], header_, slot);
  }

 private:
  std::vector<uint64_t> memory_;
  layout::TableHeader* header_;
  std::vector<std::unique_ptr<Selector>> parts_;
  std::unique_ptr<Selector> mixture_;
};

}  // namespace gear::testing
