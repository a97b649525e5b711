// ctest: labels=unit,tsan
// Handles that are closed while other threads are in calls on them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gear.h"
#include "layout/directory.h"
#include "shm/segment_names.h"
#include "support/int_table.h"

namespace {

constexpr int64_t kPatienceNs = 20'000'000'000;

// A thread that makes a call which waits.
class Caller {
 public:
  // Returns once the thread sleeps in the call.
  void start(std::function<int()> call) {
    tid_ = 0;
    thread_ = std::thread([this, call = std::move(call)] {
      tid_ = gettid();
      answer_ = call();
    });
    while (tid_ == 0 || state_of(tid_) != 'S') std::this_thread::yield();
  }
  int answer() {
    thread_.join();
    return answer_;
  }

 private:
  static char state_of(int tid) {
    std::ifstream stat("/proc/self/task/" + std::to_string(tid) + "/stat");
    std::string text;
    std::getline(stat, text);
    size_t name_end = text.rfind(')');
    return name_end != std::string::npos && name_end + 2 < text.size() ? text[name_end + 2] : '?';
  }

  std::thread thread_;
  std::atomic<int> tid_{0};
  int answer_ = 1;
};

class CloseDuringACall : public ::testing::Test {
 protected:
  CloseDuringACall() {
    EXPECT_EQ(gear_connect("embedded:", nullptr, &client_), GEAR_OK) << gear_last_error();
    table_ = make_table("t", 10);
  }
  ~CloseDuringACall() override {
    int closed = client_ != nullptr ? gear_close(client_) : GEAR_OK;
    EXPECT_EQ(closed, GEAR_OK) << gear_last_error();
  }

  static gear_table* make_table(gear_client* client, const char* name, uint32_t max_times_sampled, uint32_t memory = 0) {
    auto change = [=](gear_table_options* options) {
      options->max_times_sampled = max_times_sampled;
      options->memory = memory;
      if (max_times_sampled > 0) options->limiter = {1.0, 1, -1e9, 2.0};
    };
    gear_table* table = nullptr;
    EXPECT_EQ(gear::test::create_int_table_with(client, name, &table, change), GEAR_OK) << gear_last_error();
    return table;
  }
  gear_table* make_table(const char* name, uint32_t max_times_sampled) {
    return make_table(client_, name, max_times_sampled);
  }
  // A client of a server of its own, and one of each that there is.
  struct Handles {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    gear_writer* writer = nullptr;
    gear_sampler* sampler = nullptr;
  };
  static Handles open_handles(const char* endpoint) {
    Handles all;
    EXPECT_EQ(gear_connect(endpoint, nullptr, &all.client), GEAR_OK) << gear_last_error();
    all.table = make_table(all.client, "t", 0);
    EXPECT_EQ(gear_writer_open(all.table, nullptr, &all.writer), GEAR_OK) << gear_last_error();
    EXPECT_EQ(gear_sampler_open(all.table, nullptr, &all.sampler), GEAR_OK) << gear_last_error();
    return all;
  }
  // The one table of the client's server, in memory that has a name: more items are counted than it has slots.
  static void spoil_table_of(gear_client* client) {
    gear_server_info info = GEAR_SERVER_INFO_INIT;
    ASSERT_EQ(gear_get_server_info(client, &info), GEAR_OK) << gear_last_error();
    for (const gear::SegmentName& name : gear::list_segments(info.instance_id)) {
      if (name.kind != gear::layout::SegmentKind::kDirectory) continue;
      std::fstream file(std::string(gear::kSegmentFolder) + "/" + name.text(), std::ios::in | std::ios::out | std::ios::binary);
      const uint64_t items = uint64_t{1} << 40;
      file.seekp(offsetof(gear::layout::TableHeader, counters) + offsetof(gear::layout::TableCounters, items));
      file.write(reinterpret_cast<const char*>(&items), sizeof items);
      ASSERT_TRUE(file.flush().good());
    }
  }
  static int append(gear_writer* writer, int64_t timeout_ns) {
    return gear::test::append_int(writer, 7, 0, timeout_ns);
  }
  int sample(gear_sampler* sampler) {
    gear_batch* batch = nullptr;
    int status = gear_sample(sampler, 1, kPatienceNs, &batch);
    if (status == GEAR_OK) gear_batch_release(batch);
    return status;
  }

