#include "shm/memory.h"

#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace gear {
namespace {

bool not_granted(int errno_value) {
  return errno_value == EPERM || errno_value == ENOSYS;
}

// Whether a tmpfs mounted at /dev/shm ever gives huge pages: its own option decides, not the
// setting of the kernel.
bool folder_has_huge_pages() {
  std::string mounts = read_text("/proc/self/mounts");
  size_t at = mounts.find(" /dev/shm tmpfs ");
  if (at == std::string::npos) return false;
  std::string options = mounts.substr(at, mounts.find('\n', at) - at);
  return options.find("huge=") != std::string::npos &&
         options.find("huge=never") == std::string::npos;
}

}  // namespace

Status advise_huge_pages(const std::string& purpose, void* data, size_t bytes, bool named) {
  const char* const kSetting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  std::string setting = read_text(kSetting);
  bool denied = setting.empty() || setting.find("[deny]") != std::string::npos;
  bool forced = setting.find("[force]") != std::string::npos;
  if (named && !denied && !forced && !folder_has_huge_pages()) {
    return error(GEAR_EUNSUPPORTED,
                 "%s: huge pages: /dev/shm is not mounted with huge=advise; remount it so, or use "
                 "memory = memfd",
                 purpose.c_str());
  }
  if (denied || (!named && setting.find("[never]") != std::string::npos)) {
    return error(GEAR_EUNSUPPORTED, "%s: huge pages: %s forbids them; write \"advise\" to it",
                 purpose.c_str(), kSetting);
  }
  if (madvise(data, bytes, MADV_HUGEPAGE) == 0) return {};
  return error(GEAR_EUNSUPPORTED, "%s: huge pages: madvise(MADV_HUGEPAGE): %s (errno %d)",
               purpose.c_str(), strerror(errno), errno);
}

Status populate_pages(const std::string& purpose, void* data, size_t bytes) {
  while (madvise(data, bytes, MADV_POPULATE_WRITE) != 0) {
    int why = errno;
    if (why == EINTR || why == EAGAIN) continue;
    if (why == EINVAL || not_granted(why)) {
      return error(GEAR_EUNSUPPORTED,
                   "%s: populate: no MADV_POPULATE_WRITE here (Linux 5.14 has it; errno %d)",
                   purpose.c_str(), why);
    }
    // EFAULT: the store would have been a SIGBUS.
    return error(
        why == ENOMEM ? GEAR_ENOMEM : GEAR_ENOSPC,
        "%s: populate: %s asked, the system has no more pages for it: %s (errno %d); lower "
        "capacity",
        purpose.c_str(), human_bytes(bytes).c_str(), strerror(why), why);
  }
  return {};
}

Status lock_pages(const std::string& purpose, void* data, size_t bytes) {
  if (mlock(data, bytes) == 0) return {};
  int why = errno;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  std::string allowed = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : human_bytes(limit.rlim_cur);
  return error(
      GEAR_EMEMLOCK,
      "%s: lock: %s asked, RLIMIT_MEMLOCK is %s: %s (errno %d); raise it with ulimit -l or "
      "LimitMEMLOCK= of the service, or give CAP_IPC_LOCK, or use lock = try",
      purpose.c_str(), human_bytes(bytes).c_str(), allowed.c_str(), strerror(why), why);
}

Status bind_pages(const std::string& purpose, void* data, size_t bytes, int node) {
  if (numa_available() < 0) {
    return error(GEAR_EUNSUPPORTED,
                 "%s: numa_node %d: this kernel or container has no NUMA policies; use -1",
                 purpose.c_str(), node);
  }
  if (node < 0 || node > numa_max_node() ||
      !numa_bitmask_isbitset(numa_all_nodes_ptr, static_cast<unsigned>(node))) {
    return error(GEAR_EINVAL, "%s: numa_node %d: this machine has nodes 0 to %d; -1 is no binding",
                 purpose.c_str(), node, numa_max_node());
  }
  bitmask* nodes = numa_allocate_nodemask();
  numa_bitmask_setbit(nodes, static_cast<unsigned>(node));
  long result = mbind(data, bytes, MPOL_BIND, nodes->maskp, nodes->size + 1, 0);
  int why = errno;
  numa_free_nodemask(nodes);
  if (result == 0) return {};
  return error(not_granted(why) ? GEAR_EUNSUPPORTED : GEAR_ESYSTEM,
               "%s: numa_node %d: mbind: %s (errno %d); -1 is no binding", purpose.c_str(), node,
               strerror(why), why);
}

}  // namespace gear
