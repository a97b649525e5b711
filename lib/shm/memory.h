// Properties of memory that the kernel may or may not grant: how much is there, huge pages,
// residence, lock, node. lib/shm/segment.cc decides which are wanted; here is how each is had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace gear {

// "64.0 GiB", "12 bytes": for people.
std::string human_bytes(uint64_t bytes);

// Bytes that may still be allocated, and who says so.
struct MemoryRoom {
  uint64_t free_bytes;  // after the reserve
  uint64_t reserve_bytes;
  std::string where;  // "memory", "the memory limit of control group /x"
};

// The least of what the machine has available and what the control groups of this process allow,
// each less a reserve of 5 % of its size, so that an allocation that fits does not bring the OOM
// killer. `root` stands before /proc and /sys.
MemoryRoom memory_room(const std::string& root = "");

// The default size of hugetlb pages, 0 where the kernel has none, and how many of the pool nobody
// has or was promised.
struct HugePagePool {
  uint64_t page_bytes;
  uint64_t free_pages;
};
HugePagePool huge_page_pool(const std::string& root = "");

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
