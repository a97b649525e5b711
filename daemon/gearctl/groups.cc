#include "gearctl/groups.h"

namespace gear::daemon {
namespace {

std::vector<std::string> group_names(gear_table* table) {
  std::vector<std::string> names;
  check(gear_group_list(
      table,
      [](const char* name, void* user) {
        static_cast<std::vector<std::string>*>(user)->emplace_back(name);
      },
      &names));
  return names;
}

Json describe_group(gear_table* table, const std::string& name) {
  gear_group_stats stats = GEAR_GROUP_STATS_INIT;
  check(gear_group_get_stats(table, name.c_str(), &stats));
  Json group;
  group["name"] = name;
  group["consumers"] = stats.consumers;
  group["lag"] = stats.lag;
  group["in_flight"] = stats.in_flight;
  group["delivered"] = stats.delivered;
  group["acknowledged"] = stats.acknowledged;
  group["redelivered"] = stats.redelivered;
  group["missed"] = stats.missed;
  group["skipped"] = stats.skipped;
  return group;
}

}  // namespace

Json list_groups(gear_table* table, const std::string& name) {
  Json list;
  list["table"] = name;
  list["groups"] = Json::array();
  for (const std::string& group : group_names(table)) {
    try {
      list["groups"].push_back(describe_group(table, group));
    } catch (const Failure& failure) {
      if (failure.code != GEAR_ENOTFOUND) throw;
    }
  }
  return list;
}

std::string render_groups(const Json& list) {
  if (list["groups"].empty()) return "no groups\n";
  TextTable table({"GROUP", "CONSUMERS", "LAG", "IN FLIGHT", "DELIVERED", "ACKNOWLEDGED",
                   "REDELIVERED", "MISSED", "SKIPPED"},
                  {false, true, true, true, true, true, true, true, true});
  for (const Json& group : list["groups"]) {
    std::vector<std::string> row = {printable(group["name"].get<std::string>())};
    for (const char* key : {"consumers", "lag", "in_flight", "delivered", "acknowledged",
                            "redelivered", "missed", "skipped"}) {
      row.push_back(group[key].dump());
    }
    table.add(std::move(row));
  }
  return table.text();
}

}  // namespace gear::daemon
