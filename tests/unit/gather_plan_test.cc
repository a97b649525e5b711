// Windows against the table: what is planned, and how what cannot be is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_table.h"

namespace gear {
namespace {

using test::FakeTable;
using test::FakeTableOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;

FakeTableOptions options_of(uint32_t policy, uint32_t item_steps_max) {
  FakeTableOptions options;
  options.columns = {{"obs", 64, false}, {"reward", 4, false}, {"goal", 8, true}};
  options.item_policy = policy;
  options.item_steps_max = item_steps_max;
  return options;
}

gear_window window_of(const char* column, int32_t offset, uint32_t length) {
  gear_window window = GEAR_WINDOW_INIT;
  window.column = column;
  window.offset = offset;
  window.length = length;
  return window;
}

class Plan : public ::testing::Test {
 protected:
  Result<std::vector<WindowPlan>> plan(const gear_window& window) {
    return plan_windows(table_.view(), &window, 1);
  }

  void expect_refused(const gear_window& window, int code,
                      const ::testing::Matcher<const std::string&>& text) {
    Result<std::vector<WindowPlan>> planned = plan(window);
    ASSERT_FALSE(planned.ok());
    EXPECT_EQ(planned.status().code(), code) << planned.status().text();
    EXPECT_THAT(planned.status().text(), text);
    EXPECT_THAT(planned.status().text(), HasSubstr("; ")) << "a remedy follows a semicolon";
  }

  FakeTable table_{options_of(GEAR_ITEMS_STEP, 1)};
};

TEST_F(Plan, WithoutWindowsShowsTheDrawnStepOfEveryColumnOfStepItems) {
  std::vector<WindowPlan> plans = plan_windows(table_.view(), nullptr, 0).take();
  ASSERT_EQ(plans.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plans[i].column, i);
    EXPECT_EQ(plans[i].offset, 0);
    EXPECT_EQ(plans[i].length, 1u);
    EXPECT_FALSE(plans[i].item_range);
    EXPECT_EQ(plans[i].per_episode, i == 2);
  }
}

TEST_F(Plan, WithoutWindowsShowsTheItemsOwnStepsOfLongerItems) {
  FakeTable table(options_of(GEAR_ITEMS_SEQUENCE, 9));
  std::vector<WindowPlan> plans = plan_windows(table.view(), nullptr, 0).take();
  EXPECT_TRUE(plans[0].item_range);
  EXPECT_EQ(plans[0].length, 9u);
  EXPECT_FALSE(plans[2].item_range);
  EXPECT_EQ(plans[2].length, 1u);
}

TEST_F(Plan, TakesPlaceAndSizeOfCellsFromTheColumn) {
  WindowPlan planned = plan(window_of("reward", 0, 1)).value()[0];
  EXPECT_EQ(planned.column, 1u);
  EXPECT_EQ(planned.cell_bytes, 4u);
  EXPECT_EQ(planned.column_offset, table_.view().columns[1].offset);
}

TEST_F(Plan, LengthZeroIsAsLongAsTheLongestItem) {
  FakeTable table(options_of(GEAR_ITEMS_EPISODE, 33));
  gear_window window = window_of("obs", 0, 0);
  WindowPlan planned = plan_windows(table.view(), &window, 1).value()[0];
  EXPECT_TRUE(planned.item_range);
  EXPECT_EQ(planned.length, 33u);
}

TEST_F(Plan, WindowsMayReachAsFarAsTheTableKeeps) {
  EXPECT_TRUE(plan(window_of("obs", -16, 33)).ok());
}

TEST_F(Plan, WindowBeforeWhatTheTableKeepsIsRefused) {
  expect_refused(window_of("obs", -20, 1), GEAR_EWINDOW,
                 AllOf(HasSubstr("window \"obs\" offset -20 reaches 20 steps before"),
                       HasSubstr("keeps 16"), HasSubstr("window_before_max >= 20")));
}

TEST_F(Plan, WindowBeyondWhatTheTableKeepsIsRefused) {
  expect_refused(window_of("obs", 10, 8), GEAR_EWINDOW,
                 AllOf(HasSubstr("window \"obs\" offset 10 length 8 reaches 17 steps beyond"),
                       HasSubstr("keeps 16"), HasSubstr("window_after_max >= 17")));
}

TEST_F(Plan, WindowWhoseEndOverflowsIsRefused) {
  expect_refused(window_of("obs", INT32_MAX, UINT32_MAX), GEAR_EWINDOW, HasSubstr("obs"));
  expect_refused(window_of("obs", INT32_MIN, 1), GEAR_EWINDOW, HasSubstr("2147483648"));
  expect_refused(window_of("obs", INT32_MAX, 0), GEAR_EWINDOW, HasSubstr("2147483647"));
}

TEST_F(Plan, WindowIsNamedByItsOwnNameInErrors) {
  gear_window window = window_of("obs", -20, 1);
  window.name = "history";
  expect_refused(window, GEAR_EWINDOW, HasSubstr("window \"history\""));
}

TEST_F(Plan, LongerWindowOfAPerEpisodeColumnIsRefused) {
  expect_refused(window_of("goal", 0, 2), GEAR_EWINDOW,
                 AllOf(HasSubstr("\"goal\""), HasSubstr("length 2")));
  expect_refused(window_of("goal", -1, 1), GEAR_EWINDOW, HasSubstr("offset -1"));
}

TEST_F(Plan, UnknownColumnIsRefusedWithTheColumnsThereAre) {
  expect_refused(window_of("image", 0, 1), GEAR_ENOCOLUMN,
                 AllOf(HasSubstr("\"image\""), HasSubstr("\"obs\", \"reward\", \"goal\"")));
}

TEST_F(Plan, WindowWithoutColumnIsRefused) {
  expect_refused(window_of(nullptr, 0, 1), GEAR_EINVAL, HasSubstr("column is NULL"));
}

TEST_F(Plan, UnknownPadIsRefused) {
  gear_window window = window_of("obs", 0, 1);
  window.pad = 17;
  expect_refused(window, GEAR_EINVAL, HasSubstr("pad 17"));
}

TEST_F(Plan, UnknownFillIsRefused) {
  gear_window window = window_of("obs", 0, 1);
  window.fill = 17;
  expect_refused(window, GEAR_EINVAL, HasSubstr("fill 17"));
}

TEST_F(Plan, UnknownStructSizeIsRefused) {
  gear_window window = window_of("obs", 0, 1);
  window.struct_size = 3;
  expect_refused(window, GEAR_ESTRUCT,
                 AllOf(HasSubstr("struct_size 3"), HasSubstr(std::to_string(sizeof(gear_window)))));
}

TEST_F(Plan, WindowsCountedButNotGivenAreRefused) {
  Result<std::vector<WindowPlan>> planned = plan_windows(table_.view(), nullptr, 2);
  ASSERT_FALSE(planned.ok());
  EXPECT_EQ(planned.status().code(), GEAR_EINVAL);
  EXPECT_THAT(planned.status().text(), HasSubstr("windows is NULL but 2"));
}

}  // namespace
}  // namespace gear
