#include "chaos/tales.h"

#include <vector>

#include "chaos/calls.h"

namespace gear::chaos {
namespace {

constexpr uint32_t kSteps = 6;
constexpr uint32_t kTeller = kData + 1;  // one cell an episode
constexpr uint64_t kFinal = uint64_t{1} << 40;

// Cells of a row, for append and for the final observation.
struct RowCells {
  Row row;
  int64_t shape[1] = {kWords};
  gear_cell cells[3];

  RowCells(uint64_t id, uint64_t seq) {
    fill(&row, id, seq);
    cells[0] = {kId, GEAR_U64, 0, 0, 0, &row.id, nullptr, nullptr, 0};
    cells[1] = {kSeq, GEAR_U64, 0, 0, 0, &row.seq, nullptr, nullptr, 0};
    cells[2] = {kData, GEAR_U64, 1, 0, 0, row.data, shape, nullptr, 0};
  }
  RowCells(const RowCells&) = delete;
  RowCells& operator=(const RowCells&) = delete;
};

}  // namespace

int create_tales(gear_client* client) {
  gear_column_options columns[4];
  const char* const names[] = {"id", "seq", "data", "teller"};
  for (int i = 0; i < 4; ++i) {
    columns[i] = GEAR_COLUMN_OPTIONS_INIT;
    columns[i].name = names[i];
    columns[i].dtype = GEAR_U64;
  }
  columns[kData].rank = 1;
  columns[kData].shape[0] = kWords;
  columns[kTeller].flags = GEAR_COLUMN_PER_EPISODE;
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "tales";
  options.columns = columns;
  options.column_count = 4;
  options.item_policy = GEAR_ITEMS_EXPLICIT;
  options.capacity_items = kRowsARound / 4;
  options.episode_steps_max = kSteps;
  options.lanes_max = 64;
  gear_table* table = nullptr;
  int status = gear_table_create(client, &options, &table);
  return status == GEAR_OK ? gear_table_detach(table) : status;
}

bool Teller::open(gear_table* table) {
  return open_one(place_, "open writer", [&] { return gear_writer_open(table, nullptr, &writer_); });
}

bool Teller::append(uint64_t seq) {
  RowCells step(id_, seq);
  return open_one(place_, "append", [&] {
    Timed timed(place_, survivor_);
    return gear_writer_append(writer_, 0, step.cells, 3, kCallNs);
  });
}

bool Teller::give_cells() {
  uint64_t teller = id_;
  gear_cell cell = {kTeller, GEAR_U64, 0, 0, 0, &teller, nullptr, nullptr, 0};
  return open_one(place_, "episode cells", [&] {
    Timed timed(place_, survivor_);
    return gear_writer_episode_cells(writer_, 0, &cell, 1, kCallNs);
  });
}

bool Teller::make_item() {
  return open_one(place_, "item", [&] {
    Timed timed(place_, survivor_);
    return gear_writer_item(writer_, 0, kSteps, 1.0, kCallNs);
  });
}

bool Teller::end() {
  RowCells last(id_, kFinal + told_);
  return open_one(place_, "end episode", [&] {
    Timed timed(place_, survivor_);
    gear_end how = told_ % 2 == 0 ? GEAR_TERMINATED : GEAR_TRUNCATED;
    // Of every third, no final observation.
    return gear_writer_end_episode(writer_, 0, how, last.cells, told_ % 3 == 0 ? 0 : 3, kCallNs);
  });
}

bool Teller::tell() {
  if (told_ >= kTales) return true;
  for (uint32_t i = 0; i < kSteps; ++i) {
    if (!append(told_ * kSteps + i)) return false;
    if (i == told_ % kSteps && !give_cells()) return false;
  }
  if (!make_item() || !end()) return false;
  bool flushed = open_one(place_, "flush", [&] {
    Timed timed(place_, survivor_);
    return gear_writer_flush(writer_, kCallNs, nullptr);
  });
  if (!flushed) return false;
  place_.board->tales_acked[id_] = ++told_;
  ++place_.board->tales;
  return true;
}

namespace {

// The number of the tale that a row of the batch is, or -1.
int64_t tale_of(const Place& place, const Cells& cells, const uint64_t* teller, uint32_t row) {
  uint64_t first = cells.seq[size_t{row} * kSteps];
  uint64_t id = cells.id[size_t{row} * kSteps];
  bool sound = id < kWriterIds && teller[row] == id && first % kSteps == 0 && first / kSteps < kTales;
  for (uint32_t i = 0; sound && i < kSteps; ++i) {
    size_t at = size_t{row} * kSteps + i;
    sound = cells.id[at] == id && cells.seq[at] == first + i && whole(id, first + i, cells.data + at * kWords);
  }
  place.board->rows_checked += kSteps;
  if (sound) return static_cast<int64_t>(id * kTales + first / kSteps);
  ++place.board->torn;
  fprintf(stderr, "chaos: torn tale: writer %llu, row %llu, teller %llu\n", static_cast<unsigned long long>(id),
          static_cast<unsigned long long>(first), static_cast<unsigned long long>(teller[row]));
  return -1;
}

void read_tales(const Place& place, gear_table* table, std::vector<uint8_t>* seen) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.order = GEAR_ORDER_EPOCH;
  options.seed = 1;
  gear_sampler* sampler = nullptr;
  int status = gear_sampler_open(table, &options, &sampler);
  while (status == GEAR_OK) {
    gear_batch* batch = nullptr;
    status = gear_sample(sampler, 256, kCallNs, &batch);
    if (status != GEAR_OK) break;
    Cells cells(batch);
    gear_tensor teller;
    gear_batch_tensor(batch, kTeller, &teller);
    for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
      int64_t tale = tale_of(place, cells, static_cast<const uint64_t*>(teller.data), row);
      if (tale < 0 || (*seen)[static_cast<size_t>(tale)]++ == 0) continue;
      repeated(place, "the tales", static_cast<uint64_t>(tale) / kTales, static_cast<uint64_t>(tale) % kTales);
    }
    gear_batch_release(batch);
  }
  if (status != GEAR_EEPOCH) complain(place, "read tales", status);
  if (sampler != nullptr) gear_sampler_close(sampler);
}

}  // namespace

void audit_tales(const Place& place, gear_table* table) {
  std::vector<uint8_t> seen(size_t{kWriterIds} * kTales);
  read_tales(place, table, &seen);
  for (size_t id = 0; id < kWriterIds; ++id) {
    for (uint64_t tale = 0; tale < place.board->tales_acked[id]; ++tale) {
      if (seen[id * kTales + tale] > 0) continue;
      ++place.board->lost;
      fprintf(stderr, "chaos: lost: writer %zu, tale %llu\n", id, static_cast<unsigned long long>(tale));
    }
  }
}

}  // namespace gear::chaos
