#include "table/geometry.h"

#include <unistd.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "base/utf8.h"
#include "limit/rate_limiter.h"
#include "select/selector.h"
#include "table/selector_plan.h"

namespace gear {
namespace {

using layout::align_up;
using layout::ColumnRecord;
using layout::ColumnSpec;
using layout::TableCreateRequest;
using layout::TableHeader;

constexpr uint64_t kBlockBytesWanted = 64 * 1024;
constexpr uint64_t kBlockBytesLeast = 4 * 1024;
constexpr uint64_t kColumnAlignment = 128;
constexpr uint64_t kCellBytesMax = uint64_t{1} << 40;
constexpr uint32_t kPromptGroupsMax = 1u << 16;
constexpr uint64_t kSegmentBytesMax = uint64_t{1} << 46;
constexpr uint32_t kWritersDefault = 8;

struct DtypeRow {
  uint32_t bytes;
  const char* name;
};
constexpr DtypeRow kDtypes[] = {{0, "none"}, {1, "bool"}, {1, "u8"},  {1, "i8"},
                                {2, "u16"},  {2, "i16"},  {4, "u32"}, {4, "i32"},
                                {8, "u64"},  {8, "i64"},  {2, "f16"}, {2, "bf16"},
                                {4, "f32"},  {8, "f64"},  {8, "c64"}, {0, "bytes"}};

// A name in a fixed field: terminated, 1 to 255 bytes, UTF-8.
Status check_name(const char* what, const char (&field)[layout::kNameBytesMax + 1]) {
  size_t length = strnlen(field, sizeof field);
  if (length == 0 || length == sizeof field) {
    return error(GEAR_ENAME, "%s name has %zu bytes; give 1 to %u", what, length,
                 layout::kNameBytesMax);
  }
  if (!valid_utf8(field, length)) {
    return error(GEAR_ENAME, "%s name is not UTF-8; give a UTF-8 name", what);
  }
  return {};
}

// a * b within the largest segment, else ESIZE.
Status multiply(const char* table, const char* what, uint64_t a, uint64_t b, uint64_t* product) {
  if (__builtin_mul_overflow(a, b, product) || *product > kSegmentBytesMax) {
    return error(GEAR_ESIZE, "create table \"%s\": %s of %llu x %llu bytes is over the limit of 64 TiB; lower it",
                 table, what, static_cast<unsigned long long>(a),
                 static_cast<unsigned long long>(b));
  }
  return {};
}

Status plan_column(const char* table, const ColumnSpec& spec, ColumnRecord* record) {
  GEAR_TRY(check_name("column", spec.name));
  if (spec.dtype < GEAR_BOOL || spec.dtype > GEAR_BYTES) {
    return error(GEAR_EINVAL, "create table \"%s\": column \"%s\" has dtype %u; give one of gear_dtype (1 to %d)",
                 table, spec.name, spec.dtype, GEAR_BYTES);
  }
  if (spec.rank > layout::kRankMax) {
    return error(GEAR_EINVAL, "create table \"%s\": column \"%s\" has rank %u; give at most %u", table,
                 spec.name, spec.rank, layout::kRankMax);
  }
  constexpr uint32_t kBoth = GEAR_COLUMN_PER_EPISODE | GEAR_COLUMN_OPTIONAL;
  if ((spec.flags & kBoth) == kBoth) {
    return error(GEAR_EINVAL, "create table \"%s\": column \"%s\" is per episode and optional; leave optional out, an episode may go without its cells anyway",
                 table, spec.name);
  }
  if ((spec.flags & ~kBoth) != 0) {
    return error(GEAR_EINVAL, "create table \"%s\": column \"%s\" has unknown flags 0x%x; give GEAR_COLUMN_ flags of this version", table,
                 spec.name, spec.flags);
  }
  uint64_t bytes = dtype_bytes(spec.dtype, spec.element_bytes);
  if (bytes == 0 || (spec.dtype != GEAR_BYTES && spec.element_bytes != 0 &&
                     spec.element_bytes != bytes)) {
    return error(GEAR_ESIZE, "create table \"%s\": column \"%s\" of dtype %s has element_bytes %u; give %s", table,
                 spec.name, dtype_name(spec.dtype), spec.element_bytes,
                 spec.dtype == GEAR_BYTES ? "at least 1" : "0");
  }
  record->element_bytes = static_cast<uint32_t>(bytes);
  for (uint32_t axis = 0; axis < spec.rank; ++axis) {
    if (spec.shape[axis] < 1) {
      return error(GEAR_ESIZE, "create table \"%s\": column \"%s\" has extent %lld on axis %u; every extent is at least 1",
                   table, spec.name, static_cast<long long>(spec.shape[axis]), axis);
    }
    std::string cell = format("a cell of column \"%s\"", spec.name);
    GEAR_TRY(multiply(table, cell.c_str(), bytes, static_cast<uint64_t>(spec.shape[axis]), &bytes));
    record->shape[axis] = spec.shape[axis];
  }
  if (bytes > kCellBytesMax) {
    return error(GEAR_ESIZE, "create table \"%s\": column \"%s\" has cells of %llu bytes; at most 1 TiB",
                 table, spec.name, static_cast<unsigned long long>(bytes));
  }
  memcpy(record->name, spec.name, sizeof record->name);
  record->dtype = spec.dtype;
  record->rank = spec.rank;
  record->flags = spec.flags;
  record->cell_bytes = bytes;
  return {};
}

Status plan_columns(const TableCreateRequest& request, const ColumnSpec* specs,
                    Geometry* geometry) {
  if (request.column_count < 1 || request.column_count > layout::kColumnsMax) {
    return error(GEAR_ESIZE, "create table \"%s\": %u columns; give 1 to %u", request.name,
                 request.column_count, layout::kColumnsMax);
  }
  std::unordered_set<std::string> names;
  geometry->columns.resize(request.column_count);
  for (uint32_t i = 0; i < request.column_count; ++i) {
    geometry->columns[i] = ColumnRecord{};
    GEAR_TRY(plan_column(request.name, specs[i], &geometry->columns[i]));
    if (!names.insert(specs[i].name).second) {
      return error(GEAR_EDUPLICATE, "create table \"%s\": two columns are named \"%s\"; names are unique in a table",
                   request.name, specs[i].name);
    }
    if ((specs[i].flags & GEAR_COLUMN_PER_EPISODE) == 0) ++geometry->header.step_column_count;
    if ((specs[i].flags & GEAR_COLUMN_OPTIONAL) != 0) ++geometry->header.optional_columns;
  }
  if (geometry->header.step_column_count == 0) {
    return error(GEAR_EINVAL, "create table \"%s\": every column is per episode; at least one holds a value per step",
                 request.name);
  }
  return {};
}

Status plan_items(const TableCreateRequest& request, TableHeader* header) {
  const char* name = request.name;
  if (request.capacity_items < 1 || request.capacity_items > layout::kNone - 1) {
    return error(GEAR_ESIZE, "create table \"%s\": capacity_items %llu; give 1 to %u", name,
                 static_cast<unsigned long long>(request.capacity_items), layout::kNone - 1);
  }
  if (request.item_policy > GEAR_ITEMS_EXPLICIT || request.short_episodes > 1) {
    return error(GEAR_EINVAL, "create table \"%s\": item_policy %u, short_episodes %u; give a gear_item_policy, and 0 or 1",
                 name, request.item_policy, request.short_episodes);
  }
  bool sequence = request.item_policy == GEAR_ITEMS_SEQUENCE;
  if (sequence && request.item_length < 1) {
    return error(GEAR_ESIZE, "create table \"%s\": items are sequences of item_length 0; give at least 1", name);
  }
  if (!sequence && (request.item_length != 0 || request.item_period != 0)) {
    return error(GEAR_EINVAL, "create table \"%s\": item_length %u and item_period %u are for sequence items; leave them 0",
                 name, request.item_length, request.item_period);
  }
  if (request.episode_steps_max > layout::kEpisodeStepsLimit ||
      request.item_length > layout::kEpisodeStepsLimit) {
    return error(GEAR_ESIZE, "create table \"%s\": episodes of %llu steps, items of %u; at most %llu", name,
                 static_cast<unsigned long long>(request.episode_steps_max), request.item_length,
                 static_cast<unsigned long long>(layout::kEpisodeStepsLimit));
  }
  header->item_policy = request.item_policy;
  header->item_length = request.item_length;
  header->item_period = request.item_period != 0 ? request.item_period : request.item_length;
  header->short_episodes = request.short_episodes;
  header->max_times_sampled = request.max_times_sampled;
  header->episode_steps_max = request.episode_steps_max;
  header->capacity_items = request.capacity_items;
  // The incoming item is in the table when the remover picks.
  header->item_slots = static_cast<uint32_t>(request.capacity_items) + 1;
  header->slot_bits = 1;
  while ((uint64_t{1} << header->slot_bits) < header->item_slots) ++header->slot_bits;
  return {};
}

Status plan_capacity_steps(const TableCreateRequest& request, const std::vector<ColumnRecord>& columns,
                           TableHeader* header) {
  for (const ColumnRecord& column : columns) {
    if ((column.flags & GEAR_COLUMN_PER_EPISODE) == 0) header->step_bytes += column.cell_bytes;
  }
  header->capacity_bytes = request.capacity_bytes;
  uint64_t items = request.capacity_items;
  uint64_t steps_each = 1;
  switch (header->item_policy) {
    case GEAR_ITEMS_STEP: header->item_steps_max = 1; break;
    case GEAR_ITEMS_SEQUENCE:
      header->item_steps_max = header->item_length;
      steps_each = header->item_period;
      break;
    default:
      header->item_steps_max = static_cast<uint32_t>(request.episode_steps_max);
      steps_each = request.episode_steps_max;
  }
  uint64_t steps = request.capacity_steps;
  uint64_t steps_by_bytes = request.capacity_bytes / header->step_bytes;
  if (steps == 0 && steps_each == 0) steps = steps_by_bytes;
  if (steps == 0 && steps_each == 0) {
    return error(GEAR_ESIZE,
                 "create table \"%s\": the length of its items is not known; give episode_steps_max, capacity_steps, or capacity_bytes",
                 request.name);
  }
  bool item_fits = request.capacity_bytes == 0 ||
                   request.capacity_bytes / header->step_bytes >= std::max(1u, header->item_length);
  if (!item_fits) {
    return error(GEAR_ESIZE, "create table \"%s\": capacity_bytes %llu is less than one item of %u steps of %llu bytes; raise it",
                 request.name, static_cast<unsigned long long>(request.capacity_bytes),
                 std::max(1u, header->item_length),
                 static_cast<unsigned long long>(header->step_bytes));
  }
  if (steps == 0) {
    GEAR_TRY(multiply(request.name, "steps", items, steps_each, &steps));
    steps += header->item_steps_max > steps_each ? header->item_steps_max - steps_each : 0;
    if (request.capacity_bytes != 0) {
      steps = std::max<uint64_t>(std::min(steps, steps_by_bytes), header->item_steps_max);
    }
  }
  if (steps < header->item_steps_max) {
    return error(GEAR_ESIZE, "create table \"%s\": capacity_steps %llu is less than one item of %u steps; raise it",
                 request.name, static_cast<unsigned long long>(steps), header->item_steps_max);
  }
  if (header->item_steps_max == 0) {
    header->item_steps_max =
        static_cast<uint32_t>(std::min<uint64_t>(steps, layout::kEpisodeStepsLimit));
  }
  header->capacity_steps = steps;
  return {};
}

Status plan_limiter(const TableCreateRequest& request, TableHeader* header) {
  gear_rate_limiter limiter{request.limiter.samples_per_insert, request.limiter.min_size,
                            request.limiter.min_diff, request.limiter.max_diff};
  if (limiter.samples_per_insert == 0 && limiter.min_size == 0 && limiter.min_diff == 0 &&
      limiter.max_diff == 0) {
    GEAR_TRY(min_size_limiter(1, &limiter));
  }
  Status checked = check_limiter_of(limiter, header->capacity_items);
  if (!checked.ok()) {
    return error(checked.code(), "create table \"%s\": %s", request.name, checked.text().c_str());
  }
  header->limiter = {limiter.samples_per_insert, limiter.min_size, limiter.min_diff,
                     limiter.max_diff};
  header->direct_allowed = direct_sampling_allowed(*header);
  return {};
}

// Memory is given and taken by pages.
uint64_t page_bytes() { return std::max<uint64_t>(layout::kPageBytes, static_cast<uint64_t>(sysconf(_SC_PAGESIZE))); }

Status plan_isolation(const TableCreateRequest& request, TableHeader* header) {
  if (request.payload_isolation > GEAR_ISOLATION_PER_WRITER) {
    return error(GEAR_EINVAL, "create table \"%s\": payload_isolation %u; give a gear_isolation, none 0 or per_writer 1",
                 request.name, request.payload_isolation);
  }
  if (request.payload_isolation == GEAR_ISOLATION_NONE) {
    if (request.writers_max == 0) return {};
    return error(GEAR_EINVAL, "create table \"%s\": writers_max %u without payload_isolation; leave it 0, or ask for per_writer",
                 request.name, request.writers_max);
  }
  if (request.writers_max > layout::kPartsMax) {
    return error(GEAR_EINVAL, "create table \"%s\": writers_max %u; give at most %u, or 0 for %u", request.name,
                 request.writers_max, layout::kPartsMax, kWritersDefault);
  }
  if (request.huge_pages == GEAR_WANT_REQUIRED || request.lock == GEAR_WANT_REQUIRED) {
    return error(GEAR_EUNSUPPORTED,
                 "create table \"%s\": huge_pages %u and lock %u with payload_isolation per_writer, whose memory moves from writer "
                 "to writer; leave both out, or the isolation",
                 request.name, request.huge_pages, request.lock);
  }
  header->parts = request.writers_max != 0 ? request.writers_max : kWritersDefault;
  return {};
}

Status plan_sharing(const TableCreateRequest& request, TableHeader* header) {
  if (request.versions > 1 || request.prompt_groups_max > kPromptGroupsMax) {
    return error(GEAR_EINVAL, "create table \"%s\": versions %u, prompt_groups_max %u; give 0 or 1, and at most %u",
                 request.name, request.versions, request.prompt_groups_max, kPromptGroupsMax);
  }
  header->prompt_groups_max = request.prompt_groups_max;
  return {};
}

// Rows a block: about 64 KiB of them, never more than an episode, and few enough that one block for each lane is a
// small part of the table; yet no block smaller than a page.
uint32_t choose_block_steps(const TableCreateRequest& request, const TableHeader& header,
                            uint64_t step_bytes) {
  if (request.block_steps != 0) return request.block_steps;
  uint64_t steps = std::max<uint64_t>(1, kBlockBytesWanted / step_bytes);
  uint64_t for_lanes = header.capacity_steps / (uint64_t{16} * header.lanes_max);
  steps = std::min(steps, std::max<uint64_t>(for_lanes, kBlockBytesLeast / step_bytes));
  if (header.episode_steps_max != 0) steps = std::min(steps, header.episode_steps_max);
  return static_cast<uint32_t>(std::clamp<uint64_t>(steps, 1, 1u << 20));
}

uint32_t choose_reach(uint32_t asked) {
  if (asked == GEAR_REACH_NONE) return 0;
  return asked != 0 ? asked : 16;
}

// Places the columns of a block of header.block_steps rows. *bytes: what it takes before it is rounded up.
Status lay_out_block(const char* table, Geometry* geometry, uint64_t* bytes) {
  TableHeader& header = geometry->header;
  uint64_t block = 0;
  uint64_t episode = 0;
  for (ColumnRecord& column : geometry->columns) {
    if ((column.flags & GEAR_COLUMN_PER_EPISODE) != 0) {
      column.offset = episode;
      episode += align_up(column.cell_bytes, 16);
      continue;
    }
    uint64_t rows = 0;
    GEAR_TRY(multiply(table, "a block", column.cell_bytes, header.block_steps, &rows));
    column.offset = block;
    block += align_up(rows, kColumnAlignment);
  }
  header.presence_bytes = (header.column_count + 7) / 8;
  header.presence_offset = block;
  *bytes = block + uint64_t{header.presence_bytes} * header.block_steps;
  header.episode_cell_bytes = align_up(episode, kColumnAlignment);
  return {};
}

Status plan_blocks(const TableCreateRequest& request, Geometry* geometry) {
  TableHeader& header = geometry->header;
  header.lanes_max = request.lanes_max != 0 ? request.lanes_max : 64;
  header.window_before_max = choose_reach(request.window_before_max);
  header.window_after_max = choose_reach(request.window_after_max);
  if (header.lanes_max > 1u << 20 || header.window_before_max > 1u << 20 ||
      header.window_after_max > 1u << 20 || request.block_steps > 1u << 20) {
    return error(GEAR_ESIZE, "create table \"%s\": lanes_max %u, window_before_max %u, window_after_max %u, block_steps %u; each at most 1048576",
                 request.name, header.lanes_max, header.window_before_max, header.window_after_max,
                 request.block_steps);
  }
  header.block_steps = choose_block_steps(request, header, header.step_bytes);
  uint64_t bytes = 0;
  GEAR_TRY(lay_out_block(request.name, geometry, &bytes));
  uint64_t unit = header.parts != 0 ? page_bytes() : kColumnAlignment;
  // Whole pages: rather a few steps less than most of a page more.
  uint64_t wanted = bytes / unit * unit;
  while (request.block_steps == 0 && header.parts != 0 && bytes > wanted) {
    uint64_t over = (bytes - wanted) * header.block_steps / bytes + 1;
    if (over * 8 > header.block_steps) break;
    header.block_steps -= static_cast<uint32_t>(over);
    GEAR_TRY(lay_out_block(request.name, geometry, &bytes));
  }
  header.block_bytes = align_up(bytes, unit);
  return {};
}

// Blocks for the steps promised, for the final rows of episodes, and for what lanes hold half filled. Where this is not
// enough, items are evicted early; it is never too few for every lane to make progress.
Status plan_block_count(const TableCreateRequest& request, TableHeader* header) {
  if (header->capacity_steps >= uint64_t{layout::kNone} << 20) {
    return error(GEAR_ESIZE, "create table \"%s\": %llu steps, at most %llu", request.name,
                 static_cast<unsigned long long>(header->capacity_steps),
                 static_cast<unsigned long long>((uint64_t{layout::kNone} << 20) - 1));
  }
  uint64_t rows = header->capacity_steps;
  bool small = rows < (1u << 20) / std::max<uint64_t>(1, header->block_bytes / header->block_steps);
  rows += small ? rows : rows / 32;
  uint64_t blocks = (rows + header->block_steps - 1) / header->block_steps + 1;
  uint64_t reach = uint64_t{blocks_before(*header)} + blocks_after(*header);
  uint64_t lanes = header->lanes_max;
  // A lane holds its oldest block half evicted, its tail, the block being filled, and those ahead; and windows of live items
  // reach past the oldest.
  uint64_t slack = lanes * (3 + blocks_ahead(*header)) + 2;
  slack += std::min(reach * lanes, blocks / 2 + 2 * reach);
  blocks += slack;  // below 2^54: nothing has wrapped, nor does the next
  uint64_t numbers = blocks * std::max(header->parts, 1u);
  if (numbers >= layout::kNone) {
    return error(GEAR_ESIZE, "create table \"%s\": %llu blocks; raise block_steps", request.name,
                 static_cast<unsigned long long>(numbers));
  }
  header->block_budget = static_cast<uint32_t>(blocks);
  header->block_count = static_cast<uint32_t>(numbers);
  return {};
}

// Slots that a part has: for all items, and what open lanes hold. With parts, whole pages of them.
Status plan_episodes(const TableCreateRequest& request, TableHeader* header, uint64_t* bytes) {
  *bytes = 0;
  if (header->episode_cell_bytes == 0) return {};
  uint64_t slots = header->item_slots + uint64_t{header->lanes_max} * 3;
  if (header->parts != 0) {
    uint64_t page = page_bytes();
    slots = align_up(slots, page / std::gcd(page, header->episode_cell_bytes)) * header->parts;
    if (slots >= layout::kNone) {
      return error(GEAR_ESIZE, "create table \"%s\": %llu slots for per-episode cells, at most %u; lower writers_max or capacity_items",
                   request.name, static_cast<unsigned long long>(slots), layout::kNone - 1);
    }
  }
  header->episode_slots = static_cast<uint32_t>(std::min<uint64_t>(slots, layout::kNone - 1));
  return multiply(request.name, "per-episode cells", header->episode_slots, header->episode_cell_bytes, bytes);
}

Status place(const TableCreateRequest& request, TableHeader* header) {
  uint64_t marks = 0, data = 0, episodes = 0;
  GEAR_TRY(multiply(request.name, "marks", uint64_t{header->block_count} * 4, header->block_steps,
                    &marks));
  GEAR_TRY(multiply(request.name, "steps", header->block_count, header->block_bytes, &data));
  GEAR_TRY(plan_episodes(request, header, &episodes));

  uint64_t at = align_up(sizeof(TableHeader), layout::kContentionBytes);
  auto take = [&at](uint64_t bytes) {
    uint64_t offset = at;
    at = align_up(at + bytes, layout::kContentionBytes);
    return offset;
  };
  header->columns_offset = take(header->column_count * sizeof(ColumnRecord));
  header->lanes_offset = take(header->lanes_max * sizeof(layout::LaneRecord));
  header->blocks_offset = take(uint64_t{header->block_count} * sizeof(layout::BlockRecord));
  header->marks_offset = take(marks);
  header->items_offset = take(uint64_t{header->item_slots} * sizeof(layout::ItemRecord));
  if (request.versions != 0) {
    header->versions_offset = take(uint64_t{header->item_slots} * sizeof(uint64_t));
  }
  if (header->prompt_groups_max > 0) {
    header->prompts_offset = take(uint64_t{header->item_slots} * sizeof(layout::PromptRecord));
  }
  header->episodes_offset = take(uint64_t{header->episode_slots} * sizeof(layout::EpisodeRecord));
  if (header->parts != 0) header->parts_offset = take(header->parts * sizeof(layout::PartRecord));
  for (uint32_t i = 0; i < header->index_count; ++i) {
    layout::IndexRecord& index = header->indexes[i];
    uint32_t first = 0;
    while (first < i && !same_index(*header, first, i)) ++first;
    index.bytes = selector_index_bytes(index.selector, header->item_slots);
    index.offset = first < i ? header->indexes[first].offset : take(index.bytes);
  }
  header->directory_bytes = align_up(at, layout::kPageBytes);

  uint64_t page = header->parts != 0 ? page_bytes() : layout::kPageBytes;
  header->data_blocks_offset = page;
  header->data_episodes_offset = align_up(header->data_blocks_offset + data, page);
  header->data_bytes = align_up(header->data_episodes_offset + episodes, page);
  return {};
}

}  // namespace

bool direct_sampling_allowed(const TableHeader& header) {
  gear_rate_limiter limiter{header.limiter.samples_per_insert, header.limiter.min_size,
                            header.limiter.min_diff, header.limiter.max_diff};
  // Members of a prompt group are in the indexes one after the other, which only direct samplers would see.
  return limiter_counts_nothing(limiter) && header.max_times_sampled == 0 &&
         header.prompt_groups_max == 0;
}

uint32_t dtype_bytes(uint32_t dtype, uint32_t element_bytes) {
  if (dtype == GEAR_BYTES) return element_bytes;
  return dtype <= GEAR_C64 ? kDtypes[dtype].bytes : 0;
}

const char* dtype_name(uint32_t dtype) { return dtype <= GEAR_BYTES ? kDtypes[dtype].name : "?"; }

uint32_t blocks_ahead(const TableHeader& header) {
  // Small blocks fill sooner than a grant arrives; large ones do not.
  uint64_t row_bytes = std::max<uint64_t>(1, header.block_bytes / header.block_steps);
  uint64_t rows_wanted = std::clamp<uint64_t>(kBlockBytesWanted * 4 / row_bytes, 1, 256);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>((rows_wanted + header.block_steps - 1) / header.block_steps, 1, 8));
}

