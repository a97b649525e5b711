#include "server/access.h"

#include <unistd.h>

#include <algorithm>

namespace gear {
namespace {

// As the kernel chooses for a file: one class decides, the owner's before the group's before the others'.
uint32_t bits_for(const layout::TableHeader& table, const Peer& who) {
  if (who.uid == table.owner_uid) return table.mode >> 6 & 7;
  bool in_group = who.gid == table.owner_gid ||
                  std::find(who.groups.begin(), who.groups.end(), table.owner_gid) != who.groups.end();
  return in_group ? table.mode >> 3 & 7 : table.mode & 7;
}

const char* name_of(Access wanted) {
  switch (wanted) {
    case Access::kRead: return "read";
    case Access::kWrite: return "write";
    case Access::kReadWrite: return "read and write";
    case Access::kOwn: return "the owner's";
  }
  return "?";
}

}  // namespace

bool is_privileged(const Peer& who) { return who.uid == 0 || who.uid == geteuid(); }

Status check_access(const layout::TableHeader& table, const Peer& who, Access wanted, const char* what) {
  if (is_privileged(who)) return {};
  auto needed = static_cast<uint32_t>(wanted);
  if (wanted == Access::kOwn) {
    if (who.uid == table.owner_uid) return {};
    return error(GEAR_EPERM, "%s: not permitted to user %u: table \"%s\" is user %u's; ask that user, or root",
                 what, who.uid, table.name, table.owner_uid);
  }
  if ((bits_for(table, who) & needed) == needed) return {};
  return error(GEAR_EPERM,
               "%s: not permitted to user %u, group %u: table \"%s\" is user %u's, group %u's, of mode %04o, and this needs %s; its owner can create it with a wider mode",
               what, who.uid, who.gid, table.name, table.owner_uid, table.owner_gid, table.mode, name_of(wanted));
}

Result<uint32_t> table_mode(const char* table, uint32_t asked) {
  if (asked <= 0777) return asked != 0 ? asked : kTableModeDefault;
  return error(GEAR_EINVAL, "create table \"%s\": mode %o; give permission bits from 0001 to 0777, or 0 for 0600",
               table, asked);
}

}  // namespace gear
