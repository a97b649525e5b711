// ctest: labels=crash timeout=600
//
// A conductor dies after each of its stores to a table, one after the other; another adopts the table, finishes what was
// begun, applies the interrupted record again and goes on. Contents, counters and selectors must be those of a run that
// nobody interrupted. GEAR_TEST_SEED gives other scenarios.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/rng.h"
#include "crash/adoption_places.h"
#include "crash/table_scenario.h"
#include "support/bare_table.h"

namespace gear::test {
namespace {

struct Setup {
  const char* name;
  uint32_t policy = GEAR_ITEMS_STEP;
  uint32_t sampler = GEAR_SELECT_UNIFORM;
  uint32_t remover = GEAR_SELECT_FIFO;
  uint64_t capacity = 6;
  uint32_t block_steps = 4;
  bool cells = false;      // a per-episode column
  bool versions = false;
  uint32_t windows = 1;
  uint64_t capacity_bytes = 0;
  uint32_t max_times_sampled = 0;
  uint32_t item_length = 3;
  uint32_t episodes = 5;
  uint32_t new_priority = 0;
  uint32_t parts = 0;    // payload isolation
  double half_life = 4;  // below 0.5, what no caller may ask for: weights are scaled often
  bool exact() const { return remover != GEAR_SELECT_UNIFORM && remover != GEAR_SELECT_PRIORITIZED; }
};

std::unique_ptr<Table> make_table(const Setup& setup) {
  layout::TableCreateRequest request{};
  snprintf(request.name, sizeof request.name, "t");
  request.capacity_items = setup.capacity;
  request.capacity_steps = 64;
  request.column_count = setup.cells ? 2 : 1;
  request.lanes_max = 4;
  request.block_steps = setup.block_steps;
  request.numa_node = -1;
  request.sampler = setup.sampler;
  request.remover = setup.remover;
  request.top_k = 3;
  request.half_life = std::max(setup.half_life, 0.5);
  request.priority_alpha = 0.7;
  request.item_policy = setup.policy;
  if (setup.policy == GEAR_ITEMS_SEQUENCE) {
    request.item_length = setup.item_length;
    request.item_period = 1;
  } else if (setup.policy != GEAR_ITEMS_STEP) {
    request.episode_steps_max = 16;
  }
  request.limiter = {1, 1, -DBL_MAX, DBL_MAX};
  request.window_before_max = setup.windows == 0 ? GEAR_REACH_NONE : setup.windows;
  request.window_after_max = setup.windows == 0 ? GEAR_REACH_NONE : setup.windows;
  request.versions = setup.versions;
  request.payload_isolation = setup.parts != 0;
  request.writers_max = setup.parts;
  request.capacity_bytes = setup.capacity_bytes;
  request.new_priority = setup.new_priority;
  layout::SelectorSpec selectors[2]{};
  if (setup.sampler == GEAR_SELECT_MIXTURE) {
    request.selector_count = 2;
    selectors[0] = {{}, GEAR_SELECT_PRIORITIZED, 3, 0.5, 0.1, 4, 0.25};
    selectors[1] = {{}, GEAR_SELECT_LIFO, 3, 0.5, 0.1, 4, 0.75};
    snprintf(selectors[0].name, sizeof selectors[0].name, "a");
    snprintf(selectors[1].name, sizeof selectors[1].name, "b");
  }
  const layout::ColumnSpec columns[] = {u64_column(), u64_column("e", GEAR_COLUMN_PER_EPISODE)};
  Geometry geometry = plan_bare(request, columns, selectors);
  for (layout::IndexRecord& index : geometry.header.indexes) {
    if (index.selector == GEAR_SELECT_RECENCY) index.half_life = setup.half_life;
  }
  return create_bare(geometry);
}

// Writes the list of operations: what two writers do, and their server.
class Script {
 public:
  Script(const Setup& setup, uint64_t seed) : setup_(setup), rng_(seed) {
    add({Do::kOpen, 1, 0});
    add({Do::kOpen, 1, 1});
    add({Do::kName, 1, 0, 7});
    add({Do::kName, 1, 1, 8});
    for (uint32_t i = 0; i < setup_.episodes; ++i) {
      episode(1, i % 2);
      between();
      if (i == setup_.episodes / 2) add({Do::kReset});
    }
    steps(1, 1, 2);  // in an open episode
    add({Do::kTakeOver, 1, 1});
    add({Do::kOpen, 2, 0});
    add({Do::kName, 2, 0, 8});
    episode(2, 0);
    add({Do::kRelease, 1});
    steps(1, 0, 3);
    add({Do::kOpen, 2, 1});
    add({Do::kName, 2, 1, 7});  // that of a lane whose writer is leaving
    add({Do::kCloseLane, 1, 0});
    episode(2, 0);
    between();
    add({Do::kClose});
  }
  std::vector<Operation> operations;

