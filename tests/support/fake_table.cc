#include "support/fake_table.h"

#include <cstring>
#include <numeric>

namespace gear::test {

using layout::align_up;
using layout::kNone;

namespace {

std::unique_ptr<void, decltype(&free)> garbage(uint64_t bytes) {
  void* memory = aligned_alloc(layout::kPageBytes, bytes);
  memset(memory, kGarbage, bytes);
  return {memory, &free};
}

// Different in every byte that differs in any argument, as far as a byte can be.
std::string noise(uint64_t kind, uint64_t a, uint64_t b, uint64_t column, uint32_t bytes) {
  Rng rng((((kind * 131 + a) * 1000003 + b) << 8) + column);
  std::string value(bytes, '\0');
  for (char& byte : value) byte = static_cast<char>(rng.next());
  return value;
}

template <typename T>
std::string real(Rng& rng) {
  T value = static_cast<T>(rng.unit() * 2 - 1);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

uint64_t test_seed(uint64_t otherwise) {
  const char* text = getenv("GEAR_TEST_SEED");
  return text != nullptr ? strtoull(text, nullptr, 10) : otherwise;
}

FakeTable::FakeTable(FakeTableOptions options) : options_(std::move(options)) {
  std::vector<uint64_t> lane_rows;
  for (const FakeEpisode& episode : options_.episodes) {
    if (lane_rows.size() <= episode.lane) lane_rows.resize(episode.lane + 1, 0);
    first_rows_.push_back(lane_rows[episode.lane]);
    lane_rows[episode.lane] += episode.steps + (episode.final_row ? 1 : 0);
  }
  uint32_t block_count = options_.spare_blocks;
  for (uint64_t rows : lane_rows) {
    uint64_t count = (rows + options_.block_steps - 1) / options_.block_steps;
    lane_blocks_.emplace_back(count);
    block_count += static_cast<uint32_t>(count);
  }
  std::vector<uint32_t> order(block_count);
  std::iota(order.begin(), order.end(), 0u);
  Rng rng(options_.shuffle_seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  for (std::vector<uint32_t>& blocks : lane_blocks_) {
    for (uint32_t& block : blocks) {
      block = order.back();
      order.pop_back();
    }
  }

  format_header();
  format_columns();
  for (uint32_t i = 0; i < block_count; ++i) block(i) = {0, 0, kNone, 0, kNone, kNone, 0, 0};
  for (uint32_t i = 0; i < options_.item_slots; ++i) item(i) = {};
  for (uint32_t lane = 0; lane < lane_blocks_.size(); ++lane) format_lane(lane);
  for (uint32_t i = 0; i < options_.episodes.size(); ++i) format_episode_cells(i);
}

void FakeTable::format_header() {
  layout::TableHeader header{};
  header.column_count = static_cast<uint32_t>(options_.columns.size());
  header.block_steps = options_.block_steps;
  header.block_count = options_.spare_blocks;
  for (const auto& blocks : lane_blocks_) {
    header.block_count += static_cast<uint32_t>(blocks.size());
  }
  memcpy(header.name, "fake", 5);
  header.item_policy = options_.item_policy;
  header.item_steps_max = options_.item_steps_max;
  header.window_before_max = options_.window_before_max;
  header.window_after_max = options_.window_after_max;
  header.item_slots = options_.item_slots;
  header.capacity_items = options_.item_slots;
  header.slot_bits = 16;

  uint64_t block_bytes = 0;
  uint64_t episode_bytes = 0;
  for (const FakeColumn& column : options_.columns) {
    if (column.optional) ++header.optional_columns;
    if (column.per_episode) {
      episode_bytes += align_up(column.cell_bytes, 16);
    } else {
      block_bytes += align_up(uint64_t{column.cell_bytes} * options_.block_steps, 128);
    }
  }
  header.presence_bytes = (header.column_count + 7) / 8;
  header.presence_offset = block_bytes;
  block_bytes += uint64_t{header.presence_bytes} * options_.block_steps;
  header.block_bytes = align_up(block_bytes, options_.block_alignment);
  header.episode_cell_bytes = align_up(episode_bytes, 128);
  header.block_budget = header.block_count;
  header.episode_slots = episode_bytes != 0 ? static_cast<uint32_t>(options_.episodes.size()) : 0;

  uint64_t at = sizeof(layout::TableHeader);
  auto take = [&at](uint64_t bytes) {
    uint64_t offset = at;
    at = align_up(at + bytes, layout::kContentionBytes);
    return offset;
  };
  header.columns_offset = take(header.column_count * sizeof(layout::ColumnRecord));
  header.blocks_offset = take(header.block_count * sizeof(layout::BlockRecord));
  header.marks_offset = take(uint64_t{header.block_count} * header.block_steps * 4);
  header.items_offset = take(header.item_slots * sizeof(layout::ItemRecord));
  header.episodes_offset = take(header.episode_slots * sizeof(layout::EpisodeRecord));
  header.directory_bytes = align_up(at, layout::kPageBytes);
  header.data_blocks_offset = layout::kPageBytes;
  header.data_episodes_offset =
      header.data_blocks_offset + uint64_t{header.block_count} * header.block_bytes;
  header.data_bytes =
      align_up(header.data_episodes_offset + header.episode_slots * header.episode_cell_bytes,
               layout::kPageBytes);

  directory_ = garbage(header.directory_bytes);
  data_ = garbage(header.data_bytes);
  memcpy(directory_.get(), &header, sizeof header);
}

void FakeTable::format_columns() {
  auto* records = at<layout::ColumnRecord>(header().columns_offset);
  uint64_t in_block = 0;
  uint64_t in_episode = 0;
  for (const FakeColumn& column : options_.columns) {
    layout::ColumnRecord record{};
    memcpy(record.name, column.name.c_str(), column.name.size() + 1);
    record.dtype = column.dtype;
    record.element_bytes = column.cell_bytes;
    record.cell_bytes = column.cell_bytes;
    record.flags = (column.per_episode ? GEAR_COLUMN_PER_EPISODE : 0) |
                   (column.optional ? GEAR_COLUMN_OPTIONAL : 0);
    record.offset = column.per_episode ? in_episode : in_block;
    if (column.per_episode) {
      in_episode += align_up(column.cell_bytes, 16);
    } else {
      in_block += align_up(uint64_t{column.cell_bytes} * options_.block_steps, 128);
    }
    *records++ = record;
  }
}

void FakeTable::format_lane(uint32_t lane) {
  const std::vector<uint32_t>& chain = lane_blocks_[lane];
  for (size_t i = 0; i < chain.size(); ++i) {
    uint32_t previous = i > 0 ? chain[i - 1] : kNone;
    uint32_t next = i + 1 < chain.size() ? chain[i + 1] : kNone;
    block(chain[i]) = {2 * chain[i] + 1, i * options_.block_steps, lane, 0, previous, next, 0, 0};
  }
  for (uint32_t i = 0; i < options_.episodes.size(); ++i) {
    const FakeEpisode& episode = options_.episodes[i];
    if (episode.lane != lane) continue;
    uint32_t rows = episode.steps + (episode.final_row ? 1 : 0);
    for (uint32_t step = 0; step < rows; ++step) format_row(i, step, spot(i, step));
  }
}

void FakeTable::format_row(uint32_t index, uint32_t step, Spot spot) {
  const FakeEpisode& episode = options_.episodes[index];
  bool final_row = step == episode.steps;
  uint32_t bits = step;
  if (final_row) bits |= layout::kMarkFinal;
  if (episode.ended && (final_row || step + 1 == episode.steps)) {
    bits |= index % 2 == 0 ? layout::kMarkTerminated : layout::kMarkTruncated;
  }
  mark(spot.block, spot.position) = bits;
  block(spot.block).rows = spot.position + 1;

  char* presence = data() + header().data_blocks_offset + spot.block * header().block_bytes +
                   header().presence_offset + spot.position * header().presence_bytes;
  bool has_bits = final_row || header().optional_columns > 0;
  if (has_bits) memset(presence, 0, header().presence_bytes);
  for (uint32_t column = 0; column < options_.columns.size(); ++column) {
    if (options_.columns[column].per_episode) continue;
    if (!has_cell(index, step, column)) continue;
    if (has_bits) presence[column / 8] = static_cast<char>(presence[column / 8] | 1 << column % 8);
    std::string value = cell_value(index, step, column);
    memcpy(cell(spot.block, spot.position, column), value.data(), value.size());
  }
}

void FakeTable::format_episode_cells(uint32_t index) {
  if (header().episode_slots == 0) return;
  const FakeEpisode& episode = options_.episodes[index];
  episode_record(index) = {2 * index + 1, episode.cells_given ? 1u : 0u, episode.lane, 0, 0};
  if (!episode.cells_given) return;
  char* cells = data() + header().data_episodes_offset + index * header().episode_cell_bytes;
  for (uint32_t column = 0; column < options_.columns.size(); ++column) {
    if (!options_.columns[column].per_episode) continue;
    std::string value = episode_cell_value(index, column);
    memcpy(cells + view().columns[column].offset, value.data(), value.size());
  }
}

char* FakeTable::cell(uint32_t block, uint32_t position, uint32_t column) {
  const layout::ColumnRecord& record = view().columns[column];
  return data() + header().data_blocks_offset + block * header().block_bytes + record.offset +
         position * record.cell_bytes;
}

uint32_t FakeTable::add_item(uint32_t episode, uint32_t first, uint32_t length) {
  uint32_t slot = items_used_++;
  Spot at = spot(episode, first);
  uint32_t cells = header().episode_slots != 0 ? episode : kNone;
  item(slot) = {2 * slot + 1, 1.0 + slot, at.block, at.position, length, cells, 0, 0};
  return slot;
}

FakeTable::Spot FakeTable::spot(uint32_t episode, uint32_t step) const {
  uint64_t row = first_rows_[episode] + step;
  const std::vector<uint32_t>& chain = lane_blocks_[options_.episodes[episode].lane];
  return {chain[row / options_.block_steps], static_cast<uint32_t>(row % options_.block_steps)};
}

bool FakeTable::has_cell(uint32_t episode, uint32_t step, uint32_t column) const {
  if (step == options_.episodes[episode].steps) {
    return options_.episodes[episode].final_columns[column];
  }
  return !options_.columns[column].optional || noise(3, episode, step, column, 1)[0] % 3 != 0;
}

std::string FakeTable::cell_value(uint32_t episode, uint32_t step, uint32_t column) const {
  if (options_.columns[column].dtype != GEAR_BYTES) {
    Rng rng(((uint64_t{episode} << 32) + step) * 1000 + column);
    return options_.columns[column].dtype == GEAR_F32 ? real<float>(rng) : real<double>(rng);
  }
  return noise(1, options_.episodes[episode].lane, first_rows_[episode] + step, column,
               options_.columns[column].cell_bytes);
}

std::string FakeTable::episode_cell_value(uint32_t episode, uint32_t column) const {
  return noise(2, episode, 0, column, options_.columns[column].cell_bytes);
}

FakeBatch::FakeBatch(const std::vector<WindowPlan>& plan, uint32_t rows) {
  memory_.resize(plan.size());
  for (size_t i = 0; i < plan.size(); ++i) {
    uint64_t places = uint64_t{rows} * plan[i].length;
    memory_[i].data.assign(places * plan[i].cell_bytes, static_cast<char>(kGarbage));
    memory_[i].mask.assign(places, kGarbage);
    memory_[i].lengths.assign(rows, 0xEEEEEEEE);
    buffers_.push_back({memory_[i].data.data(), memory_[i].mask.data(), memory_[i].lengths.data(),
                        plan[i].length * plan[i].cell_bytes});
  }
}

std::string FakeBatch::cell(const WindowPlan& window, size_t index, uint32_t row,
                            uint32_t place) const {
  uint64_t at = (uint64_t{row} * window.length + place) * window.cell_bytes;
  return {memory_[index].data.data() + at, window.cell_bytes};
}

uint8_t FakeBatch::mask(const WindowPlan& window, size_t index, uint32_t row,
                        uint32_t place) const {
  return memory_[index].mask[uint64_t{row} * window.length + place];
}

}  // namespace gear::test
