// SEMANTICS section 1: the rate limiter's arithmetic.

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "limit/rate_limiter.h"

namespace gear {
namespace {

RateLimiter limiter(double s, int64_t m, double lo, double hi) {
  return RateLimiter(gear_rate_limiter{s, m, lo, hi});
}

// SEMANTICS 1
TEST(RateLimiter, BlocksTheThirdInsertThenGivesSixSamplesAtOneAndAHalfEach) {
  RateLimiter r = limiter(1.5, 1, -3, 3.1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(r.may_insert(1)) << i;
    r.inserted(1);
  }
  EXPECT_FALSE(r.may_insert(1));
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(r.may_sample(1)) << i;
    r.sampled(1);
  }
  EXPECT_FALSE(r.may_sample(1));
}

// SEMANTICS 2
TEST(RateLimiter, LetsAnInsertPassOnlyAfterTheSecondSample) {
  RateLimiter r = limiter(1.5, 2, -1, 3);
  r.inserted(2);
  EXPECT_FALSE(r.may_insert(1));
  r.sampled(1);
  EXPECT_FALSE(r.may_insert(1));
  r.sampled(1);
  EXPECT_TRUE(r.may_insert(1));
}

// SEMANTICS 3
TEST(RateLimiter, AdmitsTwoButNotThreeSamplesOfOneInsertWithALooseLowerBound) {
  RateLimiter r = limiter(1, 1, -1, 1);
  r.inserted(1);
  EXPECT_TRUE(r.may_sample(1));
  EXPECT_TRUE(r.may_sample(2));
  EXPECT_FALSE(r.may_sample(3));
}

// SEMANTICS 4
TEST(RateLimiter, AdmitsThreeInsertsButNotFourAtOnce) {
  RateLimiter r = limiter(1.5, 2, 0, 5);
  EXPECT_TRUE(r.may_insert(3));
  EXPECT_FALSE(r.may_insert(4));
  r.inserted(3);
  r.sampled(2);
  EXPECT_TRUE(r.may_insert(1));
  EXPECT_FALSE(r.may_insert(2));
}

// SEMANTICS 5
TEST(RateLimiter, LetsAnInsertPassAfterADeletionAndHoldsSamplesUntilItHas) {
  RateLimiter r = limiter(5, 2, 0, 5);
  r.inserted(2);
  EXPECT_FALSE(r.may_insert(1));
  r.sampled(1);
  EXPECT_FALSE(r.may_insert(1));
  r.deleted(1);
  EXPECT_TRUE(r.may_insert(1));
  EXPECT_FALSE(r.may_sample(1));
  r.inserted(1);
  EXPECT_TRUE(r.may_sample(1));
}

// SEMANTICS 6
TEST(RateLimiter, GoesOnFromRestoredCounts) {
  RateLimiter r(gear_rate_limiter{1.5, 2, 0, 5}, LimiterCounts{2, 1, 1});
  r.inserted(1);
  r.sampled(1);
  EXPECT_EQ(r.counts().samples, 2u);
  EXPECT_EQ(r.counts().inserts, 3u);
  EXPECT_EQ(r.counts().deletes, 1u);
}

// SEMANTICS 7
TEST(RateLimiter, RefusesRatiosWhoseErrorBufferCouldStallBothSides) {
  gear_rate_limiter made;
  EXPECT_EQ(ratio_limiter(5, 10, 4, &made).code(), GEAR_EINVAL);
  EXPECT_EQ(ratio_limiter(.5, 10, .9, &made).code(), GEAR_EINVAL);
  EXPECT_TRUE(ratio_limiter(.5, 10, 1.1, &made).ok());
}

TEST(RateLimiter, RefusesParametersOutsideTheirDomain) {
  gear_rate_limiter made;
  EXPECT_EQ(ratio_limiter(1, 0, 5, &made).code(), GEAR_EINVAL);
  EXPECT_EQ(ratio_limiter(0, 10, 5, &made).code(), GEAR_EINVAL);
  EXPECT_EQ(ratio_limiter(-1, 10, 5, &made).code(), GEAR_EINVAL);
  EXPECT_EQ(ratio_limiter(NAN, 10, 5, &made).code(), GEAR_EINVAL);
  EXPECT_EQ(ratio_limiter(1, 10, NAN, &made).code(), GEAR_EINVAL);
  EXPECT_EQ(min_size_limiter(0, &made).code(), GEAR_EINVAL);
  EXPECT_EQ(check_limiter({1, 1, 2, 1}).code(), GEAR_EINVAL);
  EXPECT_EQ(check_limiter({INFINITY, 1, 0, 1}).code(), GEAR_EINVAL);
  EXPECT_TRUE(check_limiter_of({1, 10, 0, 1}, 10).ok());
  EXPECT_EQ(check_limiter_of({1, 11, 0, 1}, 10).code(), GEAR_EINVAL);
}

// SEMANTICS 8
TEST(RateLimiter, GivesExactlyFiftySamplesAtAHundredInsertsOfRatioFour) {
  gear_rate_limiter limits;
  ASSERT_TRUE(ratio_limiter(4, 100, 50, &limits).ok());
  RateLimiter r(limits);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(r.may_insert(1)) << i;
    EXPECT_FALSE(r.may_sample(1)) << i;
    r.inserted(1);
  }
  EXPECT_TRUE(r.may_sample(50));
  EXPECT_FALSE(r.may_sample(51));
  int passed = 0;
  while (r.may_sample(1)) {
    r.sampled(1);
    ++passed;
  }
  EXPECT_EQ(passed, 50);
}

// SEMANTICS 9, the arithmetic
TEST(RateLimiter, HoldsTheEleventhInsertOfAQueueOfTenUntilASample) {
  RateLimiter r = limiter(1, 1, 0, 10);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(r.may_insert(1)) << i;
    r.inserted(1);
  }
  EXPECT_FALSE(r.may_insert(1));
  r.sampled(1);
  r.deleted(1);
  EXPECT_TRUE(r.may_insert(1));
}

// SEMANTICS 10
TEST(RateLimiter, ReleasesAsManyInsertsAsTwoSamplesAllow) {
  RateLimiter r = limiter(1, 1, -1, 1);
  r.inserted(1);
  EXPECT_FALSE(r.may_insert(1));
  r.sampled(2);
  int released = 0;
  while (r.may_insert(1)) {
    r.inserted(1);
    ++released;
  }
  EXPECT_EQ(released, 2);
}

// SEMANTICS 11
TEST(RateLimiter, FollowsNewLimitsAtOnce) {
  RateLimiter r = limiter(1, 1, 0, 1);
  r.inserted(1);
  EXPECT_FALSE(r.may_insert(1));
  r.retune({1, 1, 0, 2});
  EXPECT_TRUE(r.may_insert(1));
}

TEST(RateLimiter, CountsNothingOnlyWhenItHasNoBounds) {
  gear_rate_limiter limits;
  ASSERT_TRUE(min_size_limiter(5, &limits).ok());
  EXPECT_TRUE(limiter_counts_nothing(limits));
  ASSERT_TRUE(ratio_limiter(1, 5, 2, &limits).ok());
  EXPECT_FALSE(limiter_counts_nothing(limits));
}

}  // namespace
}  // namespace gear