 private:
  struct Stream {
    uint64_t rows = 0, granted = 0, episode = 0;
    uint32_t slots = 0;
    bool given = false;
  };
  void add(const Operation& op) { operations.push_back(op); }
  void room(uint32_t channel, uint32_t lane, uint64_t rows) {
    Stream& stream = streams_[channel * 4 + lane];
    if (setup_.cells && stream.slots == 0) {
      add({Do::kNeedEpisode, channel, lane});
      add({Do::kServe, channel, lane});
      ++stream.slots;
    }
    if (stream.granted >= stream.rows + rows) return;
    uint64_t blocks = (stream.rows + rows - stream.granted + setup_.block_steps - 1) / setup_.block_steps;
    add({Do::kNeed, channel, lane, uint32_t(blocks)});
    add({Do::kServe, channel, lane});
    stream.granted += blocks * setup_.block_steps;
  }
  void steps(uint32_t channel, uint32_t lane, uint32_t count) {
    room(channel, lane, count);
    Stream& stream = streams_[channel * 4 + lane];
    stream.rows += count;
    stream.episode += count;
    add({Do::kCommit, channel, lane, count, stream.rows});
    bool item = setup_.policy == GEAR_ITEMS_EXPLICIT;
    if (!item) return;
    add({Do::kItem, channel, lane, uint32_t(1 + rng_.below(stream.episode)), 0, double(1 + rng_.below(9))});
    if (rng_.below(3) == 0) add({Do::kItem, channel, lane, 99, 0, 1.0});  // too long: rejected
  }
  void episode(uint32_t channel, uint32_t lane) {
    Stream& stream = streams_[channel * 4 + lane];
    if (rng_.below(2) == 0) {
      add({Do::kPriority, channel, lane, 0, 0, double(1 + rng_.below(7)), uint32_t(rng_.below(3) > 0)});
    }
    if (setup_.versions) add({Do::kVersion, channel, lane, 0, rng_.below(9)});
    for (uint64_t left = 1 + rng_.below(8); left > 0;) {
      auto count = uint32_t(1 + rng_.below(left));
      steps(channel, lane, count);
      left -= count;
      if (setup_.cells && !stream.given && rng_.below(2) == 0) {
        add({Do::kCells, channel, lane});
        stream.given = true;
      }
    }
    bool final = rng_.below(2) == 0;
    if (final) room(channel, lane, 1);
    stream.rows += final;
    uint32_t flags = rng_.below(2) == 0 ? GEAR_TERMINATED : GEAR_TRUNCATED;
    add({Do::kEnd, channel, lane, 0, stream.rows, 0, flags | (final ? layout::kEndHasFinal : 0)});
    stream.episode = 0;
    stream.given = false;
    if (stream.slots > 0) --stream.slots;
  }
  void between() {
    if (rng_.below(2) == 0) add({Do::kUpdate, 3, 0, uint32_t(rng_.below(50)), 0, double(rng_.below(20))});
    if (rng_.below(2) == 0) add({Do::kDelete, 3, 0, uint32_t(rng_.below(50))});
    if (rng_.below(3) == 0) add({Do::kRetune, 3, 0, retunes_++, 0, double(1 + rng_.below(3))});
  }

