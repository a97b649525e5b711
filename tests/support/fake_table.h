// A table formatted by hand in plain memory, from a list of episodes: what gather reads, without a
// conductor.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gather/gather.h"
#include "gather/table_view.h"

namespace gear::test {

// $GEAR_TEST_SEED, else `otherwise`.
uint64_t test_seed(uint64_t otherwise);

struct FakeColumn {
  std::string name;
  uint32_t cell_bytes = 8;
  bool per_episode = false;
  bool optional = false;        // some steps lack the cell, see has_cell
  uint32_t dtype = GEAR_BYTES;  // or GEAR_F32, GEAR_F64 of rank 0: values within [-1, 1)
};

struct FakeEpisode {
  uint32_t lane = 0;
  uint32_t steps = 1;
  bool ended = true;  // only the last episode of a lane may be open
  bool final_row = false;
  std::vector<bool> final_columns;  // by column of the table; which cells the final row has
  bool cells_given = false;         // per-episode columns
};

struct FakeTableOptions {
  std::vector<FakeColumn> columns;
  std::vector<FakeEpisode> episodes;  // those of a lane in order
  uint32_t block_steps = 4;
  uint32_t window_before_max = 16;
  uint32_t window_after_max = 16;
  uint32_t item_policy = GEAR_ITEMS_EXPLICIT;
  uint32_t item_steps_max = 16;
  uint32_t item_slots = 64;
  uint32_t spare_blocks = 2;
  uint32_t block_alignment = 128;
  uint64_t shuffle_seed = 1;  // of the order of blocks
};

// What was never written: payload of rows that do not exist, marks past the last row.
inline constexpr unsigned char kGarbage = 0xEE;

// One thread, unless a test says otherwise. Both segments are allocations of their own of exactly
// the size that the header states, so that the address sanitizer sees a read beyond them.
class FakeTable {
 public:
  explicit FakeTable(FakeTableOptions options);

  const FakeTableOptions& options() const { return options_; }
  TableView view() const { return TableView::over(directory_.get(), data_.get()); }
  layout::TableHeader& header() { return *static_cast<layout::TableHeader*>(directory_.get()); }
  layout::BlockRecord& block(uint32_t index) { return blocks()[index]; }
  uint32_t& mark(uint32_t block, uint32_t position) {
    return marks()[uint64_t{block} * options_.block_steps + position];
  }
  layout::ItemRecord& item(uint32_t slot) { return items()[slot]; }
  layout::EpisodeRecord& episode_record(uint32_t slot) { return episodes()[slot]; }
  char* cell(uint32_t block, uint32_t position, uint32_t column);
  char* data() { return static_cast<char*>(data_.get()); }

  // Puts an item of `length` steps from step `first` of an episode into the next slot; returns the
  // slot.
  uint32_t add_item(uint32_t episode, uint32_t first, uint32_t length);

  // Where a step of an episode lies (step `steps` is the final row).
  struct Spot {
    uint32_t block;
    uint32_t position;
  };
  Spot spot(uint32_t episode, uint32_t step) const;

  // Whether the step (or the final row) has a cell for the column.
  bool has_cell(uint32_t episode, uint32_t step, uint32_t column) const;

  // What a writer stored there.
  std::string cell_value(uint32_t episode, uint32_t step, uint32_t column) const;
  std::string episode_cell_value(uint32_t episode, uint32_t column) const;

 private:
  using Memory = std::unique_ptr<void, decltype(&free)>;

  void format_header();
  void format_columns();
  void format_lane(uint32_t lane);
  void format_row(uint32_t episode, uint32_t step, Spot spot);
  void format_episode_cells(uint32_t episode);
  layout::BlockRecord* blocks() { return at<layout::BlockRecord>(header().blocks_offset); }
  uint32_t* marks() { return at<uint32_t>(header().marks_offset); }
  layout::ItemRecord* items() { return at<layout::ItemRecord>(header().items_offset); }
  layout::EpisodeRecord* episodes() { return at<layout::EpisodeRecord>(header().episodes_offset); }
  template <typename T>
  T* at(uint64_t offset) {
    return layout::at_offset<T>(directory_.get(), offset);
  }

  FakeTableOptions options_;
  std::vector<std::vector<uint32_t>> lane_blocks_;  // in order of the chain
  std::vector<uint64_t> first_rows_;                // of each episode, in its lane
  Memory directory_{nullptr, &free};
  Memory data_{nullptr, &free};
  uint32_t items_used_ = 0;
};

// Memory of a batch, filled with garbage; one entry a window.
class FakeBatch {
 public:
  FakeBatch(const std::vector<WindowPlan>& plan, uint32_t rows);

  const WindowBuffer* buffers() const { return buffers_.data(); }
  std::string cell(const WindowPlan& window, size_t index, uint32_t row, uint32_t place) const;
  uint8_t mask(const WindowPlan& window, size_t index, uint32_t row, uint32_t place) const;
  uint32_t length(size_t index, uint32_t row) const { return memory_[index].lengths[row]; }

 private:
  struct Memory {
    std::vector<char> data;
    std::vector<uint8_t> mask;
    std::vector<uint32_t> lengths;
  };
  std::vector<Memory> memory_;
  std::vector<WindowBuffer> buffers_;
};

}  // namespace gear::test
