// What a client does with a table, through gear.h, from its creation to its drop, whatever becomes of the server meanwhile. An
// answer is an error only where gear.h says that it may be one.
#pragma once

#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "crash/server_rig.h"
#include "gear.h"
#include "support/int_table.h"

namespace gear::test {

inline constexpr uint32_t kLaneSteps = 6;
inline constexpr uint64_t kStepsOfTwo = 2 * kLaneSteps;

class ServerScript {
 public:
  ServerScript(std::string endpoint, RigMemory* memory) : endpoint_(std::move(endpoint)), memory_(memory) {}
  ~ServerScript() {
    if (client_ != nullptr) gear_close(client_);
  }

  // "" when all went as it must.
  std::string run() {
    using Self = ServerScript;
    for (auto part : {&Self::connect, &Self::create, &Self::wait_in_vain, &Self::write, &Self::draw_each_once, &Self::draw,
                      &Self::consume, &Self::change, &Self::take_over, &Self::look, &Self::empty, &Self::queue, &Self::drop}) {
      std::string text = (this->*part)();
      if (!text.empty()) return text;
    }
    return {};
  }

  // What was there before the table was emptied: must not depend on the deaths.
  std::map<std::string, uint64_t> seen;
  std::set<uint64_t> rows;

  std::string connect() {
    int status = GEAR_OK;
    for (int64_t deadline = deadline_after(kCallNs); left_until(deadline) > 0; usleep(1000)) {
      if (memory_->ready == 0) continue;
      // The server may be dead, or not be up again.
      status = gear_connect(endpoint_.c_str(), nullptr, &client_);
      if (status == GEAR_OK) return {};
    }
    return told("connect", status);
  }

  std::string open() {
    GEAR_OR_SAY(gear_table_open(client_, "main", &table_));
    return {};
  }

  gear_client* client() { return client_; }
  gear_table* table() { return table_; }

  // Contents, each row once.
  std::string read_rows(std::set<uint64_t>* found) {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = GEAR_SAMPLE_DIRECT;
    options.order = GEAR_ORDER_EPOCH;
    options.seed = 1;
    gear_window window = GEAR_WINDOW_INIT;
    window.column = "x";
    window.length = 1;
    options.windows = &window;
    options.window_count = 1;
    gear_sampler* sampler = nullptr;
    uint64_t count = 0;
    GEAR_OR_SAY(gear_sampler_open(table_, &options, &sampler));
    GEAR_OR_SAY(gear_sampler_begin_epoch(sampler, 0, &count));
    for (uint64_t got = 0; got < count;) {
      gear_batch* batch = nullptr;
      GEAR_OR_SAY(gear_sample(sampler, 64, kCallNs, &batch));
      for (uint64_t value : values_of(batch)) {
        if (!found->insert(value).second) return "twice in the table: " + std::to_string(value);
      }
      got += gear_batch_rows(batch);
      gear_batch_release(batch);
    }
    GEAR_OR_SAY(gear_sampler_close(sampler));
    return {};
  }

  // Nothing is held by anybody any more.
  std::string await_all_back() {
    gear_table_info info = GEAR_TABLE_INFO_INIT;
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    GEAR_OR_SAY(gear_table_describe(table_, &info));
    for (int64_t deadline = deadline_after(kCallNs); left_until(deadline) > 0; usleep(1000)) {
      // A round trip, by which the client finds a server that was started again.
      gear_server_info server = GEAR_SERVER_INFO_INIT;
      GEAR_OR_SAY(gear_get_server_info(client_, &server));
      GEAR_OR_SAY(gear_table_get_stats(table_, &stats));
      if (stats.lanes_open == 0 && stats.items == 0 && stats.blocks_free == info.block_count && server.writers == 0 &&
          server.samplers == 0) {
        return {};
      }
    }
    gear_server_info server = GEAR_SERVER_INFO_INIT;
    gear_get_server_info(client_, &server);
    return "not all came back: " + std::to_string(server.writers) + " writers, " + std::to_string(server.samplers) +
           " samplers, " + std::to_string(stats.lanes_open) + " lanes, " + std::to_string(stats.items) +
           " items, " + std::to_string(stats.blocks_free) + " of " + std::to_string(info.block_count) + " blocks free";
  }

