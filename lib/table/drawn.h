// Draws: what a sampler was given, and what must be undone when it comes back.
#pragma once

#include <cstdint>

#include "layout/channel.h"
#include "layout/directory.h"

namespace gear {

// A range of rows that stays readable until it is let go.
struct Pin {
  uint32_t block = layout::kNone;
  uint32_t position = 0;
  uint32_t length = 0;
  uint32_t episode = layout::kNone;
};

// One draw, pinned.
struct Drawn {
  layout::DrawRecord record;
  Pin pin;
  uint32_t slot;
  uint64_t item_generation;
  uint64_t epoch;
};

// Which versions of items may be drawn: not those below the table's version less `lag`.
struct VersionFilter {
  uint32_t policy = 0;  // gear_version_policy
  uint64_t lag = 0;
};

}  // namespace gear
