// Leased sampling and priority updates: what passes through the conductor.

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/rng.h"
#include "bench/bench_table.h"
#include "bench/harness.h"
#include "bench/sum_tree.h"

namespace gear::bench {
namespace {

// Two processes that hand a turn to each other over two futex words, spinning briefly before they sleep.
class PingPong {
 public:
  PingPong() {
    words_ = static_cast<uint32_t*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    child_ = fork();
    if (child_ == 0) {
      for (uint32_t turn = 1;; ++turn) {
        if (wait_for(&words_[0], turn) == kStop) _exit(0);
        hand_over(&words_[32], turn);
      }
    }
  }
  ~PingPong() {
    hand_over(&words_[0], kStop);
    waitpid(child_, nullptr, 0);
    munmap(words_, 4096);
  }
  void round_trip() {
    ++turn_;
    hand_over(&words_[0], turn_);
    wait_for(&words_[32], turn_);
  }

 private:
  static constexpr uint32_t kStop = 0xffffffffu;
  static void hand_over(uint32_t* word, uint32_t turn) {
    __atomic_store_n(word, turn, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  static uint32_t wait_for(uint32_t* word, uint32_t turn) {
    for (;;) {
      uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
      if (seen >= turn) return seen;
      syscall(SYS_futex, word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
    }
  }

  uint32_t* words_;
  pid_t child_;
  uint32_t turn_ = 0;
};

double p50_ns(int rounds, const std::function<void()>& round) {
  std::vector<double> times;
  times.reserve(static_cast<size_t>(rounds));
  for (int i = 0; i < rounds; ++i) {
    int64_t begin = now_ns();
    round();
    times.push_back(static_cast<double>(now_ns() - begin));
  }
  return median(times);
}

void draw(gear_sampler* sampler, uint32_t rows) {
  gear_batch* batch = nullptr;
  must(gear_sample(sampler, rows, kLongTimeout, &batch), "sample");
  must(gear_batch_release(batch), "release");
}

void leased_round_trip(Report* report) {
  BenchTable bench(256, 100'000, [](gear_table_options*) {});
  bench.fill(100'000);
  gear_sampler* sampler = bench.sampler(GEAR_SAMPLE_LEASED, 1, 0);
  PingPong ping_pong;
  int rounds = quick() ? 2'000 : 10'000;
  Row row{"leased sample, 1 row, prefetch 0, p50", "ns", "futex ping-pong, two processes", Better::kLower, 2.0};
  measure(&row, [&] { return p50_ns(rounds, [&] { draw(sampler, 1); }); },
          [&] { return p50_ns(rounds, [&] { ping_pong.round_trip(); }); });
  report->add(row);
}

void leased_prefetch(Report* report) {
  constexpr uint32_t kBatch = 256;
  BenchTable bench(256, 100'000, [](gear_table_options*) {});
  bench.fill(100'000);
  gear_sampler* leased = bench.sampler(GEAR_SAMPLE_LEASED, kBatch, kBatch * 4);
  gear_sampler* direct = bench.sampler(GEAR_SAMPLE_DIRECT, kBatch, 0);
  int rounds = quick() ? 1'000 : 5'000;
  Row row{"leased sample, 256 rows, prefetch 1024, p50", "ns", "direct sample of the same", Better::kLower, 1.5};
  measure(&row, [&] { return p50_ns(rounds, [&] { draw(leased, kBatch); }); },
          [&] { return p50_ns(rounds, [&] { draw(direct, kBatch); }); });
  report->add(row);
}

// A new group goes once through the table; release acknowledges.
void group_batches(Report* report) {
  constexpr uint32_t kBatch = 256;
  constexpr uint32_t kItems = 100'000;
  BenchTable bench(256, kItems, [](gear_table_options*) {});
  bench.fill(kItems);
  gear_sampler* leased = bench.sampler(GEAR_SAMPLE_LEASED, kBatch, kBatch * 4);
  int rounds = kItems / kBatch;
  auto ours = [&] {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.batch_rows_max = kBatch;
    options.prefetch = kBatch * 4;
    options.group = "bench";
    gear_sampler* sampler = nullptr;
    must(gear_sampler_open(bench.table, &options, &sampler), "open sampler of a group");
    double p50 = p50_ns(rounds, [&] { draw(sampler, kBatch); });
    must(gear_sampler_close(sampler), "close sampler");
    must(gear_group_drop(bench.table, "bench"), "drop group");
    return p50;
  };
  Row row{"group sample, 256 rows, prefetch 1024, p50", "ns", "leased sample of the same, no group", Better::kLower, 0};
  measure(&row, ours, [&] { return p50_ns(rounds, [&] { draw(leased, kBatch); }); });
  report->add(row);
}

}  // namespace

void bench_leased(Report* report) {
  leased_round_trip(report);
  leased_prefetch(report);
  group_batches(report);
}

void bench_priorities(Report* report) {
  constexpr uint32_t kBatch = 256;
  constexpr uint64_t kItems = 1'000'000;
  BenchTable bench(8, kItems, [](gear_table_options* options) {
    options->sampler = GEAR_SELECT_PRIORITIZED;
    options->priority_alpha = 1.0;
    options->lanes_max = 1;
  });
  bench.fill(kItems);
  gear_sampler* sampler = bench.sampler(GEAR_SAMPLE_DIRECT, kBatch, 0);
  BareSumTree tree(kItems);
  for (uint64_t leaf = 0; leaf < kItems; ++leaf) tree.update(leaf, 1.0);
  Rng rng(9);
  std::vector<double> priorities(kBatch);
  int rounds = quick() ? 300 : 2'000;

  auto ours = [&] {
    int64_t spent = 0;
    for (int i = 0; i < rounds; ++i) {
      gear_batch* batch = nullptr;
      must(gear_sample(sampler, kBatch, kLongTimeout, &batch), "sample");
      for (double& priority : priorities) priority = rng.unit() + 0.01;
      int64_t begin = now_ns();
      must(gear_update_priorities(bench.table, gear_batch_keys(batch), priorities.data(), kBatch,
                                  kLongTimeout, nullptr),
           "update priorities");
      spent += now_ns() - begin;
      must(gear_batch_release(batch), "release");
    }
    return static_cast<double>(spent) / rounds;
  };
  std::vector<uint64_t> leaves(kBatch);
  auto baseline = [&] {
    int64_t spent = 0;
    for (int i = 0; i < rounds; ++i) {
      for (uint64_t& leaf : leaves) leaf = rng.below(kItems);
      for (double& priority : priorities) priority = rng.unit() + 0.01;
      int64_t begin = now_ns();
      for (uint32_t row = 0; row < kBatch; ++row) tree.update(leaves[row], priorities[row]);
      spent += now_ns() - begin;
    }
    return static_cast<double>(spent) / rounds;
  };
  Row row{"priority update, batch 256, 1M items", "ns", "bare sum tree", Better::kLower, 2.0};
  measure(&row, ours, baseline);
  report->add(row);
}

}  // namespace gear::bench
