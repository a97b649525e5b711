// The order of an epoch: a permutation that follows from count, seed and epoch alone, computed place by place.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/rng.h"

namespace gear::client {

// A Feistel network over a power of two of numbers, at least `count` and, but for small counts, less than twice that;
// numbers from `count` on are sent through it again until one below comes out (cycle walking; Black and Rogaway, Ciphers
// with Arbitrary Finite Domains, 2002). Not for secrets. Integers only, so the same on any machine.
//
// Constant; any thread. at is O(1) expected, allocates nothing.
class EpochOrder {
 public:
  EpochOrder() : EpochOrder(1, 0, 0) {}
  EpochOrder(uint64_t count, uint64_t seed, uint64_t epoch) : count_(count) {
    // Small counts walk through a larger domain: networks of a few bits reach few permutations.
    uint32_t bits = std::max(kBitsLeast, static_cast<uint32_t>(std::bit_width(count - 1)));
    low_bits_ = bits / 2;
    low_mask_ = (uint64_t{1} << low_bits_) - 1;
    high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
    // Epochs that follow one another, and seeds, must not lead to keys that are alike.
    Rng keys(Rng(seed).next() + Rng(~epoch).next());
    for (uint64_t& key : keys_) key = keys.next();
  }

  // The number at `place`, both below count.
  uint64_t at(uint64_t place) const {
    do {
      place = mix(place);
    } while (place >= count_);
    return place;
  }

 private:
  static constexpr uint32_t kBitsLeast = 8;
  static constexpr int kRounds = 8;

  uint64_t mix(uint64_t number) const {
    uint64_t low = number & low_mask_;
    uint64_t high = number >> low_bits_;
    for (int round = 0; round < kRounds; round += 2) {
      low ^= scramble(high + keys_[round]) & low_mask_;
      high ^= scramble(low + keys_[round + 1]) & high_mask_;
    }
    return high << low_bits_ | low;
  }
  static uint64_t scramble(uint64_t x) {
    x = (x ^ (x >> 32)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
    return x >> 32;
  }

  uint64_t count_;
  uint32_t low_bits_;
  uint64_t low_mask_;
  uint64_t high_mask_;
  uint64_t keys_[kRounds];
};

}  // namespace gear::client
