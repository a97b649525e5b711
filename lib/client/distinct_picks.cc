#include "client/distinct_picks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/shared_word.h"

namespace gear::client {
namespace {

// Draws for one batch before what is left is gone through.
constexpr uint32_t kDrawsARow = 8;
constexpr uint32_t kDrawsMore = 64;

size_t place_of(uint32_t slot, size_t places) {
  return static_cast<size_t>((slot * 0x9e3779b97f4a7c15u) >> 32) & (places - 1);
}

}  // namespace

DistinctPicks::DistinctPicks(const TableView& table, const layout::IndexRecord& index,
                             uint32_t rows_max)
    : table_(table), index_(index), tried_(rows_max) {
  rest_.reserve(size_t{rows_max} + 1);
  // Room for rows that are drawn again, too.
  seen_.resize(std::bit_ceil(size_t{rows_max} * 4));
}

bool DistinctPicks::contains(uint32_t slot) const {
  for (size_t at = place_of(slot, seen_.size());; at = (at + 1) & (seen_.size() - 1)) {
    if (seen_[at].stamp != stamp_) return false;
    if (seen_[at].slot == slot) return true;
  }
}

bool DistinctPicks::add(uint32_t slot) {
  size_t at = place_of(slot, seen_.size());
  for (size_t looked = 0; seen_[at].stamp == stamp_; ++looked) {
    if (seen_[at].slot == slot || looked == seen_.size()) return false;
    at = (at + 1) & (seen_.size() - 1);
  }
  seen_[at] = {slot, stamp_};
  return true;
}

uint32_t DistinctPicks::draw(Rng& rng, uint32_t count, Pick* picks) {
  if (++stamp_ == 0) {
    std::fill(seen_.begin(), seen_.end(), Entry{});
    stamp_ = 1;
  }
  uint32_t made = 0;
  uint32_t draws_left = count * kDrawsARow + kDrawsMore;
  if (count >= peek(table_.header->counters.items)) draws_left = 0;
  while (made < count && draws_left > 0) {
    uint32_t many = std::min(count - made, draws_left);
    if (direct_pick(index_, table_.directory, rng, many, tried_.data()) != many) break;
    draws_left -= many;
    for (uint32_t i = 0; i < many; ++i) {
      if (add(tried_[i].slot)) picks[made++] = tried_[i];
    }
  }
  return made < count ? made + draw_rest(rng, count - made, picks + made) : made;
}

// Every item left waits an exponential time with its probability as the rate; those that come first are drawn, in that
// order: the same as one draw after the other. (Efraimidis and Spirakis, Weighted random sampling with a reservoir,
// 2006.)
uint32_t DistinctPicks::draw_rest(Rng& rng, uint32_t count, Pick* picks) {
  rest_.clear();
  for (uint32_t slot = 0; slot < table_.header->item_slots; ++slot) {
    if (peek(table_.items[slot].generation) % 2 == 0 || contains(slot)) continue;
    double probability = direct_probability(index_, table_.directory, slot);
    if (!(probability > 0)) continue;
    double arrival = -std::log1p(-rng.unit()) / probability;
    if (rest_.size() == count && !(arrival < rest_.front().arrival)) continue;
    rest_.push_back({arrival, {slot, probability}});
    std::push_heap(rest_.begin(), rest_.end());
    if (rest_.size() <= count) continue;
    std::pop_heap(rest_.begin(), rest_.end());
    rest_.pop_back();
  }
  std::sort_heap(rest_.begin(), rest_.end());
  for (size_t i = 0; i < rest_.size(); ++i) {
    picks[i] = rest_[i].pick;
    add(picks[i].slot);
  }
  return static_cast<uint32_t>(rest_.size());
}

}  // namespace gear::client
