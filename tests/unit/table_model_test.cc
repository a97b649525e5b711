// ctest: labels=unit timeout=180
//
// Random operations on a table and on a model of it (support/model_table.h), which must agree item by item after each:
// every sampler with every remover, under every kind of limiter and item policy. More than a million operations in all;
// GEAR_TEST_SEED gives other ones, GEAR_MODEL_OPERATIONS more.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "base/rng.h"
#include "support/bare_table.h"
#include "support/model_table.h"
#include "table/table.h"

namespace gear::test {
namespace {

uint64_t env_number(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text != nullptr ? strtoull(text, nullptr, 0) : otherwise;
}

std::unique_ptr<Table> make_table(const ModelOptions& options) {
  layout::TableCreateRequest request{};
  snprintf(request.name, sizeof request.name, "t");
  request.capacity_items = options.capacity;
  request.capacity_steps = 8192;  // blocks are never short: only capacity evicts
  request.column_count = 1;
  request.lanes_max = 1;
  request.block_steps = 8;
  request.numa_node = -1;
  request.sampler = options.sampler;
  request.remover = options.remover;
  request.priority_alpha = options.alpha == 0 ? GEAR_ALPHA_ZERO : options.alpha;
  request.priority_epsilon = options.epsilon;
  request.top_k = options.top_k;
  request.half_life = options.half_life;
  request.max_times_sampled = options.max_times_sampled;
  request.payload_isolation = options.isolated;
  request.item_policy = options.policy;
  if (options.policy == GEAR_ITEMS_SEQUENCE) {
    request.item_length = options.item_length;
    request.item_period = options.item_period;
  } else if (options.policy != GEAR_ITEMS_STEP) {
    request.episode_steps_max = 64;
  }
  request.limiter = {options.limiter.samples_per_insert, options.limiter.min_size,
                     options.limiter.min_diff, options.limiter.max_diff};
  layout::SelectorSpec selectors[layout::kNamedSelectorsMax]{};
  for (auto [selector, proportion] : options.mixture) {
    layout::SelectorSpec& spec = selectors[request.selector_count++];
    snprintf(spec.name, sizeof spec.name, "s%u", request.selector_count);
    spec = {{}, selector, options.top_k, options.alpha, options.epsilon, options.half_life, proportion};
    snprintf(spec.name, sizeof spec.name, "s%u", request.selector_count);
  }
  layout::ColumnSpec column = u64_column();
  return make_bare(request, &column, selectors);
}

// What really happened, so that a test that no longer does anything is noticed.
struct Tally {
  uint64_t inserts = 0, evictions = 0, draws = 0, takes = 0, returns = 0, updates = 0, deletes = 0,
           resets = 0, blocked = 0;
};

// One table, its model, and operations that are done to both.
class Pair {
 public:
  Tally tally;

  Pair(const ModelOptions& options, uint64_t seed)
      : options_(options), model_(options), table_(make_table(options)), rng_(seed), draws_(seed) {
    if (table_->parted()) table_->take_part(1, 1000).value();
    lane_ = table_->open_lane(1);
  }

  void operate() {
    uint64_t dice = rng_.below(100);
    if (dice < 38) return append();
    if (dice < 43) return end();
    if (dice < 63) return draw();
    if (dice < 77) return resolve();
    if (dice < 90) return update();
    if (dice < 97) return erase();
    if (dice < 99) return retune();
    if (rng_.below(40) == 0) reset();
  }

  // Everything that can be seen from outside.
  void compare() {
    const layout::TableCounters& counters = table_->header().counters;
    ASSERT_EQ(counters.items, model_.size());
    ASSERT_EQ(counters.inserts, model_.inserts);
    ASSERT_EQ(counters.samples, model_.samples);
    ASSERT_EQ(counters.deletes, model_.deletes);
    ASSERT_EQ(counters.evictions, model_.evictions);
    ASSERT_EQ(counters.steps, model_.steps);
    ASSERT_EQ(counters.episodes, model_.episodes);
    ASSERT_EQ(counters.priority_max, model_.priority_max);
    std::map<uint64_t, layout::ItemRecord> alive = alive_items();
    ASSERT_EQ(alive.size(), model_.items.size());
    for (const ModelItem& item : model_.items) {
      ASSERT_EQ(alive.count(item.key), 1u);
      const layout::ItemRecord& record = alive[item.key];
      ASSERT_EQ(blocks()[record.block].start_row + record.position, item.first_row);
      ASSERT_EQ(record.length, item.length);
      ASSERT_EQ(record.priority, item.priority);
      ASSERT_EQ(record.times_sampled, item.times_sampled);
    }
    bool ready = !model_.indexed().empty() && model_.may_draw() &&
                 (options_.max_times_sampled == 0 || model_.draws_left() >= 1);
    ASSERT_EQ(table_->draws_ready(1), ready);
  }

