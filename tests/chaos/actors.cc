#include "chaos/actors.h"

#include <cstring>
#include <ctime>

#include "chaos/calls.h"
#include "chaos/tales.h"

namespace gear::chaos {
namespace {

constexpr int64_t kWaitNs = 50'000'000;
constexpr int64_t kStillNs = 30'000'000;
constexpr clock_t kWorkUs = 200;  // of processor time; CLOCKS_PER_SEC is 1,000,000
constexpr uint32_t kHoldUs = 5'000;
constexpr uint32_t kRowsAFlush = 16;
constexpr uint32_t kBatch = 32;
constexpr const char* kGroup = "chaos";

// A client with the tables open; tries again while the server is away.
class Client {
 public:
  explicit Client(const Place& place) : place_(place) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    if (client_ != nullptr) gear_close(client_);
  }

  bool open() {
    while (place_.board->stop == 0) {
      int status = try_open();
      if (status == GEAR_OK) return true;
      if (!server_away(status)) {
        complain(place_, "open", status);
        return false;
      }
      usleep(2'000);
    }
    return false;
  }
  gear_client* client() const { return client_; }
  gear_table* log() const { return log_; }
  gear_table* work() const { return work_; }
  gear_table* tales() const { return tales_; }

 private:
  int try_open() {
    if (client_ == nullptr) {
      int status = gear_connect(place_.endpoint.c_str(), nullptr, &client_);
      if (status != GEAR_OK) return status;
    }
    if (log_ == nullptr) {
      int status = gear_table_open(client_, "log", &log_);
      if (status != GEAR_OK) return status;
    }
    if (work_ == nullptr) {
      int status = gear_table_open(client_, "work", &work_);
      if (status != GEAR_OK) return status;
    }
    return tales_ != nullptr ? GEAR_OK : gear_table_open(client_, "tales", &tales_);
  }

  const Place& place_;
  gear_client* client_ = nullptr;
  gear_table* log_ = nullptr;
  gear_table* work_ = nullptr;
  gear_table* tales_ = nullptr;
};

// An append that failed had no effect, so it is made again.
bool append(const Place& place, gear_writer* writer, const Row& row, bool survivor) {
  int64_t shape[1] = {kWords};
  gear_cell cells[3] = {{kId, GEAR_U64, 0, 0, 0, &row.id, nullptr, nullptr, 0},
                        {kSeq, GEAR_U64, 0, 0, 0, &row.seq, nullptr, nullptr, 0},
                        {kData, GEAR_U64, 1, 0, 0, row.data, shape, nullptr, 0}};
  return open_one(place, "append", [&] {
    Timed timed(place, survivor);
    return gear_writer_append(writer, 0, cells, 3, kCallNs);
  });
}

bool flush(const Place& place, gear_writer* writer, bool survivor) {
  return open_one(place, "flush", [&] {
    Timed timed(place, survivor);
    return gear_writer_flush(writer, kCallNs, nullptr);
  });
}

// Before the batch is acknowledged.
void note_delivery(const Place& place, const gear_batch* batch) {
  Board& board = *place.board;
  Cells cells(batch);
  const uint8_t* again = gear_batch_redelivered(batch);
  for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
    if (!check_row(place, cells, row)) continue;
    uint64_t at = cells.id[row] * kSeqs + cells.seq[row];
    bool had = board.delivered[at].fetch_add(1) > 0;
    ++board.delivered_rows;
    board.redelivered_rows += again[row];
    if (had && again[row] == 0) repeated(place, "the group, unmarked", cells.id[row], cells.seq[row]);
    if (board.acknowledged[at] != 0) ++board.after_acknowledged;
  }
}

// `hold_us`: how long the batch is held, for a death in that time to be worth something.
int consume(const Place& place, gear_sampler* sampler, bool survivor, uint32_t hold_us) {
  gear_batch* batch = nullptr;
  {
    Timed timed(place, survivor);
    int status = gear_sample(sampler, kBatch, kWaitNs, &batch);
    if (status != GEAR_OK) return status;
  }
  note_delivery(place, batch);
  if (hold_us > 0) usleep(hold_us);
  uint64_t at[kBatch];
  uint32_t rows = gear_batch_rows(batch);
  Cells cells(batch);
  for (uint32_t row = 0; row < rows; ++row) at[row] = cells.id[row] % kWriterIds * kSeqs + cells.seq[row] % kSeqs;
  int status = gear_batch_release(batch);
  if (status != GEAR_OK) return status == GEAR_ESTALE ? GEAR_OK : status;
  for (uint32_t row = 0; row < rows; ++row) place.board->acknowledged[at[row]] = 1;
  place.board->acknowledged_rows += rows;
  return GEAR_OK;
}

int open_consumer(gear_table* table, gear_sampler** sampler) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.group = kGroup;
  options.batch_rows_max = kBatch;
  options.rows_min = 1;
  return gear_sampler_open(table, &options, sampler);
}

}  // namespace