  // What a dead consumer left: each of these once, and nothing more.
  std::string consume_rest(uint64_t count) {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.group = "train";
    options.batches_max = 64;
    gear_sampler* consumer = nullptr;
    gear_batch* batch = nullptr;
    std::set<uint64_t> found;
    GEAR_OR_SAY(gear_sampler_open(table_, &options, &consumer));
    for (uint64_t i = 0; i < count; ++i) {
      GEAR_OR_SAY(gear_sample(consumer, 1, kCallNs, &batch));
      uint64_t value = values_of(batch).at(0);
      if (!found.insert(value).second) return "the group gives twice: " + std::to_string(value);
    }
    GEAR_MUST(GEAR_ETIMEDOUT, gear_sample(consumer, 1, 0, &batch));
    GEAR_OR_SAY(gear_sampler_close(consumer));
    return {};
  }

  std::string reset() {
    int status = gear_table_reset(table_);
    // Not asked again by itself; emptying twice is no harm here.
    for (int again = 0; status == GEAR_EDISCONNECTED && again < 3; ++again) status = gear_table_reset(table_);
    return status == GEAR_OK ? std::string() : told("reset", status);
  }

  std::string drop() {
    GEAR_OR_SAY(gear_table_close(table_));
    GEAR_OR_SAY(gear_table_drop(client_, "main"));
    gear_table* gone = nullptr;
    GEAR_MUST(GEAR_ENOTFOUND, gear_table_open(client_, "main", &gone));
    GEAR_OR_SAY(gear_table_detach(table_));
    gear_client* client = client_;
    client_ = nullptr;
    GEAR_OR_SAY(gear_close(client));
    return {};
  }

 private:
  // A server that goes away during a create leaves it open whether it was done.
  std::string create_or_open(const gear_table_options& options, gear_table** table) {
    for (int again = 0; again < 4; ++again) {
      int status = gear_table_create(client_, &options, table);
      if (status == GEAR_OK) return {};
      if (status != GEAR_EDISCONNECTED && status != GEAR_EEXISTS) return told("create", status);
      status = gear_table_open(client_, options.name, table);
      if (status == GEAR_OK) return {};
      if (status != GEAR_ENOTFOUND && status != GEAR_EDISCONNECTED) return told("open", status);
    }
    return "create: no end of it";
  }

  std::string create() {
    gear_column_options columns[2] = {GEAR_COLUMN_OPTIONS_INIT, GEAR_COLUMN_OPTIONS_INIT};
    columns[0].name = "x";
    columns[0].dtype = GEAR_U64;
    columns[1].name = "e";
    columns[1].dtype = GEAR_U64;
    columns[1].flags = GEAR_COLUMN_PER_EPISODE;
    gear_selector_options any = GEAR_SELECTOR_OPTIONS_INIT;
    any.name = "any";
    any.selector = GEAR_SELECT_UNIFORM;
    gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
    options.name = "main";
    options.columns = columns;
    options.column_count = 2;
    options.capacity_items = 64;
    options.sampler = GEAR_SELECT_FIFO;
    options.selectors = &any;
    options.selector_count = 1;
    options.lanes_max = 4;
    options.block_steps = 4;
    options.window_before_max = options.window_after_max = 1;
    options.versions = 1;
    return create_or_open(options, &table_);
  }

  // A direct sampler that has nothing to draw has the server tell it when there is.
  std::string wait_in_vain() {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = GEAR_SAMPLE_DIRECT;
    gear_sampler* sampler = nullptr;
    gear_batch* batch = nullptr;
    GEAR_OR_SAY(gear_sampler_open(table_, &options, &sampler));
    int status = gear_sample(sampler, 1, 2'000'000, &batch);
    if (status != GEAR_ETIMEDOUT && status != GEAR_EDISCONNECTED) return told("sample of nothing", status);
    GEAR_OR_SAY(close(sampler));
    return {};
  }

  static int close(gear_sampler* sampler) {
    int status = gear_sampler_close(sampler);
    return status == GEAR_EDISCONNECTED ? GEAR_OK : status;
  }

  // All that there are, once, though more are asked for.
  std::string draw_each_once() {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = GEAR_SAMPLE_LEASED;
    options.selector = "any";
    options.unique = 1;
    gear_sampler* sampler = nullptr;
    gear_batch* batch = nullptr;
    GEAR_OR_SAY(gear_sampler_open(table_, &options, &sampler));
    GEAR_OR_SAY(gear_sample(sampler, 20, kCallNs, &batch));
    std::vector<uint64_t> values = values_of(batch);
    if (std::set<uint64_t>(values.begin(), values.end()).size() != kStepsOfTwo) {
      return "drew " + std::to_string(values.size()) + " rows, not each item once";
    }
    GEAR_OR_SAY(gear_batch_release(batch));
    GEAR_OR_SAY(close(sampler));
    return {};
  }

