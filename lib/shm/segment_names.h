// The names of segments in /dev/shm: which there are, whose they are, and how one goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout/segment.h"
#include "shm/descriptor.h"

namespace gear {

inline constexpr const char* kSegmentFolder = "/dev/shm";

const char* kind_name(layout::SegmentKind kind);  // "directory"

// Whether clients map segments of this kind writable: nothing in them decides anything.
constexpr bool clients_write(layout::SegmentKind kind) {
  using Kind = layout::SegmentKind;
  return kind == Kind::kChannel || kind == Kind::kData || kind == Kind::kPart;
}

// "gear.<uid>.<instance, 16 hex>.<kind>.<object, hex>"
struct SegmentName {
  uint32_t uid;
  uint64_t instance_id;
  layout::SegmentKind kind;
  uint64_t object_id;

  std::string text() const;
};

// False when the text is no name of a segment.
bool parse_segment_name(const char* text, SegmentName* name);

// Those of this user, of one instance or of all; ordered by instance, kind and object.
std::vector<SegmentName> list_segments(uint64_t instance_id);
std::vector<SegmentName> list_segments();

// Removes one, which this user owns. Its memory goes when nobody maps it. False when it is not there or not ours.
// Only for the holder of the instance's lock, or where nobody can hold it.
bool remove_segment(const SegmentName& name);

// What a segment's first bytes say, without mapping it.
enum class SegmentLook {
  kWhole,     // a segment of this build
  kHalfMade,  // its maker ended before it was whole
  kForeign,   // another layout version, or another fingerprint
  kBad        // cannot be read, not owned by this user, or no segment
};
SegmentLook look_at_segment(const SegmentName& name);

// Keeps servers from adopting the instance of these segments for as long as it lives, where no server has it now.
class DeadInstance {
 public:
  // nullopt: a server lives, or another process removes them, or it is being made this moment.
  static std::optional<DeadInstance> hold(const std::vector<SegmentName>& segments);

 private:
  std::vector<Descriptor> locks_;
};

// What the instance segment says of the server; "" when it has no path, or cannot be read.
std::string socket_path_of(uint64_t instance_id);
// Bytes of memory that the segment has; 0 when it is not there.
uint64_t bytes_of(const SegmentName& name);

}  // namespace gear