int create_tables(const Place& place) {
  gear_client* client = nullptr;
  if (gear_connect(place.endpoint.c_str(), nullptr, &client) != GEAR_OK) {
    complain(place, "connect", GEAR_ENOSERVER);
    return 1;
  }
  gear_column_options columns[3];
  const char* const names[] = {"id", "seq", "data"};
  for (int i = 0; i < 3; ++i) {
    columns[i] = GEAR_COLUMN_OPTIONS_INIT;
    columns[i].name = names[i];
    columns[i].dtype = GEAR_U64;
  }
  columns[kData].rank = 1;
  columns[kData].shape[0] = kWords;
  for (const char* name : {"log", "work"}) {
    gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
    options.name = name;
    options.columns = columns;
    options.column_count = 3;
    options.capacity_items = kRowsARound + kRowsARound / 4;
    options.lanes_max = 64;
    options.window_before_max = options.window_after_max = GEAR_REACH_NONE;
    options.lease_timeout_ms = 2'000;
    // Each writer a part of one of them: parts change hands at every death.
    if (strcmp(name, "log") == 0) options.payload_isolation = GEAR_ISOLATION_PER_WRITER, options.writers_max = 32;
    options.sampler = strcmp(name, "log") == 0 ? GEAR_SELECT_UNIFORM : GEAR_SELECT_FIFO;
    gear_table* table = nullptr;
    int status = gear_table_create(client, &options, &table);
    if (status != GEAR_OK) {
      complain(place, "create", status);
      return 1;
    }
    gear_sampler* sampler = nullptr;  // makes the group, which then is there from the first item on
    if (strcmp(name, "work") == 0 && open_consumer(table, &sampler) != GEAR_OK) return 1;
  }
  int status = create_tales(client);
  if (status != GEAR_OK) complain(place, "create", status);
  return status == GEAR_OK && gear_close(client) == GEAR_OK ? 0 : 1;
}

