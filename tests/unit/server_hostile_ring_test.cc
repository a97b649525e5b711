// ctest: labels=unit timeout=120
//
// Clients that write anything into their channels: each is cut off, or what it wrote has no effect, while others go on.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/shared_word.h"
#include "support/limited_writer.h"
#include "support/watched_server.h"

namespace gear::test {
namespace {

using layout::SubmissionOp;

constexpr uint32_t kMost = UINT32_MAX;
constexpr uint64_t kMost64 = UINT64_MAX;
const double kNan = std::numeric_limits<double>::quiet_NaN();

enum class Kind { kWriter, kLeased, kDirect, kItems };
enum class Fate { kCutOff, kNoEffect };

struct Case {
  const char* what;
  Kind kind;
  Fate fate;
  std::function<void(RawChannel&)> spoil;
};

// A channel of that kind whose one record is this.
Case one_record(const char* what, Kind kind, Fate fate, const layout::SubmissionRecord& record) {
  return {what, kind, fate, [record](RawChannel& channel) {
            channel.push(record);
            channel.show();
          }};
}

Case wild_op(const char* what, Kind kind, uint32_t op) {
  layout::SubmissionRecord record{};
  record.op = op;
  return one_record(what, kind, Fate::kCutOff, record);
}

std::vector<Case> position_cases() {
  return {
      {"tail beyond the slots", Kind::kWriter, Fate::kCutOff,
       [](RawChannel& c) {
         c.tail = uint64_t{c.header()->submission_slots} + 1;
         c.show();
       }},
      {"tail that goes back", Kind::kItems, Fate::kCutOff,
       [](RawChannel& c) {
         c.push(raw_record(SubmissionOp::kDelete));
         c.show();
         c.settle();
         c.tail -= 1;
         c.show();
       }},
      {"the largest tail", Kind::kLeased, Fate::kCutOff,
       [](RawChannel& c) {
         c.tail = kMost64;
         c.show();
       }},
      {"a header of ones", Kind::kDirect, Fate::kCutOff,
       [](RawChannel& c) {
         memset(static_cast<void*>(c.header()), 0xff, sizeof(layout::ChannelHeader));
         c.header()->failure = 0;
       }},
      {"constants that change", Kind::kItems, Fate::kNoEffect,
       [](RawChannel& c) {
         c.header()->kind = 99;
         c.header()->submission_offset = c.header()->completion_offset = kMost64;
         c.header()->completion_slots = 3;
       }},
      {"words that are the conductor's", Kind::kItems, Fate::kNoEffect,
       [](RawChannel& c) {
         c.header()->submission_head = 12345;
         c.header()->completion_tail = kMost64;
         c.header()->failure = 0;
         c.push(raw_record(SubmissionOp::kDelete, 0, 0, kMost64));
         c.show();
       }},
      {"completion head ahead of the tail", Kind::kWriter, Fate::kNoEffect,
       [](RawChannel& c) {
         c.header()->completion_head = 1000;
         c.push(raw_record(SubmissionOp::kNeedBlock, 0, 4));
         c.show();
       }},
      {"completion head that goes back", Kind::kLeased, Fate::kNoEffect,
       [](RawChannel& c) {
         c.push(raw_record(SubmissionOp::kDemand, 0, 0, 4));
         c.show();
         c.settle();
         c.header()->completion_head = kMost64 - 5;
         c.push(raw_record(SubmissionOp::kTake, 0, 4));
         c.push(raw_record(SubmissionOp::kDemand, 0, 0, 8));
         c.show();
       }},
      {"a sleeper that never sleeps", Kind::kItems, Fate::kNoEffect,
       [](RawChannel& c) {
         for (uint32_t i = 0; i < 2000; ++i) {
           c.header()->client_sleeps = 1;
           c.header()->wake_word = i * 77;
           c.push(raw_record(SubmissionOp::kDelete));
           c.show();
         }
       }},
  };
}

std::vector<Case> writer_cases() {
  auto broken = [](const char* what, const layout::SubmissionRecord& record) {
    return one_record(what, Kind::kWriter, Fate::kCutOff, record);
  };
  return {
      wild_op("writer: op 0", Kind::kWriter, 0),
      wild_op("writer: op of a sampler", Kind::kWriter, static_cast<uint32_t>(SubmissionOp::kTake)),
      wild_op("writer: the largest op", Kind::kWriter, kMost),
      broken("lane 2 of 2", raw_record(SubmissionOp::kNeedBlock, 2, 1)),
      broken("the largest lane", raw_record(SubmissionOp::kCommit, kMost, 1, 1)),
      broken("more blocks than a lane may have", raw_record(SubmissionOp::kNeedBlock, 0, 17)),
      broken("the largest number of blocks", raw_record(SubmissionOp::kNeedBlock, 0, kMost)),
      broken("rows without a block", raw_record(SubmissionOp::kCommit, 0, 1, 1)),
      broken("no rows", raw_record(SubmissionOp::kCommit, 0, 0, 0)),
      broken("the most rows", raw_record(SubmissionOp::kCommit, 0, kMost, kMost)),
      broken("rows that were never there", raw_record(SubmissionOp::kCommit, 0, 5, kMost64)),
      broken("an end of no known sort", raw_record(SubmissionOp::kEnd, 0, 0, 0, 0, kMost)),
      broken("an end with a final row and no block",
             raw_record(SubmissionOp::kEnd, 0, 0, 1, 0, GEAR_TERMINATED | layout::kEndHasFinal)),
      broken("an item of no steps", raw_record(SubmissionOp::kItem, 0, 0, 0, 1)),
      broken("an item of steps that are not there", raw_record(SubmissionOp::kItem, 0, 3, 0, 1)),
      broken("an item of the most steps, of priority NaN", raw_record(SubmissionOp::kItem, 0, kMost, 0, kNan)),
      one_record("priority NaN", Kind::kWriter, Fate::kNoEffect, raw_record(SubmissionOp::kPriority, 0, 0, 0, kNan, 1)),
      one_record("priority -1", Kind::kWriter, Fate::kNoEffect, raw_record(SubmissionOp::kPriority, 0, 0, 0, -1, 1)),
      one_record("an infinite priority", Kind::kWriter, Fate::kNoEffect,
                 raw_record(SubmissionOp::kPriority, 0, 0, 0, HUGE_VAL, 1)),
      broken("cells of episodes in a table without", raw_record(SubmissionOp::kEpisodeCells)),
      broken("an episode slot in a table without", raw_record(SubmissionOp::kNeedEpisode)),
      broken("a version in a table without", raw_record(SubmissionOp::kVersion, 0, 0, 5)),
      broken("a prompt group in a table without", raw_record(SubmissionOp::kPromptGroup, 0, kMost, 5)),
  };
}

std::vector<Case> sampler_cases() {
  auto broken = [](const char* what, const layout::SubmissionRecord& record) {
    return one_record(what, Kind::kLeased, Fate::kCutOff, record);
  };
  return {
      wild_op("sampler: op 0", Kind::kLeased, 0),
      wild_op("sampler: op of a writer", Kind::kLeased, static_cast<uint32_t>(SubmissionOp::kCommit)),
      broken("a take of what was not posted", raw_record(SubmissionOp::kTake, 0, 1)),
      broken("the largest take", raw_record(SubmissionOp::kTake, 0, kMost)),
      broken("a return of what was not posted", raw_record(SubmissionOp::kReturn, 0, 1)),
      broken("the largest return", raw_record(SubmissionOp::kReturn, 0, kMost)),
      broken("a release of what was not taken", raw_record(SubmissionOp::kRelease, 0, 1, 0)),
      broken("the largest release", raw_record(SubmissionOp::kRelease, 0, kMost, 0)),
      broken("a release that wraps", raw_record(SubmissionOp::kRelease, 0, 2, kMost64)),
      broken("a rejection without a group", raw_record(SubmissionOp::kReject, 0, 0, 0)),
      broken("a demand beyond the ring", raw_record(SubmissionOp::kDemand, 0, 0, 1000)),
      broken("the largest demand", raw_record(SubmissionOp::kDemand, 0, kMost, kMost64)),
      // Its answer would take the place of a lease in the ring.
      broken("a watch, which is of direct samplers", raw_record(SubmissionOp::kWatch, 0, 0, 1)),
      one_record("direct: a watch for what never comes", Kind::kDirect, Fate::kNoEffect,
                 raw_record(SubmissionOp::kWatch, 0, 0, kMost64)),
      one_record("direct: a demand", Kind::kDirect, Fate::kCutOff, raw_record(SubmissionOp::kDemand, 0, 0, 1)),
      one_record("direct: a take", Kind::kDirect, Fate::kCutOff, raw_record(SubmissionOp::kTake, 0, 1)),
      {"a lease released twice, and taken twice", Kind::kLeased, Fate::kCutOff,
       [](RawChannel& c) {
         c.push(raw_record(SubmissionOp::kDemand, 0, 0, 2));
         c.show();
         for (int64_t deadline = deadline_after(kPatienceNs);
              peek(c.header()->completion_tail) < 2 && left_until(deadline) > 0;) {
           usleep(100);
         }
         c.push(raw_record(SubmissionOp::kTake, 0, 2));
         c.push(raw_record(SubmissionOp::kRelease, 0, 2, 0));
         c.push(raw_record(SubmissionOp::kRelease, 0, 2, 0));
         c.push(raw_record(SubmissionOp::kTake, 0, 2));
         c.show();
       }},
  };
}

std::vector<Case> items_cases() {
  return {
      wild_op("items: op 0", Kind::kItems, 0),
      wild_op("items: op of a writer", Kind::kItems, static_cast<uint32_t>(SubmissionOp::kCommit)),
      one_record("a deletion of a key of ones", Kind::kItems, Fate::kNoEffect,
                 raw_record(SubmissionOp::kDelete, 0, 0, kMost64)),
      {"the most updates, and garbage", Kind::kItems, Fate::kNoEffect,
       [](RawChannel& c) {
         c.push(raw_record(SubmissionOp::kUpdates, 0, kMost));
         layout::SubmissionRecord garbage;
         memset(&garbage, 0xa5, sizeof garbage);
         for (int i = 0; i < 2000; ++i) c.push(garbage);
         c.show();
       }},
      {"updates to NaN, to infinity and below zero", Kind::kItems, Fate::kNoEffect,
       [](RawChannel& c) {
         for (double priority : {kNan, HUGE_VAL, -1.0}) {
           c.push(raw_record(SubmissionOp::kUpdates, 0, 2));
           layout::UpdateRecord update{{{kMost64, priority}, {0, priority}}};
           layout::SubmissionRecord record;
           memcpy(&record, &update, sizeof record);
           c.push(record);
         }
         c.show();
       }},
      {"answers that nobody takes", Kind::kItems, Fate::kNoEffect,
       [](RawChannel& c) {
         for (int i = 0; i < 2000; ++i) c.push(raw_record(SubmissionOp::kAnswer, 0, 0, kMost64));
         c.show();
       }},
  };
}

class HostileRing : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(honest_.begin(server_.endpoint()), ""); }

