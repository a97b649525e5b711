// What a dead server left: tables, channels and sessions are adopted, the rest is removed.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "server/conductor.h"
#include "server/ledger.h"
#include "server/session.h"
#include "shm/segment.h"
#include "shm/segment_names.h"

namespace gear {

// A table that contradicts itself. Its segments stay as they are, but for the state in its header, until it is dropped.
struct SetAsideTable {
  std::string name;
  uint64_t id;
  std::string why;
  Segment directory;
  TableData data;
};

struct Adopted {
  std::vector<Session> sessions;  // without sockets; of dead processes too
  std::vector<SetAsideTable> set_aside;
};

// EVERSION when any of them is of another build; nothing was changed then.
Status check_builds(const std::vector<SegmentName>& names);

// Removes all but tables that were set aside. Returns how many.
size_t discard_remains(const std::vector<SegmentName>& names);

// Tables that were set aside by a server that ended.
std::vector<SetAsideTable> find_set_aside(uint64_t instance_id);

// Before anyone is served. The tables and ports go to the conductor. What is half made, dropped or nobody's is removed, each
// with a line in the log. Errors: EMFILE, ENOMEM; what there was is left as it was.
Result<Adopted> adopt_remains(uint64_t instance_id, Ledger& ledger, Conductor& conductor);

// Removes the segments of a table that was set aside.
void drop_set_aside(uint64_t instance_id, uint64_t table_id);

}  // namespace gear
