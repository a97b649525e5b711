// ctest: labels=unit,slow timeout=300
//
// Every system call fails once, each at every place where it is made: the call of gear.h, or the start of a server, then ends
// with a clean error or with success, in time, and leaves nothing behind on either side.
#include <gtest/gtest.h>

#include "support/fault_inject.h"
#include "support/watched_server.h"

namespace gear::test {
namespace {

constexpr unsigned kCallsMost = 400;  // of one function in one run; beyond it this test would be wrong
constexpr int64_t kRequestNs = 3'000'000'000;

// One whole use of a server, as far as it gets. What its user made and did not end, is ended without faults.
std::string use_server(const std::string& endpoint, gear_client* other, int* status, unsigned* calls) {
  gear_client* client = nullptr;
  gear_connect_options connect = GEAR_CONNECT_OPTIONS_INIT;
  connect.request_timeout_ns = connect.connect_timeout_ns = kRequestNs;
  *status = gear_connect(endpoint.c_str(), &connect, &client);
  bool created = false;
  if (*status != GEAR_OK) {
    *calls = disarm_fault();
    return {};
  }
  std::string text = [&]() -> std::string {
    gear_table* table = nullptr;
    gear_table* again = nullptr;
    gear_writer* writer = nullptr;
    gear_sampler* samplers[2] = {};
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
#define GEAR_STEP(call)                  \
  do {                                   \
    *status = (call);                    \
    if (*status != GEAR_OK) return {};   \
  } while (0)
    GEAR_STEP(create_int_table(client, &table, 0, "faulty", 100));
    created = true;
    GEAR_STEP(gear_table_open(client, "faulty", &again));
    GEAR_STEP(gear_writer_open(table, nullptr, &writer));
    for (int64_t i = 0; i < 20; ++i) GEAR_STEP(append_int(writer, i));
    GEAR_STEP(gear_writer_flush(writer, kRequestNs, nullptr));
    for (uint32_t mode : {GEAR_SAMPLE_LEASED, GEAR_SAMPLE_DIRECT}) {
      gear_batch* batch = nullptr;
      gear_tensor tensor{};
      gear_sampler*& sampler = samplers[mode == GEAR_SAMPLE_DIRECT];
      options.mode = mode;
      GEAR_STEP(gear_sampler_open(table, &options, &sampler));
      GEAR_STEP(gear_sample(sampler, 8, kRequestNs, &batch));
      GEAR_STEP(gear_batch_tensor(batch, 0, &tensor));
      int64_t value = *static_cast<int64_t*>(tensor.data);
      if (value < 0 || value >= 20) return "drew " + std::to_string(value);
      uint64_t key = gear_batch_keys(batch)[0];
      double priority = 1;
      GEAR_STEP(gear_batch_release(batch));
      GEAR_STEP(gear_update_priorities(table, &key, &priority, 1, kRequestNs, nullptr));
    }
    GEAR_STEP(gear_writer_close(writer));
    GEAR_STEP(gear_table_drop(client, "faulty"));
    created = false;
    return {};
  }();
  std::string said = *status == GEAR_OK ? "" : gear_last_error();
  gear_close(client);
  *calls = disarm_fault();
  if (created) gear_table_drop(other, "faulty");
  if (*status != GEAR_OK && said.empty()) return "an error without a text";
  if (*status == GEAR_EINTERNAL) return said;
  return text;
}

class ServerFaults : public ::testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "sanitizers replace these calls themselves";
    arm_fault(0, "mmap", 0);  // before the server is forked
    disarm_fault();
    server_ = std::make_unique<WatchedServer>([](ServerOptions* options) {
      options->memory = GetParam();
      options->allow_io_uring = false;  // its calls are made beneath libc
    });
    ASSERT_EQ(honest_.begin(server_->endpoint()), "");
  }

