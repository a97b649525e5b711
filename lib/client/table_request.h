// From a caller's table options to the request that the server checks.
#pragma once

#include <vector>

#include "base/status.h"
#include "gear.h"

namespace gear::client {

// A TableCreateRequest, its ColumnSpecs and SelectorSpecs, as one message body. Checked here is what has no place
// in the message: pointers, names, struct sizes and the number of columns; the rest is the server's
// to judge. Errors: EINVAL, ENAME, ESTRUCT, ESIZE.
Result<std::vector<char>> table_create_request(const gear_table_options& options);

}  // namespace gear::client
