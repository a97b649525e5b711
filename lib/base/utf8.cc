#include "base/utf8.h"

#include <cstdint>

namespace gear {

bool valid_utf8(const char* text, size_t length) {
  const auto* byte = reinterpret_cast<const uint8_t*>(text);
  size_t at = 0;
  while (at < length) {
    uint8_t lead = byte[at++];
    if (lead < 0x80) continue;
    size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || length - at < more) return false;
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte[at] < low || byte[at] > high) return false;
    for (size_t i = 1; i < more; ++i) {
      if ((byte[at + i] & 0xc0) != 0x80) return false;
    }
    at += more;
  }
  return true;
}

}  // namespace gear
