// gearctl gc: what dead servers left in /dev/shm.
#pragma once

#include "gearctl/output.h"

namespace gear::daemon {

// The segments of this user whose server is dead, by server, of these instances or (none given) of all; with `remove` they go. Segments of a server that lives, and of
// other users, are never touched.
Json collect_orphans(const std::vector<std::string>& instances, bool remove);
std::string render_orphans(const Json& document);

}  // namespace gear::daemon
