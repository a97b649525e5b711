#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/quantity.h"
#include "gearctl/doctor.h"
#include "shm/memory_room.h"

namespace gear::daemon {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kShmLeast = kGiB;
constexpr uint64_t kMemlockLeast = kGiB;
constexpr uint64_t kNofileLeast = 4096;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The number after "name:" in /proc/meminfo; 0 where it is missing.
uint64_t meminfo(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0)
      return strtoull(line.c_str() + name.size() + 1, nullptr, 10);
  }
  return 0;
}

std::string limit_text(rlim_t limit, bool in_bytes) {
  if (limit == RLIM_INFINITY) return "unlimited";
  return in_bytes ? format_bytes(limit) : std::to_string(limit);
}

}  // namespace

Finding check_shm() {
  struct statvfs status;
  if (statvfs("/dev/shm", &status) != 0) {
    return {"shm", Verdict::kFail, std::string("/dev/shm: ") + strerror(errno),
            "mount -t tmpfs -o mode=1777 tmpfs /dev/shm, or use geard --memory memfd"};
  }
  if (access("/dev/shm", W_OK) != 0) {
    return {"shm", Verdict::kFail, std::string("/dev/shm is not writable: ") + strerror(errno),
            "chmod 1777 /dev/shm, or use geard --memory memfd"};
  }
  const uint64_t size = status.f_blocks * status.f_frsize;
  const uint64_t free = status.f_bavail * status.f_frsize;
  const std::string found = "/dev/shm: " + format_bytes(free) + " free of " + format_bytes(size);
  if (size < kShmLeast) {
    return {"shm", Verdict::kWarn, found,
            "mount -o remount,size=8G /dev/shm (in a container: docker run --shm-size=8g), or use "
            "geard --memory memfd"};
  }
  if (free < size / 10) {
    return {"shm", Verdict::kWarn, found, "remove what is left over in /dev/shm, or drop tables"};
  }
  return {"shm", Verdict::kOk, found, ""};
}

Finding check_memory_cgroup() {
  const MemoryRoom room = memory_room();
  return {"cgroup", Verdict::kOk,
          "room for " + format_bytes(room.free_bytes) + " of tables, by " + room.where +
              "; shared memory counts, whether posix or memfd",
          ""};
}

Finding check_memlock() {
  struct rlimit limit;
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string found = "RLIMIT_MEMLOCK: " + limit_text(limit.rlim_cur, true);
  if (limit.rlim_cur >= kMemlockLeast || geteuid() == 0) {
    return {"memlock", Verdict::kOk,
            found + (limit.rlim_cur < kMemlockLeast ? "; root is not bound by it" : ""), ""};
  }
  return {"memlock", Verdict::kWarn, found,
          "for tables with lock, and for RDMA: LimitMEMLOCK=infinity in the unit, or memlock in "
          "/etc/security/limits.conf"};
}

Finding check_nofile() {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string found = "RLIMIT_NOFILE: " + limit_text(limit.rlim_cur, false) + " (hard " +
                            limit_text(limit.rlim_max, false) + ")";
  if (limit.rlim_cur >= kNofileLeast) return {"nofile", Verdict::kOk, found, ""};
  return {
      "nofile", Verdict::kWarn, found,
      "a client costs geard about four descriptors: ulimit -n 65536, or LimitNOFILE= in the unit"};
}

Finding check_huge_pages() {
  const uint64_t total = meminfo("HugePages_Total");
  const uint64_t free = meminfo("HugePages_Free");
  const uint64_t page_bytes = meminfo("Hugepagesize") * 1024;
  const std::string found = std::to_string(free) + " free of " + std::to_string(total) +
                            " huge pages of " + format_bytes(page_bytes);
  if (total != 0) return {"huge_pages", Verdict::kOk, found, ""};
  return {"huge_pages", Verdict::kOk, found,
          "only for tables with huge_pages = required: sysctl vm.nr_hugepages=N"};
}

Finding check_transparent_huge_pages() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  const size_t open = line.find('[');
  const size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos) {
    return {"thp", Verdict::kWarn, "no transparent huge pages in this kernel",
            "tables with huge_pages = try get pages of 4 KiB"};
  }
  const std::string mode = line.substr(open + 1, close - open - 1);
  const std::string found = "transparent huge pages of shared memory: " + mode;
  if (mode != "never" && mode != "deny") return {"thp", Verdict::kOk, found, ""};
  return {"thp", Verdict::kWarn, found,
          "for tables with huge_pages = try: echo advise > "
          "/sys/kernel/mm/transparent_hugepage/shmem_enabled"};
}

}  // namespace gear::daemon
