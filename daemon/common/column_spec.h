// A column of a table that is to be made, as "name:dtype[:shape][:episode|:optional]".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/parsed.h"

namespace gear::daemon {

inline constexpr char kPerEpisodeOrOptional[] =
    "is per episode and optional; only a column per step can be optional, leave out one of the two";

struct ColumnSpec {
  std::string name;
  uint32_t dtype = 0;          // gear_dtype
  uint32_t element_bytes = 0;  // GEAR_BYTES only
  std::vector<int64_t> shape;
  bool per_episode = false;
  bool optional = false;  // a step may come without it; not with per_episode
};

// "reward:f32", "obs:u8:84x84x4", "goal:f32:8:episode", "reply:i32:optional", "blob:bytes16:2". A
// name may hold colons: what follows the last ones is dtype and shape.
Parsed<ColumnSpec> parse_column(const std::string& text);

// "f32", or "bytes16" with the bytes an element; sets dtype and element_bytes.
Parsed<ColumnSpec> parse_dtype(const std::string& text);

// "84x84x4"; "" is a scalar.
Parsed<std::vector<int64_t>> parse_shape(const std::string& text);

std::string format_dtype(uint32_t dtype, uint32_t element_bytes);
std::string format_shape(const std::vector<int64_t>& shape);  // "84x84x4", "scalar"

}  // namespace gear::daemon