int run_writer(const Place& place, uint32_t id, bool survivor) {
  Board& board = *place.board;
  Client client(place);
  gear_writer* log = nullptr;
  gear_writer* work = nullptr;
  Teller teller(place, id, survivor);
  if (!client.open() || !teller.open(client.tales()) ||
      !open_one(place, "open writer", [&] { return gear_writer_open(client.log(), nullptr, &log); }) ||
      !open_one(place, "open writer", [&] { return gear_writer_open(client.work(), nullptr, &work); })) {
    return board.stop != 0 ? 0 : 1;
  }
  Row row;
  for (uint64_t seq = 0; seq < kSeqs && board.stop == 0 && board.rows < kRowsARound;) {
    for (uint32_t i = 0; i < kRowsAFlush; ++i, ++seq, ++board.rows) {
      fill(&row, id, seq);
      if (!append(place, log, row, survivor) || !append(place, work, row, survivor)) return board.stop != 0 ? 0 : 1;
    }
    if (!flush(place, log, survivor) || !flush(place, work, survivor)) return board.stop != 0 ? 0 : 1;
    board.acked[id] = seq;
    board.steps_acknowledged += kRowsAFlush;
    if (!teller.tell()) return board.stop != 0 ? 0 : 1;
    usleep(4'000);
  }
  return 0;
}

int run_reader(const Place& place, bool survivor) {
  Board& board = *place.board;
  Client client(place);
  gear_sampler* sampler = nullptr;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_DIRECT;
  options.batch_rows_max = 2 * kBatch;
  if (!client.open() ||
      !open_one(place, "open sampler", [&] { return gear_sampler_open(client.log(), &options, &sampler); })) {
    return board.stop != 0 ? 0 : 1;
  }
  while (board.stop == 0) {
    gear_batch* batch = nullptr;
    int status;
    {
      Timed timed(place, survivor);
      status = gear_sample(sampler, 2 * kBatch, kWaitNs, &batch);
    }
    if (status == GEAR_OK) {
      Cells cells(batch);
      for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) check_row(place, cells, row);
      gear_batch_release(batch);
      usleep(1'000);
      continue;
    }
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    gear_table_get_stats(client.log(), &stats);
    // Only an empty table has nothing to draw.
    if (status == GEAR_ETIMEDOUT && stats.items < 64) continue;
    if (board.rows > 1'000) {
      ++board.direct_errors;
      complain(place, "direct sample", status);
      return 1;
    }
  }
  return 0;
}

int run_consumer(const Place& place, bool survivor) {
  Board& board = *place.board;
  Client client(place);
  gear_sampler* sampler = nullptr;
  if (!client.open() || !open_one(place, "open consumer", [&] { return open_consumer(client.work(), &sampler); })) {
    return board.stop != 0 ? 0 : 1;
  }
  for (uint64_t turn = 0; board.stop == 0; ++turn) {
    auto hold_us = static_cast<uint32_t>(mix(turn + static_cast<uint64_t>(getpid()) * 1'000) % kHoldUs);
    int status = consume(place, sampler, survivor, hold_us);
    if (status == GEAR_OK || server_away(status)) continue;
    complain(place, "consume", status);
    return 1;
  }
  return 0;
}

int run_bystander(const Place& place) {
  int64_t last = now_ns();
  while (place.board->stop == 0) {
    usleep(1'000);
    // Also works a little: who only sleeps is let in at once where others wait for a processor.
    for (clock_t end = clock() + kWorkUs; clock() < end;) {
    }
    int64_t now = now_ns();
    if (now - last > kStillNs) place.board->begin_pause(last)->end_ns = now;
    last = now;
  }
  return 0;
}

// ---- after the round

namespace {

struct Audit {
  const Place& place;
  gear_client* client = nullptr;
  gear_table* log = nullptr;
  gear_table* work = nullptr;
  gear_table* tales = nullptr;

  void leak(const char* what, uint64_t got, uint64_t wanted) {
    ++place.board->leaked;
    fprintf(stderr, "chaos: leaked: %s: %llu, not %llu\n", what, static_cast<unsigned long long>(got),
            static_cast<unsigned long long>(wanted));
  }
  gear_table_stats stats(gear_table* table) {
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    gear_table_get_stats(table, &stats);
    return stats;
  }
  bool await_no_lanes(gear_table* table) {
    for (int i = 0; i < 5'000 && stats(table).lanes_open > 0; ++i) usleep(2'000);
    if (stats(table).lanes_open == 0) return true;
    leak("open lanes of dead writers", stats(table).lanes_open, 0);
    return false;
  }
  bool read_log(uint8_t* seen);
  void drain_work();
  void compare(const uint8_t* seen);
  void give_back(gear_table* table, const char* name);
};

bool Audit::read_log(uint8_t* seen) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.order = GEAR_ORDER_EPOCH;
  options.seed = 1;
  gear_sampler* sampler = nullptr;
  int status = gear_sampler_open(log, &options, &sampler);
  if (status != GEAR_OK) {
    complain(place, "open epoch", status);
    return false;
  }
  for (;;) {
    gear_batch* batch = nullptr;
    status = gear_sample(sampler, 256, kCallNs, &batch);
    if (status != GEAR_OK) break;
    Cells cells(batch);
    for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
      if (!check_row(place, cells, row)) continue;
      if (seen[cells.id[row] * kSeqs + cells.seq[row]]++ > 0) repeated(place, "the log", cells.id[row], cells.seq[row]);
    }
    gear_batch_release(batch);
  }
  if (status != GEAR_EEPOCH && stats(log).items > 0) complain(place, "epoch", status);
  return gear_sampler_close(sampler) == GEAR_OK;
}

void Audit::drain_work() {
  gear_sampler* sampler = nullptr;
  int status = open_consumer(work, &sampler);
  if (status != GEAR_OK) return complain(place, "open consumer", status);
  int64_t deadline_ns = deadline_after(30'000'000'000);
  for (;;) {
    status = consume(place, sampler, false, 0);
    if (status != GEAR_OK && status != GEAR_ETIMEDOUT) complain(place, "drain", status);
    gear_group_stats stats = GEAR_GROUP_STATS_INIT;
    if (gear_group_get_stats(work, kGroup, &stats) != GEAR_OK) break;
    if (status != GEAR_OK && stats.lag == 0 && stats.in_flight == 0) {
      if (stats.missed > 0) leak("items missed by the group", stats.missed, 0);
      break;
    }
    if (left_until(deadline_ns) == 0) {
      leak("items in flight or behind", stats.in_flight + stats.lag, 0);
      break;
    }
  }
  gear_sampler_close(sampler);
}

// Every acknowledged row once; of the rest, those before one that is there.
void Audit::compare(const uint8_t* seen) {
  Board& board = *place.board;
  for (uint64_t id = 0; id < kWriterIds; ++id) {
    uint64_t acked = board.acked[id];
    bool gap = false;
    for (uint64_t seq = 0; seq < kSeqs; ++seq) {
      bool there = seen[id * kSeqs + seq] > 0;
      if (seq < acked && (!there || board.delivered[id * kSeqs + seq] == 0)) {
        ++board.lost;
        fprintf(stderr, "chaos: lost: writer %llu, row %llu of %llu acknowledged: %s\n",
                static_cast<unsigned long long>(id), static_cast<unsigned long long>(seq),
                static_cast<unsigned long long>(acked), there ? "never delivered" : "not in the table");
      }
      if (there && gap) ++board.holes;
      gap = gap || !there;
    }
  }
}

void Audit::give_back(gear_table* table, const char* name) {
  gear_table_info info = GEAR_TABLE_INFO_INIT;
  gear_table_describe(table, &info);
  if (stats(table).evictions > 0) leak("evictions", stats(table).evictions, 0);
  int status = gear_table_reset(table);
  if (status != GEAR_OK) complain(place, "reset", status);
  if (stats(table).blocks_free != info.block_count) leak("blocks", stats(table).blocks_free, info.block_count);
  gear_table_detach(table);
  status = gear_table_drop(client, name);
  if (status != GEAR_OK) complain(place, "drop", status);
}

}  // namespace

int run_audit(const Place& place) {
  static uint8_t seen[size_t{kWriterIds} * kSeqs];
  Audit audit{place};
  if (gear_connect(place.endpoint.c_str(), nullptr, &audit.client) != GEAR_OK ||
      gear_table_open(audit.client, "log", &audit.log) != GEAR_OK ||
      gear_table_open(audit.client, "work", &audit.work) != GEAR_OK ||
      gear_table_open(audit.client, "tales", &audit.tales) != GEAR_OK) {
    complain(place, "audit", GEAR_ENOSERVER);
    return 1;
  }
  if (audit.await_no_lanes(audit.log) && audit.await_no_lanes(audit.work) && audit.await_no_lanes(audit.tales)) {
    audit.read_log(seen);
    audit.drain_work();
    audit.compare(seen);
    audit_tales(place, audit.tales);
  }
  audit.give_back(audit.log, "log");
  audit.give_back(audit.work, "work");
  audit.give_back(audit.tales, "tales");
  return gear_close(audit.client) == GEAR_OK ? 0 : 1;
}

}  // namespace gear::chaos
