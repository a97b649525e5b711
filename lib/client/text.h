// Words for error texts.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace gear::client {

// "20 ms", "1.5 s".
std::string duration_text(int64_t duration_ns);

// "u8 [84,84]", "f32 []", "bytes(5) [3]"; what the caller may have made up is shown as it is.
std::string shape_text(uint32_t dtype, uint32_t element_bytes, uint32_t rank, const int64_t* shape);

// A name given to the library: NULL is EINVAL; empty, over 255 bytes or not UTF-8 is ENAME. `what`
// is "open table: name".
Status check_name(const char* what, const char* name);

// The same for consumer groups, whose names have at most 63 bytes.
Status check_group_name(const char* name);

}  // namespace gear::client
