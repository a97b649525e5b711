#include "table/block_pool.h"

#include <algorithm>

#include "base/check.h"
#include "base/shared_word.h"
#include "table/geometry.h"

namespace gear {

using layout::BlockRecord;
using layout::kNone;

BlockPool::BlockPool(layout::TableHeader* header, BlockRecord* blocks, TableData* data)
    : header_(header),
      blocks_(blocks),
      before_(blocks_before(*header)),
      after_(blocks_after(*header)),
      data_(data),
      free_(std::max(header->parts, 1u)),
      bare_(free_.size()),
      holds_(header->block_count, 0) {
  for (auto& list : free_) list.reserve(header->block_budget);
  if (parted()) {
    for (auto& list : bare_) list.reserve(header->block_budget);
  }
  candidates_.reserve(before_ + after_ + 1);
}

void BlockPool::format() {
  for (uint32_t block = header_->block_count; block-- > 0;) {
    bool backed = parted() && block % header_->block_budget < first_backed(*header_, part_of(block));
    blocks_[block] = BlockRecord{0, 0, kNone, 0, kNone, kNone, 0, backed ? layout::kBlockBacked : 0};
    put_free(block);
  }
  backed_ = free_count_;
  count_free();
}

void BlockPool::count_free() { note(header_->counters.blocks_free, uint64_t{free_count_}); }

void BlockPool::put_free(uint32_t block) {
  if (parted() && blocks_[block].backing == 0) {
    bare_[part_of(block)].push_back(block);
    return;
  }
  free_[part_of(block)].push_back(block);
  ++free_count_;
}

void BlockPool::take(uint32_t part, uint32_t lane, uint32_t writer, uint64_t start_row) {
  uint32_t block = free_[part].back();
  free_[part].pop_back();
  --free_count_;
  BlockRecord& record = blocks_[block];
  note(record.start_row, start_row);
  note(record.lane, lane);
  note(record.rows, 0u);
  note(record.previous, kNone);
  note(record.next, kNone);
  note(record.writer, writer);
  // Release: who sees the odd generation sees the block empty and unlinked. The writer stores into the block only after
  // it acquired the grant, which is published later still.
  publish(record.generation, record.generation + 1);
  holds_[block] = 1;
  count_free();
}

void BlockPool::leave(uint32_t block) {
  if (blocks_[block].writer != 0) note(blocks_[block].writer, 0u);
}

void BlockPool::adopt() {
  for (uint32_t block = header_->block_count; block-- > 0;) {
    if (blocks_[block].generation % 2 == 0) {
      clear(block);
      put_free(block);
      continue;
    }
    if (parted()) ++backed_;
    // A link is whole when both ends have it and the later block has rows: it is made before them.
    auto linked = [&](uint32_t earlier, uint32_t later) {
      return blocks_[earlier].generation % 2 == 1 && blocks_[later].generation % 2 == 1 && blocks_[later].rows > 0 &&
             blocks_[earlier].next == later && blocks_[later].previous == earlier;
    };
    BlockRecord& record = blocks_[block];
    if (record.next != kNone && !linked(block, record.next)) note(record.next, kNone);
    if (record.previous != kNone && !linked(record.previous, block)) note(record.previous, kNone);
  }
  backed_ += free_count_;
  count_free();
}

void BlockPool::finish_adoption() {
  if (parted()) mend_memory();
  for (uint32_t block = 0; block < header_->block_count; ++block) {
    if (blocks_[block].generation % 2 == 1 && !needed(block)) give_back(block);
  }
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

void BlockPool::clear(uint32_t block) {
  BlockRecord& record = blocks_[block];
  note(record.rows, 0u);
  note(record.lane, kNone);
  note(record.previous, kNone);
  note(record.next, kNone);
  note(record.writer, 0u);
}

void BlockPool::give_back(uint32_t block) {
  BlockRecord& record = blocks_[block];
  // The generation turns even before the links go, and long before a writer may store here: a reader that still finds
  // the old generation after its copy has copied the old rows.
  publish(record.generation, record.generation + 1);
  fence_generation_before_payload();
  if (record.previous != kNone) note(blocks_[record.previous].next, kNone);
  if (record.next != kNone) note(blocks_[record.next].previous, kNone);
  clear(block);
  put_free(block);
  count_free();
}

}  // namespace gear
