// geard is killed with a table of 4 GiB and a million items, and started again: how long until it answers, while a learner
// draws directly and a writer appends all the time.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "bench/bench_table.h"

namespace gear::bench {
namespace {

constexpr uint64_t kRowBytes = 4'096;
constexpr uint32_t kRows = 64;

// A geard of a folder of its own.
class Daemon {
 public:
  Daemon() {
    char folder[] = "/tmp/gear-bench-XXXXXX";
    if (mkdtemp(folder) == nullptr) must(GEAR_ESYSTEM, "make a folder");
    folder_ = folder;
    start();
  }
  ~Daemon() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    rmdir(folder_.c_str());
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  std::string path() const { return folder_ + "/geard.sock"; }
  void kill_now() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void start() {
    pid_ = fork();
    if (pid_ != 0) return;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDERR_FILENO);
    const char* program = GEAR_TEST_BUILD_DIR "/geard";
    std::string socket = path();
    execl(program, program, "--socket", socket.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }

 private:
  std::string folder_;
  pid_t pid_ = -1;
};

gear_client* connect_to(const Daemon& daemon) {
  gear_client* client = nullptr;
  std::string endpoint = "unix:" + daemon.path();
  for (int i = 0; i < 5'000 && gear_connect(endpoint.c_str(), nullptr, &client) != GEAR_OK; ++i) usleep(1'000);
  if (client == nullptr) must(GEAR_ENOSERVER, "connect");
  return client;
}

// Draws until told to end; a draw that fails ends the bench.
void learn(gear_table* table, const std::atomic<bool>& over) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_DIRECT;
  options.batch_rows_max = kRows;
  gear_sampler* sampler = nullptr;
  must(gear_sampler_open(table, &options, &sampler), "open sampler");
  while (!over) {
    gear_batch* batch = nullptr;
    must(gear_sample(sampler, kRows, 1'000'000, &batch), "sample while geard is down");
    must(gear_batch_release(batch), "release");
    usleep(1'000);
  }
  must(gear_sampler_close(sampler), "close sampler");
}

}  // namespace

void bench_restart(Report* report) {
  const uint64_t items = quick() ? 100'000 : 1'000'000;
  Daemon daemon;
  gear_client* client = connect_to(daemon);
  gear_column_options column = GEAR_COLUMN_OPTIONS_INIT;
  column.dtype = GEAR_U8;
  column.name = "row";
  column.rank = 1;
  column.shape[0] = kRowBytes;
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "large";
  options.columns = &column;
  options.column_count = 1;
  options.capacity_items = items;
  options.sampler = GEAR_SELECT_PRIORITIZED;
  options.lanes_max = 4;
  gear_table* table = nullptr;
  gear_writer* writer = nullptr;
  must(gear_table_create(client, &options, &table), "create table");
  must(gear_writer_open(table, nullptr, &writer), "open writer");
  std::vector<uint8_t> row(kRowBytes, 7);
  int64_t shape[1] = {kRowBytes};
  gear_cell cell = {0, GEAR_U8, 1, 0, 0, row.data(), shape, nullptr, 0};
  uint64_t appended = 0;
  auto append = [&](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i, ++appended) {
      must(gear_writer_append(writer, 0, &cell, 1, kLongTimeout), "append");
    }
    must(gear_writer_flush(writer, kLongTimeout, nullptr), "flush");
  };
  append(items);
  std::atomic<bool> over{false};
  std::thread learner([&] { learn(table, over); });

  auto ours = [&] {
    append(1'000);
    daemon.kill_now();
    int64_t begin = now_ns();
    daemon.start();
    gear_server_info info = GEAR_SERVER_INFO_INIT;
    must(gear_get_server_info(client, &info), "ask the server that was started again");
    double ms = static_cast<double>(now_ns() - begin) / 1e6;
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    must(gear_table_get_stats(table, &stats), "stats");
    if (stats.steps != appended || stats.items != items) must(GEAR_ECORRUPT, "steps that flush acknowledged are there");
    return ms;
  };
  Row measured{quick() ? "geard killed to answering, 0.4 GiB, 100k items" : "geard killed to answering, 4 GiB, 1M items", "ms",
               "the second it may take", Better::kLower, 1.0};
  measure(&measured, ours, [] { return 1'000.0; });
  over = true;
  learner.join();
  must(gear_table_drop(client, "large"), "drop");
  must(gear_close(client), "close");
  report->add(measured);
}

}  // namespace gear::bench
