// name:dtype[:shape][:episode|:optional]
#include <gtest/gtest.h>

#include "common/column_spec.h"
#include "gear.h"

namespace gear::daemon {
namespace {

using Shape = std::vector<int64_t>;

ColumnSpec good(const std::string& text) {
  const Parsed<ColumnSpec> column = parse_column(text);
  EXPECT_TRUE(column.ok()) << text << ": " << column.fault_text();
  return column.ok() ? column.value() : ColumnSpec{};
}

TEST(ColumnSpec, ScalarNeedsNoShape) {
  const ColumnSpec column = good("reward:f32");
  EXPECT_EQ(column.name, "reward");
  EXPECT_EQ(column.dtype, static_cast<uint32_t>(GEAR_F32));
  EXPECT_TRUE(column.shape.empty());
  EXPECT_FALSE(column.per_episode);
}

TEST(ColumnSpec, ShapeIsExtentsJoinedByX) {
  EXPECT_EQ(good("obs:u8:84x84x4").shape, (Shape{84, 84, 4}));
  EXPECT_EQ(good("obs:u8:7").shape, (Shape{7}));
  EXPECT_EQ(good("obs:u8:1x1x1x1x1x1x1x1").shape.size(), 8u);
}

TEST(ColumnSpec, EpisodeAtTheEndMakesItPerEpisode) {
  EXPECT_TRUE(good("goal:f32:8:episode").per_episode);
  EXPECT_EQ(good("goal:f32:8:episode").shape, (Shape{8}));
  EXPECT_TRUE(good("score:f64:episode").per_episode);
  EXPECT_TRUE(good("score:f64:episode").shape.empty());
}

// SEMANTICS 40
TEST(ColumnSpec, OptionalAtTheEndMakesItOptional) {
  EXPECT_TRUE(good("reply:i32:optional").optional);
  EXPECT_FALSE(good("reply:i32:optional").per_episode);
  EXPECT_TRUE(good("mask:u8:4x4:optional").optional);
  EXPECT_EQ(good("mask:u8:4x4:optional").shape, (Shape{4, 4}));
  EXPECT_FALSE(good("reply:i32").optional);
}

TEST(ColumnSpec, PerEpisodeColumnsAreNotOptional) {
  for (const char* text : {"score:f32:episode:optional", "score:f32:3:optional:episode"}) {
    const Parsed<ColumnSpec> column = parse_column(text);
    ASSERT_FALSE(column.ok()) << text;
    EXPECT_NE(column.fault_text().find("leave out one"), std::string::npos) << column.fault_text();
  }
}

TEST(ColumnSpec, BytesCarryTheirElementSize) {
  const ColumnSpec column = good("blob:bytes16:2");
  EXPECT_EQ(column.dtype, static_cast<uint32_t>(GEAR_BYTES));
  EXPECT_EQ(column.element_bytes, 16u);
  EXPECT_EQ(format_dtype(column.dtype, column.element_bytes), "bytes16");
}

TEST(ColumnSpec, NameMayHoldColonsAndLettersOfAnyLanguage) {
  EXPECT_EQ(good("a:b:f32").name, "a:b");
  EXPECT_EQ(good("a:b:f32:3").name, "a:b");
  EXPECT_EQ(good("état:i64").name, "état");
  EXPECT_EQ(good("f32:f32").name, "f32");
}

TEST(ColumnSpec, OtherFormsAreRefusedWithTheText) {
  for (const char* text : {"",
                           ":",
                           "x",
                           "x:",
                           ":f32",
                           "x:f33",
                           "x:f32:",
                           "x:f32:0",
                           "x:f32:-1",
                           "x:f32:3x",
                           "x:f32:x3",
                           "x:f32:3x0",
                           "x:f32:1x1x1x1x1x1x1x1x1",
                           "x:f32:99999999999999999999",
                           "x:bytes",
                           "x:bytes0",
                           "x:bytesq",
                           "x:f32:step",
                           "x:episode",
                           "x:optional",
                           "x:f32:option",
                           "x:float32"}) {
    const Parsed<ColumnSpec> column = parse_column(text);
    ASSERT_FALSE(column.ok()) << text;
    EXPECT_NE(column.fault_text().find("\"" + std::string(text) + "\""), std::string::npos)
        << column.fault_text();
  }
}

TEST(ColumnSpec, ShapesAreShownAsTheyAreGiven) {
  EXPECT_EQ(format_shape({84, 84, 4}), "84x84x4");
  EXPECT_EQ(format_shape({}), "scalar");
}

}  // namespace
}  // namespace gear::daemon