  RawChannel open(RawClient& raw, Kind kind) {
    uint64_t table = raw.open_table("t");
    if (kind == Kind::kWriter) return raw.open_writer(table, 2);
    if (kind == Kind::kItems) return raw.open_items(table);
    return raw.open_sampler(table, kind == Kind::kDirect);
  }

  std::string has_its_fate(const Case& one) {
    RawClient raw(server_.endpoint());
    if (raw.hello().status != GEAR_OK) return "no hello";
    RawChannel channel = open(raw, one.kind);
    if (channel.id == 0) return "no channel";
    one.spoil(channel);
    raw.ring();
    if (one.fate == Fate::kCutOff) {
      return raw.closed_by_server() ? "" : "not cut off";
    }
    // Three round trips: it had time to look at the ring.
    for (int i = 0; i < 3; ++i) {
      if (raw.ask(layout::ControlOp::kServerInfo, nullptr, 0).status != GEAR_OK) return "cut off";
    }
    return {};
  }

  void try_all(const std::vector<Case>& cases) {
    for (const Case& one : cases) {
      EXPECT_EQ(go_on_beside(server_, honest_, [&] { return has_its_fate(one); }), "") << one.what;
    }
    EXPECT_NE(server_.log().find("expelled: broke the ring protocol"), std::string::npos) << server_.log();
  }