 private:
  const layout::BlockRecord* blocks() const {
    return layout::at_offset<layout::BlockRecord>(table_->directory().data(),
                                                  table_->header().blocks_offset);
  }
  std::map<uint64_t, layout::ItemRecord> alive_items() const {
    const layout::TableHeader& header = table_->header();
    const auto* items =
        layout::at_offset<layout::ItemRecord>(table_->directory().data(), header.items_offset);
    std::map<uint64_t, layout::ItemRecord> alive;
    for (uint32_t slot = 0; slot < header.item_slots; ++slot) {
      if (items[slot].generation % 2 == 0) continue;
      alive[layout::make_key(items[slot].generation, slot, header.slot_bits)] = items[slot];
    }
    return alive;
  }

  double some_priority() {
    static constexpr double kSome[] = {0, 0.5, 1, 1, 2, 3, 10};
    return rng_.below(2) == 0 ? kSome[rng_.below(std::size(kSome))]
                              : static_cast<double>(rng_.below(1000)) / 100;
  }

  void append() {
    layout::GrantRecord grant{};
    if (table_->unfilled_blocks(lane_) == 0) {
      ASSERT_TRUE(table_->grant_block(lane_, &grant));
    }
    if (model_.episode_steps >= 60) return end();
    double priority = set_priority();
    uint32_t makes = model_.step_makes();
    bool blocked = makes > 0 && model_.blocked();
    uint32_t done = 0;
    ASSERT_EQ(table_->commit(lane_, 1, &done), blocked ? Admit::kBlocked : Admit::kDone);
    tally.blocked += blocked ? 1 : 0;
    if (blocked) return;
    ++model_.steps;
    ++model_.next_row;
    ++model_.episode_steps;
    if (makes > 0) item_came(makes, priority);
  }

  double set_priority() {
    bool given = rng_.below(4) != 0;
    double priority = given ? some_priority() : model_.coming_priority();
    EXPECT_EQ(table_->set_priority(lane_, given, priority), Admit::kDone);
    return priority;
  }

  void end() {
    if (model_.episode_steps == 0) return;
    double priority = set_priority();
    uint32_t makes = model_.end_makes();
    bool blocked = makes > 0 && model_.blocked();
    Admit admit = table_->end_episode(lane_, GEAR_TERMINATED, table_->lane_rows(lane_));
    ASSERT_EQ(admit, blocked ? Admit::kBlocked : Admit::kDone);
    if (blocked) return;
    ++model_.episodes;
    if (makes > 0) item_came(makes, priority);
    model_.episode_steps = 0;
  }

  // The table made an item, and evicted one if it was full: which one its remover says, or chance.
  void item_came(uint32_t length, double priority) {
    std::map<uint64_t, layout::ItemRecord> alive = alive_items();
    uint64_t key = kItself;
    for (const auto& [one, record] : alive) {
      if (model_.find(one) == nullptr) key = one;
    }
    bool evicts = model_.must_evict();
    model_.insert(key, length, priority);
    if (evicts) {
      std::vector<uint64_t> gone;
      for (const ModelItem& item : model_.items) {
        if (alive.count(item.key) == 0) gone.push_back(item.key);
      }
      ASSERT_EQ(gone.size(), 1u);
      bool may_choose = model_.can_pick(options_.remover);
      double chance = model_.probability(options_.remover, *model_.find(gone[0]));
      ASSERT_TRUE(chance > 0 || !may_choose) << "the remover took what it could not";
      model_.erase(gone[0]);
      ++model_.evictions;
      ++tally.evictions;
      if (gone[0] != kItself) dead_.push_back(gone[0]);
    }
    ASSERT_TRUE(key != kItself || evicts);
    ++model_.inserts;
    ++tally.inserts;
  }

