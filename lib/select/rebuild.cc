// What a conductor that died in the middle of a change left becomes an index again, under the eyes of direct samplers: the
// right content is computed beside it, and only words that differ are stored (of a sum tree, all above its leaves).

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/shared_word.h"
#include "select/heap.h"
#include "select/list.h"
#include "select/prioritized.h"
#include "select/recency.h"
#include "select/top_k.h"
#include "select/uniform.h"

namespace gear {
namespace {

using layout::kHeapFanOut;
using layout::kNone;

template <typename T>
void correct(T& word, T value) {
  if (memcmp(&word, &value, sizeof(T)) != 0) note(word, value);
}

// The place in which each of `members` is: those within [0, count) of `slots` stay where they are, the first time that one
// is met, as far as the new count allows; the others fill the gaps.
std::vector<uint32_t> keep_places(const uint32_t* slots, uint64_t count, uint64_t capacity,
                                  const std::vector<uint32_t>& members) {
  enum : uint8_t { kAbsent, kMember, kPlaced };
  std::vector<uint8_t> state(capacity, kAbsent);
  for (uint32_t slot : members) state[slot] = kMember;
  std::vector<uint32_t> places(members.size(), kNone);
  std::vector<uint32_t> others;
  for (uint64_t place = 0; place < std::min(count, capacity); ++place) {
    uint32_t slot = slots[place];
    if (slot >= capacity || state[slot] != kMember || place >= places.size()) continue;
    state[slot] = kPlaced;
    places[place] = slot;
  }
  for (uint32_t slot : members) {
    if (state[slot] == kMember) others.push_back(slot);
  }
  for (uint32_t& slot : places) {
    if (slot != kNone) continue;
    slot = others.back();
    others.pop_back();
  }
  return places;
}

std::vector<uint32_t> slots_of(const std::vector<Rebuilt>& live) {
  std::vector<uint32_t> slots;
  slots.reserve(live.size());
  for (const Rebuilt& item : live) slots.push_back(item.slot);
  return slots;
}

// Makes a heap of what is nearly one: what is in order already is not moved.
void make_heap(const HeapRun& run, const std::vector<double>& key_of, std::vector<uint32_t>* places) {
  std::vector<uint32_t>& heap = *places;
  auto before = [&](uint32_t a, uint32_t b) { return run.before(key_of[a], a, key_of[b], b); };
  for (uint64_t root = heap.size(); root-- > 0;) {
    uint32_t slot = heap[root];
    uint64_t node = root;
    for (;;) {
      uint64_t child = node * kHeapFanOut + 1;
      if (child >= heap.size()) break;
      uint64_t end = std::min<uint64_t>(child + kHeapFanOut, heap.size());
      uint64_t best = child;
      while (++child < end) {
        if (before(heap[child], heap[best])) best = child;
      }
      if (!before(heap[best], slot)) break;
      heap[node] = heap[best];
      node = best;
    }
    heap[node] = slot;
  }
}

void store_heap(const HeapArrays& arrays, uint64_t base, const std::vector<double>& key_of,
                const std::vector<uint32_t>& places) {
  for (uint64_t node = 0; node < places.size(); ++node) {
    uint32_t slot = places[node];
    correct(arrays.keys[base + node], key_of[slot]);
    correct(arrays.slots[base + node], slot);
    correct(arrays.position[slot], static_cast<uint32_t>(base + node));
  }
}

// Numbers of insertions (or changes) are given in order, each first to its slot and then counted. What has none is newer than
// all others: the newest, and a member of a prompt group that was shown before it.
void complete_number(uint64_t* numbers, uint64_t& given, const std::vector<Rebuilt>& live, uint32_t newest) {
  uint64_t largest = given;
  for (const Rebuilt& item : live) largest = std::max(largest, numbers[item.slot]);
  for (const Rebuilt& item : live) {
    if (numbers[item.slot] == 0 && item.slot != newest) note(numbers[item.slot], ++largest);
  }
  if (newest != kNone && numbers[newest] == 0) note(numbers[newest], ++largest);
  correct(given, largest);
}

}  // namespace

void UniformSelector::rebuild(const std::vector<Rebuilt>& live, uint32_t) {
  std::vector<uint32_t> places = keep_places(slots_, index_->count, index_->capacity, slots_of(live));
  for (uint64_t place = 0; place < places.size(); ++place) {
    correct(slots_[place], places[place]);
    correct(position_[places[place]], static_cast<uint32_t>(place));
  }
  publish(index_->count, uint64_t{places.size()});
}

void ListSelector::rebuild(const std::vector<Rebuilt>& live, uint32_t newest) {
  complete_number(number_, index_->insertions, live, newest);
  std::vector<std::pair<uint64_t, uint32_t>> in_order;
  in_order.reserve(live.size());
  for (const Rebuilt& item : live) in_order.emplace_back(number_[item.slot], item.slot);
  std::sort(in_order.begin(), in_order.end());
  uint32_t before = kNone;
  for (size_t i = 0; i < in_order.size(); ++i) {
    uint32_t slot = in_order[i].second;
    correct(previous_[slot], before);
    correct(next_[slot], i + 1 < in_order.size() ? in_order[i + 1].second : kNone);
    before = slot;
  }
  correct(index_->head, in_order.empty() ? kNone : in_order.front().second);
  correct(index_->tail, before);
  publish(index_->count, uint64_t{in_order.size()});
}

void HeapSelector::rebuild(const std::vector<Rebuilt>& live, uint32_t newest) {
  complete_number(arrays_.order, index_->changes, live, newest);
  std::vector<double> key_of(index_->capacity, 0.0);
  for (const Rebuilt& item : live) key_of[item.slot] = item.priority;
  std::vector<uint32_t> places = keep_places(arrays_.slots, index_->count, index_->capacity, slots_of(live));
  make_heap(heap_, key_of, &places);
  store_heap(arrays_, 0, key_of, places);
  publish(index_->count, uint64_t{places.size()});
}

void SmallestSelector::rebuild(const std::vector<Rebuilt>& live, uint32_t newest) {
  std::vector<Rebuilt> above_zero;
  std::copy_if(live.begin(), live.end(), std::back_inserter(above_zero),
               [](const Rebuilt& item) { return item.priority > 0; });
  HeapSelector::rebuild(above_zero, newest);
}

void TopKSelector::rebuild(const std::vector<Rebuilt>& live, uint32_t newest) {
  complete_number(arrays_.order, index_->changes, live, newest);
  std::vector<double> key_of(index_->capacity, 0.0);
  for (const Rebuilt& item : live) key_of[item.slot] = item.priority;
  std::vector<uint32_t> slots = slots_of(live);
  uint64_t top = std::min<uint64_t>(index_->top_places, slots.size());
  std::nth_element(slots.begin(), slots.begin() + static_cast<ptrdiff_t>(top), slots.end(),
                   [&](uint32_t a, uint32_t b) { return rest_.before(key_of[a], a, key_of[b], b); });
  std::vector<uint32_t> in_top(slots.begin(), slots.begin() + static_cast<ptrdiff_t>(top));
  std::vector<uint32_t> in_rest(slots.begin() + static_cast<ptrdiff_t>(top), slots.end());
  uint64_t had_top = std::min(index_->top_count, index_->top_places);
  uint64_t had_rest = std::min(index_->count - std::min(index_->count, had_top), index_->capacity - index_->top_places);
  in_top = keep_places(arrays_.slots, had_top, index_->capacity, in_top);
  in_rest = keep_places(arrays_.slots + rest_.base(), had_rest, index_->capacity, in_rest);
  make_heap(top_, key_of, &in_top);
  make_heap(rest_, key_of, &in_rest);
  store_heap(arrays_, 0, key_of, in_top);
  store_heap(arrays_, rest_.base(), key_of, in_rest);
  publish(index_->top_count, uint64_t{in_top.size()});
  publish(index_->count, uint64_t{live.size()});
}

void SumTreeWriter::rebuild(const std::vector<double>& weights, uint64_t count) {
  GEAR_ASSERT(weights.size() == index_->capacity, "%zu weights", weights.size());
  for (uint64_t slot = 0; slot < weights.size(); ++slot) correct(nodes_[slot], weights[slot]);
  // What fills a level up to whole nodes has no children: it must not be taken for a node that has some.
  for (uint32_t level = 0; level < shape_.level_count; ++level) {
    uint64_t end = level + 1 < shape_.level_count ? shape_.offset[level + 1] : shape_.doubles;
    for (uint64_t place = shape_.offset[level] + shape_.last_node(level) + 1; place < end; ++place) correct(nodes_[place], 0.0);
  }
  settle_all();
  publish(index_->count, count);
}

void PrioritizedSelector::rebuild(const std::vector<Rebuilt>& live, uint32_t) {
  std::vector<double> weights(tree_.capacity(), 0.0);
  for (const Rebuilt& item : live) weights[item.slot] = weight(item.priority);
  tree_.rebuild(weights, live.size());
}

// Leaves that differ from their weights by rounding alone stay: they were scaled, and are as right. After a death in a
// scaling they may be of either scale, and no reader draws before the epoch is even.
void RecencySelector::rebuild(const std::vector<Rebuilt>& live, uint32_t newest) {
  complete_number(number_, index_->insertions, live, newest);
  uint64_t latest = 0;
  for (const Rebuilt& item : live) latest = std::max(latest, number_[item.slot]);
  bool scaling = index_->epoch % 2 == 1;
  double newest_exponent = exponent(latest);
  bool usual = newest_exponent <= kRecencyExponentMost && newest_exponent >= -kRecencyExponentMost;
  bool rescale = scaling || live.size() <= 1 || !usual;  // not a number neither
  if (rescale) {
    if (!scaling) note(index_->epoch, index_->epoch + 1);
    fence_generation_before_payload();
    note(index_->base, latest);
    note(index_->offset, 0.0);
  }
  std::vector<double> weights(index_->capacity, 0.0);
  for (const Rebuilt& item : live) {
    double right = weight(number_[item.slot]);
    double leaf = tree_.leaves()[item.slot];
    bool near = !rescale && std::abs(leaf - right) <= 1e-9 * right;
    weights[item.slot] = near ? leaf : right;
  }
  tree_.rebuild(weights, live.size());
  if (rescale) publish(index_->epoch, index_->epoch + 1);
  if (!live.empty() && tree_.total() < kRecencyTotalLeast) scale_to(latest);
}

}  // namespace gear
