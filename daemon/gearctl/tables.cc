#include "gearctl/tables.h"

#include <cfloat>

#include "common/names.h"
#include "common/quantity.h"

namespace gear::daemon {
namespace {

Json describe_column(const gear_table* table, uint32_t index) {
  gear_column_info info = GEAR_COLUMN_INFO_INIT;
  check(gear_table_column(table, index, &info));
  Json column;
  column["name"] = info.name;
  column["dtype"] = name_of(dtype_names(), info.dtype);
  column["element_bytes"] = info.element_bytes;
  column["shape"] = std::vector<int64_t>(info.shape, info.shape + info.rank);
  column["per_episode"] = (info.flags & GEAR_COLUMN_PER_EPISODE) != 0;
  column["optional"] = (info.flags & GEAR_COLUMN_OPTIONAL) != 0;
  column["cell_bytes"] = info.cell_bytes;
  return column;
}

// null where nothing bounds it.
Json bound(double value) {
  return value <= -DBL_MAX || value >= DBL_MAX ? Json(nullptr) : Json(value);
}

Json describe_limiter(const gear_rate_limiter& limiter) {
  Json document;
  document["samples_per_insert"] = limiter.samples_per_insert;
  document["min_size"] = limiter.min_size;
  document["min_diff"] = bound(limiter.min_diff);
  document["max_diff"] = bound(limiter.max_diff);
  return document;
}

Json describe_stats(const gear_table* table) {
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  check(gear_table_get_stats(table, &stats));
  Json document;
  document["items"] = stats.items;
  document["inserts"] = stats.inserts;
  document["samples"] = stats.samples;
  document["deletes"] = stats.deletes;
  document["evictions"] = stats.evictions;
  document["steps"] = stats.steps;
  document["episodes"] = stats.episodes;
  document["blocks_free"] = stats.blocks_free;
  document["lanes_open"] = stats.lanes_open;
  document["priority_max"] = stats.priority_max;
  document["bytes"] = stats.bytes;
  document["version"] = stats.version;
  document["items_hidden"] = stats.items_hidden;
  document["prompt_groups_dropped"] = stats.prompt_groups_dropped;
  document["items_rejected"] = stats.items_rejected;
  return document;
}

std::string state_of(const gear_table* table) {
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  check(gear_table_get_stats(table, &stats));
  return name_of(table_state_names(), stats.state);
}

std::string number(const Json& value) {
  return value.is_null() ? "-" : value.dump();
}
std::string bytes(const Json& value) {
  return format_bytes(value.get<uint64_t>());
}

std::string render_columns(const Json& columns) {
  TextTable table({"COLUMN", "DTYPE", "SHAPE", "PER", "CELL"}, {false, false, false, false, true});
  for (const Json& column : columns) {
    std::string dtype = column["dtype"].get<std::string>();
    if (dtype == "bytes") dtype += number(column["element_bytes"]);
    table.add({printable(column["name"].get<std::string>()), dtype,
               format_shape(column["shape"].get<std::vector<int64_t>>()),
               column["per_episode"].get<bool>() ? "episode"
               : column["optional"].get<bool>()  ? "step, optional"
                                                 : "step",
               bytes(column["cell_bytes"])});
  }
  return table.text();
}

std::string render_limiter(const Json& limiter) {
  return format_limiter(
      {limiter["samples_per_insert"].get<double>(), limiter["min_size"].get<int64_t>(),
       limiter["min_diff"].is_null() ? -DBL_MAX : limiter["min_diff"].get<double>(),
       limiter["max_diff"].is_null() ? DBL_MAX : limiter["max_diff"].get<double>()});
}

std::string render_holding(const Json& d) {
  const std::string limit = d["capacity_bytes"] == 0 ? "" : " of " + bytes(d["capacity_bytes"]);
  return number(d["stats"]["items"]) + " of " + number(d["capacity_items"]) + " items, " +
         bytes(d["stats"]["bytes"]) + limit + "; room for " + number(d["capacity_steps"]) +
         " steps";
}

std::string render_sampler(const Json& d) {
  const std::string sampler = d["sampler"].get<std::string>();
  std::string text = sampler;
  if (sampler == "prioritized") {
    text += ", alpha " + number(d["priority_alpha"]) + ", epsilon " + number(d["priority_epsilon"]);
  }
  if (sampler == "recency") text += ", half-life " + number(d["half_life"]);
  if (sampler == "top_k") text += ", k " + number(d["top_k"]);
  if (d["selector_count"] != 0) text += "; " + number(d["selector_count"]) + " named beside it";
  if (d["new_priority"] == "table_max")
    text += "; new items take the largest priority in the table";
  if (d["table_weights"].get<bool>()) text += "; table weights kept";
  return text + (d["direct"].get<bool>() ? "; direct" : "; leased");
}

// Versions and prompt groups, where the table has them.
void add_sharing(const Json& d, TextTable* facts) {
  const Json& stats = d["stats"];
  if (d["versions"].get<bool>()) facts->add({"policy version", number(stats["version"])});
  if (d["prompt_groups_max"] == 0) return;
  facts->add({"prompt groups", "at most " + number(d["prompt_groups_max"]) + " incomplete; " +
                                   number(stats["items_hidden"]) + " items hidden, " +
                                   number(stats["prompt_groups_dropped"]) + " groups dropped"});
}

}  // namespace

Json describe_table(const gear_table* table) {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  check(gear_table_describe(table, &info));
  Json document;
  document["name"] = info.name;
  document["state"] = state_of(table);
  document["table_id"] = info.table_id;
  document["capacity_items"] = info.capacity_items;
  document["capacity_bytes"] = info.capacity_bytes;
  document["capacity_steps"] = info.capacity_steps;
  document["episode_steps_max"] = info.episode_steps_max;
  document["items"] = name_of(item_policy_names(), info.item_policy);
  document["item_length"] = info.item_length;
  document["item_period"] = info.item_period;
  document["short_episodes"] = name_of(short_episode_names(), info.short_episodes);
  document["sampler"] = name_of(selector_names(), info.sampler);
  document["remover"] = name_of(selector_names(), info.remover);
  document["priority_alpha"] = info.priority_alpha;
  document["priority_epsilon"] = info.priority_epsilon;
  document["half_life"] = info.half_life;
  document["top_k"] = info.top_k;
  document["selector_count"] = info.selector_count;
  document["new_priority"] = name_of(new_priority_names(), info.new_priority);
  document["table_weights"] = info.table_weights != 0;
  document["versions"] = info.versions != 0;
  document["prompt_groups_max"] = info.prompt_groups_max;
  document["max_times_sampled"] = info.max_times_sampled;
  document["limiter"] = describe_limiter(info.limiter);
  document["direct"] = info.direct != 0;
  document["lanes_max"] = info.lanes_max;
  document["window_before_max"] = info.window_before_max;
  document["window_after_max"] = info.window_after_max;
  document["block_steps"] = info.block_steps;
  document["block_count"] = info.block_count;
  document["block_bytes"] = info.block_bytes;
  document["directory_bytes"] = info.directory_bytes;
  document["data_bytes"] = info.data_bytes;
  document["memory"] = name_of(memory_names(), info.memory);
  document["owner_uid"] = info.owner_uid;
  document["owner_gid"] = info.owner_gid;
  document["mode"] = format_mode(info.mode);
  document["payload_isolation"] = name_of(isolation_names(), info.payload_isolation);
  document["writers_max"] = info.writers_max;
  document["columns"] = Json::array();
  for (uint32_t i = 0; i < info.column_count; ++i) {
    document["columns"].push_back(describe_column(table, i));
  }
  document["stats"] = describe_stats(table);
  return document;
}

Json summarise_table(const gear_table* table) {
  const Json full = describe_table(table);
  Json line;
  line["name"] = full["name"];
  line["state"] = full["state"];
  line["items"] = full["stats"]["items"];
  line["capacity_items"] = full["capacity_items"];
  line["steps"] = full["stats"]["steps"];
  line["inserts"] = full["stats"]["inserts"];
  line["samples"] = full["stats"]["samples"];
  line["lanes_open"] = full["stats"]["lanes_open"];
  line["bytes"] = full["directory_bytes"].get<uint64_t>() + full["data_bytes"].get<uint64_t>();
  return line;
}

Json list_tables(gear_client* client) {
  Json list;
  list["tables"] = Json::array();
  for (const std::string& name : table_names(client)) {
    try {
      list["tables"].push_back(summarise_table(open_table(client, name).get()));
    } catch (const Failure& failure) {
      if (failure.code == GEAR_ECORRUPT) {
        list["tables"].push_back({{"name", name}, {"state", "set aside"}, {"why", failure.text}});
        continue;
      }
      if (failure.code != GEAR_ENOTFOUND && failure.code != GEAR_EDROPPED) throw;
    }
  }
  return list;
}

Json create_table(gear_client* client, const TableSpec& spec) {
  const TableRequest request(spec);
  gear_table* table = nullptr;
  check(gear_table_create(client, &request.options(), &table));
  return describe_table(Table(table).get());
}

void change_table(gear_table* table, const TableChange& change) {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  check(gear_table_describe(table, &info));
  // Only a table without versions refuses one; ask it before the limiter is changed.
  const bool version_first = change.policy_version.has_value() && info.versions == 0;
  if (version_first) check(gear_table_set_version(table, *change.policy_version));
  if (change.limiter) check(gear_table_retune(table, &*change.limiter));
  if (change.policy_version && !version_first) {
    check(gear_table_set_version(table, *change.policy_version));
  }
}

std::string render_table(const Json& d) {
  TextTable facts({"table", printable(d["name"].get<std::string>())});
  const bool sequence = d["items"] == "sequence";
  facts.add({"state", d["state"].get<std::string>()});
  facts.add({"holds", render_holding(d)});
  facts.add({"items",
             d["items"].get<std::string>() + (sequence ? ", length " + number(d["item_length"]) +
                                                             ", period " + number(d["item_period"])
                                                       : "")});
  facts.add({"sampler", render_sampler(d)});
  facts.add({"remover", d["remover"].get<std::string>()});
  facts.add({"limiter", render_limiter(d["limiter"])});
  facts.add(
      {"draws an item", d["max_times_sampled"] == 0 ? "no limit" : number(d["max_times_sampled"])});
  add_sharing(d, &facts);
  facts.add({"lanes", number(d["stats"]["lanes_open"]) + " open of " + number(d["lanes_max"])});
  facts.add({"windows", number(d["window_before_max"]) + " steps before, " +
                            number(d["window_after_max"]) + " after"});
  facts.add({"blocks", number(d["stats"]["blocks_free"]) + " free of " + number(d["block_count"]) +
                           ", each " + number(d["block_steps"]) + " steps, " +
                           bytes(d["block_bytes"])});
  facts.add({"memory", d["memory"].get<std::string>() + ", " + bytes(d["data_bytes"]) + " data, " +
                           bytes(d["directory_bytes"]) + " directory"});
  if (d["payload_isolation"] != "none") {
    facts.add({"isolation", "a writer stores into its own rows alone, " + number(d["writers_max"]) + " writers at most"});
  }
  const Json& stats = d["stats"];
  facts.add({"counts", "inserts " + number(stats["inserts"]) + ", samples " +
                           number(stats["samples"]) + ", deletes " + number(stats["deletes"]) +
                           ", evictions " + number(stats["evictions"]) + ", steps " +
                           number(stats["steps"]) + ", episodes " + number(stats["episodes"]) +
                           ", items rejected " + number(stats["items_rejected"])});
  return facts.text() + "\n" + render_columns(d["columns"]);
}

std::string render_tables(const Json& list) {
  if (list["tables"].empty()) return "no tables\n";
  TextTable table(
      {"TABLE", "STATE", "ITEMS", "CAPACITY", "STEPS", "INSERTS", "SAMPLES", "LANES", "MEMORY"},
      {false, false, true, true, true, true, true, true, true});
  for (const Json& line : list["tables"]) {
    if (line.contains("why")) {
      table.add({printable(line["name"].get<std::string>()), "set aside", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    table.add({printable(line["name"].get<std::string>()), line["state"].get<std::string>(),
               number(line["items"]), number(line["capacity_items"]), number(line["steps"]),
               number(line["inserts"]), number(line["samples"]), number(line["lanes_open"]),
               bytes(line["bytes"])});
  }
  return table.text();
}

}  // namespace gear::daemon