  void draw() {
    if (!table_->draws_ready(1)) return;
    Drawn drawn;
    bool may = model_.can_pick(options_.sampler);
    ASSERT_EQ(table_->draw(draws_, &drawn), may);
    if (!may) return;
    ModelItem* item = model_.find(drawn.record.key);
    ASSERT_NE(item, nullptr) << "drew what is not there";
    double chance = model_.probability(options_.sampler, *item);
    ASSERT_GT(chance, 0) << "drew what the selector cannot";
    ASSERT_NEAR(drawn.record.probability / chance, 1.0, 1e-9);
    ASSERT_EQ(drawn.record.priority, item->priority);
    ASSERT_EQ(drawn.record.length, item->length);
    ASSERT_EQ(drawn.record.times_sampled, ++item->times_sampled);
    ++model_.reserved;
    ++tally.draws;
    pending_.push_back(drawn);
  }

  // A draw is taken or given back, then let go.
  void resolve() {
    if (pending_.empty()) return;
    size_t at = rng_.below(pending_.size());
    Drawn drawn = pending_[at];
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(at));
    bool current = drawn.epoch == table_->header().counters.epoch;
    ModelItem* item = current ? model_.find(drawn.record.key) : nullptr;
    if (rng_.below(3) != 0) {
      table_->take(drawn);
      ++tally.takes;
      if (current) --model_.reserved, ++model_.samples;
      bool last = item != nullptr && options_.max_times_sampled != 0 &&
                  item->times_sampled >= options_.max_times_sampled;
      if (last) kill_item(drawn.record.key);
    } else {
      table_->give_back(drawn);
      ++tally.returns;
      if (current) --model_.reserved;
      if (item != nullptr) --item->times_sampled;
    }
    table_->unpin(drawn.pin);
  }

  void kill_item(uint64_t key) {
    model_.erase(key);
    dead_.push_back(key);
  }

  // A key that lives, mostly; one that is dead; one that never was.
  uint64_t some_key(bool* alive) {
    uint64_t dice = rng_.below(10);
    *alive = dice < 8 && !model_.items.empty();
    if (*alive) return model_.items[rng_.below(model_.items.size())].key;
    if (dice < 9 && !dead_.empty()) return dead_[rng_.below(dead_.size())];
    return kNever;
  }

  void update() {
    bool alive = false;
    uint64_t key = some_key(&alive);
    double priority = rng_.below(20) == 0 ? -1 : some_priority();
    Table::KeyOutcome outcome = table_->update_priority(key, priority);
    if (!alive) {
      ASSERT_EQ(outcome, key == kNever ? Table::KeyOutcome::kUnknown : Table::KeyOutcome::kStale);
    } else if (priority < 0) {
      ASSERT_EQ(outcome, Table::KeyOutcome::kRejected);
    } else {
      ASSERT_EQ(outcome, Table::KeyOutcome::kApplied);
      model_.update(model_.find(key), priority);
      ++tally.updates;
    }
  }

  void erase() {
    bool alive = false;
    uint64_t key = some_key(&alive);
    Table::KeyOutcome outcome = table_->delete_item(key);
    if (!alive) {
      ASSERT_EQ(outcome, key == kNever ? Table::KeyOutcome::kUnknown : Table::KeyOutcome::kStale);
      return;
    }
    ASSERT_EQ(outcome, Table::KeyOutcome::kApplied);
    kill_item(key);
    ++tally.deletes;
  }

  void retune() {
    gear_rate_limiter limiter = options_.limiter;
    limiter.min_diff -= static_cast<double>(rng_.below(8));
    limiter.max_diff += static_cast<double>(rng_.below(8));
    limiter.min_size += static_cast<int64_t>(rng_.below(3));
    table_->retune(limiter);
    model_.retune(limiter);
  }

  void reset() {
    table_->reset();
    for (const ModelItem& item : model_.items) dead_.push_back(item.key);
    model_.reset();
    ++tally.resets;
  }

  static constexpr uint64_t kItself = 0;
  static constexpr uint64_t kNever = 0x00ffffffffffff00u;

