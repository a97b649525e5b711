// Drawing from an index that this process maps read-only.
//
// Concurrency: any number of processes and threads, each with its own Rng, while the conductor changes the index. Nothing
// is locked, allocated or called. A pick names a slot that held an item at some moment of the call, or, when words of
// different moments were mixed, a slot that does not; the caller checks ItemRecord::generation and draws again.
#pragma once

#include <cstdint>

#include "select/selector.h"

namespace gear {

// Draws `count` picks with replacement; returns how many were made: count, or 0 when nothing can be drawn (no items, or
// weight 0 only), or a recency index was being scaled for the whole of a bounded wait. Draws of one call are worked on
// together so that their cache misses overlap. The sequence depends on the seed and the index alone, not on how calls
// are split when nothing changes in between (a mixture's depends on that too). fifo, lifo, max_heap, min_heap: the first
// item, count times. O(count), times log n for prioritized and recency.
uint32_t direct_pick(const layout::IndexRecord& record, const void* directory, Rng& rng,
                     uint32_t count, Pick* picks);

// The probability with which a draw now is this slot; 0 when it is not in the index. Mixture, of components j that can
// draw now, with proportions q_j that sum to 1 over those: sum of q_j * P_j(slot). O(1) a component.
double direct_probability(const layout::IndexRecord& record, const void* directory, uint32_t slot);

// The smallest probability above 0 that a draw of the table's index can have, for weights divided by the table's largest;
// 0 when that is not known: recency and mixture, and prioritized without TableHeader::smallest_index. O(1).
double direct_least_probability(const layout::IndexRecord& record, const void* directory);

}  // namespace gear
