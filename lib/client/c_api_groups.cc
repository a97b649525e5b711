// gear.h, sections 3 and 8: a table in use, and its consumer groups.

#include <cstring>

#include "client/c_api.h"
#include "client/options.h"
#include "client/text.h"
#include "layout/control.h"

using namespace gear;          // NOLINT: this file is the C edge of the namespace
using namespace gear::client;  // NOLINT

namespace {

Result<layout::GroupRequest> group_request(const Table& table, const char* group) {
  layout::GroupRequest request{};
  request.table_id = table.id();
  GEAR_TRY(check_group_name(group));
  memcpy(request.group, group, strlen(group));
  return request;
}

}  // namespace

int gear_table_retune(gear_table* table, const gear_rate_limiter* limiter) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    GEAR_TRY(need(limiter, "gear_table_retune", "limiter"));
    layout::TableRetuneRequest request{
        behind(table)->id(),
        {limiter->samples_per_insert, limiter->min_size, limiter->min_diff, limiter->max_diff}};
    Status status =
        behind(table)->session().ask(layout::ControlOp::kTableRetune, request).status();
    return within(format("retune \"%s\"", behind(table)->name()), status);
  });
}

int gear_table_set_version(gear_table* table, uint64_t version) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    layout::TableVersionRequest request{behind(table)->id(), version};
    Status status =
        behind(table)->session().ask(layout::ControlOp::kTableVersion, request).status();
    return within(format("set version of \"%s\"", behind(table)->name()), status);
  });
}

int gear_group_get_stats(gear_table* table, const char* group, gear_group_stats* stats) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    GEAR_TRY(need(stats, "gear_group_get_stats", "stats"));
    GEAR_TRY(check_writable("gear_group_stats", stats));
    std::string tried = format("group stats of \"%s\"", behind(table)->name());
    Result<layout::GroupRequest> request = group_request(*behind(table), group);
    if (!request.ok()) return within(tried, request.status());
    Result<Reply> reply =
        behind(table)->session().ask(layout::ControlOp::kGroupStats, request.value());
    if (!reply.ok()) return within(tried, reply.status());
    layout::GroupStatsReply told;
    GEAR_TRY(read_reply(reply.value(), 0, &told));
    gear_group_stats known = GEAR_GROUP_STATS_INIT;
    known.consumers = told.consumers;
    known.lag = told.lag;
    known.in_flight = told.in_flight;
    known.delivered = told.delivered;
    known.acknowledged = told.acknowledged;
    known.redelivered = told.redelivered;
    known.missed = told.missed;
    known.skipped = told.skipped;
    return write_struct("gear_group_stats", known, stats);
  });
}

int gear_group_list(gear_table* table, void (*name)(const char* name, void* user), void* user) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    if (name == nullptr) {
      return error(GEAR_EINVAL, "gear_group_list: name is NULL; give the function to call");
    }
    Result<Reply> reply = behind(table)->session().ask(
        layout::ControlOp::kGroupList, layout::TableIdRequest{behind(table)->id()});
    if (!reply.ok()) {
      return within(format("list groups of \"%s\"", behind(table)->name()), reply.status());
    }
    tell_names(reply.value().body, name, user);
    return {};
  });
}

int gear_group_drop(gear_table* table, const char* group) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    std::string tried = format("drop group of \"%s\"", behind(table)->name());
    Result<layout::GroupRequest> request = group_request(*behind(table), group);
    if (!request.ok()) return within(tried, request.status());
    Status status =
        behind(table)->session().ask(layout::ControlOp::kGroupDrop, request.value()).status();
    return within(tried, status);
  });
}