  ModelOptions options_;
  ModelTable model_;
  std::unique_ptr<Table> table_;
  Rng rng_;
  Rng draws_;
  uint32_t lane_ = 0;
  std::vector<Drawn> pending_;
  std::vector<uint64_t> dead_;
};

void add(const Tally& one, Tally* all) {
  all->inserts += one.inserts;
  all->evictions += one.evictions;
  all->draws += one.draws;
  all->takes += one.takes;
  all->returns += one.returns;
  all->updates += one.updates;
  all->deletes += one.deletes;
  all->resets += one.resets;
  all->blocked += one.blocked;
}

constexpr uint32_t kSamplers[] = {
    GEAR_SELECT_UNIFORM,  GEAR_SELECT_PRIORITIZED, GEAR_SELECT_FIFO,
    GEAR_SELECT_LIFO,     GEAR_SELECT_MAX_HEAP,    GEAR_SELECT_MIN_HEAP,
    GEAR_SELECT_TOP_K,    GEAR_SELECT_RECENCY,     GEAR_SELECT_MIXTURE};
constexpr uint32_t kRemovers[] = {GEAR_SELECT_FIFO,     GEAR_SELECT_UNIFORM,
                                  GEAR_SELECT_LIFO,     GEAR_SELECT_PRIORITIZED,
                                  GEAR_SELECT_MAX_HEAP, GEAR_SELECT_MIN_HEAP};
const gear_rate_limiter kLimiters[] = {{1, 1, -1e300, 1e300},   // min_size(1)
                                       {1, 6, -1e300, 1e300},   // min_size(6)
                                       {2, 4, 8 - 6, 8 + 6},    // ratio(2, 4, 6)
                                       {0.5, 3, -4, 9},         // bounds
                                       {1, 1, 0, 8}};           // queue(8)

// The case's limiter, policy and counts follow from its number, so that all of them meet all selectors.
ModelOptions options_of(uint32_t number) {
  ModelOptions options;
  options.sampler = kSamplers[number % std::size(kSamplers)];
  options.remover = kRemovers[number / std::size(kSamplers) % std::size(kRemovers)];
  options.limiter = kLimiters[number % std::size(kLimiters)];
  static constexpr uint32_t kTimes[] = {0, 1, 2, 0};
  static constexpr uint64_t kCapacities[] = {1, 2, 7, 16};
  options.max_times_sampled = kTimes[number / 5 % std::size(kTimes)];
  options.capacity = kCapacities[(number + number / 7) % std::size(kCapacities)];
  options.limiter.min_size = std::min(options.limiter.min_size, static_cast<int64_t>(options.capacity));
  options.epsilon = number % 3 == 0 ? 0.25 : 0;
  options.alpha = number % 4 == 0 ? 1 : 0.6;
  static constexpr uint32_t kPolicies[] = {GEAR_ITEMS_STEP, GEAR_ITEMS_STEP, GEAR_ITEMS_SEQUENCE,
                                           GEAR_ITEMS_EPISODE};
  options.policy = kPolicies[number / 2 % std::size(kPolicies)];
  if (options.policy == GEAR_ITEMS_SEQUENCE) options.item_length = 5, options.item_period = 2;
  if (options.sampler == GEAR_SELECT_MIXTURE) {
    options.mixture = {{GEAR_SELECT_UNIFORM, 1}, {GEAR_SELECT_PRIORITIZED, 2},
                       {GEAR_SELECT_MAX_HEAP, 0.5}};
  }
  options.isolated = number % 4 == 3;
  return options;
}

constexpr uint32_t kCases = std::size(kSamplers) * std::size(kRemovers) * std::size(kLimiters);

TEST(TableAgainstModel, AgreesItemByItemAfterEveryOperation) {
  uint64_t seed = env_number("GEAR_TEST_SEED", 1);
  uint64_t operations = env_number("GEAR_MODEL_OPERATIONS", 1'080'000);
  printf("seed %llu, %llu operations on %u tables\n", static_cast<unsigned long long>(seed),
         static_cast<unsigned long long>(operations), kCases);
  Tally all;
  for (uint32_t number = 0; number < kCases; ++number) {
    Pair pair(options_of(number), seed * 1000 + number);
    for (uint64_t i = 0; i < operations / kCases; ++i) {
      pair.operate();
      if (!HasFatalFailure()) pair.compare();
      if (HasFailure()) {
        ModelOptions options = options_of(number);
        FAIL() << "case " << number << ", operation " << i << ": sampler " << options.sampler
               << ", remover " << options.remover << ", capacity " << options.capacity
               << ", max_times_sampled " << options.max_times_sampled << ", policy "
               << options.policy;
      }
    }
    add(pair.tally, &all);
  }
  uint64_t least = operations / 100;
  for (uint64_t count : {all.inserts, all.evictions, all.draws, all.takes, all.returns, all.updates,
                         all.deletes, all.blocked}) {
    printf("%llu ", static_cast<unsigned long long>(count));
    EXPECT_GT(count, least);
  }
  printf("inserts, evictions, draws, takes, returns, updates, deletes, blocked; %llu resets\n",
         static_cast<unsigned long long>(all.resets));
  EXPECT_GT(all.resets, 0u);
}

}  // namespace
}  // namespace gear::test
