// Counts, durations and their forms for people.
#include <gtest/gtest.h>

#include <limits>

#include "common/quantity.h"

namespace gear::daemon {
namespace {

TEST(Quantity, CountsTakeSuffixesOfThousandsAndOf1024) {
  EXPECT_EQ(parse_count("0").value(), 0u);
  EXPECT_EQ(parse_count("250000").value(), 250000u);
  EXPECT_EQ(parse_count("250_000").value(), 250000u);
  EXPECT_EQ(parse_count("100k").value(), 100'000u);
  EXPECT_EQ(parse_count("3M").value(), 3'000'000u);
  EXPECT_EQ(parse_count("2G").value(), 2'000'000'000u);
  EXPECT_EQ(parse_count("64Ki").value(), 65536u);
  EXPECT_EQ(parse_count("1Mi").value(), 1048576u);
  EXPECT_EQ(parse_count("4Gi").value(), uint64_t{1} << 32);
  EXPECT_EQ(parse_count("18446744073709551615").value(), std::numeric_limits<uint64_t>::max());
}

TEST(Quantity, CountsOfOtherFormsAreRefusedWithTheText) {
  for (const char* text : {"", "k", "-1", "+1", "1.5M", "1 M", "0x10", "1m", "1K", "1e6", "_1",
                           "1_", "12 apples", "1kk"}) {
    const Parsed<uint64_t> count = parse_count(text);
    ASSERT_FALSE(count.ok()) << text;
    EXPECT_NE(count.fault_text().find(text), std::string::npos) << count.fault_text();
  }
}

TEST(Quantity, CountsBeyond64BitsAreRefused) {
  EXPECT_FALSE(parse_count("18446744073709551616").ok());
  EXPECT_FALSE(parse_count("18446744073709551615k").ok());
  EXPECT_FALSE(parse_count("17179869184Gi").ok());
  EXPECT_TRUE(parse_count("17179869183Gi").ok());
}

TEST(Quantity, DurationsNeedAUnit) {
  EXPECT_EQ(parse_duration_ns("0").value(), 0);
  EXPECT_EQ(parse_duration_ns("7ns").value(), 7);
  EXPECT_EQ(parse_duration_ns("20us").value(), 20'000);
  EXPECT_EQ(parse_duration_ns("1.5 ms").value(), 1'500'000);
  EXPECT_EQ(parse_duration_ns("60s").value(), 60'000'000'000);
  EXPECT_EQ(parse_duration_ns("2min").value(), 120'000'000'000);
  EXPECT_EQ(parse_duration_ns("1h").value(), 3'600'000'000'000);
  for (const char* text : {"", "20", "s", "-1s", "-0s", "1m", "1 day", "nan s", "inf s", "20us "}) {
    EXPECT_FALSE(parse_duration_ns(text).ok()) << text;
  }
}

TEST(Quantity, DurationsBeyond64BitsAreRefused) {
  EXPECT_TRUE(parse_duration_ns("2500000h").ok());
  EXPECT_FALSE(parse_duration_ns("2600000h").ok());
  EXPECT_FALSE(parse_duration_ns("1e300s").ok());
}

TEST(Quantity, RealsAreFinite) {
  EXPECT_EQ(parse_real("0.6").value(), 0.6);
  EXPECT_EQ(parse_real("-1e-3").value(), -1e-3);
  for (const char* text : {"", "nan", "inf", "1e999", "0.6x", "1 2"}) {
    EXPECT_FALSE(parse_real(text).ok()) << text;
  }
}

TEST(Quantity, AmountsAreNumbersOrCountsWithASuffix) {
  EXPECT_EQ(parse_amount("2.5").value(), 2.5);
  EXPECT_EQ(parse_amount("10k").value(), 10'000);
  EXPECT_EQ(parse_amount("1Ki").value(), 1024);
  for (const char* text : {"", "nan", "2.5k", "ten"}) {
    EXPECT_FALSE(parse_amount(text).ok()) << text;
  }
}

TEST(Quantity, BytesAreShownInTheUnitThatFits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(uint64_t{64} << 30), "64.0 GiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(Quantity, DurationsAreShownInTwoUnits) {
  EXPECT_EQ(format_duration_ns(1'500'000'000), "1.5 s");
  EXPECT_EQ(format_duration_ns(185'000'000'000), "3 min 5 s");
  EXPECT_EQ(format_duration_ns(uint64_t{7260} * 1'000'000'000), "2 h 1 min");
  EXPECT_EQ(format_duration_ns(uint64_t{90000} * 1'000'000'000), "1 d 1 h");
}

TEST(Quantity, RealsReadBackAsTheyWereShown) {
  for (double value : {0.1, 0.6, 1e-300, 1.0 / 3, 123456789.0}) {
    EXPECT_EQ(parse_real(format_real(value)).value(), value);
  }
}

}  // namespace
}  // namespace gear::daemon
