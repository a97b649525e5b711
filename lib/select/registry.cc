// The selectors there are: one row each.

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/shared_word.h"
#include "layout/segment.h"
#include "select/direct.h"
#include "select/fifo.h"
#include "select/heap.h"
#include "select/lifo.h"
#include "select/mixture.h"
#include "select/prioritized.h"
#include "select/recency.h"
#include "select/top_k.h"
#include "select/uniform.h"

namespace gear {
namespace {

using layout::HeapIndex;
using layout::IndexRecord;
using layout::ListIndex;
using layout::RecencyIndex;
using layout::SumTreeIndex;
using layout::UniformIndex;
using Made = std::unique_ptr<Selector>;

// An index as a direct sampler has it.
struct Shared {
  const IndexRecord& record;
  const void* directory;
  uint64_t capacity;

  template <typename T>
  const T* index() const {
    return layout::at_offset<T>(directory, record.offset);
  }
};

struct SelectorRow {
  uint32_t selector;
  bool removes;
  uint64_t (*bytes)(uint64_t capacity);
  void (*format)(const IndexRecord& record, void* index, uint64_t capacity);
  Made (*open)(const IndexRecord& record, void* index, void* directory);
  uint32_t (*direct_pick)(const Shared& shared, Rng& rng, uint32_t count, Pick* picks);
  double (*direct_probability)(const Shared& shared, uint32_t slot);
};

template <typename T, void (*kFormat)(T*, uint64_t)>
void format_as(const IndexRecord&, void* index, uint64_t capacity) {
  kFormat(static_cast<T*>(index), capacity);
}

template <bool kNewest>
uint32_t pick_of_list(const Shared& shared, Rng&, uint32_t count, Pick* picks) {
  return list_direct_pick(shared.index<ListIndex>(), shared.capacity, kNewest, count, picks);
}
template <bool kNewest>
double probability_of_list(const Shared& shared, uint32_t slot) {
  return list_direct_probability(shared.index<ListIndex>(), kNewest, slot);
}
template <HeapRank kRank>
Made open_heap(const IndexRecord&, void* index, void*) {
  return std::make_unique<HeapSelector>(static_cast<HeapIndex*>(index), kRank);
}
uint32_t pick_of_heap(const Shared& shared, Rng&, uint32_t count, Pick* picks) {
  return heap_direct_pick(shared.index<HeapIndex>(), shared.capacity, count, picks);
}
double probability_of_heap(const Shared& shared, uint32_t slot) {
  return heap_direct_probability(shared.index<HeapIndex>(), shared.capacity, slot);
}

const SelectorRow kSelectors[] = {
    {GEAR_SELECT_UNIFORM, true, uniform_index_bytes, format_as<UniformIndex, format_uniform>,
     [](const IndexRecord&, void* index, void*) -> Made {
       return std::make_unique<UniformSelector>(static_cast<UniformIndex*>(index));
     },
     [](const Shared& shared, Rng& rng, uint32_t count, Pick* picks) {
       return uniform_direct_pick(shared.index<UniformIndex>(), shared.capacity, rng, count, picks);
     },
     [](const Shared& shared, uint32_t slot) {
       return uniform_direct_probability(shared.index<UniformIndex>(), shared.capacity, slot);
     }},
    {GEAR_SELECT_FIFO, true, list_index_bytes, format_as<ListIndex, format_list>,
     [](const IndexRecord&, void* index, void*) -> Made {
       return std::make_unique<FifoSelector>(static_cast<ListIndex*>(index));
     },
     pick_of_list<false>, probability_of_list<false>},
    {GEAR_SELECT_LIFO, true, list_index_bytes, format_as<ListIndex, format_list>,
     [](const IndexRecord&, void* index, void*) -> Made {
       return std::make_unique<LifoSelector>(static_cast<ListIndex*>(index));
     },
     pick_of_list<true>, probability_of_list<true>},
    {GEAR_SELECT_PRIORITIZED, true, sum_tree_bytes, format_as<SumTreeIndex, format_sum_tree>,
     [](const IndexRecord& record, void* index, void*) -> Made {
       return std::make_unique<PrioritizedSelector>(static_cast<SumTreeIndex*>(index),
                                                    record.alpha, record.epsilon);
     },
     [](const Shared& shared, Rng& rng, uint32_t count, Pick* picks) {
       return sum_tree_direct_pick(shared.index<SumTreeIndex>(), shared.capacity, rng, count,
                                   picks);
     },
     [](const Shared& shared, uint32_t slot) {
       return sum_tree_direct_probability(shared.index<SumTreeIndex>(), slot);
     }},
    {GEAR_SELECT_MAX_HEAP, true, heap_index_bytes, format_as<HeapIndex, format_heap>,
     open_heap<HeapRank::kLargest>, pick_of_heap, probability_of_heap},
    {GEAR_SELECT_MIN_HEAP, true, heap_index_bytes, format_as<HeapIndex, format_heap>,
     open_heap<HeapRank::kSmallest>, pick_of_heap, probability_of_heap},
    {GEAR_SELECT_TOP_K, false, heap_index_bytes,
     [](const IndexRecord& record, void* index, uint64_t capacity) {
       format_top_k(static_cast<HeapIndex*>(index), capacity, record.top_k);
     },
     [](const IndexRecord&, void* index, void*) -> Made {
       return std::make_unique<TopKSelector>(static_cast<HeapIndex*>(index));
     },
     [](const Shared& shared, Rng& rng, uint32_t count, Pick* picks) {
       return top_k_direct_pick(shared.index<HeapIndex>(), shared.capacity, shared.record.top_k,
                                rng, count, picks);
     },
     [](const Shared& shared, uint32_t slot) {
       return top_k_direct_probability(shared.index<HeapIndex>(), shared.capacity,
                                       shared.record.top_k, slot);
     }},
    {GEAR_SELECT_RECENCY, false, recency_index_bytes, format_as<RecencyIndex, format_recency>,
     [](const IndexRecord& record, void* index, void*) -> Made {
       return std::make_unique<RecencySelector>(static_cast<RecencyIndex*>(index),
                                                record.half_life);
     },
     [](const Shared& shared, Rng& rng, uint32_t count, Pick* picks) {
       return recency_direct_pick(shared.index<RecencyIndex>(), shared.capacity, rng, count,
                                  picks);
     },
     [](const Shared& shared, uint32_t slot) {
       return recency_direct_probability(shared.index<RecencyIndex>(), slot);
     }},
    {GEAR_SELECT_MIXTURE, false, [](uint64_t) { return uint64_t{0}; },
     [](const IndexRecord&, void*, uint64_t) {},
     [](const IndexRecord& record, void*, void* directory) -> Made {
       return std::make_unique<MixtureSelector>(record, directory);
     },
     [](const Shared& shared, Rng& rng, uint32_t count, Pick* picks) {
       return mixture_direct_pick(shared.directory, rng, count, picks);
     },
     [](const Shared& shared, uint32_t slot) {
       return mixture_direct_probability(shared.directory, slot);
     }},
};

const SelectorRow* find(uint32_t selector) {
  for (const SelectorRow& row : kSelectors) {
    if (row.selector == selector) return &row;
  }
  return nullptr;
}

// The row of an index that has the bytes its selector needs; nullptr otherwise. All three are the conductor's words: what
// they say together stays within the index.
const SelectorRow* find(const IndexRecord& record, uint64_t capacity) {
  const SelectorRow* row = find(record.selector);
  return row == nullptr || row->bytes(capacity) > record.bytes ? nullptr : row;
}

uint64_t capacity_of(const void* directory) {
  return static_cast<const layout::TableHeader*>(directory)->item_slots;
}

// Of the prioritized index: that of the smallest priority with weight above 0.
double least_prioritized(const IndexRecord& record, const void* directory) {
  const auto* header = static_cast<const layout::TableHeader*>(directory);
  if (header->smallest_index >= layout::kIndexesMax) return 0.0;
  const auto* heap =
      layout::at_offset<HeapIndex>(directory, header->indexes[header->smallest_index].offset);
  const auto* tree = layout::at_offset<SumTreeIndex>(directory, record.offset);
  double total = observe(tree->total);
  double priority = 0.0;
  bool all_above_zero = observe(heap->count) >= observe(tree->count);
  // With an epsilon items of priority 0 have weight too, and the heap is without them.
  bool found = heap_direct_first(heap, &priority);
  if (record.epsilon > 0 && !all_above_zero) {
    priority = 0.0;
  } else if (!found) {
    return 0.0;
  }
  double weight = priority_weight(priority, record.alpha, record.epsilon);
  return total > 0 ? std::min(weight / total, 1.0) : 0.0;
}

}  // namespace

bool selector_known(uint32_t selector) { return find(selector) != nullptr; }

bool selector_removes(uint32_t selector) {
  const SelectorRow* row = find(selector);
  return row != nullptr && row->removes;
}

uint64_t selector_index_bytes(uint32_t selector, uint64_t capacity) {
  const SelectorRow* row = find(selector);
  return row == nullptr ? 0 : layout::align_up(row->bytes(capacity), layout::kContentionBytes);
}

void format_index(const IndexRecord& record, void* directory, uint64_t capacity) {
  const SelectorRow* row = find(record.selector);
  GEAR_ASSERT(row != nullptr, "selector %u", record.selector);
  row->format(record, layout::at_offset<char>(directory, record.offset), capacity);
}

std::unique_ptr<Selector> open_selector(const IndexRecord& record, void* directory) {
  const SelectorRow* row = find(record.selector);
  GEAR_ASSERT(row != nullptr, "selector %u", record.selector);
  return row->open(record, layout::at_offset<char>(directory, record.offset), directory);
}

std::unique_ptr<Selector> open_smallest(const IndexRecord& record, void* directory) {
  return std::make_unique<SmallestSelector>(
      layout::at_offset<HeapIndex>(directory, record.offset));
}

uint32_t direct_pick(const IndexRecord& record, const void* directory, Rng& rng, uint32_t count,
                     Pick* picks) {
  uint64_t capacity = capacity_of(directory);
  const SelectorRow* row = find(record, capacity);
  return row == nullptr ? 0 : row->direct_pick({record, directory, capacity}, rng, count, picks);
}

double direct_probability(const IndexRecord& record, const void* directory, uint32_t slot) {
  uint64_t capacity = capacity_of(directory);
  const SelectorRow* row = find(record, capacity);
  if (row == nullptr || slot >= capacity) return 0.0;
  return row->direct_probability({record, directory, capacity}, slot);
}

double direct_least_probability(const IndexRecord& record, const void* directory) {
  switch (record.selector) {
    case GEAR_SELECT_PRIORITIZED: return least_prioritized(record, directory);
    case GEAR_SELECT_RECENCY:
    case GEAR_SELECT_MIXTURE: return 0.0;
    case GEAR_SELECT_UNIFORM: {
      const auto* index = layout::at_offset<UniformIndex>(directory, record.offset);
      return 1.0 / static_cast<double>(std::max<uint64_t>(observe(index->count), 1));
    }
    case GEAR_SELECT_TOP_K: {
      const auto* index = layout::at_offset<HeapIndex>(directory, record.offset);
      return 1.0 / static_cast<double>(std::max<uint64_t>(observe(index->top_count), 1));
    }
    default: return 1.0;
  }
}

double priority_weight(double priority, double alpha, double epsilon) {
  double base = priority + epsilon;
  if (!(base > 0)) return 0.0;
  return std::clamp(alpha == 1.0 ? base : std::pow(base, alpha), kWeightMin, kWeightMax);
}

bool priority_valid(double priority) { return std::isfinite(priority) && priority >= 0; }

}  // namespace gear