  void start(std::function<int()> call) { caller_.start(std::move(call)); }
  int answer() { return caller_.answer(); }

  gear_client* client_ = nullptr;
  gear_table* table_ = nullptr;
  Caller caller_;
};

TEST_F(CloseDuringACall, EndsASampleOnALeasedSampler) {
  gear_sampler* sampler = nullptr;
  ASSERT_EQ(gear_sampler_open(table_, nullptr, &sampler), GEAR_OK);
  start([&] { return sample(sampler); });
  int64_t begin_ns = gear::now_ns();
  EXPECT_EQ(gear_sampler_close(sampler), GEAR_OK) << gear_last_error();
  EXPECT_EQ(answer(), GEAR_ECLOSED);
  EXPECT_LT(gear::now_ns() - begin_ns, kPatienceNs);
  EXPECT_EQ(sample(sampler), GEAR_EINVAL);
  EXPECT_EQ(gear_sampler_close(sampler), GEAR_EINVAL);
}

TEST_F(CloseDuringACall, EndsASampleOnADirectSamplerWithAndWithoutBackground) {
  gear_table* direct = make_table("direct", 0);
  for (uint32_t background : {0u, 2u}) {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.background = background;
    options.background_rows = background > 0 ? 1 : 0;
    gear_sampler* sampler = nullptr;
    ASSERT_EQ(gear_sampler_open(direct, &options, &sampler), GEAR_OK) << gear_last_error();
    start([&] { return sample(sampler); });
    EXPECT_EQ(gear_sampler_close(sampler), GEAR_OK) << gear_last_error();
    EXPECT_EQ(answer(), GEAR_ECLOSED) << background;
  }
}

TEST_F(CloseDuringACall, EndsAFlushThatTheLimiterHoldsBack) {
  gear_writer* writer = nullptr;
  ASSERT_EQ(gear_writer_open(table_, nullptr, &writer), GEAR_OK);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(append(writer, kPatienceNs), GEAR_OK);
  start([&] { return gear_writer_flush(writer, kPatienceNs, nullptr); });
  gear_writer_close(writer);
  EXPECT_EQ(answer(), GEAR_ECLOSED);
  EXPECT_EQ(append(writer, 0), GEAR_EINVAL);
}

TEST_F(CloseDuringACall, OfTheClientEndsTheCallsOfAll) {
  gear_sampler* sampler = nullptr;
  gear_writer* writer = nullptr;
  ASSERT_EQ(gear_sampler_open(make_table("u", 10), nullptr, &sampler), GEAR_OK);
  ASSERT_EQ(gear_writer_open(table_, nullptr, &writer), GEAR_OK);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(append(writer, kPatienceNs), GEAR_OK);
  Caller flusher;
  flusher.start([&] { return gear_writer_flush(writer, kPatienceNs, nullptr); });
  start([&] { return sample(sampler); });
  EXPECT_EQ(gear_close(client_), GEAR_OK) << gear_last_error();
  EXPECT_EQ(answer(), GEAR_ECLOSED);
  EXPECT_EQ(flusher.answer(), GEAR_ECLOSED);
  EXPECT_EQ(append(writer, 0), GEAR_EINVAL);
  EXPECT_EQ(gear_close(client_), GEAR_EINVAL);
  gear_table* table = nullptr;
  EXPECT_EQ(gear_table_open(client_, "t", &table), GEAR_EINVAL);
  EXPECT_EQ(sample(sampler), GEAR_EINVAL);
  client_ = nullptr;
}

// The close comes between, before and within the calls of busy threads, which go on calling until they are told.
TEST_F(CloseDuringACall, MeetsThreadsThatNeverPause) {
  for (int round = 0; round < 20; ++round) {
    Handles all = open_handles("embedded:busy");
    ASSERT_EQ(append(all.writer, kPatienceNs), GEAR_OK);
    ASSERT_EQ(gear_writer_flush(all.writer, kPatienceNs, nullptr), GEAR_OK);
    std::atomic<int> running{0};
    auto until_told = [&running](std::function<int()> call) {
      return std::thread([&running, call] {
        ++running;
        int status = GEAR_OK;
        while (status == GEAR_OK) status = call();
        EXPECT_TRUE(status == GEAR_ECLOSED || status == GEAR_EINVAL) << gear_last_error();
      });
    };
    std::vector<std::thread> threads;
    threads.push_back(until_told([&] { return append(all.writer, kPatienceNs); }));
    threads.push_back(until_told([&] { return sample(all.sampler); }));
    threads.push_back(until_told([&] {
      gear_table_stats stats = GEAR_TABLE_STATS_INIT;
      return gear_table_get_stats(all.table, &stats);
    }));
    threads.push_back(until_told([&] {
      uint64_t key = 12345;
      return gear_delete_items(all.table, &key, 1, kPatienceNs, nullptr);
    }));
    threads.push_back(until_told([&] {
      gear_server_info info = GEAR_SERVER_INFO_INIT;
      return gear_get_server_info(all.client, &info);
    }));
    while (running < 5) std::this_thread::yield();
    EXPECT_EQ(gear_close(all.client), GEAR_OK) << gear_last_error();
    for (auto& thread : threads) thread.join();
  }
}

// Handles that end in one thread while another ends the client with all of them: whoever comes first.
TEST_F(CloseDuringACall, OfTheClientWaitsForClosesOfItsHandles) {
  for (int round = 0; round < 40; ++round) {
    Handles all = open_handles("embedded:ends");
    gear_table* other = make_table(all.client, "other", 0);
    std::atomic<int> running{0};
    auto once = [&running](std::function<int()> end) {
      return std::thread([&running, end] {
        ++running;
        while (running < 4) std::this_thread::yield();
        int status = end();
        EXPECT_TRUE(status == GEAR_OK || status == GEAR_ECLOSED || status == GEAR_EINVAL) << gear_last_error();
      });
    };
    std::thread threads[] = {once([&] { return gear_writer_close(all.writer); }),
                             once([&] { return gear_sampler_close(all.sampler); }),
                             once([&] { return gear_table_detach(other); })};
    ++running;
    while (running < 4) std::this_thread::yield();
    EXPECT_EQ(gear_close(all.client), GEAR_OK) << gear_last_error();
    for (auto& thread : threads) thread.join();
  }
}

TEST_F(CloseDuringACall, IsRefusedWithinACallback) {
  gear_connect_options options = GEAR_CONNECT_OPTIONS_INIT;
  options.request_timeout_ns = 1'000'000'000;  // that long the close waits for the callback's call
  gear_client* client = nullptr;
  gear_client* other = nullptr;
  ASSERT_EQ(gear_connect("embedded:callback", nullptr, &other), GEAR_OK);
  make_table(other, "t", 0);
  ASSERT_EQ(gear_connect("embedded:callback", &options, &client), GEAR_OK);
  struct Within {
    gear_client* client;
    int status = 1;
  } within{client};
  ASSERT_EQ(gear_table_list(
                client,
                [](const char*, void* user) {
                  auto* of = static_cast<Within*>(user);
                  of->status = gear_close(of->client);
                },
                &within),
            GEAR_OK);
  EXPECT_EQ(within.status, GEAR_EBUSY);
  EXPECT_EQ(gear_close(client), GEAR_OK) << gear_last_error();
  EXPECT_EQ(gear_close(other), GEAR_OK) << gear_last_error();
}

// Findings are told of a table that is spoiled.
TEST_F(CloseDuringACall, OfATableIsRefusedWithinItsCheck) {
  gear_connect_options connect = GEAR_CONNECT_OPTIONS_INIT;
  connect.request_timeout_ns = 1'000'000'000;  // that long the close waits for the callback's call
  gear_client* client = nullptr;
  ASSERT_EQ(gear_connect("embedded:check", &connect, &client), GEAR_OK);
  gear_table* table = make_table(client, "t", 0, GEAR_MEMORY_POSIX);
  spoil_table_of(client);
  struct Within {
    gear_table* table;
    int status = 1;
  } within{table};
  auto detach = [](const char*, void* user) {
    auto* of = static_cast<Within*>(user);
    if (of->status == 1) of->status = gear_table_detach(of->table);
  };
  ASSERT_EQ(gear_table_check(table, detach, &within), GEAR_OK) << gear_last_error();
  EXPECT_EQ(within.status, GEAR_EBUSY);
  EXPECT_EQ(gear_close(client), GEAR_OK) << gear_last_error();
}

}  // namespace
