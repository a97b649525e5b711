// Tables for the benches, through the public interface.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "gear.h"

namespace gear::bench {

inline constexpr int64_t kLongTimeout = 30'000'000'000;

// An embedded server with one table of one u8 column "row" of row_bytes.
struct BenchTable {
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  uint64_t row_bytes;
  std::vector<uint8_t> row;
  int64_t shape[1];
  gear_cell cell;

  // `change` may set further options before the table is created.
  template <typename Change>
  BenchTable(uint64_t row_bytes_, uint64_t items, Change change) : row_bytes(row_bytes_), row(row_bytes_, 1) {
    gear_column_options column = GEAR_COLUMN_OPTIONS_INIT;
    column.dtype = GEAR_U8;
    column.name = "row";
    column.rank = 1;
    column.shape[0] = static_cast<int64_t>(row_bytes);
    gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
    options.name = "bench";
    options.columns = &column;
    options.column_count = 1;
    options.capacity_items = items;
    options.populate = GEAR_WANT_TRY;
    options.lanes_max = 16;
    change(&options);
    must(gear_connect("embedded:", nullptr, &client), "connect");
    must(gear_table_create(client, &options, &table), "create table");
    shape[0] = static_cast<int64_t>(row_bytes);
    cell = {0, GEAR_U8, 1, 0, 0, row.data(), shape, nullptr, 0};
  }
  BenchTable(const BenchTable&) = delete;
  BenchTable& operator=(const BenchTable&) = delete;
  ~BenchTable() { gear_close(client); }

  // Appends `steps` rows in one lane, each beginning with its number (8 bytes).
  void fill(uint64_t steps) {
    gear_writer* writer = nullptr;
    must(gear_writer_open(table, nullptr, &writer), "open writer");
    for (uint64_t step = 0; step < steps; ++step) {
      memcpy(row.data(), &step, sizeof step);
      must(gear_writer_append(writer, 0, &cell, 1, kLongTimeout), "append");
    }
    must(gear_writer_flush(writer, kLongTimeout, nullptr), "flush");
    must(gear_writer_close(writer), "close writer");
  }

  gear_sampler* sampler(gear_sample_mode mode, uint32_t rows, uint32_t prefetch) {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = mode;
    options.batch_rows_max = rows;
    options.prefetch = prefetch;
    options.seed = 7;
    gear_sampler* opened = nullptr;
    must(gear_sampler_open(table, &options, &opened), "open sampler");
    return opened;
  }
};

}  // namespace gear::bench
