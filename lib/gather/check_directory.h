// Whether a directory is one that a reader may walk.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace gear {

// Checks the constant words of a table's directory against the sizes of the two mappings: every array, index, column and cell lies
// within them, every count is in the bounds of its type. What changes while the table is used (items, blocks, marks, indexes) is
// checked where it is read. Reads nothing outside the mappings, whatever is in them. The constant words must stay what they are; that
// the server alone can write them is the kernel's affair (the descriptor is read-only). O(columns). Errors: EPROTOCOL, with the
// word that is wrong and its value.
Status check_directory(const void* directory, size_t directory_bytes, size_t data_bytes);

}  // namespace gear
