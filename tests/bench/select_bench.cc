// Selecting items: draws and the copies of their records, 1M items, batches of 256.

#include <cstdio>
#include <cstring>
#include <memory>

#include "base/rng.h"
#include "bench/harness.h"
#include "bench/sum_tree.h"
#include "gather/gather.h"
#include "select/direct.h"
#include "table/table.h"

namespace gear::bench {
namespace {

constexpr uint64_t kItems = 1'000'000;
constexpr uint32_t kBatch = 256;

// A table of 1M step items, filled through its conductor's side.
std::unique_ptr<Table> full_table(uint32_t sampler) {
  layout::TableCreateRequest request{};
  snprintf(request.name, sizeof request.name, "bench");
  request.capacity_items = kItems;
  request.column_count = 1;
  request.sampler = sampler;
  request.lanes_max = 1;
  request.numa_node = -1;
  layout::ColumnSpec column{};
  snprintf(column.name, sizeof column.name, "row");
  column.dtype = GEAR_U64;
  Result<Geometry> geometry = plan_geometry(request, &column);
  must(geometry.status().code(), "plan");
  Result<std::unique_ptr<Table>> made = Table::create(geometry.value(), 1, 1, MemoryOptions{});
  must(made.status().code(), "create");
  std::unique_ptr<Table> table = made.take();
  uint32_t lane = table->open_lane(1);
  Rng rng(3);
  for (uint64_t step = 0; step < kItems; ++step) {
    layout::GrantRecord grant{};
    if (table->unfilled_blocks(lane) == 0 && !table->grant_block(lane, &grant)) abort();
    uint32_t done = 0;
    if (table->set_priority(lane, true, rng.unit() + 0.01) != Admit::kDone) abort();
    if (table->commit(lane, 1, &done) != Admit::kDone) abort();
  }
  return table;
}

double ns_per_draw(int batches, const std::function<void()>& batch) {
  int64_t begin = now_ns();
  for (int i = 0; i < batches; ++i) batch();
  return static_cast<double>(now_ns() - begin) / batches / kBatch;
}

void select_row(Report* report, uint32_t sampler, const char* name, const char* baseline_name,
                const std::function<void(DrawnItem*)>& baseline) {
  std::unique_ptr<Table> table = full_table(sampler);
  TableView view = TableView::over(table->directory().data(), table->data().data());
  const layout::IndexRecord& index = view.header->indexes[view.header->sampler_index];
  Rng rng(5);
  std::vector<Pick> picks(kBatch);
  std::vector<DrawnItem> drawn(kBatch);
  auto ours = [&] {
    if (direct_pick(index, view.header, rng, kBatch, picks.data()) != kBatch) abort();
    for (uint32_t i = 0; i < kBatch; ++i) prefetch_item(view, picks[i].slot);
    for (uint32_t i = 0; i < kBatch; ++i) {
      if (!read_item(view, picks[i].slot, &drawn[i])) abort();
    }
    keep(drawn[0]);
  };
  int batches = quick() ? 500 : 2000;
  Row row{name, "ns/draw", baseline_name, Better::kLower, 1.3};
  measure(&row, [&] { return ns_per_draw(batches, ours); },
          [&] { return ns_per_draw(batches, [&] { baseline(drawn.data()); }); });
  report->add(row);
}

}  // namespace

void bench_select(Report* report) {
  std::vector<layout::ItemRecord> items(kItems);
  for (uint64_t i = 0; i < kItems; ++i) items[i].block = static_cast<uint32_t>(i);
  auto copy_item = [&items](uint64_t slot, DrawnItem* drawn) {
    const layout::ItemRecord& item = items[slot];
    drawn->item_generation = item.generation;
    drawn->block = item.block;
    drawn->position = item.position;
    drawn->length = item.length;
    drawn->episode = item.episode;
    drawn->times_sampled = item.times_sampled;
    drawn->priority = item.priority;
    drawn->key = slot;
  };

  Rng rng(5);
  select_row(report, GEAR_SELECT_UNIFORM, "select uniform, 1M items, batch 256", "bare array of the same records",
             [&](DrawnItem* drawn) {
               for (uint32_t i = 0; i < kBatch; ++i) copy_item(rng.below(kItems), &drawn[i]);
               keep(drawn[0]);
             });

  BareSumTree tree(kItems);
  Rng weights(3);
  for (uint64_t leaf = 0; leaf < kItems; ++leaf) tree.update(leaf, weights.unit() + 0.01);
  select_row(report, GEAR_SELECT_PRIORITIZED, "select prioritized, 1M items, batch 256", "bare sum tree and records",
             [&](DrawnItem* drawn) {
               for (uint32_t i = 0; i < kBatch; ++i) {
                 double probability;
                 copy_item(tree.pick(rng, &probability), &drawn[i]);
                 keep(probability);
               }
               keep(drawn[0]);
             });
}

}  // namespace gear::bench
