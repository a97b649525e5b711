// NAME:KIND[:PROPORTION[:PARAMETER[:PARAMETER]]]
#include <gtest/gtest.h>

#include "common/selector_spec.h"

namespace gear::daemon {
namespace {

SelectorSpec good(const std::string& text) {
  const Parsed<SelectorSpec> selector = parse_selector(text);
  EXPECT_TRUE(selector.ok()) << text << ": " << selector.fault_text();
  return selector.ok() ? selector.value() : SelectorSpec{};
}

void expect_fault(const std::string& text, const std::vector<std::string>& words) {
  const Parsed<SelectorSpec> selector = parse_selector(text);
  ASSERT_FALSE(selector.ok()) << text;
  for (const std::string& word : words) {
    EXPECT_NE(selector.fault_text().find(word), std::string::npos) << selector.fault_text();
  }
}

// SEMANTICS 22
TEST(SelectorSpec, NameAndKindAreEnoughWhereTheKindTakesNothing) {
  const SelectorSpec selector = good("newest:lifo");
  EXPECT_EQ(selector.name, "newest");
  EXPECT_EQ(selector.options.selector, static_cast<uint32_t>(GEAR_SELECT_LIFO));
  EXPECT_EQ(selector.options.proportion, 0);
  EXPECT_EQ(good("all:uniform:0.25").options.proportion, 0.25);
}

// SEMANTICS 22
TEST(SelectorSpec, ParametersAreThoseOfTheKind) {
  const SelectorSpec recent = good("recent:recency:0.3:10k");
  EXPECT_EQ(recent.options.half_life, 10'000);
  EXPECT_EQ(recent.options.proportion, 0.3);
  EXPECT_EQ(good("recent:recency:1:2.5").options.half_life, 2.5);
  EXPECT_EQ(good("best:top_k:1:64").options.top_k, 64u);
  const SelectorSpec hard = good("hard:prioritized:2:0.7:1e-3");
  EXPECT_EQ(hard.options.alpha, 0.7);
  EXPECT_EQ(hard.options.epsilon, 1e-3);
}

TEST(SelectorSpec, AlphaZeroIsZeroAndNotTheDefault) {
  EXPECT_EQ(good("hard:prioritized:1").options.alpha, 0);
  EXPECT_EQ(good("hard:prioritized:1:0").options.alpha, GEAR_ALPHA_ZERO);
}

TEST(SelectorSpec, OtherFormsAreRefusedWithTheTextAndTheForm) {
  for (const char* text :
       {"", "newest", ":lifo", "newest:", "newest:lifo:", "newest:lifo:x", "newest:lifo:-1",
        "newest:lifo:nan", "recent:recency:1:0", "recent:recency:1:-5", "recent:recency:1:long",
        "best:top_k:1:0", "best:top_k:1:4294967296", "hard:prioritized:1:-1"}) {
    expect_fault(text, {"\"" + std::string(text) + "\""});
  }
  expect_fault("newest", {"NAME:KIND"});
}

TEST(SelectorSpec, MistypedKindNamesTheNearest) {
  expect_fault("recent:recensy:1:5", {"\"recensy\"", "did you mean \"recency\"?"});
}

TEST(SelectorSpec, MixtureIsNoNamedSelector) {
  expect_fault("all:mixture", {"\"mixture\"", "table's sampler"});
}

TEST(SelectorSpec, ParametersThatTheKindNeedsAreMissed) {
  expect_fault("recent:recency:0.3", {"\"recent\"", "half_life"});
  expect_fault("best:top_k", {"\"best\"", "top_k"});
}

TEST(SelectorSpec, ParametersBeyondThoseOfTheKindAreRefused) {
  expect_fault("newest:lifo:1:5", {"\"5\"", "lifo takes no parameter"});
  expect_fault("recent:recency:1:5:6", {"\"6\"", "recency takes half_life"});
  expect_fault("hard:prioritized:1:0.6:0:9", {"\"9\"", "alpha and epsilon"});
}

TEST(SelectorSpec, FieldsOfAnotherKindAreRefused) {
  SelectorSpec spec;
  spec.name = "recent";
  ASSERT_FALSE(set_selector_field(&spec, "kind", "recency"));
  const std::optional<Fault> fault = set_selector_field(&spec, "alpha", "0.6");
  ASSERT_TRUE(fault.has_value());
  EXPECT_NE(fault->text.find("recency takes half_life"), std::string::npos) << fault->text;
  EXPECT_TRUE(set_selector_field(&spec, "halflife", "5").has_value());
}

TEST(SelectorSpec, WithoutNameOrKindIsUnfinished) {
  SelectorSpec spec;
  EXPECT_TRUE(finish_selector(spec).has_value());
  spec.name = "a";
  EXPECT_TRUE(finish_selector(spec).has_value());
  spec.options.selector = GEAR_SELECT_FIFO;
  EXPECT_FALSE(finish_selector(spec).has_value());
}

}  // namespace
}  // namespace gear::daemon
