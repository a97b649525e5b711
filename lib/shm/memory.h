// Properties of memory that the kernel may or may not grant: huge pages, residence, lock, node. lib/shm/segment.cc decides which are wanted; here is how each is had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "shm/memory_room.h"

namespace gear {

// Each of these says with its status whether the property was had; `purpose` is the begin of the
// error's text.

// Transparent huge pages, for pages first touched from here on. `named`: memory of /dev/shm.
// EUNSUPPORTED.
Status advise_huge_pages(const std::string& purpose, void* data, size_t bytes, bool named);

// Touches every page; a page that is not to be had is an error and not a fault. ENOSPC, ENOMEM,
// EUNSUPPORTED (Linux before 5.14).
Status populate_pages(const std::string& purpose, void* data, size_t bytes);

// Keeps every page in memory. EMEMLOCK, with the value of RLIMIT_MEMLOCK.
Status lock_pages(const std::string& purpose, void* data, size_t bytes);

// Pages first touched from here on come from this node alone. EINVAL (no such node), EUNSUPPORTED,
// ESYSTEM.
Status bind_pages(const std::string& purpose, void* data, size_t bytes, int node);

}  // namespace gear
