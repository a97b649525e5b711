#include "gearctl/gc.h"

#include <algorithm>
#include <map>

#include "base/status.h"
#include "common/quantity.h"
#include "shm/segment_names.h"

namespace gear::daemon {
namespace {

std::map<uint64_t, std::vector<SegmentName>> segments_by_instance() {
  std::map<uint64_t, std::vector<SegmentName>> instances;
  for (const SegmentName& name : list_segments()) instances[name.instance_id].push_back(name);
  return instances;
}

std::string text_of(uint64_t instance_id) {
  return format("%016llx", static_cast<unsigned long long>(instance_id));
}

Json describe_orphan(uint64_t instance_id, const std::vector<SegmentName>& segments) {
  uint64_t bytes = 0;
  uint64_t tables = 0;
  Json orphan;
  orphan["instance_id"] = text_of(instance_id);
  orphan["socket"] = socket_path_of(instance_id);
  orphan["names"] = Json::array();
  for (const SegmentName& name : segments) {
    bytes += bytes_of(name);
    tables += name.kind == layout::SegmentKind::kDirectory ? 1 : 0;
    orphan["names"].push_back(name.text());
  }
  orphan["tables"] = tables;
  orphan["bytes"] = bytes;
  return orphan;
}

}  // namespace

Json collect_orphans(const std::vector<std::string>& instances, bool remove) {
  Json document;
  uint64_t living = 0;
  document["orphans"] = Json::array();
  for (const auto& [id, seen] : segments_by_instance()) {
    const bool asked = instances.empty() || std::count(instances.begin(), instances.end(), text_of(id)) > 0;
    if (!asked) continue;
    const std::optional<DeadInstance> dead = DeadInstance::hold(seen);
    if (!dead) {
      ++living;
      continue;
    }
    // Nobody adds to them, or adopts them, from here on.
    const std::vector<SegmentName> segments = list_segments(id);
    if (segments.empty()) continue;
    Json orphan = describe_orphan(id, segments);
    uint64_t removed = 0;
    for (const SegmentName& name : segments) removed += remove && remove_segment(name) ? 1 : 0;
    orphan["removed"] = removed;
    document["orphans"].push_back(std::move(orphan));
  }
  document["living"] = living;
  document["removing"] = remove;
  return document;
}

std::string render_orphans(const Json& document) {
  if (document["orphans"].empty()) return "no dead server left anything\n";
  TextTable table({"INSTANCE", "SOCKET", "TABLES", "SEGMENTS", "BYTES", "REMOVED"},
                  {false, false, true, true, true, true});
  for (const Json& orphan : document["orphans"]) {
    const std::string socket = orphan["socket"].get<std::string>();
    table.add({orphan["instance_id"].get<std::string>(), socket.empty() ? "-" : printable(socket),
               orphan["tables"].dump(), std::to_string(orphan["names"].size()),
               format_bytes(orphan["bytes"].get<uint64_t>()), orphan["removed"].dump()});
  }
  if (document["removing"].get<bool>()) return table.text();
  return table.text() +
         "\nNothing was removed. A geard that is started on one of these sockets adopts what is there; "
         "gearctl gc --force\nremoves it for good.\n";
}

}  // namespace gear::daemon
