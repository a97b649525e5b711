// gearctl status: the server and its tables.
#pragma once

#include <string>

#include "gearctl/output.h"
#include "gearctl/session.h"

namespace gear::daemon {

// {"endpoint", "server": {...}, "tables": [...]}
Json server_status(gear_client* client, const std::string& endpoint);
std::string render_status(const Json& status);

}  // namespace gear::daemon