  WatchedServer server_;
  HonestClient honest_;
};

TEST_F(HostileRing, CutsOffPositionsThatJumpAndLooksAtNoWordOfItsOwn) { try_all(position_cases()); }
TEST_F(HostileRing, TakesNoWildRecordOfAWriter) { try_all(writer_cases()); }
TEST_F(HostileRing, TakesNoWildRecordOfASampler) { try_all(sampler_cases()); }
TEST_F(HostileRing, TakesNoWildRecordOfAnItemsChannel) { try_all(items_cases()); }

// Garbage keys are the items' of others with hardly any chance; the priorities of all that are there stay what they were.
TEST_F(HostileRing, UpdatesOfGarbageChangeNoPriority) {
  gear_sampler* sampler = nullptr;
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.mode = GEAR_SAMPLE_DIRECT;
  ASSERT_EQ(gear_sampler_open(honest_.table(), &options, &sampler), GEAR_OK);
  for (const Case& one : items_cases()) {
    ASSERT_EQ(go_on_beside(server_, honest_, [&] { return has_its_fate(one); }), "") << one.what;
  }
  gear_batch* batch = nullptr;
  ASSERT_EQ(gear_sample(sampler, 256, kCallNs, &batch), GEAR_OK) << gear_last_error();
  for (int row = 0; row < 256; ++row) EXPECT_EQ(gear_batch_priorities(batch)[row], 1.0);
  gear_batch_release(batch);
}

