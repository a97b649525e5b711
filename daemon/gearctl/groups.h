// gearctl table groups: documents about the consumer groups of a table.
#pragma once

#include <string>

#include "gearctl/output.h"
#include "gearctl/session.h"

namespace gear::daemon {

// {"table", "groups": [{"name", "consumers", "lag", ...}]}, in order of creation. A group dropped
// meanwhile is left out.
Json list_groups(gear_table* table, const std::string& name);
std::string render_groups(const Json& list);

}  // namespace gear::daemon