  // A full queue: the third step waits at the server when its lane is taken over, and is refused. Then the table is
  // dropped under all who use it.
  std::string queue() {
    gear_column_options column = GEAR_COLUMN_OPTIONS_INIT;
    column.name = "x";
    column.dtype = GEAR_U64;
    gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
    options.name = "queue";
    options.columns = &column;
    options.column_count = 1;
    options.block_steps = 8;
    options.capacity_items = 4;
    // As many parts as writers, so that one too many that a death left would be told of.
    options.payload_isolation = GEAR_ISOLATION_PER_WRITER;
    options.writers_max = 2;
    GEAR_OR_SAY(gear_table_options_queue(2, &options));
    gear_table* table = nullptr;
    std::string text = create_or_open(options, &table);
    if (!text.empty()) return text;
    const uint64_t name = 5;
    gear_writer_options of_writer = GEAR_WRITER_OPTIONS_INIT;
    of_writer.lane_names = &name;
    of_writer.take_over = 1;
    gear_writer* first = nullptr;
    gear_writer* second = nullptr;
    GEAR_OR_SAY(gear_writer_open(table, &of_writer, &first));
    for (uint64_t value = 1; value <= 3; ++value) {
      gear_cell cell = cell_of(&value, 0);
      GEAR_OR_SAY(gear_writer_append(first, 0, &cell, 1, kCallNs));
    }
    uint64_t waiting = 0;
    int status = GEAR_OK;
    // Until the other two are admitted.
    for (int64_t deadline = deadline_after(kCallNs); waiting != 1 && left_until(deadline) > 0;) {
      status = gear_writer_flush(first, 20'000'000, &waiting);
      if (status != GEAR_ETIMEDOUT && status != GEAR_EDISCONNECTED) return told("flush to a full queue", status);
    }
    GEAR_OR_SAY(gear_writer_open(table, &of_writer, &second));
    GEAR_MUST(GEAR_ESTALE, gear_writer_flush(first, kCallNs, &waiting));
    if (waiting != 1) return "refused: " + std::to_string(waiting);
    gear_sampler* sampler = nullptr;
    gear_batch* batch = nullptr;
    GEAR_OR_SAY(gear_sampler_open(table, nullptr, &sampler));
    GEAR_OR_SAY(gear_sample(sampler, 2, kCallNs, &batch));
    if (values_of(batch) != std::vector<uint64_t>{1, 2}) return "the queue gave other rows, or in another order";
    GEAR_OR_SAY(gear_table_drop(client_, "queue"));
    uint64_t value = 4;
    gear_cell cell = cell_of(&value, 0);
    GEAR_MUST(GEAR_EDROPPED, gear_writer_append(second, 0, &cell, 1, kCallNs));
    GEAR_MUST(GEAR_EDROPPED, gear_sample(sampler, 1, kCallNs, &batch));
    gear_batch_release(batch);
    for (gear_writer* writer : {first, second}) {
      status = gear_writer_close(writer);
      if (status != GEAR_OK && status != GEAR_EDISCONNECTED && status != GEAR_EDROPPED) return told("close", status);
    }
    GEAR_OR_SAY(close(sampler));
    GEAR_OR_SAY(gear_table_detach(table));
    return {};
  }

  static gear_cell cell_of(const uint64_t* value, uint32_t column) {
    gear_cell cell{};
    cell.column = column;
    cell.dtype = GEAR_U64;
    cell.data = value;
    return cell;
  }

  int append(gear_writer* writer, uint32_t lane) {
    uint64_t value = next_ + 1;
    gear_cell cell = cell_of(&value, 0);
    int status = gear_writer_append(writer, lane, &cell, 1, kCallNs);
    if (status == GEAR_OK) ++next_;
    return status;
  }

  std::string write() {
    const uint64_t names[2] = {11, 12};
    gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
    options.lanes = 2;
    options.lane_names = names;
    GEAR_OR_SAY(gear_writer_open(table_, &options, &writer_));
    usleep(2000);  // by then the server sleeps
    for (uint32_t lane = 0; lane < 2; ++lane) {
      uint64_t value = 100 + lane;
      gear_cell cell = cell_of(&value, 1);
      double priority = 2 + lane;
      GEAR_OR_SAY(gear_writer_set_version(writer_, lane, 3, kCallNs));
      GEAR_OR_SAY(gear_writer_set_priority(writer_, lane, &priority, kCallNs));
      for (uint32_t step = 0; step < kLaneSteps; ++step) {
        GEAR_OR_SAY(append(writer_, lane));
        if (step == 1) GEAR_OR_SAY(gear_writer_episode_cells(writer_, lane, &cell, 1, kCallNs));
      }
      uint64_t last = 1000 + lane;
      gear_cell final = cell_of(&last, 0);
      gear_end end = lane == 0 ? GEAR_TERMINATED : GEAR_TRUNCATED;
      GEAR_OR_SAY(gear_writer_end_episode(writer_, lane, end, &final, lane == 0 ? 1 : 0, kCallNs));
    }
    return flush(writer_);
  }

