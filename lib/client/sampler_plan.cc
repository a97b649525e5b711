#include "client/sampler_plan.h"

#include <sys/random.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "base/clock.h"
#include "client/options.h"
#include "client/text.h"

namespace gear::client {
namespace {

constexpr uint32_t kBatchRowsMax = 256;
constexpr uint32_t kBatchesMax = 4;
constexpr uint32_t kBackgroundMax = 1024;

Status check_scalars(const gear_sampler_options& options) {
  if (options.mode > GEAR_SAMPLE_LEASED) {
    return error(GEAR_EINVAL, "mode %u is no gear_sample_mode; give auto 0, direct 1 or leased 2",
                 options.mode);
  }
  if (options.anchor > GEAR_ANCHOR_EVERY_STEP) {
    return error(GEAR_EINVAL, "anchor %u is no gear_anchor; give 0 to %d", options.anchor,
                 GEAR_ANCHOR_EVERY_STEP);
  }
  if (options.normalise > GEAR_NORMALISE_TABLE) {
    return error(GEAR_EINVAL, "normalise %u is no gear_normalise; give batch 0, none 1 or table 2",
                 options.normalise);
  }
  if (options.unique > 1) {
    return error(GEAR_EINVAL, "unique %u; give 0, or 1 for no item twice in a batch",
                 options.unique);
  }
  if (!std::isfinite(options.beta) || options.beta < 0) {
    return error(GEAR_EINVAL, "beta %g; give a finite number, 0 or more", options.beta);
  }
  uint32_t rows_max = options.batch_rows_max != 0 ? options.batch_rows_max : kBatchRowsMax;
  if (options.rows_min > rows_max) {
    return error(GEAR_EINVAL,
                 "rows_min %u, batches have at most %u rows; lower it, or raise "
                 "batch_rows_max",
                 options.rows_min, rows_max);
  }
  return {};
}

// The mode of an epoch: it is no matter of choice.
Status check_direct(const layout::TableHeader& table, const gear_sampler_options& options) {
  if (options.order != GEAR_ORDER_EPOCH || peek(table.direct_allowed) != 0) return {};
  return error(GEAR_EUNSUPPORTED,
               "order epoch draws in direct mode, which counts nothing, and the table counts draws; "
               "create it with a limiter of min_size only and no max_times_sampled");
}

Status check_sharing(const TableView& table, const gear_sampler_options& options) {
  if (options.group != nullptr) GEAR_TRY(check_group_name(options.group));
  if (options.group_from > 1) {
    return error(GEAR_EINVAL, "group_from %u; give 0 for the oldest item, 1 for the next inserted",
                 options.group_from);
  }
  if (options.version_policy > GEAR_VERSION_DROP) {
    return error(GEAR_EINVAL, "version_policy %u is no gear_version_policy; give 0 to %d",
                 options.version_policy, GEAR_VERSION_DROP);
  }
  if (options.version_policy != GEAR_VERSION_ANY && table.header->versions_offset == 0) {
    return error(GEAR_EUNSUPPORTED,
                 "version_policy %u: items of the table have no versions; create it with versions = 1",
                 options.version_policy);
  }
  return {};
}

// The index that draws by the selector of that name.
Status resolve_selector(const layout::TableHeader& table, const char* name, uint32_t* index) {
  *index = table.sampler_index;
  if (name == nullptr) return {};
  std::string names;
  for (uint32_t i = table.named_index; i < table.named_index + table.named_count; ++i) {
    if (strcmp(table.indexes[i].name, name) == 0) {
      *index = i;
      return {};
    }
    names += format("%s\"%s\"", names.empty() ? "" : ", ", table.indexes[i].name);
  }
  return error(GEAR_ENOTFOUND,
               "selector \"%.64s\": the table has %s; give one of them, or NULL for the table's "
               "sampler",
               name, names.empty() ? "no named selectors" : names.c_str());
}

// Selectors that name other items at each draw, so that a reader gets past those that it may not have by drawing again.
bool draws_at_random(uint32_t selector) {
  return selector == GEAR_SELECT_UNIFORM || selector == GEAR_SELECT_PRIORITIZED ||
         selector == GEAR_SELECT_RECENCY;
}

// What only the server can do for this sampler; nullptr: nothing.
const char* why_leased(const layout::TableHeader& table, const gear_sampler_options& options,
                       uint32_t selector) {
  if (options.group != nullptr) return "a group is served by the server";
  if (options.version_policy == GEAR_VERSION_DROP) return "version_policy drop removes items";
  if (!draws_at_random(selector)) {
    if (options.unique != 0) {
      return "unique draws in direct mode are those of uniform, prioritized and recency";
    }
    if (options.version_policy == GEAR_VERSION_SKIP) {
      return "version_policy skip in direct mode is for uniform, prioritized and recency";
    }
  }
  if (peek(table.direct_allowed) != 0) return nullptr;
  return "direct draws are not counted, and the table counts: by a limiter of more than min_size, "
         "max_times_sampled, or prompt_groups_max";
}

Status resolve_mode(const layout::TableHeader& table, const gear_sampler_options& options,
                    SamplerPlan* plan) {
  uint32_t selector = table.indexes[plan->index].selector;
  const char* reason = why_leased(table, options, selector);
  plan->direct = reason == nullptr && options.mode != GEAR_SAMPLE_LEASED;
  if (reason == nullptr || options.mode != GEAR_SAMPLE_DIRECT) return {};
  return error(GEAR_EUNSUPPORTED,
               "mode direct, selector %u, max_times_sampled %u: %s; use mode leased or auto", selector,
               table.max_times_sampled, reason);
}

// The largest weight of the table, which GEAR_NORMALISE_TABLE divides by, must be known.
Status check_normalise(const layout::TableHeader& table, const SamplerPlan& plan) {
  if (plan.normalise != GEAR_NORMALISE_TABLE || plan.beta == 0) return {};
  uint32_t selector = table.indexes[plan.index].selector;
  if (selector == GEAR_SELECT_RECENCY || selector == GEAR_SELECT_MIXTURE) {
    return error(GEAR_EUNSUPPORTED,
                 "normalise table with selector %u: the largest weight of a recency or a mixture "
                 "is not kept; normalise by batch",
                 selector);
  }
  if (selector == GEAR_SELECT_PRIORITIZED && table.smallest_index == layout::kNone) {
    return error(GEAR_EUNSUPPORTED,
                 "normalise table: the table was created with table_weights %u and keeps no "
                 "smallest priority; create it with table_weights 1, or normalise by batch",
                 table.table_weights);
  }
  return {};
}

// A thread fills ahead only what nobody counts: for leased draws, the server does by `prefetch`.
Status plan_background(const layout::TableHeader& table, const gear_sampler_options& options,
                       SamplerPlan* plan) {
  plan->background = options.background;
  plan->background_rows =
      options.background_rows != 0 ? options.background_rows : plan->batch_rows_max;
  if (options.background > kBackgroundMax || plan->background_rows > plan->batch_rows_max ||
      (options.background == 0 && options.background_rows != 0)) {
    return error(GEAR_EINVAL,
                 "background %u of background_rows %u; give at most %u batches, of at most "
                 "batch_rows_max rows, which is %u",
                 options.background, options.background_rows, kBackgroundMax,
                 plan->batch_rows_max);
  }
  if (options.background == 0) return {};
  if (options.rows_min != 0) {
    return error(GEAR_EINVAL,
                 "background %u with rows_min %u: the thread fills whole batches; leave one of them 0",
                 options.background, options.rows_min);
  }
  if (!plan->direct) {
    return error(GEAR_EUNSUPPORTED,
                 "background %u: table \"%s\" counts its draws, a thread would draw ahead what nobody "
                 "may use; set prefetch instead, with which the server draws ahead",
                 options.background, table.name);
  }
  if (options.order != GEAR_ORDER_SELECTOR) {
    return error(GEAR_EUNSUPPORTED,
                 "background %u in epoch order: the thread would run past the epoch's end; leave "
                 "background 0",
                 options.background);
  }
  return {};
}

// Copies of the caller's windows, all of this library's size.
Status read_windows(const gear_sampler_options& options, std::vector<gear_window>* windows) {
  if (options.window_count > 0 && options.windows == nullptr) {
    return error(GEAR_EINVAL,
                 "windows is NULL, window_count %u; give the windows, or count 0 for all "
                 "columns",
                 options.window_count);
  }
  for (uint32_t i = 0; i < options.window_count; ++i) {
    const gear_window* given = struct_at(options.windows, i);
    gear_window window;
    GEAR_TRY(read_struct("gear_window", given, &window));
    if (given->struct_size != options.windows->struct_size) {
      return error(GEAR_ESTRUCT,
                   "window %u: struct_size is %u, that of the first %u; give all windows "
                   "by one macro",
                   i, given->struct_size, options.windows->struct_size);
    }
    windows->push_back(window);
  }
  return {};
}

Status name_windows(const TableView& table, const std::vector<gear_window>& asked,
                    SamplerPlan* plan) {
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < plan->windows.size(); ++i) {
    uint32_t column = plan->windows[i].column;
    const char* name = !asked.empty() ? asked[i].name : nullptr;
    if (name == nullptr && column != layout::kNone) name = table.columns[column].name;
    GEAR_TRY(check_name("window name", name));
    if (!seen.insert(name).second) {
      return error(GEAR_EDUPLICATE, "two windows are named \"%s\"; give one of them another name",
                   name);
    }
    plan->names.emplace_back(name);
  }
  return {};
}

// The anchor of AUTO, and K: the longest window of a fixed length.
void resolve_anchor(const layout::TableHeader& table, uint32_t asked, SamplerPlan* plan) {
  uint32_t longest = 0;
  for (const WindowPlan& window : plan->windows) {
    if (!window.per_episode && !window.item_range) longest = std::max(longest, window.length);
  }
  bool random = table.item_policy == GEAR_ITEMS_EPISODE && longest > 0;
  plan->window_length = std::max(longest, 1u);
  plan->anchor = asked;
  if (asked == GEAR_ANCHOR_AUTO) {
    plan->anchor = random ? GEAR_ANCHOR_RANDOM_START : GEAR_ANCHOR_FIRST;
  }
}

}  // namespace

