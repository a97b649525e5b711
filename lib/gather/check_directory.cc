#include "gather/check_directory.h"

#include <unistd.h>

#include <cstring>

#include "layout/directory.h"

namespace gear {
namespace {

using layout::ColumnRecord;
using layout::IndexRecord;
using layout::TableHeader;

Status wrong(const char* what, uint64_t value) {
  return error(GEAR_EPROTOCOL,
               "the table's directory is damaged: %s %llu; drop the table, and restart the server if others are damaged too",
               what, static_cast<unsigned long long>(value));
}

// `count` things of `bytes` each from `offset` on end within `size`.
bool within(uint64_t offset, uint64_t count, uint64_t bytes, uint64_t size) {
  uint64_t all;
  return !__builtin_mul_overflow(count, bytes, &all) && offset <= size && all <= size - offset;
}

bool ends(const char* text, size_t bytes) { return strnlen(text, bytes) < bytes; }

Status check_arrays(const TableHeader& header, uint64_t bytes) {
  struct Array {
    const char* what;
    uint64_t offset;
    uint64_t count;
    uint64_t bytes;
  };
  uint64_t marks = uint64_t{header.block_count} * header.block_steps;
  const Array arrays[] = {
      {"columns_offset", header.columns_offset, header.column_count, sizeof(ColumnRecord)},
      {"lanes_offset", header.lanes_offset, header.lanes_max, sizeof(layout::LaneRecord)},
      {"blocks_offset", header.blocks_offset, header.block_count, sizeof(layout::BlockRecord)},
      {"marks_offset", header.marks_offset, marks, sizeof(uint32_t)},
      {"items_offset", header.items_offset, header.item_slots, sizeof(layout::ItemRecord)},
      {"versions_offset", header.versions_offset, header.versions_offset != 0 ? header.item_slots : 0, sizeof(uint64_t)},
      {"episodes_offset", header.episodes_offset, header.episode_slots, sizeof(layout::EpisodeRecord)},
      {"parts_offset", header.parts_offset, header.parts, sizeof(layout::PartRecord)}};
  for (const Array& array : arrays) {
    if (array.offset % alignof(uint64_t) != 0 || !within(array.offset, array.count, array.bytes, bytes)) {
      return wrong(array.what, array.offset);
    }
  }
  return {};
}

// Named ones are never mixtures: a mixture draws from them.
Status check_indexes(const TableHeader& header, uint64_t bytes) {
  if (header.index_count > layout::kIndexesMax) return wrong("index_count", header.index_count);
  if (header.sampler_index >= header.index_count) return wrong("sampler_index", header.sampler_index);
  if (header.remover_index >= header.index_count) return wrong("remover_index", header.remover_index);
  if (header.named_count > layout::kNamedSelectorsMax || header.named_index > header.index_count ||
      header.named_count > header.index_count - header.named_index) {
    return wrong("named_count", header.named_count);
  }
  for (uint32_t optional : {header.largest_index, header.smallest_index}) {
    if (optional != layout::kNone && optional >= header.index_count) return wrong("index of a heap", optional);
  }
  for (uint32_t i = 0; i < header.index_count; ++i) {
    const IndexRecord& index = header.indexes[i];
    bool named = i >= header.named_index && i - header.named_index < header.named_count;
    if (index.offset % layout::kContentionBytes != 0 || !within(index.offset, 1, index.bytes, bytes)) {
      return wrong("offset of an index", index.offset);
    }
    if (index.selector == GEAR_SELECT_MIXTURE ? named : index.bytes == 0) return wrong("selector", index.selector);
    if (!ends(index.name, sizeof index.name)) return wrong("name of selector", i);
  }
  return {};
}

Status check_column(const TableHeader& header, const ColumnRecord& column, uint32_t number) {
  if (!ends(column.name, sizeof column.name)) return wrong("name of column", number);
  if (column.rank > layout::kRankMax) return wrong("rank", column.rank);
  uint64_t cell_bytes = column.element_bytes;
  for (uint32_t i = 0; i < column.rank; ++i) {
    if (column.shape[i] < 1 ||
        __builtin_mul_overflow(cell_bytes, static_cast<uint64_t>(column.shape[i]), &cell_bytes)) {
      return wrong("extent", static_cast<uint64_t>(column.shape[i]));
    }
  }
  if (cell_bytes == 0 || cell_bytes != column.cell_bytes) return wrong("cell_bytes", column.cell_bytes);
  bool per_episode = (column.flags & GEAR_COLUMN_PER_EPISODE) != 0;
  uint64_t room = per_episode ? header.episode_cell_bytes : header.block_bytes;
  if (!within(column.offset, per_episode ? 1 : header.block_steps, cell_bytes, room)) {
    return wrong("offset of a column", column.offset);
  }
  return {};
}

Status check_data(const TableHeader& header, uint64_t bytes) {
  if (!within(header.presence_offset, header.block_steps, header.presence_bytes, header.block_bytes)) {
    return wrong("presence_offset", header.presence_offset);
  }
  if (uint64_t{header.presence_bytes} * 8 < header.column_count) return wrong("presence_bytes", header.presence_bytes);
  if (!within(header.data_blocks_offset, header.block_count, header.block_bytes, bytes)) {
    return wrong("block_bytes", header.block_bytes);
  }
  if (!within(header.data_episodes_offset, header.episode_slots, header.episode_cell_bytes, bytes)) {
    return wrong("episode_cell_bytes", header.episode_cell_bytes);
  }
  return {};
}

// Parts are mapped page by page, each at its place among the others, so that a run of one never shows another's.
Status check_parts(const TableHeader& header, uint64_t bytes) {
  if (header.parts == 0) {
    return header.block_budget == header.block_count ? Status() : wrong("block_budget", header.block_budget);
  }
  if (header.parts > layout::kPartsMax) return wrong("parts", header.parts);
  if (header.block_budget < 1 || uint64_t{header.block_budget} * header.parts != header.block_count) {
    return wrong("block_budget", header.block_budget);
  }
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (header.block_bytes % page != 0) return wrong("block_bytes", header.block_bytes);
  if (header.data_blocks_offset == 0 || header.data_blocks_offset % page != 0) {
    return wrong("data_blocks_offset", header.data_blocks_offset);
  }
  // No overflow: check_data has bounded them by `bytes`.
  uint64_t blocks_end = header.data_blocks_offset + header.block_count * header.block_bytes;
  if (header.data_episodes_offset % page != 0 || header.data_episodes_offset < blocks_end) {
    return wrong("data_episodes_offset", header.data_episodes_offset);
  }
  bool whole = header.episode_slots % header.parts == 0 && layout::part_episodes_bytes(header) % page == 0;
  if (!whole) return wrong("episode_slots", header.episode_slots);
  return bytes % page == 0 ? Status() : wrong("data_bytes", bytes);
}

Status check_counts(const TableHeader& header) {
  if (!ends(header.name, sizeof header.name)) return wrong("name, not ended, of table", header.table_id);
  if (header.column_count < 1 || header.column_count > layout::kColumnsMax) {
    return wrong("column_count", header.column_count);
  }
  if (header.block_steps < 1) return wrong("block_steps", header.block_steps);
  if (header.item_steps_max < 1) return wrong("item_steps_max", header.item_steps_max);
  if (header.item_slots < 1 || header.item_slots == layout::kNone) return wrong("item_slots", header.item_slots);
  if (header.block_count < 1 || header.block_count == layout::kNone) return wrong("block_count", header.block_count);
  if (header.slot_bits < 1 || header.slot_bits > 32 || uint64_t{header.item_slots} > uint64_t{1} << header.slot_bits) {
    return wrong("slot_bits", header.slot_bits);
  }
  return {};
}

}  // namespace

Status check_directory(const void* directory, size_t directory_bytes, size_t data_bytes) {
  if (directory_bytes < sizeof(TableHeader)) return wrong("bytes", directory_bytes);
  const auto& header = *static_cast<const TableHeader*>(directory);
  if (header.directory_bytes > directory_bytes) return wrong("directory_bytes", header.directory_bytes);
  if (header.data_bytes > data_bytes) return wrong("data_bytes", header.data_bytes);
  GEAR_TRY(check_counts(header));
  GEAR_TRY(check_arrays(header, header.directory_bytes));
  GEAR_TRY(check_indexes(header, header.directory_bytes));
  GEAR_TRY(check_data(header, header.data_bytes));
  GEAR_TRY(check_parts(header, header.data_bytes));
  const auto* columns = layout::at_offset<ColumnRecord>(directory, header.columns_offset);
  for (uint32_t i = 0; i < header.column_count; ++i) GEAR_TRY(check_column(header, columns[i], i));
  return {};
}

}  // namespace gear
