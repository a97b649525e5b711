// How much memory there is still to be had, as the files of the kernel tell.
#pragma once

#include <cstdint>
#include <string>

namespace gear {

// Whole content of a small file of the kernel; empty when it cannot be read.
std::string read_text(const std::string& path);

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

}  // namespace gear
