#include "shm/segment_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <tuple>

#include "base/status.h"
#include "layout/fingerprint.h"

namespace gear {
namespace {

using layout::SegmentKind;

constexpr SegmentKind kKinds[] = {SegmentKind::kInstance, SegmentKind::kDirectory,
                                  SegmentKind::kData,     SegmentKind::kChannel,
                                  SegmentKind::kLedger,   SegmentKind::kLeases,
                                  SegmentKind::kGroup,    SegmentKind::kPart};

std::vector<SegmentName> list(std::optional<uint64_t> instance_id) {
  std::vector<SegmentName> names;
  DIR* folder = opendir(kSegmentFolder);
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    SegmentName name;
    if (!parse_segment_name(entry->d_name, &name) || name.uid != geteuid()) continue;
    if (!instance_id || name.instance_id == *instance_id) names.push_back(name);
  }
  closedir(folder);
  std::sort(names.begin(), names.end(), [](const SegmentName& a, const SegmentName& b) {
    return std::tie(a.instance_id, a.kind, a.object_id) <
           std::tie(b.instance_id, b.kind, b.object_id);
  });
  return names;
}

Descriptor open_to_look(const SegmentName& name) {
  return Descriptor(shm_open(("/" + name.text()).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0));
}

// A server makes its instance segment first, and takes a moment to finish and to lock it.
constexpr time_t kMakingSeconds = 10;

bool being_made(const SegmentName& name, const struct stat& file) {
  return name.kind == SegmentKind::kInstance && std::time(nullptr) - file.st_mtime < kMakingSeconds &&
         look_at_segment(name) == SegmentLook::kHalfMade;
}

}  // namespace

const char* kind_name(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::kInstance: return "instance";
    case SegmentKind::kDirectory: return "directory";
    case SegmentKind::kData: return "data";
    case SegmentKind::kChannel: return "channel";
    case SegmentKind::kLedger: return "ledger";
    case SegmentKind::kLeases: return "leases";
    case SegmentKind::kGroup: return "group";
    case SegmentKind::kPart: return "part";
  }
  return "unknown";
}

std::string SegmentName::text() const {
  return format("gear.%u.%016" PRIx64 ".%s.%" PRIx64, uid, instance_id, kind_name(kind), object_id);
}

bool parse_segment_name(const char* text, SegmentName* name) {
  char kind[16];
  if (sscanf(text, "gear.%" SCNu32 ".%16" SCNx64 ".%15[a-z].%16" SCNx64, &name->uid,
             &name->instance_id, kind, &name->object_id) != 4) {
    return false;
  }
  for (SegmentKind one : kKinds) {
    if (strcmp(kind, kind_name(one)) != 0) continue;
    name->kind = one;
    return name->text() == text;  // nothing behind it, no other spelling
  }
  return false;
}

std::vector<SegmentName> list_segments(uint64_t instance_id) { return list(instance_id); }
std::vector<SegmentName> list_segments() { return list(std::nullopt); }

bool remove_segment(const SegmentName& name) { return shm_unlink(("/" + name.text()).c_str()) == 0; }

SegmentLook look_at_segment(const SegmentName& name) {
  Descriptor file = open_to_look(name);
  struct stat seen;
  if (!file.valid() || fstat(file.get(), &seen) != 0 || !S_ISREG(seen.st_mode) ||
      seen.st_uid != geteuid()) {
    return SegmentLook::kBad;
  }
  layout::SegmentHeader header;
  if (pread(file.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
    return SegmentLook::kHalfMade;
  }
  if (header.magic == 0) return SegmentLook::kHalfMade;
  if (header.magic != layout::kSegmentMagic) return SegmentLook::kBad;
  bool ours = header.version == layout::kLayoutVersion && header.fingerprint == layout::kLayoutFingerprint;
  return ours ? SegmentLook::kWhole : SegmentLook::kForeign;
}

std::optional<DeadInstance> DeadInstance::hold(const std::vector<SegmentName>& segments) {
  DeadInstance dead;
  for (const SegmentName& name : segments) {
    if (clients_write(name.kind)) continue;  // clients would hold the lock too
    Descriptor file = open_to_look(name);
    struct stat seen;
    if (!file.valid() || fstat(file.get(), &seen) != 0) continue;  // it went
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 || being_made(name, seen)) return std::nullopt;
    dead.locks_.push_back(std::move(file));
  }
  return dead;
}

std::string socket_path_of(uint64_t instance_id) {
  SegmentName name{geteuid(), instance_id, SegmentKind::kInstance, 0};
  if (look_at_segment(name) != SegmentLook::kWhole) return "";
  Descriptor file = open_to_look(name);
  layout::InstanceSegment instance;
  if (pread(file.get(), &instance, sizeof instance, 0) != static_cast<ssize_t>(sizeof instance)) return "";
  return std::string(instance.socket_path, strnlen(instance.socket_path, sizeof instance.socket_path));
}

uint64_t bytes_of(const SegmentName& name) {
  Descriptor file = open_to_look(name);
  struct stat seen;
  return file.valid() && fstat(file.get(), &seen) == 0 ? static_cast<uint64_t>(seen.st_blocks) * 512 : 0;
}

}  // namespace gear
