// Who may do what with a table: as for a file, by its owner and its nine permission bits.
#pragma once

#include "base/status.h"
#include "layout/directory.h"
#include "shm/message.h"

namespace gear {

inline constexpr uint32_t kTableModeDefault = 0600;

enum class Access : uint32_t {
  kRead = 4,       // open, attach, sample, describe
  kWrite = 2,      // change items and settings
  kReadWrite = 6,  // append: a writer is handed the data itself
  kOwn = 0         // drop, close, reset, drop a group
};

// Root, and the user the server runs as, whose processes can reopen its segments and end it anyway.
bool is_privileged(const Peer& who);

// OK, or EPERM with who, what, owner, mode and the remedy. `what` is the begin of the text ("open writer").
Status check_access(const layout::TableHeader& table, const Peer& who, Access wanted, const char* what);

// Permission bits of a table to be made: 0 means the default. Errors: EINVAL for more than the nine bits.
Result<uint32_t> table_mode(const char* table, uint32_t asked);

}  // namespace gear
