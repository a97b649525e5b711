// Tables as configuration and command lines declare them: each field by its text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>

#include "common/nearest.h"
#include "common/table_spec.h"

namespace gear::daemon {
namespace {

// The fault of setting one field, "" when there was none.
std::string set(TableSpec* spec, const std::string& key, const std::string& text) {
  const auto& fields = table_fields();
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const TableField& one) { return key == one.key; });
  EXPECT_NE(field, fields.end()) << key;
  const std::optional<Fault> fault = field->set(spec, text);
  return fault ? fault->text : "";
}

TEST(TableSpec, ItemsTakeLengthAndPeriodForSequencesOnly) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "items", "sequence:80:40"), "");
  EXPECT_EQ(spec.options.item_policy, static_cast<uint32_t>(GEAR_ITEMS_SEQUENCE));
  EXPECT_EQ(spec.options.item_length, 80u);
  EXPECT_EQ(spec.options.item_period, 40u);
  EXPECT_EQ(set(&spec, "items", "sequence:16"), "");
  EXPECT_EQ(spec.options.item_period, 16u);
  EXPECT_EQ(set(&spec, "items", "episode"), "");
  EXPECT_EQ(spec.options.item_length, 0u);
  for (const char* text : {"", "steps", "step:3", "sequence", "sequence:", "sequence:0",
                           "sequence:4:0", "sequence:4:2:1", "sequence:5000000000"}) {
    EXPECT_NE(set(&spec, "items", text), "") << text;
  }
}

TEST(TableSpec, LimiterIsAPresetOrBounds) {
  gear_rate_limiter limiter = parse_limiter("min_size:1k").value();
  EXPECT_EQ(limiter.min_size, 1000);
  EXPECT_EQ(limiter.max_diff, DBL_MAX);
  limiter = parse_limiter("ratio:4:100:50").value();
  EXPECT_EQ(limiter.samples_per_insert, 4);
  EXPECT_EQ(limiter.min_diff, 350);
  EXPECT_EQ(limiter.max_diff, 450);
  limiter = parse_limiter("bounds:1.5:1:-3:3.1").value();
  EXPECT_EQ(limiter.min_diff, -3);
  EXPECT_EQ(limiter.max_diff, 3.1);
  for (const char* text : {"", "min_size", "min_size:0", "min_size:-1", "ratio:4:100",
                           "ratio:0:1:5", "ratio:5:10:4", "bounds:1:1:x:2", "speed:1"}) {
    EXPECT_FALSE(parse_limiter(text).ok()) << text;
  }
}

TEST(TableSpec, AlphaZeroIsZeroAndNotTheDefault) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "priority_alpha", "0"), "");
  EXPECT_EQ(spec.options.priority_alpha, GEAR_ALPHA_ZERO);
  EXPECT_NE(set(&spec, "priority_alpha", "-0.5"), "");
  EXPECT_NE(set(&spec, "priority_epsilon", "nan"), "");
}

TEST(TableSpec, CountsThatDoNotFitTheirFieldAreRefused) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "lanes_max", "4294967295"), "");
  EXPECT_NE(set(&spec, "lanes_max", "4294967296"), "");
  EXPECT_EQ(set(&spec, "capacity_steps", "18446744073709551615"), "");
  EXPECT_EQ(set(&spec, "numa_node", "-1"), "");
  EXPECT_EQ(spec.options.numa_node, -1);
  EXPECT_NE(set(&spec, "numa_node", "2147483648"), "");
  EXPECT_NE(set(&spec, "capacity_items", "0"), "");
  EXPECT_EQ(set(&spec, "lease_timeout", "1500ms"), "");
  EXPECT_EQ(spec.options.lease_timeout_ms, 1500u);
  EXPECT_NE(set(&spec, "lease_timeout", "100us"), "");
  EXPECT_NE(set(&spec, "lease_timeout", "2000h"), "");
}

TEST(TableSpec, QueueSetsWhatMakesAQueue) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "queue", "10"), "");
  ASSERT_FALSE(finish_table(&spec).has_value());
  EXPECT_EQ(spec.options.capacity_items, 10u);
  EXPECT_EQ(spec.options.sampler, static_cast<uint32_t>(GEAR_SELECT_FIFO));
  EXPECT_EQ(spec.options.max_times_sampled, 1u);
  EXPECT_EQ(spec.options.limiter.max_diff, 10);
}

