// Gathering drawn items, with all its checks, against a plain memcpy of rows of the same table drawn the same way; and, without
// a goal, whole gear_sample calls against the same.

#include <cstring>

#include "bench/bench_table.h"
#include "bench/conductor_table.h"
#include "select/direct.h"

namespace gear::bench {
namespace {

// Freshly drawn items of a table, so that neither side finds its rows in a cache.
class Draws {
 public:
  Draws(const TableView& view, uint32_t rows) : view_(view), picks_(rows), items(rows) {}
  void draw() {
    auto rows = static_cast<uint32_t>(items.size());
    const layout::IndexRecord& index = view_.header->indexes[view_.header->sampler_index];
    if (direct_pick(index, view_.header, rng_, rows, picks_.data()) != rows) abort();
    for (uint32_t row = 0; row < rows; ++row) {
      if (!read_item(view_, picks_[row].slot, &items[row])) abort();
    }
  }

 private:
  const TableView& view_;
  Rng rng_{17};
  std::vector<Pick> picks_;

 public:
  std::vector<DrawnItem> items;
};

int batches_for(uint64_t batch_bytes) {
  uint64_t bytes = quick() ? 32u << 20 : 128u << 20;
  return static_cast<int>(std::max<uint64_t>(8, bytes / batch_bytes));
}

void gather_row_size(Report* report, uint64_t row_bytes, uint64_t rows_total, uint32_t rows,
                     const char* label, double goal) {
  std::unique_ptr<Table> table = full_table(GEAR_SELECT_UNIFORM, rows_total, row_bytes);
  TableView view = view_of(*table);
  std::vector<WindowPlan> plan = plan_windows(view, nullptr, 0).take();
  std::vector<char> target(row_bytes * rows, 0);
  std::vector<uint8_t> mask(rows);
  std::vector<uint32_t> lengths(rows), anchors(rows, 0);
  std::vector<GatherOutcome> outcomes(rows);
  WindowBuffer buffer{target.data(), mask.data(), lengths.data(), row_bytes};
  Draws draws(view, rows);
  int batches = batches_for(row_bytes * rows);

  auto rate = [&](const std::function<void()>& copy) {
    int64_t spent = 0;
    for (int i = 0; i < batches; ++i) {
      draws.draw();
      int64_t begin = now_ns();
      copy();
      spent += now_ns() - begin;
      keep(target[0]);
    }
    return static_cast<double>(row_bytes) * rows * batches / static_cast<double>(spent);
  };
  auto gather = [&] {
    if (gather_rows(view, plan, draws.items.data(), anchors.data(), rows, 0, &buffer,
                    outcomes.data()) != 0) {
      abort();
    }
  };
  auto plain = [&] {
    for (uint32_t row = 0; row < rows; ++row) {
      const DrawnItem& item = draws.items[row];
      memcpy(&target[row * row_bytes], view.block_data(item.block) + item.position * row_bytes,
             row_bytes);
    }
  };
  Row row{std::string("gather direct, rows of ") + label, "GB/s", "memcpy of the rows", Better::kHigher,
          goal};
  measure(&row, [&] { return rate(gather); }, [&] { return rate(plain); });
  report->add(row);
}

// Select, read, gather, describe, hand out and release, as a learner does it.
void whole_sample(Report* report) {
  constexpr uint64_t kBytes = 256, kRows = 1u << 20;
  constexpr uint32_t kBatch = 256;
  BenchTable bench(kBytes, kRows, [](gear_table_options* options) { options->lanes_max = 1; });
  bench.fill(kRows);
  gear_sampler* sampler = bench.sampler(GEAR_SAMPLE_DIRECT, kBatch, 0);
  std::unique_ptr<Table> plain = full_table(GEAR_SELECT_UNIFORM, kRows, kBytes);
  TableView view = view_of(*plain);
  Draws draws(view, kBatch);
  std::vector<char> target(kBytes * kBatch);
  auto sample = [&] {
    gear_batch* batch = nullptr;
    must(gear_sample(sampler, kBatch, kLongTimeout, &batch), "sample");
    must(gear_batch_release(batch), "release");
  };
  // The first touch of a page by this mapping is a fault.
  for (uint64_t rows = 0; rows < kRows * 5; rows += kBatch) sample();
  int batches = batches_for(kBytes * kBatch);
  Row row{"whole gear_sample, 256 rows of 256 B", "ns/row", "memcpy of the rows", Better::kLower, 0};
  auto ns_per_row = [&](bool ours) {
    int64_t spent = 0;
    for (int i = 0; i < batches; ++i) {
      draws.draw();
      int64_t begin = now_ns();
      if (ours) {
        sample();
      } else {
        for (uint32_t k = 0; k < kBatch; ++k) {
          const DrawnItem& item = draws.items[k];
          memcpy(&target[k * kBytes], view.block_data(item.block) + item.position * kBytes, kBytes);
        }
        keep(target[0]);
      }
      spent += now_ns() - begin;
    }
    return static_cast<double>(spent) / batches / kBatch;
  };
  measure(&row, [&] { return ns_per_row(true); }, [&] { return ns_per_row(false); });
  report->add(row);
}

}  // namespace

void bench_gather(Report* report) {
  gather_row_size(report, 256, 1u << 20, 256, "256 B", 0.60);
  gather_row_size(report, 4096, 1u << 16, 256, "4 KiB", 0.85);
  gather_row_size(report, 65536, 1u << 12, 64, "64 KiB", 0.95);
  gather_row_size(report, 1u << 20, 1u << 9, 16, "1 MiB", 0.95);
  whole_sample(report);
}

}  // namespace gear::bench
