// ctest: labels=stress,slow timeout=180 serial
//
// Eight writer processes and four sampler processes over one table that wraps many times: every cell of every row that
// was ever returned is recomputed from its lane and step. GEAR_STRESS_SECONDS (default 10) sets the length,
// GEAR_TEST_SEED the lengths of the episodes.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "gear.h"
#include "support/server_process.h"
#include "support/shared_memory.h"

namespace gear::test {
namespace {

constexpr uint32_t kWriters = 8;
constexpr uint32_t kLanesEach = 5;
constexpr uint32_t kSamplers = 4;
constexpr uint64_t kCapacity = 20'000;
constexpr size_t kPayload = 192;
constexpr uint32_t kBatch = 64;
constexpr int64_t kTimeout = 20'000'000'000;

enum Column : uint32_t { kLane, kStep, kAge, kLength, kData };

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

// The whole truth about step `step` of lane `lane`.
void expected_payload(uint64_t lane, uint64_t step, uint8_t* payload) {
  for (size_t i = 0; i < kPayload; i += 8) {
    uint64_t word = mix(lane * 0x9e3779b97f4a7c15u + step * 1048583 + i);
    memcpy(payload + i, &word, 8);
  }
}

struct Totals {  // shared by the processes of the test
  std::atomic<uint64_t> steps;
  std::atomic<uint64_t> leased_rows;
  std::atomic<uint64_t> direct_rows;
  std::atomic<uint64_t> cells;
  std::atomic<uint64_t> redrawn;
  std::atomic<uint32_t> stop;
};

#define CHECK_OK(call)                                                                       \
  do {                                                                                       \
    int check_status = (call);                                                               \
    if (check_status != GEAR_OK) {                                                           \
      fprintf(stderr, "%s: %s: %s\n", #call, gear_status_string(check_status), gear_last_error()); \
      return 1;                                                                              \
    }                                                                                        \
  } while (false)

int create_table(gear_client* client, uint32_t isolation, gear_table** table) {
  gear_column_options columns[5];
  const char* const names[] = {"lane", "step", "age", "length", "data"};
  const uint32_t dtypes[] = {GEAR_U64, GEAR_U64, GEAR_U32, GEAR_U32, GEAR_U8};
  for (int i = 0; i < 5; ++i) {
    columns[i] = GEAR_COLUMN_OPTIONS_INIT;
    columns[i].name = names[i];
    columns[i].dtype = dtypes[i];
  }
  columns[kData].rank = 1;
  columns[kData].shape[0] = kPayload;
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "traffic";
  options.columns = columns;
  options.column_count = 5;
  options.capacity_items = kCapacity;
  options.lanes_max = kWriters * kLanesEach;
  options.payload_isolation = isolation;
  CHECK_OK(gear_table_create(client, &options, table));
  return 0;
}

struct LaneOfWriter {
  uint64_t id;
  uint64_t step = 0;
  uint32_t age = 0;
  uint32_t length = 0;
  uint64_t episode = 0;
};

int append_step(gear_writer* writer, uint32_t index, LaneOfWriter* lane, uint64_t seed) {
  if (lane->age == 0) {
    uint64_t draw = mix(seed ^ (lane->id << 32) ^ ++lane->episode);
    // Most episodes are short; the longest have 5000 steps.
    lane->length = 1 + static_cast<uint32_t>(draw % 8 == 0 ? draw / 8 % 5000 : draw / 8 % 60);
  }
  uint8_t payload[kPayload];
  expected_payload(lane->id, lane->step, payload);
  int64_t shape[1] = {kPayload};
  gear_cell cells[5] = {{kLane, GEAR_U64, 0, 0, 0, &lane->id, nullptr, nullptr, 0},
                        {kStep, GEAR_U64, 0, 0, 0, &lane->step, nullptr, nullptr, 0},
                        {kAge, GEAR_U32, 0, 0, 0, &lane->age, nullptr, nullptr, 0},
                        {kLength, GEAR_U32, 0, 0, 0, &lane->length, nullptr, nullptr, 0},
                        {kData, GEAR_U8, 1, 0, 0, payload, shape, nullptr, 0}};
  CHECK_OK(gear_writer_append(writer, index, cells, 5, kTimeout));
  ++lane->step;
  if (++lane->age < lane->length) return 0;
  lane->age = 0;
  gear_end end = lane->episode % 2 == 0 ? GEAR_TERMINATED : GEAR_TRUNCATED;
  CHECK_OK(gear_writer_end_episode(writer, index, end, nullptr, 0, kTimeout));
  return 0;
}

int run_writer(const std::string& endpoint, uint32_t number, uint64_t seed, Totals* totals) {
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  gear_writer* writer = nullptr;
  CHECK_OK(gear_connect(endpoint.c_str(), nullptr, &client));
  CHECK_OK(gear_table_open(client, "traffic", &table));
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  options.lanes = kLanesEach;
  CHECK_OK(gear_writer_open(table, &options, &writer));
  LaneOfWriter lanes[kLanesEach];
  for (uint32_t i = 0; i < kLanesEach; ++i) lanes[i].id = number * kLanesEach + i;
  uint64_t draw = mix(seed + number);
  uint64_t steps = 0;
  while (totals->stop.load(std::memory_order_relaxed) == 0) {
    draw = mix(draw);
    auto index = static_cast<uint32_t>(draw % kLanesEach);
    for (uint64_t run = draw / 8 % 20; run > 0; --run, ++steps) {
      if (append_step(writer, index, &lanes[index], seed) != 0) return 1;
    }
  }
  CHECK_OK(gear_writer_flush(writer, kTimeout, nullptr));
  totals->steps += steps;
  CHECK_OK(gear_close(client));
  return 0;
}

bool complain(const char* what, uint64_t lane, uint64_t step, uint64_t got) {
  fprintf(stderr, "lane %llu, step %llu: %s (%llu)\n", static_cast<unsigned long long>(lane),
          static_cast<unsigned long long>(step), what, static_cast<unsigned long long>(got));
  return false;
}

// Windows: step and data over offsets -2..1, the others at the drawn step.
bool verify_row(const gear_tensor* tensors, uint32_t row) {
  uint64_t lane = static_cast<const uint64_t*>(tensors[0].data)[row];
  uint32_t age = static_cast<const uint32_t*>(tensors[1].data)[row];
  uint32_t length = static_cast<const uint32_t*>(tensors[2].data)[row];
  const uint64_t* steps = static_cast<const uint64_t*>(tensors[3].data) + row * 4;
  const uint8_t* data = static_cast<const uint8_t*>(tensors[4].data) + row * 4 * kPayload;
  const uint8_t* mask = tensors[4].mask + row * 4;
  uint64_t step = steps[2];
  if (lane >= kWriters * kLanesEach) return complain("no such lane", lane, step, lane);
  if (mask[2] != 1) return complain("the drawn step is masked", lane, step, mask[2]);
  for (int i = 0; i < 4; ++i) {
    int64_t at = static_cast<int64_t>(age) + i - 2;
    bool may_exist = at >= 0 && at < static_cast<int64_t>(length);
    if (tensors[3].mask[row * 4 + static_cast<uint32_t>(i)] != mask[i]) {
      return complain("masks of two windows differ", lane, step, static_cast<uint64_t>(i));
    }
    if (mask[i] == 1 && !may_exist) return complain("a step of another episode", lane, step, static_cast<uint64_t>(i));
    if (mask[i] == 0 && may_exist && i < 2) return complain("a kept step is missing", lane, step, static_cast<uint64_t>(i));
    uint8_t payload[kPayload] = {};
    uint64_t expected_step = 0;
    if (mask[i] == 1) {
      expected_step = step + static_cast<uint64_t>(i) - 2;
      expected_payload(lane, expected_step, payload);
    }
    if (steps[i] != expected_step) return complain("another step", lane, step, steps[i]);
    if (memcmp(data + static_cast<size_t>(i) * kPayload, payload, kPayload) != 0) {
      return complain("torn or foreign payload", lane, step, static_cast<uint64_t>(i));
    }
  }
  return true;
}

int run_sampler(const std::string& endpoint, bool leased, uint32_t prefetch, Totals* totals) {
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  gear_sampler* sampler = nullptr;
  CHECK_OK(gear_connect(endpoint.c_str(), nullptr, &client));
  CHECK_OK(gear_table_open(client, "traffic", &table));
  gear_window windows[5];
  const char* const names[] = {"lane", "age", "length", "step", "data"};
  for (int i = 0; i < 5; ++i) {
    windows[i] = GEAR_WINDOW_INIT;
    windows[i].column = names[i];
    windows[i].length = i < 3 ? 1 : 4;
    windows[i].offset = i < 3 ? 0 : -2;
  }
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = leased ? GEAR_SAMPLE_LEASED : GEAR_SAMPLE_DIRECT;
  options.batch_rows_max = kBatch;
  options.windows = windows;
  options.window_count = 5;
  options.prefetch = prefetch;
  CHECK_OK(gear_sampler_open(table, &options, &sampler));
  uint64_t rows = 0;
  while (totals->stop.load(std::memory_order_relaxed) == 0) {
    gear_batch* batch = nullptr;
    CHECK_OK(gear_sample(sampler, kBatch, kTimeout, &batch));
    gear_tensor tensors[5];
    for (uint32_t i = 0; i < 5; ++i) CHECK_OK(gear_batch_tensor(batch, i, &tensors[i]));
    for (uint32_t row = 0; row < kBatch; ++row) {
      if (!verify_row(tensors, row)) return 1;
    }
    rows += kBatch;
    CHECK_OK(gear_batch_release(batch));
  }
  gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
  CHECK_OK(gear_sampler_get_stats(sampler, &stats));
  (leased ? totals->leased_rows : totals->direct_rows) += rows;
  totals->cells += rows * 11;
  totals->redrawn += stats.redrawn;
  CHECK_OK(gear_close(client));
  return 0;
}

// One writer, on as many lanes as the eight had, appends as many steps as the table has items.
int refill(gear_table* table) {
  gear_writer* writer = nullptr;
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  options.lanes = kWriters * kLanesEach;
  // The conductor may still be closing what the eight have left.
  int status = GEAR_OK;
  for (int64_t settle = deadline_after(kTimeout); left_until(settle) > 0; usleep(10'000)) {
    status = gear_writer_open(table, &options, &writer);
    if (status != GEAR_ELIMIT) break;
  }
  CHECK_OK(status);
  LaneOfWriter lanes[kWriters * kLanesEach];
  for (uint32_t i = 0; i < options.lanes; ++i) lanes[i].id = i;
  for (uint64_t i = 0; i < kCapacity; ++i) {
    auto index = static_cast<uint32_t>(i % options.lanes);
    if (append_step(writer, index, &lanes[index], 1) != 0) return 1;
  }
  CHECK_OK(gear_writer_flush(writer, kTimeout, nullptr));
  CHECK_OK(gear_writer_close(writer));
  return 0;
}

double env_number(const char* name, double otherwise) {
  const char* text = getenv(name);
  return text != nullptr ? atof(text) : otherwise;
}

class VerifiedTraffic : public testing::TestWithParam<uint32_t> {};

TEST_P(VerifiedTraffic, EveryCellOfEveryRowIsWhatItsWriterAppended) {
  double seconds = env_number("GEAR_STRESS_SECONDS", 10);
  auto seed = static_cast<uint64_t>(env_number("GEAR_TEST_SEED", 1));
  printf("seed %llu, %.0f s\n", static_cast<unsigned long long>(seed), seconds);
  ServerProcess server;
  SharedMemory<Totals> memory;
  Totals* totals = memory.get();
  Children children;
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  ASSERT_EQ(gear_connect(server.endpoint().c_str(), nullptr, &client), GEAR_OK) << gear_last_error();
  ASSERT_EQ(create_table(client, GetParam(), &table), 0);

  for (uint32_t i = 0; i < kWriters; ++i) {
    children.start([&, i] { return run_writer(server.endpoint(), i, seed, totals); });
  }
  for (uint32_t i = 0; i < kSamplers; ++i) {
    bool leased = i % 2 == 1;
    children.start([&, i, leased] {
      return run_sampler(server.endpoint(), leased, leased && i == 3 ? kBatch * 2 : 0, totals);
    });
  }
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  int64_t end = deadline_after(static_cast<int64_t>(seconds * 1e9));
  int64_t latest = deadline_after(static_cast<int64_t>(seconds * 1e9) * 6);
  do {
    usleep(50'000);
    ASSERT_EQ(gear_table_get_stats(table, &stats), GEAR_OK);
  } while (left_until(end) > 0 || (stats.inserts < kCapacity * 20 && left_until(latest) > 0));
  totals->stop = 1;
  ASSERT_TRUE(children.all_succeed(60));

  // The last takes are on their way to the conductor when a sampler has closed.
  int64_t settle = deadline_after(5'000'000'000);
  do {
    ASSERT_EQ(gear_table_get_stats(table, &stats), GEAR_OK);
  } while (stats.samples != totals->leased_rows.load() && left_until(settle) > 0);
  printf("%llu steps (%.1f x capacity), %llu direct and %llu leased rows, %llu cells verified, %llu rows redrawn, %llu items\n",
         static_cast<unsigned long long>(stats.steps),
         static_cast<double>(stats.steps) / static_cast<double>(kCapacity),
         static_cast<unsigned long long>(totals->direct_rows.load()),
         static_cast<unsigned long long>(totals->leased_rows.load()),
         static_cast<unsigned long long>(totals->cells.load()),
         static_cast<unsigned long long>(totals->redrawn.load()),
         static_cast<unsigned long long>(stats.items));
  EXPECT_GE(stats.inserts, kCapacity * 20);
  EXPECT_EQ(stats.steps, totals->steps.load());
  EXPECT_EQ(stats.inserts, stats.steps);
  // Leases of a sampler that got no processor can pin every block there is; items are then evicted below capacity.
  EXPECT_LE(stats.items, kCapacity);
  EXPECT_EQ(stats.items, stats.inserts - stats.deletes);
  EXPECT_EQ(stats.evictions, stats.deletes);
  EXPECT_EQ(stats.samples, totals->leased_rows.load());
  EXPECT_GT(totals->direct_rows.load(), 0u);
  EXPECT_GT(totals->leased_rows.load(), 0u);

  // All leases are back: no block was lost if the table can be filled to the brim again.
  ASSERT_EQ(refill(table), 0);
  ASSERT_EQ(gear_table_get_stats(table, &stats), GEAR_OK);
  EXPECT_EQ(stats.items, kCapacity);
  EXPECT_EQ(gear_close(client), GEAR_OK);
}

INSTANTIATE_TEST_SUITE_P(Isolation, VerifiedTraffic, testing::Values(GEAR_ISOLATION_NONE, GEAR_ISOLATION_PER_WRITER),
                         [](const auto& info) { return info.param == GEAR_ISOLATION_NONE ? "None" : "PerWriter"; });

}  // namespace
}  // namespace gear::test
