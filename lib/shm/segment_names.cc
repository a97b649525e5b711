#include "shm/segment_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>
#include <tuple>

#include "base/status.h"
#include "layout/fingerprint.h"
#include "shm/descriptor.h"

namespace gear {
namespace {

using layout::SegmentKind;

constexpr SegmentKind kKinds[] = {SegmentKind::kInstance, SegmentKind::kDirectory,
                                  SegmentKind::kData,     SegmentKind::kChannel,
                                  SegmentKind::kLedger,   SegmentKind::kLeases,
                                  SegmentKind::kGroup};

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
  Descriptor file(shm_open(("/" + name.text()).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0));
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

}  // namespace gear