// A table of all that a record can touch: explicit items of episodes with cells of their own, versions, prompt groups, and
// a consumer group, which stays when its consumers go.
void create_rich_table(gear_client* client) {
  gear_column_options columns[2] = {int_column(), int_column()};
  columns[1].name = "label";
  columns[1].flags = GEAR_COLUMN_PER_EPISODE;
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = "rich";
  options.columns = columns;
  options.column_count = 2;
  options.capacity_items = 200;
  options.item_policy = GEAR_ITEMS_EXPLICIT;
  options.episode_steps_max = 50;
  options.capacity_steps = 1000;
  options.sampler = GEAR_SELECT_FIFO;
  options.versions = 1;
  options.prompt_groups_max = 4;
  gear_table* table = nullptr;
  ASSERT_EQ(gear_table_create(client, &options, &table), GEAR_OK) << gear_last_error();
  gear_sampler* consumer = nullptr;
  gear_sampler_options group = GEAR_SAMPLER_OPTIONS_INIT;
  group.group = "g";
  ASSERT_EQ(gear_sampler_open(table, &group, &consumer), GEAR_OK) << gear_last_error();
  ASSERT_EQ(gear_sampler_close(consumer), GEAR_OK) << gear_last_error();
}

// Records of right ops and numbers near the edges, in any order; a part of them makes sense.
class RandomRecords {
 public:
  RandomRecords(uint64_t seed, Kind kind) : random_(seed), kind_(static_cast<size_t>(kind)) {}

  layout::SubmissionRecord next(uint64_t seen) {
    static const uint32_t first_ops[] = {1, 16, 16, 32}, op_counts[] = {9, 6, 6, 3};
    static const double values[] = {0, 1, 2, 1, -1, 1e300, HUGE_VAL, -HUGE_VAL, kNan, 5e-324};
    layout::SubmissionRecord record{};
    record.op = static_cast<uint32_t>(first_ops[kind_] + random_() % op_counts[kind_]);
    record.lane = static_cast<uint32_t>(one_in(64) ? edge() : random_() % 2);
    record.count = static_cast<uint32_t>(one_in(32) ? edge() : random_() % 4);
    record.flags = static_cast<uint32_t>(one_in(32) ? edge() : random_() % 3);
    record.argument = one_in(32) ? edge() : seen + random_() % 4;
    record.value = values[random_() % std::size(values)];
    auto op = static_cast<SubmissionOp>(record.op);
    if ((op == SubmissionOp::kCommit || op == SubmissionOp::kEnd) && record.lane < 2 && !one_in(16)) {
      if (op == SubmissionOp::kEnd) record.flags &= 0xff;
      if (op == SubmissionOp::kCommit) rows_[record.lane] += record.count;
      record.argument = rows_[record.lane];
    }
    return record;
  }
  bool one_in(uint64_t n) { return random_() % n == 0; }
  uint64_t edge() {
    static const uint64_t numbers[] = {0, 1, 2, 3, 8, 15, 16, 17, 64, 255, 4096, kMost - 1, kMost, kMost64 - 1, kMost64};
    return numbers[random_() % std::size(numbers)];
  }

