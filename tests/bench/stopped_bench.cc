// Half of the clients are stopped (SIGSTOP) under load, leases and granted blocks in their hands: what the others notice.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "bench/bench_table.h"
#include "support/shared_memory.h"

namespace gear::bench {
namespace {

constexpr uint32_t kClients = 8;
constexpr uint32_t kSamplesMax = 1 << 14;
constexpr uint32_t kRows = 16;

// One client's calls of this phase. The client writes, the bench reads and begins anew.
struct Latencies {
  std::atomic<uint32_t> count;
  std::atomic<int64_t> ns[kSamplesMax];
};

struct Shared {
  std::atomic<uint32_t> ready;
  char handle[GEAR_HANDLE_BYTES + 1];
  std::atomic<uint32_t> go;
  std::atomic<uint32_t> rest;  // of the half that is stopped: by itself, holding no batch
  Latencies clients[kClients];
};

// Appends a few rows, and draws as many, leased.
void run_client(Shared* shared, uint32_t number) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (shared->go == 0) usleep(1'000);
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  gear_writer* writer = nullptr;
  gear_sampler* sampler = nullptr;
  std::string endpoint = std::string("handle:") + shared->handle;
  must(gear_connect(endpoint.c_str(), nullptr, &client), "connect");
  must(gear_table_attach(client, shared->handle, &table), "attach");
  must(gear_writer_open(table, nullptr, &writer), "open writer");
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_LEASED;
  options.batch_rows_max = kRows;
  options.prefetch = 2 * kRows;
  must(gear_sampler_open(table, &options, &sampler), "open sampler");
  uint8_t row[200] = {};
  int64_t shape[1] = {sizeof row};
  gear_cell cell = {0, GEAR_U8, 1, 0, 0, row, shape, nullptr, 0};
  Latencies& mine = shared->clients[number];
  ++shared->ready;
  for (;;) {
    for (uint32_t i = 0; i < kRows; ++i) must(gear_writer_append(writer, 0, &cell, 1, kLongTimeout), "append");
    gear_batch* batch = nullptr;
    int64_t begin = now_ns();
    must(gear_sample(sampler, kRows, kLongTimeout, &batch), "sample");
    int64_t took = now_ns() - begin;
    uint32_t at = mine.count;
    if (at < kSamplesMax) {
      mine.ns[at] = took;
      mine.count = at + 1;
    }
    // ESTALE where it was stopped with the batch in its hands.
    int released = gear_batch_release(batch);
    if (released != GEAR_ESTALE) must(released, "release");
    // Short, so that the half that is left keeps the cores awake: else p99 is how late an idle core wakes.
    do {
      usleep(200);
    } while (number < kClients / 2 && shared->rest != 0);
  }
}

// Of the calls that the clients [first, kClients) make in the coming time.
double p99_of(Shared* shared, uint32_t first, unsigned ms) {
  for (uint32_t i = first; i < kClients; ++i) shared->clients[i].count = 0;
  usleep(ms * 1'000);
  std::vector<double> all;
  for (uint32_t i = first; i < kClients; ++i) {
    const Latencies& one = shared->clients[i];
    for (uint32_t at = 0, end = one.count; at < end; ++at) all.push_back(static_cast<double>(one.ns[at].load()));
  }
  if (all.empty()) must(GEAR_ETIMEDOUT, "no survivor drew anything");
  auto place = all.begin() + static_cast<ptrdiff_t>(all.size() * 99 / 100);
  std::nth_element(all.begin(), place, all.end());
  return *place;
}

}  // namespace

void bench_stopped(Report* report) {
  test::SharedMemory<Shared> memory;
  Shared* shared = memory.get();
  std::vector<pid_t> clients;
  fflush(nullptr);
  for (uint32_t i = 0; i < kClients; ++i) {
    pid_t pid = fork();
    if (pid == 0) run_client(shared, i);
    clients.push_back(pid);
  }
  {
    BenchTable bench(200, 20'000, [](gear_table_options* options) { options->lease_timeout_ms = 500; });
    bench.fill(1'000);
    must(gear_table_handle(bench.table, shared->handle), "handle");
    shared->go = 1;
    while (shared->ready < kClients) usleep(1'000);
    unsigned ms = quick() ? 400 : 1'500;
    auto signal_half = [&](int number) {
      for (uint32_t i = 0; i < kClients / 2; ++i) kill(clients[i], number);
    };
    auto ours = [&] {
      signal_half(SIGSTOP);
      double p99 = p99_of(shared, kClients / 2, ms);
      signal_half(SIGCONT);
      usleep(50'000);
      return p99;
    };
    Row row{"p99 of a leased sample, 4 of 8 clients stopped", "ns", "before, all 8 running", Better::kLower, 2.0};
    measure(&row, ours, [&] { return p99_of(shared, kClients / 2, ms); });
    report->add(row);
    // A machine with less to do may wake later, whoever rests: what the stop itself costs.
    auto resting = [&] {
      shared->rest = 1;
      double p99 = p99_of(shared, kClients / 2, ms);
      shared->rest = 0;
      usleep(50'000);
      return p99;
    };
    Row alike{"the same, against as many that rest", "ns", "4 of 8 clients rest by themselves", Better::kLower};
    measure(&alike, ours, resting);
    report->add(alike);
    for (pid_t pid : clients) kill(pid, SIGKILL);
    for (pid_t pid : clients) waitpid(pid, nullptr, 0);
  }
}

}  // namespace gear::bench
