// What can be asked of the memory behind a segment, and what is fallen back to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace gear {

// How much memory this process may still take: the least of what the machine has available and what the memory cgroups
// leave, less a reserve of 1/20 so that the machine is not driven into its out-of-memory killer.
uint64_t memory_available();

// Bytes free in the file system of /dev/shm.
uint64_t dev_shm_free();

// "64.0 GiB", "512 B".
std::string human_bytes(uint64_t bytes);

// Each applies to a mapping; `want` is a gear_want. With GEAR_WANT_TRY a refusal is logged once a process and is no error.
Status advise_huge_pages(const std::string& purpose, void* data, size_t bytes, uint32_t want);
Status bind_to_node(const std::string& purpose, void* data, size_t bytes, int32_t node);
Status populate_pages(const std::string& purpose, void* data, size_t bytes, uint32_t want);
Status lock_pages(const std::string& purpose, void* data, size_t bytes, uint32_t want);

}  // namespace gear