uint32_t blocks_before(const TableHeader& header) {
  return (header.window_before_max + header.block_steps - 1) / header.block_steps;
}

uint32_t blocks_after(const TableHeader& header) {
  return (header.window_after_max + header.block_steps - 1) / header.block_steps;
}

Result<Geometry> plan_geometry(const TableCreateRequest& request, const ColumnSpec* columns,
                               const layout::SelectorSpec* selectors) {
  Geometry geometry;
  geometry.header = TableHeader{};
  TableHeader& header = geometry.header;
  GEAR_TRY(check_name("table", request.name));
  memcpy(header.name, request.name, sizeof header.name);
  header.column_count = request.column_count;
  GEAR_TRY(plan_columns(request, columns, &geometry));
  GEAR_TRY(plan_items(request, &header));
  GEAR_TRY(plan_capacity_steps(request, geometry.columns, &header));
  GEAR_TRY(plan_selectors(request, selectors, &header));
  GEAR_TRY(plan_sharing(request, &header));
  GEAR_TRY(plan_limiter(request, &header));
  GEAR_TRY(plan_isolation(request, &header));
  GEAR_TRY(plan_blocks(request, &geometry));
  GEAR_TRY(plan_block_count(request, &header));
  GEAR_TRY(place(request, &header));
  header.memory = request.memory;
  header.lease_timeout_ms = request.lease_timeout_ms != 0 ? request.lease_timeout_ms : 60'000;
  return geometry;
}

}  // namespace gear