 private:
  std::mt19937_64 random_;
  size_t kind_;
  uint64_t rows_[2] = {};
};

TEST_F(HostileRing, LivesThroughRandomRecords) {
  const char* given = getenv("GEAR_TEST_SEED");
  uint64_t seed = given != nullptr ? strtoull(given, nullptr, 0) : std::random_device{}();
  printf("GEAR_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  create_rich_table(honest_.client());
  auto flood = [&](uint64_t number) -> std::string {
    auto kind = static_cast<Kind>(number % 4);
    RandomRecords records(seed + number, kind);
    RawClient raw(server_.endpoint());
    if (raw.hello().status != GEAR_OK) return "no hello";
    bool rich = kind != Kind::kDirect && records.one_in(2);
    uint64_t table = raw.open_table(rich ? "rich" : "t");
    layout::SamplerOpenRequest sampler{};
    sampler.prefetch = records.one_in(2) ? 8 : 0;
    if (rich && records.one_in(2)) strcpy(sampler.group, "g");
    if (rich) sampler.version_policy = records.one_in(2) ? GEAR_VERSION_DROP : GEAR_VERSION_SKIP;
    RawChannel channel = kind == Kind::kWriter  ? raw.open_writer(table, 2)
                         : kind == Kind::kItems ? raw.open_items(table)
                                                : raw.open_sampler(table, kind == Kind::kDirect, 0, &sampler);
    if (channel.id == 0) return "no channel";
    for (int burst = 0; burst < 60; ++burst) {
      uint64_t seen = kind == Kind::kItems ? 0 : peek(channel.header()->completion_tail);
      for (int i = 0; i < 8; ++i) channel.push(records.next(seen));
      channel.header()->completion_head = records.one_in(16) ? records.edge() : seen;
      channel.show();
      raw.ring();
      int64_t deadline = deadline_after(20'000'000);  // a writer may wait for blocks for ever
      while (observe(channel.header()->submission_head) != channel.tail && left_until(deadline) > 0) {
        if (observe(channel.header()->failure) != 0) return {};
        usleep(100);
      }
      if (channel.tail - observe(channel.header()->submission_head) > 64) return {};
    }
    return {};
  };
  for (uint64_t number = 0; number < 200; ++number) {
    ASSERT_EQ(go_on_beside(server_, honest_, [&] { return flood(number); }), "") << "client " << number;
  }
}

TEST_F(HostileRing, RefusesSamplersThatLeaseMoreRowsThanTheMost) {
  EXPECT_EQ(go_on_beside(server_, honest_, [&]() -> std::string {
    RawClient raw(server_.endpoint());
    raw.hello();
    layout::SamplerOpenRequest request{};
    request.table_id = raw.open_table("t");
    request.batch_rows_max = request.batches_max = 128;
    request.prefetch = (1 << 16) - 128 * 128;
    RawReply most = raw.ask(layout::ControlOp::kSamplerOpen, request);
    if (most.status != GEAR_OK) return "65536 rows: " + most.text;
    ++request.prefetch;
    RawReply more = raw.ask(layout::ControlOp::kSamplerOpen, request);
    if (more.status != GEAR_EINVAL || more.text.find("65536") == std::string::npos) return "65537 rows: " + more.text;
    request.prefetch = 0;
    request.batch_rows_max = request.batches_max = UINT32_MAX;
    return raw.ask(layout::ControlOp::kSamplerOpen, request).status == GEAR_EINVAL ? "" : "the most of both";
  }), "");
}

// Leases are looked at in parts, and each ends once, however often it is released.
TEST_F(HostileRing, ReleasesManyInParts) {
  EXPECT_EQ(go_on_beside(server_, honest_, [&]() -> std::string {
    RawClient raw(server_.endpoint());
    raw.hello();
    constexpr uint32_t kRows = 1 << 15;
    RawChannel channel = raw.open_sampler(raw.open_table("t"), false, kRows);
    if (channel.id == 0) return "no channel";
    int64_t deadline = deadline_after(kPatienceNs);
    raw.ring();
    while (observe(channel.header()->completion_tail) < kRows && left_until(deadline) > 0) usleep(100);
    publish(channel.header()->completion_head, uint64_t{kRows});
    channel.push(raw_record(SubmissionOp::kTake, 0, kRows, 0));
    for (int i = 0; i < 200; ++i) channel.push(raw_record(SubmissionOp::kRelease, 0, kRows - 1, 1));
    channel.push(raw_record(SubmissionOp::kRelease, 0, kRows, 0));
    channel.show();
    raw.ring();
    if (int failure = channel.settle(); failure != GEAR_OK) return "failed with " + std::to_string(failure);
    return raw.ask(layout::ControlOp::kServerInfo, nullptr, 0).status == GEAR_OK ? "" : "cut off";
  }), "");
}

// Its rows admitted so far are counted as such, and the record once, as refused.
TEST_F(HostileRing, CountsACommitThatIsRefusedWhileItWaits) {
  EXPECT_EQ(go_on_beside(server_, honest_, [&]() -> std::string {
    gear_client* client = nullptr;
    GEAR_OR_SAY(gear_connect(server_.endpoint().c_str(), nullptr, &client));
    GEAR_OR_SAY(create_limited_table(client, "limited"));
    RawClient raw(server_.endpoint()), other(server_.endpoint());
    raw.hello();
    other.hello();
    RawChannel channel, successor;
    open_named_writer(raw, raw.open_table("limited"), 7, &channel);
    if (channel.id == 0) return "no channel";
    std::string text = commit_more_than_the_limit(raw, channel);
    if (!text.empty()) return text;
    if (open_named_writer(other, other.open_table("limited"), 7, &successor).status != GEAR_OK) return "not taken over";
    raw.ring();
    if (channel.settle() != GEAR_OK) return "the commit waits still";
    if (channel.header()->steps_admitted != 4) return "admitted " + std::to_string(channel.header()->steps_admitted);
    GEAR_OR_SAY(gear_table_drop(client, "limited"));
    GEAR_OR_SAY(gear_close(client));
    uint32_t refused = channel.header()->records_refused;
    return refused == 1 ? "" : "refused " + std::to_string(refused);
  }), "");
}

// A named segment cannot be sealed against those who have it writable.
TEST_F(HostileRing, IsNotKilledByAChannelThatIsCutShort) {
  for (Kind kind : {Kind::kWriter, Kind::kLeased, Kind::kDirect, Kind::kItems}) {
    for (bool used : {false, true}) {
      EXPECT_EQ(go_on_beside(server_, honest_, [&]() -> std::string {
        RawClient raw(server_.endpoint());
        raw.hello();
        uint64_t table = raw.open_table("t");
        layout::SamplerOpenRequest sampler{};
        sampler.table_id = table;
        sampler.direct = kind == Kind::kDirect ? 1 : 0;
        sampler.batch_rows_max = sampler.batches_max = sampler.prefetch = 8;
        layout::WriterOpenRequest writer{};
        writer.table_id = table;
        writer.lanes = 1;
        RawReply reply = kind == Kind::kWriter  ? raw.ask(layout::ControlOp::kWriterOpen, writer)
                         : kind == Kind::kItems ? raw.ask(layout::ControlOp::kItemsOpen, layout::TableIdRequest{table})
                                                : raw.ask(layout::ControlOp::kSamplerOpen, sampler);
        if (reply.descriptors.empty()) return "no channel: " + reply.text;
        int channel = reply.descriptors[0].get();
        if (used) {
          Mapping mapping = Mapping::map(channel, reply.as<layout::ChannelReply>().channel_bytes, true).take();
          auto* header = static_cast<layout::ChannelHeader*>(mapping.data());
          auto* records = layout::at_offset<layout::SubmissionRecord>(header, header->submission_offset);
          auto op = kind == Kind::kWriter    ? SubmissionOp::kNeedBlock
                    : kind == Kind::kLeased  ? SubmissionOp::kDemand
                    : kind == Kind::kDirect  ? SubmissionOp::kWatch
                                             : SubmissionOp::kAnswer;
          records[0] = raw_record(op, 0, 1, 1);
          publish(header->submission_tail, uint64_t{1});
          raw.ring();
          int64_t deadline = deadline_after(kPatienceNs);
          while (observe(header->submission_head) < 1 && left_until(deadline) > 0) usleep(100);
        }
        if (ftruncate(channel, 0) != 0) return "cannot truncate it";
        raw.ring();
        return raw.closed_by_server() ? "" : "not cut off";
      }), "") << static_cast<int>(kind) << used;
    }
  }
  EXPECT_NE(server_.log().find("expelled: cut its channel short"), std::string::npos) << server_.log();
}

// Its rows are gone, and no one else's: the server itself looks at no row.
TEST_F(HostileRing, IsNotKilledByDataThatAreCutShort) {
  EXPECT_EQ(go_on_beside(server_, honest_, [&]() -> std::string {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    gear_writer* writer = nullptr;
    gear_sampler* sampler = nullptr;
    GEAR_OR_SAY(gear_connect(server_.endpoint().c_str(), nullptr, &client));
    GEAR_OR_SAY(create_int_table(client, &table, 0666, "cut"));
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = GEAR_SAMPLE_LEASED;
    options.prefetch = 8;
    GEAR_OR_SAY(gear_writer_open(table, nullptr, &writer));
    for (int i = 0; i < 20; ++i) GEAR_OR_SAY(append_int(writer, i));
    GEAR_OR_SAY(gear_writer_flush(writer, kCallNs, nullptr));
    GEAR_OR_SAY(gear_sampler_open(table, &options, &sampler));
    RawClient raw(server_.endpoint());
    raw.hello();
    layout::WriterOpenRequest request{};
    request.table_id = raw.open_table("cut");
    request.lanes = 1;
    RawReply reply = raw.ask(layout::ControlOp::kWriterOpen, request);
    if (reply.descriptors.size() != 2) return "no data: " + reply.text;
    if (ftruncate(reply.descriptors[1].get(), 0) != 0) return "cannot truncate it";
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    GEAR_OR_SAY(gear_table_get_stats(table, &stats));
    GEAR_OR_SAY(gear_sampler_close(sampler));
    GEAR_OR_SAY(gear_writer_close(writer));
    GEAR_OR_SAY(gear_table_reset(table));
    GEAR_OR_SAY(gear_table_drop(client, "cut"));
    GEAR_OR_SAY(gear_close(client));
    return {};
  }), "");
}

// A writer that pushes records without end takes its turn like every other.
TEST_F(HostileRing, GoesOnBesideRingsThatAreNeverEmpty) {
  EXPECT_EQ(go_on_beside(server_, honest_, [&]() -> std::string {
    RawClient raw(server_.endpoint());
    raw.hello();
    std::vector<RawChannel> channels;
    for (int i = 0; i < 8; ++i) channels.push_back(open(raw, Kind::kItems));
    for (int64_t deadline = deadline_after(500'000'000); left_until(deadline) > 0;) {
      for (RawChannel& channel : channels) {
        uint64_t head = observe(channel.header()->submission_head);
        while (channel.tail - head < channel.header()->submission_slots) {
          channel.push(raw_record(SubmissionOp::kDelete, 0, 0, kMost64));
        }
        channel.show();
      }
    }
    return raw.ask(layout::ControlOp::kServerInfo, nullptr, 0).status == GEAR_OK ? "" : "cut off";
  }), "");
}

}  // namespace
}  // namespace gear::test
