#include "bench/harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "gear.h"

namespace gear::bench {

bool quick() {
  const char* set = getenv("BENCH_QUICK");
  return set != nullptr && *set != '\0' && *set != '0';
}

int repetitions() { return quick() ? 5 : 11; }

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void measure(Row* row, const std::function<double()>& ours,
             const std::function<double()>& baseline) {
  std::vector<double> our_figures, baseline_figures, ratios;
  for (int i = -1; i < repetitions(); ++i) {
    // Alternating who goes first, so that neither always follows the other's caches.
    double a, b;
    if (i % 2 == 0) {
      a = ours();
      b = baseline();
    } else {
      b = baseline();
      a = ours();
    }
    if (i < 0) continue;
    our_figures.push_back(a);
    baseline_figures.push_back(b);
    ratios.push_back(a / b);
  }
  row->ours = median(our_figures);
  row->baseline = median(baseline_figures);
  row->ratio = median(ratios);
}

void Report::header() const {
  printf("%-44s %12s %12s %-8s %7s %8s       baseline\n", "row", "ours", "baseline", "unit", "ratio",
         "goal");
}

void Report::add(Row row) {
  char goal[32] = "-";
  if (row.goal != 0) {
    snprintf(goal, sizeof goal, "%s%.2f", row.better == Better::kLower ? "<=" : ">=", row.goal);
  }
  printf("%-44s %12.2f %12.2f %-8s %7.3f %8s %-5s %s\n", row.name.c_str(), row.ours, row.baseline,
         row.unit.c_str(), row.ratio, goal, row.pass() ? "ok" : "MISS", row.baseline_name.c_str());
  fflush(stdout);
  rows_.push_back(std::move(row));
}

bool Report::write_json(const std::string& path) const {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : rows_) {
    rows.push_back({{"name", row.name},
                    {"unit", row.unit},
                    {"ours", row.ours},
                    {"baseline_name", row.baseline_name},
                    {"baseline", row.baseline},
                    {"ratio", row.ratio},
                    {"goal", row.goal},
                    {"pass", row.pass()}});
  }
  FILE* file = fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  std::string text = rows.dump(2);
  bool written = fwrite(text.data(), 1, text.size(), file) == text.size() && fputc('\n', file) != EOF;
  return fclose(file) == 0 && written;
}

size_t Report::missed() const {
  return static_cast<size_t>(
      std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return !row.pass(); }));
}

void must(int status, const char* what) {
  if (status == GEAR_OK) return;
  fprintf(stderr, "gear_bench: %s: %s: %s\n", what, gear_status_string(status), gear_last_error());
  exit(1);
}

}  // namespace gear::bench
