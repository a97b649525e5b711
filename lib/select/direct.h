// Drawing from an index that this process maps read-only.
//
// Concurrency: any number of processes and threads, each with its own Rng, while the conductor changes the index. Nothing
// is locked, allocated or called. A pick names a slot that held an item at some moment of the call, or, when words of
// different moments were mixed, a slot that does not; the caller checks ItemRecord::generation and draws again.
#pragma once

#include <cstdint>

#include "select/selector.h"

namespace gear {

// Draws `count` picks with replacement; returns how many were made: count, or 0 when the index is empty (or holds weight
// 0 only). Draws of one call are worked on together so that their cache misses overlap. The sequence depends on the
// seed and the index alone, not on how calls are split when nothing changes in between. fifo: the oldest item, count
// times. O(count) uniform and fifo, O(count log n) prioritized.
uint32_t direct_pick(const layout::IndexRecord& record, const void* directory, Rng& rng,
                     uint32_t count, Pick* picks);

}  // namespace gear
