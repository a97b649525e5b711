// The tables of a chaos run and the whole truth about each of their rows.
#pragma once

#include <cstdint>
#include <cstring>

#include "gear.h"

namespace gear::chaos {

inline constexpr uint32_t kWords = 24;
enum Column : uint32_t { kId, kSeq, kData };

inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

struct Row {
  uint64_t id;
  uint64_t seq;
  uint64_t data[kWords];
};

inline uint64_t word_of(uint64_t id, uint64_t seq, uint32_t i) {
  return mix(id * 0x9e3779b97f4a7c15u + seq * 1048583 + i);
}

inline void fill(Row* row, uint64_t id, uint64_t seq) {
  row->id = id;
  row->seq = seq;
  for (uint32_t i = 0; i < kWords; ++i) row->data[i] = word_of(id, seq, i);
}

inline bool whole(uint64_t id, uint64_t seq, const uint64_t* data) {
  for (uint32_t i = 0; i < kWords; ++i) {
    if (data[i] != word_of(id, seq, i)) return false;
  }
  return true;
}

}  // namespace gear::chaos
