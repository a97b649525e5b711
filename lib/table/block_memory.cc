// Tables with parts: which blocks have memory, and how it moves. For an adopter every step is recognised by `backing`, which says
// less than there is at any moment: a block that does not have it may have pages, which go when the table is adopted.

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/shared_word.h"
#include "table/block_pool.h"

namespace gear {

using layout::kNone;

namespace {
constexpr int64_t kRetryNs = 100'000'000;
constexpr int64_t kSayNs = 1'000'000'000;
}  // namespace

bool BlockPool::provide(uint32_t part) {
  if (!parted()) return !free_[part].empty();
  if (short_of_memory() && !bare_[part].empty() && now_ns() >= retry_ns_) (void)back(part);
  return !free_[part].empty() || bring_memory(part);
}

// Some part has it whenever less than the budget is granted, unless the system had no memory before.
bool BlockPool::bring_memory(uint32_t part) {
  // What was punched and could not be had again is a block less: not at each look.
  if (bare_[part].empty() || now_ns() < retry_ns_) return false;
  auto fewer = [](const auto& one, const auto& other) { return one.size() < other.size(); };
  auto most = static_cast<uint32_t>(std::max_element(free_.begin(), free_.end(), fewer) - free_.begin());
  if (free_[most].empty()) return false;
  withdraw_memory(most);
  if (!back(part)) return false;
  ++moves_;
  return true;
}

// From the block that has been free for the longest: a reader that was at it has most likely noticed by now.
void BlockPool::withdraw_memory(uint32_t part) {
  uint32_t block = free_[part].front();
  free_[part].erase(free_[part].begin());
  --free_count_;
  --backed_;
  publish(blocks_[block].backing, 0u);
  if (!data_->release(*header_, block)) log(LogLevel::kError, "table \"%s\": block %u keeps its memory", header_->name, block);
  bare_[part].push_back(block);
  count_free();
}

bool BlockPool::back(uint32_t part) {
  uint32_t block = bare_[part].back();
  Status allocated = data_->allocate(*header_, block);
  if (!allocated.ok()) {
    int64_t now = now_ns();
    retry_ns_ = now + kRetryNs;
    if (now >= say_ns_) {
      say_ns_ = now + kSayNs;
      log(LogLevel::kWarning, "table \"%s\": %s; it goes on with %u blocks of %u until there is some", header_->name,
          allocated.text().c_str(), backed_, header_->block_budget);
    }
    return false;
  }
  publish(blocks_[block].backing, layout::kBlockBacked);
  bare_[part].pop_back();
  ++backed_;
  put_free(block);
  count_free();
  return true;
}

// After a death: memory that nothing tells of goes, and what is missing of the budget comes.
void BlockPool::mend_memory() {
  for (uint32_t block = 0; block < header_->block_count;) {
    uint32_t end = block;
    while (end < header_->block_count && blocks_[end].backing == 0 && part_of(end) == part_of(block)) ++end;
    if (end > block) (void)data_->release(*header_, block, end - block);
    block = std::max(end, block + 1);
  }
  for (uint32_t part = 0; part < header_->parts && short_of_memory();) {
    if (bare_[part].empty()) {
      ++part;
    } else if (!back(part)) {
      return;
    }
  }
}

}  // namespace gear
