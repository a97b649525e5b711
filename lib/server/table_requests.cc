// Requests about a table in use: its limiter, its version, its consumer groups.

#include "limit/rate_limiter.h"
#include "server/requests.h"

namespace gear {

Reply Requests::retune_table(const Session& session, const layout::TableRetuneRequest& request) {
  auto table = usable_table(session, request.table_id, Access::kWrite, "retune");
  if (!table.ok()) return Reply::failed(table.status());
  gear_rate_limiter limits{request.limiter.samples_per_insert, request.limiter.min_size,
                           request.limiter.min_diff, request.limiter.max_diff};
  Status checked = check_limiter_of(limits, table.value()->header().capacity_items);
  if (!checked.ok()) return Reply::failed(checked);
  size_t direct = conductor_.direct_samplers(*table.value());
  if (direct > 0 && !limiter_counts_nothing(limits)) {
    return Reply::failed(error(GEAR_ESTATE,
                                 "the new limits count draws, and %zu direct sampler%s open, whose draws are not counted; close them, "
                                 "or open them in mode leased", direct, direct == 1 ? " is" : "s are"));
  }
  table.value()->retune(limits);
  return {};
}

Reply Requests::raise_version(const Session& session, const layout::TableVersionRequest& request) {
  auto table = usable_table(session, request.table_id, Access::kWrite, "set version");
  if (!table.ok()) return Reply::failed(table.status());
  if (table.value()->header().versions_offset == 0) {
    return Reply::failed(error(GEAR_ESTATE, "items of the table have no versions; create it with versions = 1"));
  }
  table.value()->raise_version(request.version);
  return {};
}

Reply Requests::about_group(const Session& session, const layout::GroupRequest& request, bool drop) {
  auto table = table_for(session, request.table_id, drop ? Access::kOwn : Access::kRead,
                         drop ? "drop group" : "group stats");
  if (!table.ok()) return Reply::failed(table.status());
  auto group = table.value()->find_group(request.group);
  if (!group) {
    return Reply::failed(error(GEAR_ENOTFOUND, "there is no group \"%s\"; the first sampler that names it makes it",
                        request.group));
  }
  if (drop) {
    conductor_.end_ports_of(*group, GEAR_EDROPPED);
    table.value()->drop_group(*group);
    return {};
  }
  layout::GroupStatsReply stats{};
  stats.consumers = group->consumers;
  stats.lag = group->lag();
  stats.in_flight = group->counts.in_flight;
  stats.delivered = group->counts.delivered;
  stats.acknowledged = group->counts.acknowledged;
  stats.redelivered = group->counts.redelivered;
  stats.missed = group->counts.missed;
  stats.skipped = group->counts.skipped;
  return Reply::with_body(stats);
}

Reply Requests::list_groups(const Session& session, const layout::TableIdRequest& request) {
  auto table = table_for(session, request.table_id, Access::kRead, "list groups");
  if (!table.ok()) return Reply::failed(table.status());
  Reply reply;
  for (const auto& group : table.value()->groups()) {
    if (!reply.add_name(group->name().c_str())) break;
  }
  return reply;
}

}  // namespace gear
