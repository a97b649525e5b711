// Option structs of earlier and later versions than this library.
#include "client/options.h"

#include <gtest/gtest.h>

#include "gear.h"

namespace gear::client {
namespace {

// gear_writer_options as a later gear.h might have it.
struct LaterOptions {
  gear_writer_options known;
  uint64_t added;
};

int read_code(const LaterOptions& given, uint32_t struct_size) {
  LaterOptions copy = given;
  copy.known.struct_size = struct_size;
  gear_writer_options read{};
  return read_struct("gear_writer_options", &copy.known, &read).code();
}

TEST(OptionStruct, OfThisVersionIsCopied) {
  gear_writer_options given = GEAR_WRITER_OPTIONS_INIT;
  given.lanes = 7;
  gear_writer_options read{};
  EXPECT_TRUE(read_struct("gear_writer_options", &given, &read).ok());
  EXPECT_EQ(read.lanes, 7u);
}

TEST(OptionStruct, OfALaterVersionIsTakenWhereItAsksNothingNew) {
  LaterOptions given{GEAR_WRITER_OPTIONS_INIT, 0};
  EXPECT_EQ(read_code(given, sizeof given), GEAR_OK);
}

TEST(OptionStruct, OfALaterVersionIsRefusedWhereItAsksSomethingNew) {
  LaterOptions given{GEAR_WRITER_OPTIONS_INIT, uint64_t{1} << 63};
  EXPECT_EQ(read_code(given, sizeof given), GEAR_ESTRUCT);
  EXPECT_EQ(read_code(given, sizeof given.known), GEAR_OK) << "the field is not part of it";
}

TEST(OptionStruct, SmallerThanTheFirstVersionIsRefused) {
  LaterOptions given{GEAR_WRITER_OPTIONS_INIT, 0};
  EXPECT_EQ(read_code(given, 0), GEAR_ESTRUCT);
  EXPECT_EQ(read_code(given, kFirstBytes<gear_writer_options> - 1), GEAR_ESTRUCT);
}

TEST(OptionStruct, OfAnEarlierVersionHasDefaultsWhereItEnds) {
  gear_writer_options given = GEAR_WRITER_OPTIONS_INIT;
  given.struct_size = kFirstBytes<gear_writer_options>;
  given.lanes = 3;
  given.take_over = 1;
  gear_writer_options read{};
  EXPECT_TRUE(read_struct("gear_writer_options", &given, &read).ok());
  EXPECT_EQ(read.lanes, 3u);
  EXPECT_EQ(read.take_over, 0u) << "the field is not part of what was given";
}

TEST(OptionStruct, OfAnAbsurdSizeIsRefusedWithoutReadingIt) {
  LaterOptions given{GEAR_WRITER_OPTIONS_INIT, 0};
  EXPECT_EQ(read_code(given, 4096), GEAR_ESTRUCT);
  EXPECT_EQ(read_code(given, UINT32_MAX), GEAR_ESTRUCT);
}

TEST(OptionStruct, RefusalNamesTheStructAndBothSizes) {
  gear_writer_options given = GEAR_WRITER_OPTIONS_INIT;
  given.struct_size = 3;
  gear_writer_options read{};
  std::string text = read_struct("gear_writer_options", &given, &read).text();
  EXPECT_NE(text.find("gear_writer_options"), std::string::npos) << text;
  EXPECT_NE(text.find("3"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(sizeof read)), std::string::npos) << text;
}

TEST(OutputStruct, OfALaterVersionKeepsItsSizeAndWhatIsNotKnownHere) {
  LaterOptions given{GEAR_WRITER_OPTIONS_INIT, 99};
  given.known.struct_size = sizeof given;
  gear_writer_options known = GEAR_WRITER_OPTIONS_INIT;
  known.lanes = 5;
  ASSERT_TRUE(write_struct("gear_writer_options", known, &given.known).ok());
  EXPECT_EQ(given.known.struct_size, sizeof given);
  EXPECT_EQ(given.known.lanes, 5u);
  EXPECT_EQ(given.added, 99u);
}

TEST(OutputStruct, SmallerThanTheFirstVersionIsLeftAlone) {
  gear_writer_options given = GEAR_WRITER_OPTIONS_INIT;
  given.struct_size = 4;
  given.lanes = 77;
  gear_writer_options known = GEAR_WRITER_OPTIONS_INIT;
  EXPECT_EQ(write_struct("gear_writer_options", known, &given).code(), GEAR_ESTRUCT);
  EXPECT_EQ(given.lanes, 77u);
}

TEST(StructArray, IsWalkedByTheCallersSizeOfItsElements) {
  LaterOptions array[3] = {
      {GEAR_WRITER_OPTIONS_INIT, 0}, {GEAR_WRITER_OPTIONS_INIT, 0}, {GEAR_WRITER_OPTIONS_INIT, 0}};
  for (uint32_t i = 0; i < 3; ++i) {
    array[i].known.struct_size = sizeof array[i];
    array[i].known.lanes = i + 1;
  }
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(struct_at(&array[0].known, i)->lanes, i + 1);
}

}  // namespace
}  // namespace gear::client