  // What is left once the server has seen the client go.
  std::string leavings(const Holdings& before, size_t descriptors) {
    if (open_descriptors() != descriptors) return "descriptors here";
    Holdings after = honest_.holdings(*server_);
    for (int64_t deadline = deadline_after(5'000'000'000); !(after == before) && left_until(deadline) > 0;) {
      usleep(500);
      after = honest_.holdings(*server_);
    }
    return after == before ? "" : "before: " + before.text() + "; after: " + after.text();
  }

  // Every place of every function, in that process. Returns how many functions were called at all.
  size_t fail_each(pid_t process) {
    size_t called = 0;
    Holdings before = honest_.holdings(*server_);
    size_t descriptors = open_descriptors();
    for (const FaultyCall& call : faulty_calls()) {
      for (unsigned number = 1;; ++number) {
        EXPECT_LT(number, kCallsMost) << call.name;
        int status = GEAR_OK;
        arm_fault(process, call.name, number);
        unsigned calls = 0;
        std::string text = use_server(server_->endpoint(), honest_.client(), &status, &calls);
        std::string where = std::string(call.name) + " at call " + std::to_string(number) + ": " +
                            gear_status_string(status) + " " + (status == GEAR_OK ? "" : gear_last_error());
        EXPECT_EQ(text, "") << where;
        EXPECT_NE(status, GEAR_ETIMEDOUT) << where;
        EXPECT_EQ(leavings(before, descriptors), "") << where;
        EXPECT_TRUE(server_->lives()) << where;
        if (HasFailure()) return called;
        if (calls < number) {
          EXPECT_EQ(status, GEAR_OK) << where << ": nothing failed, and yet";
          called += number > 1;
          break;
        }
      }
      EXPECT_EQ(honest_.round(), "") << call.name;
    }
    return called;
  }

  std::unique_ptr<WatchedServer> server_;
  HonestClient honest_;
};

INSTANTIATE_TEST_SUITE_P(Memory, ServerFaults, ::testing::Values(GEAR_MEMORY_POSIX, GEAR_MEMORY_MEMFD));

TEST_P(ServerFaults, OfAClientEndInACleanErrorAndLeaveNothing) {
  EXPECT_GE(fail_each(getpid()), 5u) << "functions that a client calls at all";
}

TEST_P(ServerFaults, OfTheServerEndInACleanErrorAndLeaveNothing) {
  EXPECT_GE(fail_each(server_->pid()), 10u) << "functions that the server calls at all";
}

// Starting one.
TEST(ServerFaultsAtStart, EndInACleanErrorAndLeaveNothing) {
  if (kSanitized) GTEST_SKIP() << "sanitizers replace these calls themselves";
  for (uint32_t memory : {GEAR_MEMORY_POSIX, GEAR_MEMORY_MEMFD}) {
    char folder[] = "/tmp/gear-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    ServerOptions options;
    options.socket_path = std::string(folder) + "/geard.sock";
    options.memory = memory;
    options.allow_io_uring = false;
    // Servers of one path have one name.
    Result<std::unique_ptr<Server>> sound = Server::create(options);
    ASSERT_TRUE(sound.ok()) << sound.status().text();
    std::string name = format("gear.%u.%016llx.", getuid(), static_cast<unsigned long long>(sound.value()->instance_id()));
    EXPECT_EQ(count_entries("/dev/shm", name) > 0, memory == GEAR_MEMORY_POSIX);
    sound.value().reset();
    size_t called = 0;
    for (const FaultyCall& call : faulty_calls()) {
      for (unsigned number = 1;; ++number) {
        ASSERT_LT(number, kCallsMost) << call.name;
        size_t descriptors = open_descriptors();
        arm_fault(getpid(), call.name, number);
        Result<std::unique_ptr<Server>> server = Server::create(options);
        unsigned calls = disarm_fault();
        std::string where = std::string(call.name) + " at call " + std::to_string(number) + ": " + server.status().text();
        EXPECT_EQ(server.ok(), server.status().text().empty()) << where;
        if (server.ok()) server.value().reset();
        EXPECT_EQ(open_descriptors(), descriptors) << where;
        EXPECT_EQ(count_entries("/dev/shm", name), 0u) << where;
        // A lock that cannot be taken may be another's file.
        if (strcmp(call.name, "flock") == 0) unlink((options.socket_path + ".lock").c_str());
        EXPECT_EQ(count_entries(folder), 0u) << where;
        ASSERT_FALSE(HasFailure());
        if (calls < number) {
          EXPECT_TRUE(server.ok()) << where;
          called += number > 1;
          break;
        }
      }
    }
    EXPECT_GE(called, 8u);
    rmdir(folder);
  }
}

}  // namespace
}  // namespace gear::test
