#include "select/mixture.h"

#include <algorithm>

#include "base/shared_word.h"
#include "layout/index.h"

namespace gear {
namespace {

using layout::IndexRecord;
using layout::kNamedSelectorsMax;
using layout::TableHeader;

// Draws worked on together.
constexpr uint32_t kTogether = 64;
// Rounds in a row in which a component that could draw did not, as can be while the table changes.
constexpr uint32_t kBarrenRoundsMax = 16;

// The named selectors that can draw now, and their shares.
struct Components {
  const IndexRecord* records[kNamedSelectorsMax];
  double share[kNamedSelectorsMax];  // sum to 1
  uint32_t count = 0;

  explicit Components(const void* directory) {
    const auto* header = static_cast<const TableHeader*>(directory);
    double sum = 0;
    uint32_t named = std::min(header->named_count, kNamedSelectorsMax);
    for (uint32_t i = 0; i < named && header->named_index + i < layout::kIndexesMax; ++i) {
      const IndexRecord& record = header->indexes[header->named_index + i];
      if (!(record.proportion > 0) || record.selector == GEAR_SELECT_MIXTURE) continue;
      if (!can_draw(record, directory)) continue;
      records[count] = &record;
      share[count++] = record.proportion;
      sum += record.proportion;
    }
    for (uint32_t i = 0; i < count; ++i) share[i] /= sum;
  }

  // Every index begins with the capacity and, but for recency, whose tree has it, the count.
  static bool can_draw(const IndexRecord& record, const void* directory) {
    const char* index = layout::at_offset<char>(directory, record.offset);
    if (record.selector == GEAR_SELECT_RECENCY) index += sizeof(layout::RecencyIndex);
    if (record.selector == GEAR_SELECT_RECENCY || record.selector == GEAR_SELECT_PRIORITIZED) {
      return observe(reinterpret_cast<const layout::SumTreeIndex*>(index)->total) > 0;
    }
    return observe(reinterpret_cast<const layout::UniformIndex*>(index)->count) > 0;
  }

  uint32_t choose(double unit) const {
    uint32_t chosen = 0;
    while (chosen + 1 < count && unit >= share[chosen]) unit -= share[chosen++];
    return chosen;
  }

  // The probability under the whole of a slot that came from component `from` with probability `pick.probability`.
  double whole(const void* directory, uint32_t from, const Pick& pick) const {
    double sum = share[from] * pick.probability;
    for (uint32_t i = 0; i < count; ++i) {
      if (i != from) sum += share[i] * direct_probability(*records[i], directory, pick.slot);
    }
    return sum;
  }
};

static_assert(offsetof(layout::UniformIndex, count) == offsetof(layout::ListIndex, count) &&
              offsetof(layout::UniformIndex, count) == offsetof(layout::HeapIndex, count));

// Up to kTogether draws: first which component each comes from, then those of each component together.
uint32_t draw(const Components& components, const void* directory, Rng& rng, uint32_t many,
              Pick* picks) {
  uint8_t from[kTogether];
  uint32_t of_component[kNamedSelectorsMax] = {};
  for (uint32_t i = 0; i < many; ++i) {
    from[i] = static_cast<uint8_t>(components.choose(rng.unit()));
    ++of_component[from[i]];
  }
  Pick drawn[kNamedSelectorsMax][kTogether];
  for (uint32_t j = 0; j < components.count; ++j) {
    uint32_t wanted = of_component[j];
    if (wanted == 0) continue;
    if (direct_pick(*components.records[j], directory, rng, wanted, drawn[j]) != wanted) return 0;
  }
  for (uint32_t i = many; i-- > 0;) picks[i] = drawn[from[i]][--of_component[from[i]]];
  for (uint32_t i = 0; i < many; ++i) {
    picks[i].probability = components.whole(directory, from[i], picks[i]);
  }
  return many;
}

}  // namespace

uint64_t MixtureSelector::count() const {
  const auto* header = static_cast<const TableHeader*>(directory_);
  return header->counters.items;
}

uint32_t mixture_direct_pick(const void* directory, Rng& rng, uint32_t count, Pick* picks) {
  uint32_t made = 0;
  for (uint32_t barren = 0; made < count;) {
    // A component that became empty since is left out from here on.
    Components components(directory);
    if (components.count == 0 || barren == kBarrenRoundsMax) return 0;
    uint32_t drawn = draw(components, directory, rng, std::min(kTogether, count - made), picks + made);
    made += drawn;
    barren = drawn > 0 ? 0 : barren + 1;
  }
  return made;
}

double mixture_direct_probability(const void* directory, uint32_t slot) {
  Components components(directory);
  double sum = 0;
  for (uint32_t i = 0; i < components.count; ++i) {
    sum += components.share[i] * direct_probability(*components.records[i], directory, slot);
  }
  return sum;
}

}  // namespace gear
