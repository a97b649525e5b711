// Selecting items: draws and the copies of their records, 1M items, batches of 256.

#include "bench/conductor_table.h"
#include "bench/sum_tree.h"
#include "select/direct.h"

namespace gear::bench {
namespace {

constexpr uint64_t kItems = 1'000'000;
constexpr uint32_t kBatch = 256;

double ns_per_draw(int batches, const std::function<void()>& batch) {
  int64_t begin = now_ns();
  for (int i = 0; i < batches; ++i) batch();
  return static_cast<double>(now_ns() - begin) / batches / kBatch;
}

void select_row(Report* report, uint32_t sampler, const char* name, const char* baseline_name,
                const std::function<void(DrawnItem*)>& baseline) {
  std::unique_ptr<Table> table = full_table(sampler, kItems, 8);
  TableView view = view_of(*table);
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
