// What geard does as its own first client: it makes the tables that the configuration declares.
#pragma once

#include <vector>

#include "base/status.h"
#include "geard/config.h"
#include "geard/notify.h"

namespace gear::daemon {

// Connects to the server at `socket_path`, which must be served by another thread, and makes the
// tables. A table that exists already (an adopted one) is kept. Blocks while memory is allocated;
// ends early when the server stops.
Status make_tables(const std::string& socket_path, const std::vector<DeclaredTable>& tables,
                   const ServiceNotifier& notifier);

}  // namespace gear::daemon
