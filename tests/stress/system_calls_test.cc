// ctest: labels=stress timeout=120 serial
//
// Law 7: in steady state an appending actor and a direct-mode learner make no system call per operation. Counted by strace over
// two runs of a client process that differ only in how much they do: what start and end cost cancels.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "gear.h"
#include "support/server_process.h"

namespace gear::test {
namespace {

constexpr int64_t kTimeout = 20'000'000'000;

void must(int status, const char* what) {
  if (status == GEAR_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, gear_status_string(status), gear_last_error());
  _exit(1);
}

gear_table* open_table(const char* endpoint) {
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  must(gear_connect(endpoint, nullptr, &client), "connect");
  if (gear_table_open(client, "steady", &table) == GEAR_OK) return table;
  gear_column_options column = GEAR_COLUMN_OPTIONS_INIT;
  column.name = "data";
  column.dtype = GEAR_U8;
  column.rank = 1;
  column.shape[0] = 200;
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "steady";
  options.columns = &column;
  options.column_count = 1;
  options.capacity_items = 100'000;
  must(gear_table_create(client, &options, &table), "create table");
  return table;
}

void act(const char* endpoint, long steps) {
  gear_writer* writer = nullptr;
  must(gear_writer_open(open_table(endpoint), nullptr, &writer), "open writer");
  uint8_t data[200] = {};
  int64_t shape[1] = {200};
  gear_cell cell = {0, GEAR_U8, 1, 0, 0, data, shape, nullptr, 0};
  for (long i = 0; i < steps; ++i) {
    memcpy(data, &i, sizeof i);
    must(gear_writer_append(writer, 0, &cell, 1, kTimeout), "append");
    // An actor steps its environment between appends; even a trivial one takes more than the microsecond that this does. One
    // that does nothing else fills the ring and has to sleep for the conductor.
    for (int work = 0; work < 4000; ++work) asm volatile("");
  }
  must(gear_writer_flush(writer, kTimeout, nullptr), "flush");
}

void learn(const char* endpoint, long batches) {
  gear_sampler* sampler = nullptr;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_DIRECT;
  must(gear_sampler_open(open_table(endpoint), &options, &sampler), "open sampler");
  for (long i = 0; i < batches; ++i) {
    gear_batch* batch = nullptr;
    must(gear_sample(sampler, 64, kTimeout, &batch), "sample");
    must(gear_batch_release(batch), "release");
  }
}

// What strace runs: this executable again, with the role in its environment.
TEST(Role, DISABLED_Play) {
  const char* role = getenv("GEAR_TEST_ROLE");
  const char* endpoint = getenv("GEAR_TEST_ENDPOINT");
  const char* count = getenv("GEAR_TEST_COUNT");
  ASSERT_TRUE(role != nullptr && endpoint != nullptr && count != nullptr);
  (strcmp(role, "actor") == 0 ? act : learn)(endpoint, atol(count));
}

// System calls of a whole run, all threads; -1 when it failed.
long system_calls(const std::string& endpoint, const char* role, long count) {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return -1;
  std::string report = std::string("/tmp/gear-strace-") + std::to_string(getpid());
  std::string command = std::string("GEAR_TEST_ROLE=") + role + " GEAR_TEST_ENDPOINT=" + endpoint +
                        " GEAR_TEST_COUNT=" + std::to_string(count) + " strace -f -c -o " + report +
                        " " + self +
                        " --gtest_filter=Role.DISABLED_Play --gtest_also_run_disabled_tests >/dev/null";
  int status = system(command.c_str());
  long total = -1;
  std::ifstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    // "100.00    0.004    2    1234    12 total"
    double share, seconds;
    long usecs, calls;
    bool is_total = line.size() > 5 && line.compare(line.size() - 5, 5, "total") == 0;
    if (is_total && sscanf(line.c_str(), "%lf %lf %ld %ld", &share, &seconds, &usecs, &calls) == 4) {
      total = calls;
    }
  }
  unlink(report.c_str());
  return status == 0 ? total : -1;
}

void expect_none_per_operation(const std::string& endpoint, const char* role) {
  constexpr long kFew = 2'000, kMany = 102'000;
  long few = system_calls(endpoint, role, kFew);
  long many = system_calls(endpoint, role, kMany);
  ASSERT_GT(few, 0);
  ASSERT_GT(many, 0);
  printf("%s: %ld system calls for %ld operations, %ld for %ld\n", role, few, kFew, many, kMany);
  // On a busy machine the server is now and then not scheduled in time, and a client has to sleep for it: a few calls among
  // many operations. A call that belonged to the operation would be there each time.
  EXPECT_LT(many - few, (kMany - kFew) / 20);
}

// A sanitizer makes system calls of its own, and its leak check does not work under strace.
bool can_count() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return system("strace -V >/dev/null 2>&1") == 0;
#endif
}

TEST(SystemCalls, AnAppendingActorMakesNonePerStep) {
  if (!can_count()) GTEST_SKIP() << "strace is not installed, or this is a sanitizer build";
  ServerProcess server;
  expect_none_per_operation(server.endpoint(), "actor");
}

TEST(SystemCalls, ADirectLearnerMakesNonePerBatch) {
  if (!can_count()) GTEST_SKIP() << "strace is not installed, or this is a sanitizer build";
  ServerProcess server;
  act(server.endpoint().c_str(), 120'000);
  expect_none_per_operation(server.endpoint(), "learner");
}

}  // namespace
}  // namespace gear::test
