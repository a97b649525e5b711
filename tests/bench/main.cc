// gear_bench: the rows of DESIGN section 7. `make bench`; BENCH_QUICK=1 for a short run; an argument runs only the benches
// whose name contains it.

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "bench/harness.h"

int main(int argc, char** argv) {
  using namespace gear::bench;
  struct Bench {
    const char* name;
    void (*run)(Report*);
  };
  const Bench benches[] = {{"gather", bench_gather},     {"fold", bench_fold},
                           {"select", bench_select},
                           {"append", bench_append},     {"leased", bench_leased},
                           {"writers", bench_writers},   {"priorities", bench_priorities},
                           {"resident", bench_resident}, {"attach", bench_attach},
                           {"stopped", bench_stopped},
                           {"restart", bench_restart}};
  if (argc > 1 && strcmp(argv[1], "--help") == 0) {
    printf("usage: gear_bench [NAME]\n\nRuns the benches whose name contains NAME, or all:\n");
    for (const Bench& bench : benches) printf("  %s\n", bench.name);
    printf("\nBENCH_QUICK=1 shortens the run. Results: build/bench/results.json\n");
    return 0;
  }
  Report report;
  report.header();
  for (const Bench& bench : benches) {
    if (argc > 1 && strstr(bench.name, argv[1]) == nullptr) continue;
    bench.run(&report);
  }
  std::error_code ignored;
  std::filesystem::create_directories("build/bench", ignored);
  if (!report.write_json("build/bench/results.json")) {
    fprintf(stderr, "gear_bench: cannot write build/bench/results.json\n");
    return 1;
  }
  printf("%zu of the goals missed; build/bench/results.json written\n", report.missed());
  return 0;
}
