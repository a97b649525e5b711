#include "shm/memory_room.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/status.h"
#include "shm/descriptor.h"

namespace gear {
namespace {

constexpr uint64_t kNoNumber = UINT64_MAX;
constexpr uint64_t kReserveDivisor = 20;

uint64_t parse_number(const char* text) {
  while (*text == ' ' || *text == ':') ++text;
  if (*text < '0' || *text > '9') return kNoNumber;
  return strtoull(text, nullptr, 10);
}

uint64_t number_in(const std::string& path) {
  return parse_number(read_text(path).c_str());
}

// The number on the line that begins with `key`.
uint64_t number_of(const std::string& text, const std::string& key) {
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, key.size(), key) == 0) return parse_number(text.c_str() + at + key.size());
    at = text.find('\n', at);
    if (at == std::string::npos) break;
    ++at;
  }
  return kNoNumber;
}

void take_smaller(MemoryRoom* room, uint64_t size, uint64_t available, std::string where) {
  uint64_t reserve = size / kReserveDivisor;
  uint64_t left = available > reserve ? available - reserve : 0;
  if (left < room->free_bytes) *room = MemoryRoom{left, reserve, std::move(where)};
}

// The files of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // line of memory.stat: page cache that goes when memory is needed
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file "};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file "};

void look_at_group(const std::string& folder, const std::string& group, const GroupFiles& files,
                   MemoryRoom* room) {
  uint64_t limit = number_in(folder + files.limit);
  uint64_t usage = number_in(folder + files.usage);
  // A number near 2^63 is how version 1 says that there is no limit.
  if (limit >= INT64_MAX / 2 || usage == kNoNumber) return;
  uint64_t reclaimable = number_of(read_text(folder + "memory.stat"), files.reclaimable);
  if (reclaimable == kNoNumber) reclaimable = 0;
  usage -= std::min(usage, reclaimable);
  take_smaller(room, limit, limit > usage ? limit - usage : 0,
               "the memory limit of control group " + group);
}

// A group and all above it: each has a limit of its own. In a container the path may be one that
// only the host sees; the mount itself is then this process's group, and it is always looked at.
void look_at_groups(const std::string& mount, std::string group, const GroupFiles& files,
                    MemoryRoom* room) {
  while (group.size() > 1) {
    look_at_group(mount + group + "/", group, files, room);
    size_t parent = group.rfind('/');
    group.resize(parent == std::string::npos ? 0 : parent);
  }
  look_at_group(mount + "/", "/", files, room);
}

// Lines of /proc/self/cgroup are hierarchy:controllers:path; version 2 has hierarchy 0 and no
// controllers.
void look_at_control_groups(const std::string& root, MemoryRoom* room) {
  std::string lines = read_text(root + "/proc/self/cgroup");
  for (size_t begin = 0; begin < lines.size();) {
    size_t end = std::min(lines.find('\n', begin), lines.size());
    std::string line = lines.substr(begin, end - begin);
    begin = end + 1;
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (line.compare(0, 3, "0::") == 0) {
      look_at_groups(root + "/sys/fs/cgroup", group, kVersion2, room);
      look_at_groups(root + "/sys/fs/cgroup/unified", group, kVersion2, room);
    } else if (controllers.find(",memory,") != std::string::npos) {
      look_at_groups(root + "/sys/fs/cgroup/memory", group, kVersion1, room);
    }
  }
}

}  // namespace

std::string read_text(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[4096];
  while (file.valid()) {
    ssize_t length = read(file.get(), part, sizeof part);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) break;
    text.append(part, static_cast<size_t>(length));
  }
  return text;
}

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1024) return format("%llu bytes", static_cast<unsigned long long>(bytes));
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return format("%.1f %s", value, unit);
}

MemoryRoom memory_room(const std::string& root) {
  MemoryRoom room{kNoNumber, 0, "memory"};
  std::string info = read_text(root + "/proc/meminfo");
  uint64_t total_kib = number_of(info, "MemTotal");
  uint64_t available_kib = number_of(info, "MemAvailable");
  if (total_kib != kNoNumber && available_kib != kNoNumber) {
    take_smaller(&room, total_kib * 1024, available_kib * 1024, "memory");
  }
  look_at_control_groups(root, &room);
  return room;
}

HugePagePool huge_page_pool(const std::string& root) {
  std::string info = read_text(root + "/proc/meminfo");
  uint64_t page_kib = number_of(info, "Hugepagesize");
  uint64_t free_pages = number_of(info, "HugePages_Free");
  uint64_t promised = number_of(info, "HugePages_Rsvd");
  if (page_kib == kNoNumber || free_pages == kNoNumber) return {0, 0};
  if (promised == kNoNumber) promised = 0;
  return {page_kib * 1024, free_pages - std::min(free_pages, promised)};
}

}  // namespace gear