  std::string flush(gear_writer* writer) {
    GEAR_OR_SAY(gear_writer_flush(writer, kCallNs, nullptr));
    memory_->acknowledged = next_;
    return {};
  }

  static std::vector<uint64_t> values_of(gear_batch* batch) {
    gear_tensor tensor{};
    std::vector<uint64_t> values(gear_batch_rows(batch));
    if (gear_batch_tensor(batch, 0, &tensor) != GEAR_OK) return {};
    for (size_t row = 0; row < values.size(); ++row) {
      memcpy(&values[row], static_cast<char*>(tensor.data) + static_cast<int64_t>(row) * tensor.strides[0], 8);
    }
    return values;
  }

  // The oldest item, each time; one batch is held until after the consumers had their turn.
  std::string draw() {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = GEAR_SAMPLE_LEASED;
    options.prefetch = 2;
    GEAR_OR_SAY(gear_sampler_open(table_, &options, &leased_));
    for (gear_batch** batch : {&held_, &held_, &held_}) {
      if (*batch != nullptr) GEAR_OR_SAY(gear_batch_release(*batch));
      GEAR_OR_SAY(gear_sample(leased_, 2, kCallNs, batch));
      for (uint64_t value : values_of(*batch)) {
        if (value != 1) return "drew " + std::to_string(value) + ", not the oldest";
      }
    }
    return {};
  }

  // Every item once, but for those that are rejected: these come again, once.
  std::string consume() {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.group = "train";
    options.prefetch = 2;
    GEAR_OR_SAY(gear_sampler_open(table_, &options, &consumer_));
    std::set<uint64_t> first, again, rejected;
    for (int batches = 0; batches < 7; ++batches) {
      gear_batch* batch = nullptr;
      GEAR_OR_SAY(gear_sample(consumer_, 2, kCallNs, &batch));
      std::vector<uint64_t> values = values_of(batch);
      for (size_t row = 0; row < values.size(); ++row) {
        bool redelivered = gear_batch_redelivered(batch)[row] != 0;
        if (!(redelivered ? again : first).insert(values[row]).second) {
          return "delivered twice: " + std::to_string(values[row]);
        }
        keys_[values[row]] = gear_batch_keys(batch)[row];
      }
      if (batches == 2) {
        rejected.insert(values.begin(), values.end());
        GEAR_OR_SAY(gear_batch_reject(batch));
      } else {
        GEAR_OR_SAY(gear_batch_release(batch));
      }
    }
    if (first.size() != kStepsOfTwo) return "the group had " + std::to_string(first.size()) + " items";
    if (again != rejected) return "came again: " + std::to_string(again.size()) + " items, not those rejected";
    GEAR_OR_SAY(gear_batch_release(held_));
    return {};
  }

  std::string change() {
    uint64_t keys[3] = {keys_[2], keys_[3], keys_[4]};
    double priorities[3] = {5, 6, 7};
    gear_items_result result = GEAR_ITEMS_RESULT_INIT;
    GEAR_OR_SAY(gear_update_priorities(table_, keys, priorities, 3, kCallNs, &result));
    if (result.updated != 3) return "updated " + std::to_string(result.updated);
    GEAR_OR_SAY(gear_delete_items(table_, &keys[2], 1, kCallNs, &result));
    if (result.updated + result.stale != 1) return "deleted " + std::to_string(result.updated);
    gear_rate_limiter limiter;
    GEAR_OR_SAY(gear_rate_limiter_min_size(2, &limiter));
    GEAR_OR_SAY(gear_table_retune(table_, &limiter));
    GEAR_OR_SAY(gear_table_set_version(table_, 5));
    return {};
  }

