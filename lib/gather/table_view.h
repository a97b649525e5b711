// A table as a reader sees it: pointers into its mapped segments.
#pragma once

#include "layout/directory.h"

namespace gear {

// All memory is mapped read-only and changes under the reader. Copyable; the mappings must outlive it.
struct TableView {
  const layout::TableHeader* header = nullptr;
  const layout::ColumnRecord* columns = nullptr;
  const layout::BlockRecord* blocks = nullptr;
  const uint32_t* marks = nullptr;  // block * block_steps + position
  const layout::ItemRecord* items = nullptr;
  const layout::EpisodeRecord* episodes = nullptr;
  const uint64_t* versions = nullptr;  // of items by slot; nullptr: none kept
  const char* directory = nullptr;
  const char* data = nullptr;  // the data segment

  static TableView over(const void* directory, const void* data) {
    TableView view;
    view.header = static_cast<const layout::TableHeader*>(directory);
    view.columns =
        layout::at_offset<layout::ColumnRecord>(directory, view.header->columns_offset);
    view.blocks = layout::at_offset<layout::BlockRecord>(directory, view.header->blocks_offset);
    view.marks = layout::at_offset<uint32_t>(directory, view.header->marks_offset);
    view.items = layout::at_offset<layout::ItemRecord>(directory, view.header->items_offset);
    view.episodes =
        layout::at_offset<layout::EpisodeRecord>(directory, view.header->episodes_offset);
    if (view.header->versions_offset != 0) {
      view.versions = layout::at_offset<uint64_t>(directory, view.header->versions_offset);
    }
    view.directory = static_cast<const char*>(directory);
    view.data = static_cast<const char*>(data);
    return view;
  }

  const char* block_data(uint32_t block) const {
    return data + header->data_blocks_offset + uint64_t{block} * header->block_bytes;
  }
};

}  // namespace gear
