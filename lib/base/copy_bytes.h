// memcpy for cells.
#pragma once

#include <cstddef>
#include <cstring>

namespace gear {

// Rewards, flags and actions become one load and one store: a call of memcpy would cost more than the copy.
inline void copy_bytes(void* to, const void* from, size_t bytes) {
  switch (bytes) {
    case 1: memcpy(to, from, 1); return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    default: memcpy(to, from, bytes);
  }
}

}  // namespace gear