  std::string take_over() {
    const uint64_t name = 12;
    gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
    options.lane_names = &name;
    options.take_over = 1;
    GEAR_OR_SAY(gear_writer_open(table_, &options, &second_));
    // The former writer has not heard of it, perhaps; its step is refused all the same.
    uint64_t before = next_;
    int status = append(writer_, 1);
    if (status != GEAR_OK && status != GEAR_ESTALE) return told("append to a lost lane", status);
    next_ = before;
    status = gear_writer_flush(writer_, kCallNs, nullptr);
    if (status != GEAR_OK && status != GEAR_ESTALE) return told("flush of a lost lane", status);
    for (uint32_t step = 0; step < 3; ++step) GEAR_OR_SAY(append(second_, 0));
    return flush(second_);
  }

  std::string look() {
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    gear_group_stats group = GEAR_GROUP_STATS_INIT;
    GEAR_OR_SAY(gear_table_get_stats(table_, &stats));
    GEAR_OR_SAY(gear_group_get_stats(table_, "train", &group));
    seen = {{"items", stats.items}, {"inserts", stats.inserts}, {"samples", stats.samples}, {"deletes", stats.deletes},
            {"steps", stats.steps}, {"episodes", stats.episodes}, {"evictions", stats.evictions},
            {"lanes open", stats.lanes_open}, {"largest priority", static_cast<uint64_t>(stats.priority_max)},
            {"bytes", stats.bytes}, {"version", stats.version}, {"rejected", stats.items_rejected},
            {"delivered", group.delivered}, {"acknowledged", group.acknowledged}, {"redelivered", group.redelivered},
            {"missed", group.missed}, {"consumers", group.consumers}};
    return read_rows(&rows);
  }

  std::string empty() {
    memory_->emptied = true;
    GEAR_OR_SAY(close(leased_));
    GEAR_OR_SAY(close(consumer_));
    for (gear_writer* writer : {writer_, second_}) {
      int status = gear_writer_close(writer);
      if (status != GEAR_OK && status != GEAR_EDISCONNECTED) return told("close of a writer", status);
    }
    std::string text = reset();
    if (!text.empty()) return text;
    GEAR_OR_SAY(gear_group_drop(table_, "train"));
    return await_all_back();
  }

  std::string endpoint_;
  RigMemory* memory_;
  gear_client* client_ = nullptr;
  gear_table* table_ = nullptr;
  gear_writer* writer_ = nullptr;
  gear_writer* second_ = nullptr;
  gear_sampler* leased_ = nullptr;
  gear_sampler* consumer_ = nullptr;
  gear_batch* held_ = nullptr;
  std::map<uint64_t, uint64_t> keys_;  // of items, by their content
  uint64_t next_ = 0;                  // steps that were accepted
};

// What another client finds once the one that ran the script is dead.
inline std::string check_survivor(ServerScript& script, RigMemory& memory) {
  // What waits for room in the queue would be admitted yet.
  int status = gear_table_drop(script.client(), "queue");
  if (status != GEAR_OK && status != GEAR_ENOTFOUND) return told("drop of the queue", status);
  std::string text = script.open();
  gear_table_stats stats = GEAR_TABLE_STATS_INIT;
  gear_server_info server = GEAR_SERVER_INFO_INIT;
  gear_group_stats group = GEAR_GROUP_STATS_INIT;
  bool back = false;
  for (int64_t deadline = deadline_after(kCallNs); text.empty() && !back; usleep(1000)) {
    if (left_until(deadline) == 0) return "a dead client still has channels or lanes";
    GEAR_OR_SAY(gear_get_server_info(script.client(), &server));
    GEAR_OR_SAY(gear_table_get_stats(script.table(), &stats));
    back = server.writers == 0 && server.samplers == 0 && stats.lanes_open == 0 && server.clients == 1;
  }
  if (!text.empty()) return text;
  if (gear_group_get_stats(script.table(), "train", &group) == GEAR_OK) {
    if (group.in_flight != 0) return "the group still waits for " + std::to_string(group.in_flight);
    if (!memory.emptied) text = script.consume_rest(stats.inserts - group.acknowledged);
    if (!text.empty()) return text;
  }
  if (!memory.emptied && memory.acknowledged > 0) {
    std::set<uint64_t> rows;
    text = script.read_rows(&rows);
    if (!text.empty()) return text;
    // One of them may have been deleted.
    for (uint64_t row = 1; row <= memory.acknowledged; ++row) {
      if (row != 4 && rows.count(row) == 0) return "flushed and not there: " + std::to_string(row);
    }
  }
  text = script.reset();
  if (text.empty()) text = script.await_all_back();
  return text.empty() ? script.drop() : text;
}

}  // namespace gear::test