Result<SamplerPlan> plan_sampler(const TableView& table, const gear_sampler_options& options) {
  SamplerPlan plan{};
  GEAR_TRY(check_scalars(options));
  GEAR_TRY(check_order(options));
  GEAR_TRY(check_direct(*table.header, options));
  GEAR_TRY(check_sharing(table, options));
  GEAR_TRY(resolve_selector(*table.header, options.selector, &plan.index));
  plan.unique = options.unique != 0;
  GEAR_TRY(resolve_mode(*table.header, options, &plan));
  if (options.group != nullptr) plan.group = options.group;
  plan.group_from = options.group_from;
  plan.version_policy = options.version_policy;
  plan.version_lag = options.version_lag;
  plan.batch_rows_max = options.batch_rows_max != 0 ? options.batch_rows_max : kBatchRowsMax;
  plan.batches_max = options.batches_max != 0 ? options.batches_max : kBatchesMax;
  plan.prefetch = plan.direct ? 0 : options.prefetch;
  if (plan.unique && plan.prefetch != 0) {
    return error(GEAR_EINVAL,
                 "prefetch %u: unique draws are made for a whole batch, once its rows are known; "
                 "set prefetch 0",
                 plan.prefetch);
  }
  plan.rows_min = options.rows_min;
  plan.seed = options.seed != 0 ? options.seed : random_seed();
  plan.beta = options.beta;
  plan.epoch = options.order == GEAR_ORDER_EPOCH;
  plan.rank = options.rank;
  plan.world = options.world != 0 ? options.world : 1;
  if (plan.epoch) plan.beta = 0;  // every row is drawn once: none weighs more
  plan.normalise = options.normalise;
  GEAR_TRY(check_normalise(*table.header, plan));
  GEAR_TRY(plan_background(*table.header, options, &plan));

  std::vector<gear_window> asked;
  GEAR_TRY(read_windows(options, &asked));
  Result<std::vector<WindowPlan>> windows = plan_windows(table, asked.data(), asked.size());
  if (!windows.ok()) return windows.status();
  plan.windows = windows.take();
  GEAR_TRY(name_windows(table, asked, &plan));
  resolve_anchor(*table.header, options.anchor, &plan);
  return plan;
}

uint64_t random_seed() {
  uint64_t seed = 0;
  // Short of entropy is no reason to fail: the seed need not be secret.
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof seed)) {
    seed = static_cast<uint64_t>(now_ns());
  }
  return seed;
}

}  // namespace gear::client
