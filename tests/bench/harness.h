// The bench harness: every figure is a ratio to a baseline taken in the same run, both sides interleaved.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gear::bench {

// What a row compares. `ratio` is always ours / baseline.
enum class Better { kLower, kHigher };

struct Row {
  std::string name;
  std::string unit;
  std::string baseline_name;
  Better better = Better::kLower;
  double goal = 0;  // ratio at most (lower) or at least (higher); 0: none
  double ours = 0;  // medians
  double baseline = 0;
  double ratio = 0;  // median of the pairs' ratios

  bool pass() const {
    if (goal == 0) return true;
    return better == Better::kLower ? ratio <= goal : ratio >= goal;
  }
};

bool quick();       // BENCH_QUICK=1: shorter, for a run under 40 s
int repetitions();  // at least 5

// Runs ours and baseline in turn, each returning its figure for one repetition, and fills the row's medians. A first
// pair warms up and is not counted.
void measure(Row* row, const std::function<double()>& ours, const std::function<double()>& baseline);

// Rows as printed and written to build/bench/results.json.
class Report {
 public:
  void add(Row row);  // prints it at once
  void header() const;
  bool write_json(const std::string& path) const;
  size_t missed() const;

 private:
  std::vector<Row> rows_;
};

double median(std::vector<double> values);
int64_t now_ns();

// Keeps the optimiser from removing what made `value`.
template <typename T>
inline void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// Ends the bench with the text of the failure.
void must(int status, const char* what);

// The benches, each adding its rows.
void bench_gather(Report* report);
void bench_fold(Report* report);
void bench_select(Report* report);
void bench_append(Report* report);
void bench_writers(Report* report);
void bench_leased(Report* report);
void bench_priorities(Report* report);
void bench_resident(Report* report);
void bench_attach(Report* report);
void bench_stopped(Report* report);
void bench_restart(Report* report);

}  // namespace gear::bench
