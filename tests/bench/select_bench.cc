// Selecting items: draws and the copies of their records, 1M items, batches of 256.

#include <cmath>
#include <cstdio>

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

void select_row(Report* report, const Table& table, uint32_t of, const char* name,
                const char* baseline_name, double goal,
                const std::function<void(DrawnItem*)>& baseline) {
  TableView view = view_of(table);
  const layout::IndexRecord& index = view.header->indexes[of];
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
  Row row{name, "ns/draw", baseline_name, Better::kLower, goal};
  measure(&row, [&] { return ns_per_draw(batches, ours); },
          [&] { return ns_per_draw(batches, [&] { baseline(drawn.data()); }); });
  report->add(row);
}

// The baseline: the records alone, in private memory.
class BareRecords {
 public:
  BareRecords() : items_(kItems) {
    for (uint64_t i = 0; i < kItems; ++i) items_[i].block = static_cast<uint32_t>(i);
  }
  void copy(uint64_t slot, DrawnItem* drawn) const {
    const layout::ItemRecord& item = items_[slot];
    drawn->item_generation = item.generation;
    drawn->block = item.block;
    drawn->position = item.position;
    drawn->length = item.length;
    drawn->episode = item.episode;
    drawn->times_sampled = item.times_sampled;
    drawn->priority = item.priority;
    drawn->key = slot;
  }

 private:
  std::vector<layout::ItemRecord> items_;
};

constexpr double kHalfLife = kItems / 4.0;
constexpr uint32_t kTop = 10'000;

layout::SelectorSpec named(const char* name, uint32_t selector, double proportion) {
  layout::SelectorSpec spec{};
  snprintf(spec.name, sizeof spec.name, "%s", name);
  spec.selector = selector;
  spec.proportion = proportion;
  spec.alpha = 1;
  spec.half_life = kHalfLife;
  spec.top_k = kTop;
  return spec;
}

void bench_table_samplers(Report* report, const BareRecords& records, const BareSumTree& weighted) {
  Rng rng(5);
  {
    std::unique_ptr<Table> table = full_table(GEAR_SELECT_UNIFORM, kItems, 8);
    select_row(report, *table, 0, "select uniform, 1M items, batch 256",
               "bare array of the same records", 1.3, [&](DrawnItem* drawn) {
                 for (uint32_t i = 0; i < kBatch; ++i) records.copy(rng.below(kItems), &drawn[i]);
                 keep(drawn[0]);
               });
  }
  std::unique_ptr<Table> table = full_table(GEAR_SELECT_PRIORITIZED, kItems, 8);
  select_row(report, *table, 0, "select prioritized, 1M items, batch 256",
             "bare sum tree and records", 1.3, [&](DrawnItem* drawn) {
               for (uint32_t i = 0; i < kBatch; ++i) {
                 double probability;
                 records.copy(weighted.pick(rng, &probability), &drawn[i]);
                 keep(probability);
               }
               keep(drawn[0]);
             });
}

void bench_named(Report* report, const BareRecords& records, const BareSumTree& weighted) {
  std::unique_ptr<Table> table =
      full_table(GEAR_SELECT_MIXTURE, kItems, 8, GEAR_U8,
                 {named("best", GEAR_SELECT_MAX_HEAP, 0), named("top", GEAR_SELECT_TOP_K, 0),
                  named("recent", GEAR_SELECT_RECENCY, 1),
                  named("weighted", GEAR_SELECT_PRIORITIZED, 1)});
  const layout::TableHeader& header = table->header();
  Rng rng(5);
  uint64_t first = 0;
  select_row(report, *table, header.named_index, "select max_heap, 1M items, batch 256",
             "bare heap's root and its record", 0, [&](DrawnItem* drawn) {
               for (uint32_t i = 0; i < kBatch; ++i) {
                 keep(first);
                 records.copy(first, &drawn[i]);
               }
               keep(drawn[0]);
             });
  std::vector<uint32_t> top(kTop);
  for (uint32_t& slot : top) slot = static_cast<uint32_t>(rng.below(kItems));
  select_row(report, *table, header.named_index + 1, "select top_k 10000, 1M items, batch 256",
             "bare array of k and records", 1.3, [&](DrawnItem* drawn) {
               for (uint32_t i = 0; i < kBatch; ++i) records.copy(top[rng.below(kTop)], &drawn[i]);
               keep(drawn[0]);
             });
  BareSumTree recent(kItems);
  for (uint64_t leaf = 0; leaf < kItems; ++leaf) {
    recent.update(leaf, std::exp2(static_cast<double>(leaf) / kHalfLife));
  }
  select_row(report, *table, header.named_index + 2, "select recency, 1M items, batch 256",
             "bare sum tree and records", 1.3, [&](DrawnItem* drawn) {
               for (uint32_t i = 0; i < kBatch; ++i) {
                 double probability;
                 records.copy(recent.pick(rng, &probability), &drawn[i]);
                 keep(probability);
               }
               keep(drawn[0]);
             });
  select_row(report, *table, header.sampler_index, "select mixture of two, 1M items, batch 256",
             "two bare sum trees and records", 1.3, [&](DrawnItem* drawn) {
               for (uint32_t i = 0; i < kBatch; ++i) {
                 bool old = rng.unit() < .5;
                 const BareSumTree& from = old ? weighted : recent;
                 double probability;
                 uint64_t slot = from.pick(rng, &probability);
                 probability += (old ? recent : weighted).probability(slot);
                 records.copy(slot, &drawn[i]);
                 keep(probability);
               }
               keep(drawn[0]);
             });
}

}  // namespace

void bench_select(Report* report) {
  BareRecords records;
  BareSumTree weighted(kItems);
  Rng weights(3);
  for (uint64_t leaf = 0; leaf < kItems; ++leaf) weighted.update(leaf, weights.unit() + 0.01);
  bench_table_samplers(report, records, weighted);
  bench_named(report, records, weighted);
}

}  // namespace gear::bench