TEST(TableSpec, QueueKeepsACapacityThatIsGiven) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "queue", "10"), "");
  EXPECT_EQ(set(&spec, "capacity_items", "20"), "");
  ASSERT_FALSE(finish_table(&spec).has_value());
  EXPECT_EQ(spec.options.capacity_items, 20u);
}

TEST(TableSpec, QueueRefusesWhatItWouldOverrule) {
  for (const auto& [key, text] : {std::pair{"sampler", "fifo"},
                                  {"remover", "fifo"},
                                  {"limiter", "min_size:1"},
                                  {"max_times_sampled", "1"}}) {
    TableSpec spec;
    EXPECT_EQ(set(&spec, "queue", "10"), "");
    EXPECT_EQ(set(&spec, key, text), "");
    EXPECT_TRUE(finish_table(&spec).has_value()) << key;
  }
}

TEST(TableSpec, StackIsAQueueWithTheNewestFirst) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "stack", "10"), "");
  ASSERT_FALSE(finish_table(&spec).has_value());
  EXPECT_EQ(spec.options.capacity_items, 10u);
  EXPECT_EQ(spec.options.sampler, static_cast<uint32_t>(GEAR_SELECT_LIFO));
  EXPECT_EQ(spec.options.remover, static_cast<uint32_t>(GEAR_SELECT_LIFO));
  EXPECT_EQ(spec.options.max_times_sampled, 1u);
  EXPECT_EQ(spec.options.limiter.max_diff, 10);
  EXPECT_NE(set(&spec, "stack", "0"), "");
}

TEST(TableSpec, StackRefusesWhatItWouldOverruleByItsName) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "stack", "10"), "");
  EXPECT_EQ(set(&spec, "sampler", "lifo"), "");
  const std::optional<Fault> fault = finish_table(&spec);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->text.rfind("stack sets", 0), 0u) << fault->text;
}

TEST(TableSpec, QueueAndStackExcludeEachOther) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "queue", "10"), "");
  EXPECT_EQ(set(&spec, "stack", "10"), "");
  const std::optional<Fault> fault = finish_table(&spec);
  ASSERT_TRUE(fault.has_value());
  EXPECT_NE(fault->text.find("leave out one"), std::string::npos) << fault->text;
}

TEST(TableSpec, EverySelectorHasItsWord) {
  for (const auto& [word, value] : {std::pair{"uniform", GEAR_SELECT_UNIFORM},
                                    {"fifo", GEAR_SELECT_FIFO},
                                    {"prioritized", GEAR_SELECT_PRIORITIZED},
                                    {"lifo", GEAR_SELECT_LIFO},
                                    {"max_heap", GEAR_SELECT_MAX_HEAP},
                                    {"min_heap", GEAR_SELECT_MIN_HEAP},
                                    {"top_k", GEAR_SELECT_TOP_K},
                                    {"recency", GEAR_SELECT_RECENCY},
                                    {"mixture", GEAR_SELECT_MIXTURE}}) {
    TableSpec spec;
    EXPECT_EQ(set(&spec, "sampler", word), "");
    EXPECT_EQ(spec.options.sampler, static_cast<uint32_t>(value)) << word;
  }
}

TEST(TableSpec, SelectorParametersAreChecked) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "half_life", "10k"), "");
  EXPECT_EQ(spec.options.half_life, 10'000);
  EXPECT_EQ(set(&spec, "half_life", "0.5"), "");
  EXPECT_EQ(set(&spec, "top_k", "64"), "");
  EXPECT_EQ(spec.options.top_k, 64u);
  EXPECT_NE(set(&spec, "half_life", "0"), "");
  EXPECT_NE(set(&spec, "half_life", "-3"), "");
  EXPECT_NE(set(&spec, "top_k", "0"), "");
  EXPECT_NE(set(&spec, "top_k", "4294967296"), "");
}

