// UTF-8 validation.
#pragma once

#include <cstddef>

namespace gear {

// True for well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
bool valid_utf8(const char* text, size_t length);

}  // namespace gear
