// What a table is, in plain C++: lists that are searched from end to end, sums added up anew each time. The table under
// test must agree with it item by item.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "gear.h"

namespace gear::test {

struct ModelItem {
  uint64_t key;
  uint64_t first_row;
  uint32_t length;
  double priority;
  uint32_t times_sampled;
  uint32_t reserved;       // of those, drawn and neither taken nor given back
  uint64_t inserted;       // number of its insertion
  uint64_t refreshed;      // order of insertion or latest update, of all such
};

struct ModelOptions {
  uint64_t capacity = 16;
  uint32_t sampler = GEAR_SELECT_UNIFORM;
  uint32_t remover = GEAR_SELECT_FIFO;
  double alpha = 0.6;
  double epsilon = 0;
  uint32_t top_k = 3;
  double half_life = 5;
  uint32_t max_times_sampled = 0;
  std::vector<std::pair<uint32_t, double>> mixture;  // selectors and proportions, with sampler mixture
  uint32_t policy = GEAR_ITEMS_STEP;
  uint32_t item_length = 1;
  uint32_t item_period = 1;
  gear_rate_limiter limiter{1, 1, -1e300, 1e300};
  bool isolated = false;  // which the model does not know of
};

class ModelTable {
 public:
  explicit ModelTable(const ModelOptions& options) : options_(options) {}

  std::vector<ModelItem> items;  // in order of insertion
  uint64_t inserts = 0, samples = 0, deletes = 0, steps = 0, episodes = 0, evictions = 0;
  uint64_t reserved = 0;
  double priority_max = 0;

  // --- limiter
  bool may_insert() const {
    double difference = double(inserts + 1) * options_.limiter.samples_per_insert - double(samples);
    return double(size() + 1) <= double(options_.limiter.min_size) ||
           difference <= options_.limiter.max_diff;
  }
  bool may_draw() const {
    double difference = double(inserts) * options_.limiter.samples_per_insert - double(samples) -
                        double(reserved) - 1;
    return size() >= uint64_t(options_.limiter.min_size) && difference >= options_.limiter.min_diff;
  }
  void retune(const gear_rate_limiter& limiter) { options_.limiter = limiter; }
  uint64_t size() const { return inserts - deletes; }

  // --- steps: how long the item is that the next step makes, 0: none
  uint32_t step_makes() const {
    if (options_.policy == GEAR_ITEMS_STEP) return 1;
    if (options_.policy != GEAR_ITEMS_SEQUENCE) return 0;
    uint64_t after = episode_steps + 1;
    bool full = after >= options_.item_length;
    return full && (after - options_.item_length) % options_.item_period == 0 ? options_.item_length
                                                                              : 0;
  }
  uint32_t end_makes() const {
    bool whole = options_.policy == GEAR_ITEMS_EPISODE;
    bool shorter = options_.policy == GEAR_ITEMS_SEQUENCE && episode_steps < options_.item_length;
    return whole || shorter ? uint32_t(episode_steps) : 0;
  }
  // Whether an item can be had at all: not when all are drawn for the last time and the table is full.
  bool blocked() const { return !may_insert() || (size() >= options_.capacity && indexed().empty()); }

  uint64_t next_row = 0, episode_steps = 0;
  double coming_priority() const { return priority_max > 0 ? priority_max : 1.0; }

  // --- items
  void insert(uint64_t key, uint32_t length, double priority) {
    items.push_back({key, next_row - length, length, priority, 0, 0, ++insertion_, ++order_});
    priority_max = std::max(priority_max, priority);
  }
  // Of the table with the incoming item among its items, before it is counted.
  bool must_evict() const { return size() >= options_.capacity; }
  ModelItem* find(uint64_t key) {
    for (ModelItem& item : items) {
      if (item.key == key) return &item;
    }
    return nullptr;
  }
  void erase(uint64_t key) {
    std::erase_if(items, [key](const ModelItem& item) { return item.key == key; });
    ++deletes;
  }
  void update(ModelItem* item, double priority) {
    item->priority = priority;
    item->refreshed = ++order_;
    priority_max = std::max(priority_max, priority);
  }
  void reset() {
    items.clear();
    inserts = samples = deletes = steps = episodes = evictions = reserved = 0;
    priority_max = 0;
    episode_steps = 0;
  }

  // --- selectors. Items drawn for the last time are in no index.
  std::vector<const ModelItem*> indexed() const {
    std::vector<const ModelItem*> in;
    for (const ModelItem& item : items) {
      bool last = options_.max_times_sampled != 0 && item.times_sampled >= options_.max_times_sampled;
      if (!last) in.push_back(&item);
    }
    return in;
  }
  uint64_t draws_left() const {
    uint64_t left = 0;
    for (const ModelItem* item : indexed()) left += options_.max_times_sampled - item->times_sampled;
    return left;
  }
  // Of a pick by the selector being this item.
  double probability(uint32_t selector, const ModelItem& asked) const {
    if (selector == GEAR_SELECT_MIXTURE) {
      double sum = 0, proportions = 0;
      for (auto [one, proportion] : options_.mixture) {
        if (can_pick(one)) proportions += proportion;
        sum += proportion * probability(one, asked);
      }
      return proportions > 0 ? sum / proportions : 0;
    }
    double sum = 0, own = 0;
    std::vector<const ModelItem*> in = indexed();
    for (const ModelItem* item : in) {
      double weight = weight_of(selector, *item, in);
      sum += weight;
      if (item == &asked) own = weight;
    }
    return sum > 0 ? own / sum : 0;
  }
  bool can_pick(uint32_t selector) const {
    if (selector == GEAR_SELECT_MIXTURE) {
      return std::any_of(options_.mixture.begin(), options_.mixture.end(),
                         [this](const auto& part) { return can_pick(part.first); });
    }
    std::vector<const ModelItem*> in = indexed();
    return std::any_of(in.begin(), in.end(), [&](const ModelItem* item) {
      return weight_of(selector, *item, in) > 0;
    });
  }

 private:
  double weight_of(uint32_t selector, const ModelItem& item,
                   const std::vector<const ModelItem*>& in) const {
    auto first = [&](auto before) {
      return std::none_of(in.begin(), in.end(),
                          [&](const ModelItem* other) { return before(*other, item); });
    };
    auto higher = [](const ModelItem& a, const ModelItem& b) {
      return a.priority > b.priority || (a.priority == b.priority && a.refreshed < b.refreshed);
    };
    switch (selector) {
      case GEAR_SELECT_UNIFORM: return 1;
      case GEAR_SELECT_FIFO: return first([](auto& a, auto& b) { return a.inserted < b.inserted; });
      case GEAR_SELECT_LIFO: return first([](auto& a, auto& b) { return a.inserted > b.inserted; });
      case GEAR_SELECT_MAX_HEAP: return first(higher);
      case GEAR_SELECT_MIN_HEAP:
        return first([](const ModelItem& a, const ModelItem& b) {
          return a.priority < b.priority || (a.priority == b.priority && a.refreshed < b.refreshed);
        });
      case GEAR_SELECT_TOP_K: {
        auto above = std::count_if(in.begin(), in.end(),
                                   [&](const ModelItem* other) { return higher(*other, item); });
        return above < options_.top_k ? 1 : 0;
      }
      case GEAR_SELECT_RECENCY:
        return std::exp2(-double(insertion_ - item.inserted) / options_.half_life);
      default: {
        double base = item.priority + options_.epsilon;
        return base > 0 ? std::pow(base, options_.alpha) : 0;
      }
    }
  }
  ModelOptions options_;
  uint64_t order_ = 0;
  uint64_t insertion_ = 0;
};

}  // namespace gear::test
