// Tables with parts: which blocks have memory, and how it moves. For an adopter every step is recognised by `backing`, which says
// less than there is at any moment: a block that does not have it may have pages, which go when the table is adopted.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "base/shared_word.h"
#include "table/block_pool.h"

namespace gear {

namespace {
constexpr int64_t kRetryNs = 100'000'000;
constexpr int64_t kSayNs = 1'000'000'000;
}  // namespace

bool BlockPool::provide(uint32_t part) {
  if (!free_[part].empty()) return true;
  if (!parted()) return false;
  return replace_missing(part) || bring_memory(part);
}

// What another process took between the two calls of a move: nothing was given up for it now, so there must be room.
bool BlockPool::replace_missing(uint32_t part) {
  if (!short_of_memory() || bare_[part].empty() || now_ns() < missing_ns_) return false;
  if (data_->room_for(*header_) && back(part)) return true;
  // Readers that were late, and writers that store where they may not, leave pages behind. One part a time: it takes a look at
  // each of its blocks.
  swept_ = (swept_ + 1) % header_->parts;
  release_bare(swept_);
  if (data_->room_for(*header_) && back(part)) return true;
  missing_ns_ = now_ns() + kRetryNs;
  return false;
}

// Some part has it whenever less than the budget is granted, but for what is missing.
bool BlockPool::bring_memory(uint32_t part) {
  // A move that failed cost a block: not at each look.
  if (bare_[part].empty() || now_ns() < move_ns_) return false;
  auto fewer = [](const auto& one, const auto& other) { return one.size() < other.size(); };
  auto most = static_cast<uint32_t>(std::max_element(free_.begin(), free_.end(), fewer) - free_.begin());
  if (free_[most].empty()) return false;
  if (withdraw_memory(most) && back(part)) {
    ++moves_;
    return true;
  }
  move_ns_ = now_ns() + kRetryNs;
  return false;
}

// From the block that has been free for the longest: a reader that was at it has most likely noticed by now.
bool BlockPool::withdraw_memory(uint32_t part) {
  uint32_t block = free_[part].front();
  free_[part].erase(free_[part].begin());
  --free_count_;
  --backed_;
  publish(blocks_[block].backing, 0u);
  bool gone = data_->release(*header_, block);
  bare_[part].push_back(block);
  count_free();
  if (gone) return true;
  complain(gear::format("block %u keeps its memory: %s", block, strerror(errno)));
  (void)back(part);
  return false;
}

bool BlockPool::back(uint32_t part) {
  uint32_t block = bare_[part].back();
  Status allocated = data_->allocate(*header_, block);
  if (!allocated.ok()) {
    complain(gear::format("%s; it goes on with %u blocks of %u until there is some", allocated.text().c_str(), backed_,
                    header_->block_budget));
    return false;
  }
  publish(blocks_[block].backing, layout::kBlockBacked);
  bare_[part].pop_back();
  ++backed_;
  put_free(block);
  count_free();
  return true;
}

void BlockPool::complain(const std::string& what) {
  int64_t now = now_ns();
  if (now < say_ns_) return;
  say_ns_ = now + kSayNs;
  log(LogLevel::kWarning, "table \"%s\": %s", header_->name, what.c_str());
}

// Pages that nobody tells of: of a death between the two steps of a move, of a reader that was late, of a writer that stored
// where it had no block.
void BlockPool::release_bare(uint32_t part) {
  const uint32_t end = (part + 1) * header_->block_budget;
  for (uint32_t block = part * header_->block_budget; block < end;) {
    uint32_t next = block;
    while (next < end && blocks_[next].backing == 0) ++next;
    if (next > block) (void)data_->release(*header_, block, next - block);
    block = std::max(next, block + 1);
  }
}

// After a death: memory that nothing tells of goes, and what is missing of the budget comes.
void BlockPool::mend_memory() {
  for (uint32_t part = 0; part < header_->parts; ++part) release_bare(part);
  for (uint32_t part = 0; part < header_->parts && short_of_memory();) {
    if (bare_[part].empty()) {
      ++part;
    } else if (!back(part)) {
      return;
    }
  }
}

}  // namespace gear
