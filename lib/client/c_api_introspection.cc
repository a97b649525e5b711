// gear.h, section 8: what tables and servers tell.

#include <algorithm>

#include "base/shared_word.h"
#include "client/c_api.h"
#include "client/options.h"
#include "client/text.h"
#include "table/fsck.h"

using namespace gear;          // NOLINT: this file is the C edge of the namespace
using namespace gear::client;  // NOLINT

namespace {

gear_table_info describe(const layout::TableHeader& header) {
  const layout::IndexRecord& sampler = header.indexes[header.sampler_index];
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  info.column_count = header.column_count;
  info.name = header.name;
  info.table_id = header.table_id;
  info.capacity_items = header.capacity_items;
  info.capacity_steps = header.capacity_steps;
  info.episode_steps_max = header.episode_steps_max;
  info.item_policy = header.item_policy;
  info.item_length = header.item_length;
  info.item_period = header.item_period;
  info.short_episodes = header.short_episodes;
  info.sampler = sampler.selector;
  info.remover = header.indexes[header.remover_index].selector;
  info.priority_alpha = sampler.alpha;
  info.priority_epsilon = sampler.epsilon;
  info.max_times_sampled = header.max_times_sampled;
  info.lanes_max = header.lanes_max;
  info.limiter = {peek(header.limiter.samples_per_insert), peek(header.limiter.min_size),
                  peek(header.limiter.min_diff), peek(header.limiter.max_diff)};
  info.window_before_max = header.window_before_max;
  info.window_after_max = header.window_after_max;
  info.block_steps = header.block_steps;
  info.block_count = header.block_budget;
  info.block_bytes = header.block_bytes;
  info.directory_bytes = header.directory_bytes;
  info.data_bytes = layout::data_memory_bytes(header);
  info.memory = header.memory;
  info.direct = peek(header.direct_allowed);
  info.capacity_bytes = header.capacity_bytes;
  info.half_life = header.indexes[header.sampler_index].half_life;
  info.top_k = header.indexes[header.sampler_index].top_k;
  info.selector_count = header.named_count;
  info.new_priority = header.new_priority;
  info.table_weights = header.table_weights;
  info.versions = header.versions_offset != 0 ? 1 : 0;
  info.prompt_groups_max = header.prompt_groups_max;
  info.owner_uid = header.owner_uid;
  info.owner_gid = header.owner_gid;
  info.mode = header.mode;
  info.payload_isolation = header.parts != 0 ? GEAR_ISOLATION_PER_WRITER : GEAR_ISOLATION_NONE;
  info.writers_max = header.parts;
  return info;
}

// Each counter is exact; two of them may be of different moments.
gear_table_stats read_stats(const layout::TableHeader& header) {
  const layout::TableCounters& counters = header.counters;
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  stats.state = observe(header.state);
  stats.items = observe(counters.items);
  stats.inserts = peek(counters.inserts);
  stats.samples = peek(counters.samples);
  stats.deletes = peek(counters.deletes);
  stats.steps = peek(counters.steps);
  stats.episodes = peek(counters.episodes);
  stats.evictions = peek(counters.evictions);
  stats.blocks_free = peek(counters.blocks_free);
  stats.lanes_open = peek(counters.lanes_open);
  stats.priority_max = peek(counters.priority_max);
  stats.bytes = peek(counters.bytes);
  stats.version = peek(counters.version);
  stats.items_hidden = peek(counters.items_hidden);
  stats.prompt_groups_dropped = peek(counters.prompt_groups_dropped);
  stats.items_rejected = peek(counters.items_rejected);
  return stats;
}

gear_column_info describe(const layout::ColumnRecord& column) {
  gear_column_info info = GEAR_COLUMN_INFO_INIT;
  info.dtype = column.dtype;
  info.name = column.name;
  info.rank = column.rank;
  info.element_bytes = column.element_bytes;
  info.flags = column.flags;
  std::copy(std::begin(column.shape), std::end(column.shape), info.shape);
  info.cell_bytes = column.cell_bytes;
  return info;
}

}  // namespace

int gear_table_describe(const gear_table* table, gear_table_info* info) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    GEAR_TRY(need(info, "gear_table_describe", "info"));
    return write_struct("gear_table_info", describe(behind(table)->header()), info);
  });
}

int gear_table_column(const gear_table* table, uint32_t index, gear_column_info* column) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    GEAR_TRY(need(column, "gear_table_column", "column"));
    const Table& of = *behind(table);
    if (index >= of.header().column_count) {
      return error(GEAR_ENOCOLUMN,
                   "column %u of table \"%s\", which has %u; give an index below that", index,
                   of.name(), of.header().column_count);
    }
    return write_struct("gear_column_info", describe(of.view().columns[index]), column);
  });
}

int gear_table_column_index(const gear_table* table, const char* name, uint32_t* index) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    GEAR_TRY(need(name, "gear_table_column_index", "name"));
    GEAR_TRY(need(index, "gear_table_column_index", "index"));
    Result<uint32_t> found = behind(table)->column_index(name);
    if (!found.ok()) return found.status();
    *index = found.value();
    return {};
  });
}

int gear_table_get_stats(const gear_table* table, gear_table_stats* stats) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    GEAR_TRY(need(stats, "gear_table_get_stats", "stats"));
    return write_struct("gear_table_stats", read_stats(behind(table)->header()), stats);
  });
}

int gear_table_check(const gear_table* table, void (*finding)(const char* text, void* user), void* user) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    if (finding == nullptr) {
      return error(GEAR_EINVAL, "gear_table_check: finding is NULL; give the function to call");
    }
    const layout::TableHeader& header = behind(table)->header();
    Findings findings = find_contradictions(&header, behind(table)->directory_bytes(), behind(table)->data_bytes(),
                                        CheckForm::kOnline);
    for (const std::string& text : findings.texts) finding(text.c_str(), user);
    return {};
  });
}

int gear_table_list(gear_client* client, void (*name)(const char* name, void* user), void* user) {
  return guarded([&]() -> Status {
    Call call(behind(client));
    GEAR_TRY(call.status());
    if (name == nullptr) {
      return error(GEAR_EINVAL, "gear_table_list: name is NULL; give the function to call");
    }
    Result<Reply> reply = behind(client)->session().ask(layout::ControlOp::kTableList, nullptr, 0);
    if (!reply.ok()) return within("list tables", reply.status());
    tell_names(reply.value().body, name, user);
    return {};
  });
}
