// The selectors there are: one row each.

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "layout/segment.h"
#include "select/direct.h"
#include "select/fifo.h"
#include "select/prioritized.h"
#include "select/selector.h"
#include "select/uniform.h"

namespace gear {
namespace {

using layout::FifoIndex;
using layout::IndexRecord;
using layout::SumTreeIndex;
using layout::UniformIndex;

struct SelectorRow {
  uint32_t selector;
  uint64_t (*bytes)(uint64_t capacity);
  void (*format)(void* index, uint64_t capacity);
  std::unique_ptr<Selector> (*open)(const IndexRecord& record, void* index);
  uint32_t (*direct_pick)(const void* index, uint64_t capacity, Rng& rng, uint32_t count,
                          Pick* picks);
};

const SelectorRow kSelectors[] = {
    {GEAR_SELECT_UNIFORM, uniform_index_bytes,
     [](void* index, uint64_t capacity) {
       format_uniform(static_cast<UniformIndex*>(index), capacity);
     },
     [](const IndexRecord&, void* index) -> std::unique_ptr<Selector> {
       return std::make_unique<UniformSelector>(static_cast<UniformIndex*>(index));
     },
     [](const void* index, uint64_t capacity, Rng& rng, uint32_t count, Pick* picks) {
       return uniform_direct_pick(static_cast<const UniformIndex*>(index), capacity, rng, count,
                                  picks);
     }},
    {GEAR_SELECT_FIFO, fifo_index_bytes,
     [](void* index, uint64_t capacity) { format_fifo(static_cast<FifoIndex*>(index), capacity); },
     [](const IndexRecord&, void* index) -> std::unique_ptr<Selector> {
       return std::make_unique<FifoSelector>(static_cast<FifoIndex*>(index));
     },
     [](const void* index, uint64_t capacity, Rng&, uint32_t count, Pick* picks) {
       return fifo_direct_pick(static_cast<const FifoIndex*>(index), capacity, count, picks);
     }},
    {GEAR_SELECT_PRIORITIZED, sum_tree_bytes,
     [](void* index, uint64_t capacity) {
       format_sum_tree(static_cast<SumTreeIndex*>(index), capacity);
     },
     [](const IndexRecord& record, void* index) -> std::unique_ptr<Selector> {
       return std::make_unique<PrioritizedSelector>(static_cast<SumTreeIndex*>(index),
                                                    record.alpha, record.epsilon);
     },
     [](const void* index, uint64_t capacity, Rng& rng, uint32_t count, Pick* picks) {
       return sum_tree_direct_pick(static_cast<const SumTreeIndex*>(index), capacity, rng, count,
                                   picks);
     }},
};

const SelectorRow* find(uint32_t selector) {
  for (const SelectorRow& row : kSelectors) {
    if (row.selector == selector) return &row;
  }
  return nullptr;
}

}  // namespace

uint64_t selector_index_bytes(uint32_t selector, uint64_t capacity) {
  const SelectorRow* row = find(selector);
  return row == nullptr ? 0 : layout::align_up(row->bytes(capacity), layout::kContentionBytes);
}

void format_index(const IndexRecord& record, void* directory, uint64_t capacity) {
  const SelectorRow* row = find(record.selector);
  GEAR_ASSERT(row != nullptr, "selector %u", record.selector);
  row->format(layout::at_offset<char>(directory, record.offset), capacity);
}

std::unique_ptr<Selector> open_selector(const IndexRecord& record, void* directory) {
  const SelectorRow* row = find(record.selector);
  GEAR_ASSERT(row != nullptr, "selector %u", record.selector);
  return row->open(record, layout::at_offset<char>(directory, record.offset));
}

uint32_t direct_pick(const IndexRecord& record, const void* directory, Rng& rng, uint32_t count,
                     Pick* picks) {
  const SelectorRow* row = find(record.selector);
  if (row == nullptr) return 0;
  uint64_t capacity = static_cast<const layout::TableHeader*>(directory)->item_slots;
  // Both are the conductor's words: what they say together stays within the index.
  if (row->bytes(capacity) > record.bytes) return 0;
  return row->direct_pick(layout::at_offset<char>(directory, record.offset), capacity, rng, count,
                          picks);
}

double priority_weight(double priority, double alpha, double epsilon) {
  double base = priority + epsilon;
  if (!(base > 0)) return 0.0;
  return std::clamp(alpha == 1.0 ? base : std::pow(base, alpha), kWeightMin, kWeightMax);
}

bool priority_valid(double priority) { return std::isfinite(priority) && priority >= 0; }

}  // namespace gear