// SEMANTICS 26, 28
TEST(TableSpec, NewFieldsReachTheirOptions) {
  TableSpec spec;
  EXPECT_EQ(set(&spec, "capacity_bytes", "2Gi"), "");
  EXPECT_EQ(spec.options.capacity_bytes, uint64_t{2} << 30);
  EXPECT_EQ(set(&spec, "new_priority", "table_max"), "");
  EXPECT_EQ(spec.options.new_priority, static_cast<uint32_t>(GEAR_NEW_PRIORITY_TABLE_MAX));
  EXPECT_EQ(set(&spec, "new_priority", "lifetime_max"), "");
  EXPECT_EQ(spec.options.new_priority, static_cast<uint32_t>(GEAR_NEW_PRIORITY_LIFETIME_MAX));
  EXPECT_EQ(set(&spec, "table_weights", "yes"), "");
  EXPECT_EQ(spec.options.table_weights, 1u);
  EXPECT_EQ(set(&spec, "versions", "yes"), "");
  EXPECT_EQ(spec.options.versions, 1u);
  EXPECT_EQ(set(&spec, "versions", "no"), "");
  EXPECT_EQ(spec.options.versions, 0u);
  EXPECT_EQ(set(&spec, "prompt_groups_max", "256"), "");
  EXPECT_EQ(spec.options.prompt_groups_max, 256u);
  EXPECT_NE(set(&spec, "new_priority", "max"), "");
  EXPECT_NE(set(&spec, "table_weights", "1"), "");
  EXPECT_NE(set(&spec, "capacity_bytes", "2GB"), "");
}

// SEMANTICS 22
TEST(TableSpec, RequestCarriesNamedSelectors) {
  TableSpec spec;
  spec.name = "t";
  spec.columns = {parse_column("x:f32:optional").value()};
  spec.selectors = {parse_selector("recent:recency:0.3:10k").value(),
                    parse_selector("best:top_k:0.7:8").value()};
  const TableRequest request(spec);
  EXPECT_EQ(request.options().columns[0].flags, GEAR_COLUMN_OPTIONAL);
  ASSERT_EQ(request.options().selector_count, 2u);
  const gear_selector_options* selectors = request.options().selectors;
  EXPECT_EQ(selectors[0].struct_size, sizeof(gear_selector_options));
  EXPECT_STREQ(selectors[0].name, "recent");
  EXPECT_EQ(selectors[0].half_life, 10'000);
  EXPECT_STREQ(selectors[1].name, "best");
  EXPECT_EQ(selectors[1].top_k, 8u);
}

TEST(TableSpec, WithoutACapacityIsUnfinished) {
  TableSpec spec;
  EXPECT_TRUE(finish_table(&spec).has_value());
}

TEST(TableSpec, RequestCarriesNameAndColumns) {
  TableSpec spec;
  spec.name = "t";
  spec.columns = {parse_column("obs:u8:2x3").value(), parse_column("goal:bytes4:episode").value()};
  const TableRequest request(spec);
  ASSERT_EQ(request.options().column_count, 2u);
  EXPECT_STREQ(request.options().name, "t");
  const gear_column_options* columns = request.options().columns;
  EXPECT_STREQ(columns[0].name, "obs");
  EXPECT_EQ(columns[0].struct_size, sizeof(gear_column_options));
  EXPECT_EQ(columns[0].rank, 2u);
  EXPECT_EQ(columns[0].shape[1], 3);
  EXPECT_EQ(columns[1].element_bytes, 4u);
  EXPECT_EQ(columns[1].flags, GEAR_COLUMN_PER_EPISODE);
}

TEST(TableSpec, KeysAreUniqueAndHaveHelp) {
  std::vector<std::string> keys;
  for (const TableField& field : table_fields()) {
    EXPECT_NE(std::string(field.help), "") << field.key;
    keys.push_back(field.key);
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

TEST(Nearest, FindsSlipsOfTheHand) {
  const std::vector<std::string> known = {"memory", "capacity_items", "capacity_steps", "io_uring"};
  EXPECT_EQ(nearest("memroy", known), "memory");
  EXPECT_EQ(nearest("memory_", known), "memory");
  EXPECT_EQ(nearest("capacity", known), "capacity_items");
  EXPECT_EQ(nearest("capacity_step", known), "capacity_steps");
  EXPECT_EQ(nearest("iouring", known), "io_uring");
}

TEST(Nearest, GivesNothingWhereNothingIsNear) {
  EXPECT_EQ(nearest("zebra", {"memory", "io_uring"}), "");
  EXPECT_EQ(nearest("x", {"ab"}), "");
  EXPECT_EQ(nearest("", {"a"}), "");
  EXPECT_EQ(suggestion("zebra", {"memory", "socket"}), "; known are memory, socket");
}

}  // namespace
}  // namespace gear::daemon
