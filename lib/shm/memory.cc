#include "shm/memory.h"

#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/log.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace gear {
namespace {

// A number in a file of /sys or /proc; `missing` when there is none (as cgroup's "max").
uint64_t read_number(const char* path, uint64_t missing) {
  FILE* file = fopen(path, "re");
  if (file == nullptr) return missing;
  unsigned long long value = 0;
  bool read = fscanf(file, "%llu", &value) == 1;
  fclose(file);
  return read ? value : missing;
}

uint64_t machine_available() {
  FILE* file = fopen("/proc/meminfo", "re");
  if (file == nullptr) return UINT64_MAX;
  char line[128];
  unsigned long long kib = 0;
  uint64_t bytes = UINT64_MAX;
  while (fgets(line, sizeof line, file) != nullptr) {
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) bytes = kib * 1024;
  }
  fclose(file);
  return bytes;
}

uint64_t cgroup_available() {
  uint64_t limit = read_number("/sys/fs/cgroup/memory.max", UINT64_MAX);
  if (limit == UINT64_MAX) return UINT64_MAX;
  uint64_t used = read_number("/sys/fs/cgroup/memory.current", 0);
  return limit > used ? limit - used : 0;
}

// A property that was tried and not had: an error when required, else one log line a process.
Status fell_back(const std::string& purpose, uint32_t want, int code, const std::string& text,
                 std::atomic<bool>* logged) {
  if (want == GEAR_WANT_REQUIRED) return error(code, "%s: %s", purpose.c_str(), text.c_str());
  if (!logged->exchange(true)) log(LogLevel::kWarning, "%s: %s", purpose.c_str(), text.c_str());
  return {};
}

}  // namespace

uint64_t memory_available() {
  uint64_t available = std::min(machine_available(), cgroup_available());
  return available == UINT64_MAX ? available : available - available / 20;
}

uint64_t dev_shm_free() {
  struct statvfs status;
  if (statvfs("/dev/shm", &status) != 0) return 0;
  return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
}

std::string human_bytes(uint64_t bytes) {
  static const char* const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? format("%.0f B", value) : format("%.1f %s", value, kUnits[unit]);
}

Status advise_huge_pages(const std::string& purpose, void* data, size_t bytes, uint32_t want) {
  static std::atomic<bool> logged{false};
  if (want != GEAR_WANT_TRY || madvise(data, bytes, MADV_HUGEPAGE) == 0) return {};
  return fell_back(purpose, want, GEAR_EUNSUPPORTED,
                   format("huge pages not advised (%s); going on with 4 KiB pages", strerror(errno)),
                   &logged);
}

Status bind_to_node(const std::string& purpose, void* data, size_t bytes, int32_t node) {
  if (node < 0) return {};
  if (numa_available() < 0) {
    return error(GEAR_EUNSUPPORTED, "%s: numa_node %d asked, this kernel has no NUMA policy; use -1",
                 purpose.c_str(), node);
  }
  if (node > numa_max_node()) {
    return error(GEAR_EINVAL, "%s: numa_node %d asked, the highest node is %d", purpose.c_str(), node,
                 numa_max_node());
  }
  bitmask* nodes = numa_allocate_nodemask();
  numa_bitmask_setbit(nodes, static_cast<unsigned>(node));
  long bound = mbind(data, bytes, MPOL_BIND, nodes->maskp, nodes->size + 1, 0);
  int bind_errno = errno;
  numa_free_nodemask(nodes);
  if (bound == 0) return {};
  return error(GEAR_EUNSUPPORTED, "%s: binding to NUMA node %d: %s; use -1", purpose.c_str(), node,
               strerror(bind_errno));
}

Status populate_pages(const std::string& purpose, void* data, size_t bytes, uint32_t want) {
  static std::atomic<bool> logged{false};
  if (want == GEAR_WANT_NO || madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return {};
  if (errno == EFAULT || errno == ENOMEM) {
    return error(GEAR_ENOMEM, "%s: populating %s: %s; lower capacity", purpose.c_str(),
                 human_bytes(bytes).c_str(), strerror(errno));
  }
  return fell_back(purpose, want, GEAR_EUNSUPPORTED,
                   format("pages not populated (%s); they are at first use", strerror(errno)), &logged);
}

Status lock_pages(const std::string& purpose, void* data, size_t bytes, uint32_t want) {
  static std::atomic<bool> logged{false};
  if (want == GEAR_WANT_NO || mlock(data, bytes) == 0) return {};
  int lock_errno = errno;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return fell_back(purpose, want, GEAR_EMEMLOCK,
                   format("locking %s: %s; RLIMIT_MEMLOCK is %s: raise it (ulimit -l, LimitMEMLOCK=) or use lock = no",
                          human_bytes(bytes).c_str(), strerror(lock_errno),
                          limit.rlim_cur == RLIM_INFINITY ? "unlimited"
                                                          : human_bytes(limit.rlim_cur).c_str()),
                   &logged);
}

}  // namespace gear
