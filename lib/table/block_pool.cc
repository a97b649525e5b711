#include "table/block_pool.h"

#include "base/check.h"
#include "base/shared_word.h"
#include "table/geometry.h"

namespace gear {

using layout::BlockRecord;
using layout::kNone;

BlockPool::BlockPool(layout::TableHeader* header, BlockRecord* blocks)
    : header_(header),
      blocks_(blocks),
      before_(blocks_before(*header)),
      after_(blocks_after(*header)),
      holds_(header->block_count, 0) {
  free_.reserve(header->block_count);
  candidates_.reserve(before_ + after_ + 1);
  for (uint32_t block = header->block_count; block-- > 0;) {
    blocks_[block] = BlockRecord{0, 0, kNone, 0, kNone, kNone, 0, 0};
    free_.push_back(block);
  }
  note(header_->counters.blocks_free, uint64_t{free_.size()});
}

uint32_t BlockPool::take(uint32_t lane, uint64_t start_row) {
  if (free_.empty()) return kNone;
  uint32_t block = free_.back();
  free_.pop_back();
  BlockRecord& record = blocks_[block];
  note(record.start_row, start_row);
  note(record.lane, lane);
  note(record.rows, 0u);
  note(record.previous, kNone);
  note(record.next, kNone);
  // Release: who sees the odd generation sees the block empty and unlinked. The writer stores into the block only after
  // it acquired the grant, which is published later still.
  publish(record.generation, record.generation + 1);
  holds_[block] = 1;
  note(header_->counters.blocks_free, uint64_t{free_.size()});
  return block;
}

void BlockPool::link(uint32_t previous, uint32_t block) {
  note(blocks_[block].previous, previous);
  if (previous != kNone) publish(blocks_[previous].next, block);
}

void BlockPool::drop(uint32_t block) {
  GEAR_ASSERT(holds_[block] > 0, "block %u dropped once too often", block);
  if (--holds_[block] > 0) return;

  // Only blocks within reach of this one can have been kept for it alone.
  candidates_.clear();
  candidates_.push_back(block);
  uint32_t at = blocks_[block].previous;
  for (uint32_t i = 0; i < before_ && at != kNone; ++i, at = blocks_[at].previous) {
    candidates_.push_back(at);
  }
  at = blocks_[block].next;
  for (uint32_t i = 0; i < after_ && at != kNone; ++i, at = blocks_[at].next) {
    candidates_.push_back(at);
  }
  for (uint32_t candidate : candidates_) {
    if (!needed(candidate)) give_back(candidate);
  }
}

bool BlockPool::needed(uint32_t block) const {
  if (holds_[block] > 0) return true;
  uint32_t at = blocks_[block].next;
  for (uint32_t i = 0; i < before_ && at != kNone; ++i, at = blocks_[at].next) {
    if (holds_[at] > 0) return true;
  }
  at = blocks_[block].previous;
  for (uint32_t i = 0; i < after_ && at != kNone; ++i, at = blocks_[at].previous) {
    if (holds_[at] > 0) return true;
  }
  return false;
}

void BlockPool::give_back(uint32_t block) {
  BlockRecord& record = blocks_[block];
  // The generation turns even before the links go, and long before a writer may store here: a reader that still finds
  // the old generation after its copy has copied the old rows.
  publish(record.generation, record.generation + 1);
  fence_generation_before_payload();
  if (record.previous != kNone) note(blocks_[record.previous].next, kNone);
  if (record.next != kNone) note(blocks_[record.next].previous, kNone);
  note(record.rows, 0u);
  note(record.lane, kNone);
  note(record.previous, kNone);
  note(record.next, kNone);
  free_.push_back(block);
  note(header_->counters.blocks_free, uint64_t{free_.size()});
}

}  // namespace gear
