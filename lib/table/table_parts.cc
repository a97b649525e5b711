// Parts of the data: which writer stores into which.

#include <map>

#include "base/shared_word.h"
#include "table/table.h"

namespace gear {

using layout::kNone;
using layout::PartRecord;

uint32_t Table::part_of(uint32_t channel) const {
  if (!parted()) return 0;
  if (channel == 0) return kNone;
  for (uint32_t part = 0; part < header_->parts; ++part) {
    if (parts_[part].channel == channel) return part;
  }
  return kNone;
}

// A free one of its own first: those that nobody ever had are all that is left for other users.
uint32_t Table::part_for(uint32_t uid) const {
  uint32_t fresh = kNone;
  for (uint32_t part = header_->parts; part-- > 0;) {
    if (parts_[part].given == 0) fresh = part;
  }
  for (uint32_t part = 0; part < header_->parts; ++part) {
    const PartRecord& record = parts_[part];
    if (record.given != 0 && record.channel == 0 && record.uid == uid) return part;
  }
  return fresh;
}

Result<uint32_t> Table::take_part(uint32_t channel, uint32_t uid) {
  uint32_t part = part_for(uid);
  if (part == kNone) {
    struct Had {
      uint32_t now = 0;
      uint32_t before = 0;
    };
    std::map<uint32_t, Had> users;
    for (uint32_t i = 0; i < header_->parts; ++i) ++(parts_[i].channel != 0 ? users[parts_[i].uid].now : users[parts_[i].uid].before);
    std::string who;
    // A part of that user's own is what it can get back.
    std::string remedy = users.contains(uid) ? format("close writers of user %u, or ", uid) : "";
    for (const auto& [user, had] : users) {
      who += format("%suser %u has %u", who.empty() ? "" : ", ", user, had.now);
      if (had.before > 0) who += format(" and had %u, which nobody else gets", had.before);
    }
    return error(GEAR_ELIMIT,
                 "payload_isolation per_writer: all %u parts (writers_max) are given: %s; %screate the table anew with a larger "
                 "writers_max, at most %u",
                 header_->parts, who.c_str(), remedy.c_str(), layout::kPartsMax);
  }
  PartRecord& record = parts_[part];
  note(record.uid, uid);
  order_for_adopter();
  note(record.given, 1u);
  // Release: who finds the channel finds whose the part is.
  publish(record.channel, channel);
  return part;
}

void Table::leave_part(uint32_t channel) {
  uint32_t part = parted() ? part_of(channel) : kNone;
  if (part == kNone) return;
  publish(parts_[part].channel, 0u);
  pool_->release_bare(part);
  data_.trim(*header_, part);
}

// Those of channels that nobody claimed. The dead server may have left one without looking after it.
void Table::finish_parts() {
  for (uint32_t part = 0; part < header_->parts; ++part) {
    uint32_t channel = parts_[part].channel;
    if (channel != 0 && !claimed(channel)) publish(parts_[part].channel, 0u);
    data_.trim(*header_, part);
  }
}

}  // namespace gear
