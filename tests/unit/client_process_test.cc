// What else goes on in a client's process: signals, threads that end, descriptors that run out.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gear.h"
#include "support/child.h"
#include "support/int_table.h"
#include "support/server_process.h"

namespace gear::test {
namespace {

constexpr int64_t kPatienceNs = 20'000'000'000;

std::atomic<int> signals{0};

class ClientProcess : public ::testing::Test {
 protected:
  ClientProcess() {
    EXPECT_EQ(gear_connect(server_.endpoint().c_str(), nullptr, &client_), GEAR_OK)
        << gear_last_error();
    table_ = make_table(client_, "t");
    EXPECT_EQ(gear_writer_open(table_, nullptr, &writer_), GEAR_OK) << gear_last_error();
  }
  ~ClientProcess() override { EXPECT_EQ(gear_close(client_), GEAR_OK) << gear_last_error(); }

  static gear_table* make_table(gear_client* client, const char* name) {
    auto change = [](gear_table_options* options) { options->capacity_items = options->max_times_sampled = 100; };
    gear_table* table = nullptr;
    EXPECT_EQ(create_int_table_with(client, name, &table, change), GEAR_OK) << gear_last_error();
    return table;
  }
  void append(int64_t value) {
    EXPECT_EQ(append_int(writer_, value, 0, kPatienceNs), GEAR_OK) << gear_last_error();
    EXPECT_EQ(gear_writer_flush(writer_, kPatienceNs, nullptr), GEAR_OK) << gear_last_error();
  }

  ServerProcess server_;  // before any thread
  gear_client* client_ = nullptr;
  gear_table* table_ = nullptr;
  gear_writer* writer_ = nullptr;
};

TEST_F(ClientProcess, GoesOnWaitingThroughSignals) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) { ++signals; };  // no SA_RESTART
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  gear_sampler* sampler = nullptr;
  ASSERT_EQ(gear_sampler_open(table_, nullptr, &sampler), GEAR_OK);
  std::atomic<bool> done{false};
  std::thread caller([&] {
    gear_batch* batch = nullptr;
    EXPECT_EQ(gear_sample(sampler, 1, kPatienceNs, &batch), GEAR_OK) << gear_last_error();
    EXPECT_EQ(gear_batch_release(batch), GEAR_OK);
    for (int i = 0; i < 200; ++i) {
      gear_server_info info = GEAR_SERVER_INFO_INIT;
      EXPECT_EQ(gear_get_server_info(client_, &info), GEAR_OK) << gear_last_error();
    }
    done = true;
  });
  signals = 0;
  pthread_t thread = caller.native_handle();
  while (signals < 100) pthread_kill(thread, SIGUSR1);
  append(1);
  while (!done) pthread_kill(thread, SIGUSR1);
  caller.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(ClientProcess, KeepsABatchWhoseThreadHasEnded) {
  append(7);
  gear_sampler* sampler = nullptr;
  gear_batch* batch = nullptr;
  std::thread drawer([&] {
    EXPECT_EQ(gear_sampler_open(table_, nullptr, &sampler), GEAR_OK);
    EXPECT_EQ(gear_sample(sampler, 1, kPatienceNs, &batch), GEAR_OK) << gear_last_error();
  });
  drawer.join();
  gear_tensor tensor;
  ASSERT_EQ(gear_batch_tensor(batch, 0, &tensor), GEAR_OK);
  EXPECT_EQ(*static_cast<const int64_t*>(tensor.data), 7);
  EXPECT_EQ(gear_batch_release(batch), GEAR_OK);
  EXPECT_EQ(gear_sample(sampler, 1, kPatienceNs, &batch), GEAR_OK) << "the sampler is any thread's";
  EXPECT_EQ(gear_batch_release(batch), GEAR_OK);
}

size_t open_descriptors() {
  auto entries = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

// The lowest number that is free, which is the limit below which there is none.
rlim_t lowest_free() {
  int fd = dup(0);
  close(fd);
  return static_cast<rlim_t>(fd);
}

// With 0, 1, 2, ... descriptors to be had, until the call succeeds: each failure is EMFILE and leaves nothing behind, in this
// process or in the server.
void expect_clean_without_descriptors(const std::function<int()>& call,
                                      const std::function<void()>& undo) {
  size_t before = open_descriptors();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  int failures = 0;
  for (rlim_t spare = 0; spare < 20; ++spare) {
    rlimit low{lowest_free() + spare, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    int status = call();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (status == GEAR_OK) {
      undo();
      EXPECT_EQ(open_descriptors(), before);
      EXPECT_GT(failures, 0);
      return;
    }
    EXPECT_EQ(status, GEAR_EMFILE) << spare << " spare: " << gear_last_error();
    EXPECT_EQ(open_descriptors(), before) << spare << " spare";
    ++failures;
  }
  FAIL() << "20 descriptors are not enough";
}

TEST_F(ClientProcess, LeavesNothingBehindWhereDescriptorsRunOut) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer needs descriptors, to look at the types of objects";
  gear_client* client = nullptr;
  expect_clean_without_descriptors(
      [&] { return gear_connect(server_.endpoint().c_str(), nullptr, &client); },
      [&] { EXPECT_EQ(gear_close(client), GEAR_OK); });
  gear_table* table = nullptr;
  expect_clean_without_descriptors([&] { return gear_table_open(client_, "t", &table); },
                                   [&] { EXPECT_EQ(gear_table_detach(table), GEAR_OK); });
  char handle[GEAR_HANDLE_BYTES + 1];
  ASSERT_EQ(gear_table_handle(table_, handle), GEAR_OK);
  expect_clean_without_descriptors([&] { return gear_table_attach(client_, handle, &table); },
                                   [&] { EXPECT_EQ(gear_table_detach(table), GEAR_OK); });
  gear_writer* writer = nullptr;
  expect_clean_without_descriptors([&] { return gear_writer_open(table_, nullptr, &writer); },
                                   [&] { EXPECT_EQ(gear_writer_close(writer), GEAR_OK); });
  gear_sampler* sampler = nullptr;
  expect_clean_without_descriptors([&] { return gear_sampler_open(table_, nullptr, &sampler); },
                                   [&] { EXPECT_EQ(gear_sampler_close(sampler), GEAR_OK); });

  // Channels whose descriptors were lost on the way are closed in the server too.
  int64_t deadline_ns = deadline_after(kPatienceNs);
  gear_server_info info = GEAR_SERVER_INFO_INIT;
  do {
    ASSERT_EQ(gear_get_server_info(client_, &info), GEAR_OK);
  } while ((info.writers != 1 || info.samplers != 0) && left_until(deadline_ns) > 0);
  EXPECT_EQ(info.writers, 1u);
  EXPECT_EQ(info.samplers, 0u);
}

}  // namespace
}  // namespace gear::test
