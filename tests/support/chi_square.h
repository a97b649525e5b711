// Whether counts agree with probabilities.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace gear::testing {

// Pearson's statistic is below the 99.9 % quantile of chi-square (Wilson and Hilferty's approximation). Cells expected less
// than five times are counted together; one that cannot occur must not have.
inline void expect_distribution(const std::vector<uint64_t>& seen,
                                const std::vector<double>& probability) {
  double draws = 0;
  for (uint64_t count : seen) draws += static_cast<double>(count);
  double sum = 0, rare_seen = 0, rare_expected = 0;
  int cells = 0;
  auto add = [&](double count, double expected) {
    sum += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (size_t i = 0; i < seen.size(); ++i) {
    double expected = draws * probability[i];
    auto count = static_cast<double>(seen[i]);
    if (probability[i] == 0) {
      EXPECT_EQ(seen[i], 0u) << "cell " << i << " cannot occur";
    } else if (expected < 5) {
      rare_seen += count;
      rare_expected += expected;
    } else {
      add(count, expected);
    }
  }
  if (rare_expected >= 1) add(rare_seen, rare_expected);
  double freedom = cells - 1;
  double spread = 2 / (9 * freedom);
  double bound = freedom * std::pow(1 - spread + 3.0902 * std::sqrt(spread), 3);
  EXPECT_LT(sum, bound) << cells << " cells, " << draws << " draws";
}

}  // namespace gear::testing