  Setup setup_;
  Rng rng_;
  uint32_t retunes_ = 0;
  std::map<uint32_t, Stream> streams_;
};

struct Tally {
  uint64_t stores = 0, crashes = 0, twice = 0, unclaimed = 0;
};
Tally tally;

class Scenario {
 public:
  Scenario(const Setup& setup, uint64_t seed) : setup_(setup), script_(setup, seed), rng_(seed) {
    applied_ = static_cast<uint64_t*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~Scenario() { munmap(applied_, 4096); }

  void run() {
    uint64_t stores = run_whole();
    tally.stores += stores;
    for (uint64_t at = 1; at <= stores && !::testing::Test::HasFailure(); ++at) {
      SCOPED_TRACE(std::string(setup_.name) + ": death after store " + std::to_string(at));
      bool unclaimed = at % 23 == 0;
      uint64_t second = at % 11 == 0 ? 1 + rng_.below(adoption_stores_) : 0;
      crash_and_adopt(at, second, unclaimed);
    }
    for (const auto& [at, place] : places_.deaths()) {
      if (::testing::Test::HasFailure()) break;
      SCOPED_TRACE(std::string(setup_.name) + ": death after store " + std::to_string(at) + ", then at " + place);
      crash_and_adopt(at, 0, false, place);
    }
    printf("%-28s %5zu operations, %6llu stores\n", setup_.name, script_.operations.size(), (unsigned long long)stores);
  }

 private:
  // Returns the stores, and notes what there is to see after each operation.
  uint64_t run_whole() {
    Driver driver(make_table(setup_));
    crash_points_arm(0);
    for (size_t i = 0; i < script_.operations.size() && !::testing::Test::HasFatalFailure(); ++i) {
      Operation& op = script_.operations[i];
      if (op.what == Do::kUpdate || op.what == Do::kDelete) {
        std::vector<uint64_t> names = names_of(driver.table());
        op.rows_after = names.empty() ? 0 : names[op.count % names.size()];
      }
      driver.apply(op, i);
      pictures_.push_back(picture_of(driver.table()));
    }
    uint64_t stores = crash_points_counted();
    EXPECT_EQ(driver.table().memory_moves() > 0, setup_.parts > 0);
    expect_all_back(driver);
    return stores;
  }

  // In a child that stops after a store; true when it did.
  bool fork_and_die(std::unique_ptr<Table>& table, uint64_t at, bool adopt, const std::string& place = "") {
    fflush(stdout);
    madvise(table->directory().data(), table->directory().size(), MADV_DOFORK);
    for (uint32_t part = 0; part < std::max(table->header().parts, 1u); ++part) {
      madvise(table->data().segment(part).data(), table->data().segment(part).size(), MADV_DOFORK);
    }
    pid_t child = fork();
    if (child == 0) {
      crash_points_arm(at);
      if (!place.empty()) crash_points_arm_at(place, 1);
      Driver driver(adopt ? adopted(std::move(table)) : std::move(table));
      if (adopt) {
        driver.claim(true);
        driver.table().finish_adoption();
      }
      for (; *applied_ < script_.operations.size(); ++*applied_) {
        driver.apply(script_.operations[*applied_], *applied_);
        if (adopt) break;
      }
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    bool sound = WIFEXITED(status) && (WEXITSTATUS(status) == kCrashStatus || WEXITSTATUS(status) == 0);
    EXPECT_TRUE(sound) << "child ended with " << status;
    if (adopt && WIFEXITED(status) && WEXITSTATUS(status) == 0) ++*applied_;
    return sound;
  }

  static std::unique_ptr<Table> adopted(std::unique_ptr<Table> table) {
    Result<std::unique_ptr<Table>> made = pass_on(std::move(table));
    EXPECT_TRUE(made.ok()) << made.status().text();
    return made.ok() ? made.take() : nullptr;
  }

  // The adopter dies too, after its store `second` or at `place`.
  void crash_and_adopt(uint64_t at, uint64_t second, bool unclaimed, const std::string& place = "") {
    *applied_ = 0;
    std::unique_ptr<Table> table = make_table(setup_);
    ASSERT_TRUE(fork_and_die(table, at, false));
    ++tally.crashes;
    if (second > 0 || !place.empty()) {
      ASSERT_TRUE(fork_and_die(table, second, true, place));
      ++tally.twice;
    }
    crash_points_arm(0);
    places_.begin();
    std::unique_ptr<Table> next = adopted(std::move(table));
    ASSERT_NE(next, nullptr);
    Driver driver(std::move(next));
    driver.claim(!unclaimed);
    driver.table().finish_adoption();
    adoption_stores_ = std::max<uint64_t>(crash_points_counted(), 1);
    if (place.empty() && second == 0 && !unclaimed) places_.end(at);
    expect_sound(driver.table());
    if (unclaimed) {
      ++tally.unclaimed;
      EXPECT_EQ(driver.table().lanes_open(), 0u);
      expect_all_back(driver);
      return;
    }
    go_on(driver);
  }

  void go_on(Driver& driver) {
    size_t first = *applied_;
    for (size_t i = first; i < script_.operations.size() && !::testing::Test::HasFatalFailure(); ++i) {
      driver.apply(script_.operations[i], i);
      if (i == first || i + 1 == script_.operations.size()) {
        SCOPED_TRACE("after operation " + std::to_string(i) + " of kind " + std::to_string(int(script_.operations[i].what)) + ", stopped in " + std::to_string(first));
        compare(picture_of(driver.table()), pictures_[i]);
        if (::testing::Test::HasFailure()) return;
      }
    }
    expect_all_back(driver);
  }

  void expect_sound(const Table& table) {
    Findings findings = find_contradictions(table.directory().data(), table.directory().size(), table.data().bytes(),
                                        CheckForm::kAdoption);
    EXPECT_TRUE(findings.texts.empty()) << findings.texts.front();
    // A retune that was cut off leaves one of the two ranges, or no lower bound.
    const layout::LimiterRecord& limiter = table.header().limiter;
    bool whole = limiter.min_diff == -DBL_MAX;
    for (const double(&bounds)[2] : kBounds) whole |= limiter.min_diff == bounds[0] && limiter.max_diff == bounds[1];
    EXPECT_TRUE(whole) << limiter.min_diff << " to " << limiter.max_diff;
  }

  void compare(const Picture& is, const Picture& should) {
    EXPECT_EQ(is.torn, "");
    for (const auto& [name, number] : should.numbers) {
      bool of_items = name == "blocks_free" || name == "marks" || name == "priority_max" || name == "bytes";
      if (!setup_.exact() && (of_items || name == "items" || name == "deletes" || name == "evictions")) continue;
      EXPECT_EQ(is.numbers.count(name) > 0 ? is.numbers.at(name) : ~uint64_t{0}, number) << name;
    }
    if (!setup_.exact()) {
      EXPECT_EQ(is.numbers.at("items"), is.numbers.at("inserts") - is.numbers.at("deletes"));
      EXPECT_EQ(is.numbers.at("items"), is.items.size());
      return;
    }
    ASSERT_EQ(is.items.size(), should.items.size());
    for (const auto& [name, item] : should.items) {
      ASSERT_EQ(is.items.count(name), 1u) << "item " << name;
      const SeenItem& seen = is.items.at(name);
      EXPECT_TRUE(seen == item) << "item " << name << ": length " << seen.length << " for " << item.length << ", priority "
                                << seen.priority << " for " << item.priority << ", probability " << seen.probability
                                << " for " << item.probability << ", version " << seen.version << " for " << item.version
                                << ", cells " << seen.cells << " for " << item.cells << ", flags " << seen.flags;
    }
  }

  void expect_all_back(Driver& driver) {
    Table& table = driver.table();
    for (uint32_t channel = 1; channel < 4; ++channel) driver.apply({Do::kRelease, channel}, 0);
    for (uint32_t lane = 0; lane < table.header().lanes_max; ++lane) {
      if (table.lane_record(lane).state != 0) table.close_lane(lane);
    }
    table.reset();
    EXPECT_EQ(table.header().counters.blocks_free, table.header().block_budget);
    for (uint32_t slot = 0; slot < table.header().episode_slots; ++slot) {
      EXPECT_EQ(episodes_of(table)[slot].generation % 2, 0u) << "episode slot " << slot;
    }
  }

  Setup setup_;
  Script script_;
  Rng rng_;
  uint64_t* applied_;
  uint64_t adoption_stores_ = 1;
  AdoptionPlaces places_;
  std::vector<Picture> pictures_;
};

uint64_t seed() {
  const char* given = getenv("GEAR_TEST_SEED");
  return given != nullptr ? strtoull(given, nullptr, 10) : 20260101;
}

const Setup kSetups[] = {
    {.name = "steps, uniform, fifo"},
    {.name = "steps, top_k, lifo", .sampler = GEAR_SELECT_TOP_K, .remover = GEAR_SELECT_LIFO, .block_steps = 1},
    {.name = "steps, max_heap, min_heap", .sampler = GEAR_SELECT_MAX_HEAP, .remover = GEAR_SELECT_MIN_HEAP,
     .versions = true},
    {.name = "steps, recency, max_heap", .sampler = GEAR_SELECT_RECENCY, .remover = GEAR_SELECT_MAX_HEAP},
    {.name = "steps, top_k, few", .sampler = GEAR_SELECT_TOP_K, .remover = GEAR_SELECT_FIFO, .capacity = 3, .episodes = 4},
    {.name = "steps, recency, scaled", .sampler = GEAR_SELECT_RECENCY, .remover = GEAR_SELECT_LIFO, .episodes = 4,
     .half_life = 0.02},
    {.name = "steps, mixture, fifo", .sampler = GEAR_SELECT_MIXTURE, .block_steps = 2, .new_priority = 1},
    {.name = "sequences, prioritized, fifo", .policy = GEAR_ITEMS_SEQUENCE, .sampler = GEAR_SELECT_PRIORITIZED,
     .block_steps = 2},
    // A sum tree with nodes above its leaves.
    {.name = "steps, prioritized, many", .sampler = GEAR_SELECT_PRIORITIZED, .capacity = 20, .episodes = 3},
    {.name = "sequences, fifo, uniform", .policy = GEAR_ITEMS_SEQUENCE, .sampler = GEAR_SELECT_FIFO,
     .remover = GEAR_SELECT_UNIFORM, .cells = true},
    {.name = "explicit, lifo, fifo", .policy = GEAR_ITEMS_EXPLICIT, .sampler = GEAR_SELECT_LIFO, .versions = true},
    {.name = "explicit, min_heap, prioritized", .policy = GEAR_ITEMS_EXPLICIT, .sampler = GEAR_SELECT_MIN_HEAP,
     .remover = GEAR_SELECT_PRIORITIZED, .block_steps = 1, .windows = 0},
    {.name = "episodes, prioritized, fifo", .policy = GEAR_ITEMS_EPISODE, .sampler = GEAR_SELECT_PRIORITIZED,
     .block_steps = 2, .cells = true},
    {.name = "episodes, uniform, lifo", .policy = GEAR_ITEMS_EPISODE, .remover = GEAR_SELECT_LIFO,
     .capacity = 3, .block_steps = 1, .capacity_bytes = 40},
    // So many parts that memory moves to the two writers' from others.
    {.name = "steps, uniform, fifo, isolated", .parts = 16},
    {.name = "episodes, prioritized, fifo, isolated", .policy = GEAR_ITEMS_EPISODE, .sampler = GEAR_SELECT_PRIORITIZED,
     .block_steps = 1, .cells = true, .parts = 24},
};

class TableCrashes : public ::testing::TestWithParam<Setup> {};

TEST_P(TableCrashes, IsAdoptedAfterADeathBehindAnyStore) {
  printf("seed %llu (GEAR_TEST_SEED)\n", (unsigned long long)seed());
  Scenario(GetParam(), seed()).run();
  printf("%llu stores, %llu deaths, %llu again in the adoption, %llu where no writer lives; %zu places in the source\n",
         (unsigned long long)tally.stores, (unsigned long long)tally.crashes, (unsigned long long)tally.twice,
         (unsigned long long)tally.unclaimed, crash_points_visits().size());
}

INSTANTIATE_TEST_SUITE_P(Scenarios, TableCrashes, ::testing::ValuesIn(kSetups), [](const auto& info) {
  std::string name = info.param.name;
  name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return !isalnum(c); }), name.end());
  return name;
});

}  // namespace
}  // namespace gear::test
