// ctest: labels=unit timeout=120
//
// Tables whose data are in parts, a writer's each: which blocks a writer gets, where memory is, and what an adopter finds.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cfloat>
#include <cstdio>

#include "base/rng.h"
#include "shm/segment_names.h"
#include "support/bare_table.h"
#include "support/fault_inject.h"
#include "table/fsck.h"
#include "table/table.h"

namespace gear::test {
namespace {

using layout::BlockRecord;
using layout::GrantRecord;
using layout::kNone;
using layout::PartRecord;
using layout::TableHeader;

constexpr uint32_t kParts = 4;

uint64_t instance() { return 0x9a27000000000000u | static_cast<uint64_t>(getpid()); }

// Blocks of two pages: 512 steps, and their presence bits.
layout::TableCreateRequest request_of(uint32_t writers_max = kParts) {
  layout::TableCreateRequest request = bare_request(20'000, 4, 512);
  request.payload_isolation = GEAR_ISOLATION_PER_WRITER;
  request.writers_max = writers_max;
  return request;
}

std::unique_ptr<Table> make_table(layout::TableCreateRequest request, uint32_t memory = GEAR_MEMORY_MEMFD) {
  const layout::ColumnSpec columns[] = {u64_column(), u64_column("e", GEAR_COLUMN_PER_EPISODE)};
  request.memory = memory;
  return make_bare(request, columns, nullptr, instance());
}
std::unique_ptr<Table> make_table(uint32_t memory = GEAR_MEMORY_MEMFD) { return make_table(request_of(), memory); }

const BlockRecord* blocks_of(const Table& table) {
  return layout::at_offset<BlockRecord>(table.directory().data(), table.header().blocks_offset);
}
BlockRecord* blocks_to_change(Table& table) { return const_cast<BlockRecord*>(blocks_of(table)); }
PartRecord* parts_of(Table& table) {
  return layout::at_offset<PartRecord>(table.directory().data(), table.header().parts_offset);
}

// Bytes that the kernel has allocated for all parts.
uint64_t memory_of(const Table& table) {
  uint64_t bytes = 0;
  for (uint32_t part = 0; part < table.header().parts; ++part) {
    struct stat file {};
    fstat(table.data().writable_fd(part), &file);
    bytes += static_cast<uint64_t>(file.st_blocks) * 512;
  }
  return bytes;
}

uint32_t backed_blocks(const Table& table) {
  uint32_t count = 0;
  for (uint32_t block = 0; block < table.header().block_count; ++block) count += blocks_of(table)[block].backing != 0;
  return count;
}

uint32_t open_lane_of(Table& table, uint32_t channel, uint32_t uid = 1000) {
  if (table.part_of(channel) == kNone) {
    Result<uint32_t> part = table.take_part(channel, uid);
    EXPECT_TRUE(part.ok()) << part.status().text();
  }
  return table.open_lane(channel);
}

// False when no block was to be had.
bool append(Table& table, uint32_t lane, uint32_t rows) {
  while (rows > 0) {
    GrantRecord grant{};
    if (table.unfilled_blocks(lane) == 0 && !table.grant_block(lane, &grant)) return false;
    uint32_t done = 0;
    uint32_t now = std::min(rows, 512u);
    uint64_t room = 512 - table.lane_rows(lane) % 512;
    now = static_cast<uint32_t>(std::min<uint64_t>(now, room));
    EXPECT_EQ(table.commit(lane, now, &done), Admit::kDone);
    rows -= done;
  }
  return true;
}

TEST(TableParts, GrantAWriterBlocksAndSlotsOfItsOwn) {
  layout::TableCreateRequest request = request_of();
  request.column_count = 2;
  auto table = make_table(request);
  uint32_t slots_each = table->header().episode_slots / kParts;
  EXPECT_EQ(table->header().episode_slots % kParts, 0u);
  for (uint32_t channel = 1; channel <= kParts; ++channel) {
    uint32_t lane = open_lane_of(*table, channel);
    uint32_t part = table->part_of(channel);
    EXPECT_EQ(part, channel - 1);
    for (int i = 0; i < 10; ++i) {
      GrantRecord grant{};
      ASSERT_TRUE(table->grant_block(lane, &grant));
      EXPECT_EQ(grant.block / table->header().block_budget, part);
      uint32_t slot = 0;
      ASSERT_TRUE(table->grant_episode(lane, &slot));
      EXPECT_EQ(slot / slots_each, part);
    }
  }
}

TEST(TableParts, LieOnPagesOfTheirOwn) {
  for (uint64_t cell : {uint64_t{1}, uint64_t{9}, uint64_t{700}}) {
    layout::TableCreateRequest request = request_of(7);
    request.column_count = 2;
    request.block_steps = 3;
    layout::ColumnSpec columns[2]{};
    snprintf(columns[0].name, sizeof columns[0].name, "x");
    columns[0].dtype = GEAR_U64;
    snprintf(columns[1].name, sizeof columns[1].name, "e");
    columns[1].dtype = GEAR_U64;
    columns[1].rank = 1;
    columns[1].shape[0] = static_cast<int64_t>(cell);
    columns[1].flags = GEAR_COLUMN_PER_EPISODE;
    Result<Geometry> geometry = plan_geometry(request, columns);
    ASSERT_TRUE(geometry.ok()) << geometry.status().text();
    const TableHeader& header = geometry.value().header;
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    EXPECT_EQ(header.block_bytes % page, 0u);
    EXPECT_EQ(header.data_episodes_offset % page, 0u);
    EXPECT_EQ(layout::part_episodes_bytes(header) % page, 0u);
    EXPECT_EQ(header.block_count, 7 * header.block_budget);
  }
}

// By default rows and presence bits fill whole pages, but for a little.
TEST(TableParts, WasteNoPagesByDefault) {
  for (int64_t bytes : {1, 8, 100, 3000, 28'224}) {
    layout::TableCreateRequest request = request_of();
    request.block_steps = 0;
    layout::ColumnSpec column{};
    snprintf(column.name, sizeof column.name, "x");
    column.dtype = GEAR_U8;
    column.rank = 1;
    column.shape[0] = bytes;
    Result<Geometry> geometry = plan_geometry(request, &column);
    ASSERT_TRUE(geometry.ok()) << geometry.status().text();
    const TableHeader& header = geometry.value().header;
    uint64_t rows = uint64_t{header.block_steps} * (static_cast<uint64_t>(bytes) + header.presence_bytes);
    EXPECT_LT(static_cast<double>(header.block_bytes), static_cast<double>(rows) * 1.13) << bytes << ": " << header.block_steps;
  }
}

class TablePartsMemory : public testing::TestWithParam<uint32_t> {};

TEST_P(TablePartsMemory, StaysAtTheBudgetWhenWritersTakeTurns) {
  auto table = make_table(GetParam());
  const uint64_t budget = layout::data_memory_bytes(table->header());
  EXPECT_EQ(memory_of(*table), budget);
  // Each fills the whole table in its turn.
  for (uint32_t turn = 0; turn < 2 * kParts; ++turn) {
    uint32_t lane = open_lane_of(*table, turn % kParts + 1);
    uint64_t moves = table->memory_moves();
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(append(*table, lane, 512));
      ASSERT_EQ(memory_of(*table), budget) << "turn " << turn;
    }
    EXPECT_GT(table->memory_moves(), moves);
    EXPECT_EQ(backed_blocks(*table), table->header().block_budget);
    table->close_lane(lane);
    Findings findings = find_contradictions(table->directory().data(), table->directory().size(), table->data().bytes(),
                                            CheckForm::kAdoption);
    EXPECT_TRUE(findings.texts.empty()) << findings.texts.front();
  }
  table->reset();
  EXPECT_EQ(table->header().counters.blocks_free, table->header().block_budget);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TablePartsMemory, testing::Values(GEAR_MEMORY_MEMFD, GEAR_MEMORY_POSIX),
                         [](const auto& info) { return info.param == GEAR_MEMORY_POSIX ? "Posix" : "Memfd"; });

TEST(TableParts, MoveNoMemoryWhileTheSharesStay) {
  auto table = make_table();
  uint32_t lanes[3] = {open_lane_of(*table, 1), open_lane_of(*table, 2), open_lane_of(*table, 3)};
  Rng rng(7);
  auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(append(*table, lanes[rng.below(3)], 1 + uint32_t(rng.below(200))));
  };
  rounds(2000);
  uint64_t moves = table->memory_moves();
  uint64_t blocks = table->header().counters.steps / 512;
  rounds(10'000);
  blocks = table->header().counters.steps / 512 - blocks;
  printf("%llu moves while %llu blocks were filled\n", (unsigned long long)(table->memory_moves() - moves),
         (unsigned long long)blocks);
  // Chance lets a share grow now and then.
  EXPECT_LT((table->memory_moves() - moves) * 50, blocks);
}

// Nobody fills more than the budget, whatever the part: the oldest items of others give way.
TEST(TableParts, LetOneWriterHaveTheWholeTable) {
  auto table = make_table();
  uint32_t others = open_lane_of(*table, 1);
  ASSERT_TRUE(append(*table, others, 15'000));
  uint32_t lane = open_lane_of(*table, 2);
  ASSERT_TRUE(append(*table, lane, 60'000));
  EXPECT_EQ(table->items(), 20'000u);
  for (uint32_t block = 0; block < table->header().block_count; ++block) {
    const BlockRecord& record = blocks_of(*table)[block];
    if (record.generation % 2 == 0 || record.lane != lane) continue;
    EXPECT_EQ(block / table->header().block_budget, table->part_of(2));
  }
}

TEST(TableParts, GoOnWithLessWhereTheSystemHasNoMemory) {
  auto table = make_table();
  uint32_t lane = open_lane_of(*table, 1);
  // Own memory first; then the first block of another part's memory is refused.
  while (table->memory_moves() == 0) ASSERT_TRUE(append(*table, lane, 512));
  uint64_t free = table->header().counters.blocks_free;
  GrantRecord grant{};
  arm_fault(getpid(), "posix_fallocate", 1);
  bool granted = table->grant_block(lane, &grant);
  EXPECT_EQ(disarm_fault(), 1u);
  EXPECT_FALSE(granted);
  EXPECT_EQ(table->header().counters.blocks_free, free - 1);
  EXPECT_EQ(backed_blocks(*table), table->header().block_budget - 1);
  // What is missing is had as soon as the system has it.
  EXPECT_TRUE(table->grant_block(lane, &grant));
  EXPECT_EQ(backed_blocks(*table), table->header().block_budget);
  EXPECT_EQ(memory_of(*table), layout::data_memory_bytes(table->header()));
}

// Another process took what was given back, and keeps it: the rest moves all the same.
TEST(TableParts, MoveMemoryThoughSomeIsMissing) {
  auto table = make_table();
  uint32_t lane = open_lane_of(*table, 1);
  while (table->memory_moves() == 0) ASSERT_TRUE(append(*table, lane, 512));
  GrantRecord grant{};
  arm_fault(getpid(), "posix_fallocate", 1);
  EXPECT_FALSE(table->grant_block(lane, &grant));
  const uint32_t backed = table->header().block_budget - 1;
  uint64_t moves = table->memory_moves();
  EXPECT_EQ(backed_blocks(*table), backed);
  usleep(150'000);  // until moves are tried again
  // Twice for what is missing, the second time after a look for forgotten pages; then a move.
  arm_fault(getpid(), "posix_fallocate", 1, 2);
  EXPECT_TRUE(table->grant_block(lane, &grant));
  EXPECT_EQ(disarm_fault(), 3u);
  EXPECT_EQ(table->memory_moves(), moves + 1);
  EXPECT_EQ(backed_blocks(*table), backed);
  // The table may be filled as before.
  ASSERT_TRUE(append(*table, lane, 60'000));
  EXPECT_EQ(table->items(), 20'000u);
}

TEST(TableParts, KeepBlocksWhosePagesTheSystemDoesNotTake) {
  auto table = make_table(GEAR_MEMORY_POSIX);
  uint32_t lane = open_lane_of(*table, 1);
  while (table->memory_moves() == 0) ASSERT_TRUE(append(*table, lane, 512));
  uint64_t free = table->header().counters.blocks_free;
  GrantRecord grant{};
  arm_fault(getpid(), "fallocate", 1);
  EXPECT_FALSE(table->grant_block(lane, &grant));
  EXPECT_EQ(disarm_fault(), 1u);
  EXPECT_EQ(table->header().counters.blocks_free, free);
  EXPECT_EQ(backed_blocks(*table), table->header().block_budget);
  bool granted = false;
  for (int tries = 0; tries < 10'000 && !granted; ++tries) {
    granted = table->grant_block(lane, &grant);
    if (!granted) usleep(1000);
  }
  EXPECT_TRUE(granted);
  EXPECT_EQ(memory_of(*table), layout::data_memory_bytes(table->header()));
}

// Stores where its writer has no block, and bytes that it put behind the end of its part.
TEST(TableParts, LoseWhatTheirWriterAddedWhenItIsGone) {
  auto table = make_table(GEAR_MEMORY_POSIX);
  const TableHeader& header = table->header();
  open_lane_of(*table, 1);
  const uint64_t budget = layout::data_memory_bytes(header);
  auto* part = static_cast<char*>(table->data().segment(0).data());
  for (uint32_t block = 0; block < header.block_budget; ++block) part[header.data_blocks_offset + block * header.block_bytes] = 1;
  ASSERT_EQ(ftruncate(table->data().writable_fd(0), static_cast<off_t>(layout::part_bytes(header) + 1'000'000)), 0);
  ASSERT_EQ(posix_fallocate(table->data().writable_fd(0), static_cast<off_t>(layout::part_bytes(header)), 1'000'000), 0);
  EXPECT_GT(memory_of(*table), budget + 1'000'000);
  table->leave_part(1);
  EXPECT_EQ(memory_of(*table), budget);
}

TEST(TableParts, CannotBeSealedByTheirWriters) {
  auto table = make_table(GEAR_MEMORY_MEMFD);
  EXPECT_EQ(fcntl(table->data().writable_fd(0), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(TableParts, AreOneUsersForEver) {
  auto table = make_table();
  EXPECT_EQ(table->take_part(1, 1000).value(), 0u);
  EXPECT_EQ(table->take_part(2, 2000).value(), 1u);
  table->leave_part(1);
  EXPECT_EQ(table->take_part(3, 2000).value(), 2u);  // not the first one, which is user 1000's
  EXPECT_EQ(table->take_part(4, 1000).value(), 0u);
  table->leave_part(3);
  EXPECT_EQ(table->take_part(5, 3000).value(), 3u);
  table->leave_part(4);
  Result<uint32_t> none = table->take_part(6, 3000);
  EXPECT_EQ(none.status().code(), GEAR_ELIMIT);
  for (const char* said : {"writers_max", "all 4 parts", "user 1000 has 0 and had 1", "user 2000 has 1 and had 1", "user 3000 has 1",
                           "close writers of user 3000", "at most 32"}) {
    EXPECT_NE(none.status().text().find(said), std::string::npos) << said << " in: " << none.status().text();
  }
  EXPECT_EQ(table->take_part(7, 2000).value(), 2u);
  table->reset();
  EXPECT_FALSE(table->part_left_for(3000));
}

TEST(TableParts, AreTheirWritersAfterAnAdoption) {
  auto table = make_table();
  uint32_t lane = open_lane_of(*table, 1, 1000);
  uint32_t gone = open_lane_of(*table, 2, 2000);
  ASSERT_TRUE(append(*table, lane, 700));
  ASSERT_TRUE(append(*table, gone, 700));
  auto next = pass_on(std::move(table));
  ASSERT_TRUE(next.ok()) << next.status().text();
  Table& adopted = *next.value();
  Owner owner;
  adopted.own_lane(lane, &owner);
  adopted.rest_of(1);
  adopted.finish_adoption();
  EXPECT_EQ(adopted.part_of(1), 0u);
  EXPECT_EQ(adopted.part_of(2), kNone);
  EXPECT_EQ(adopted.take_part(3, 1000).value(), 2u);
  EXPECT_EQ(adopted.take_part(4, 2000).value(), 1u);
  GrantRecord grant{};
  ASSERT_TRUE(adopted.grant_block(lane, &grant));
  EXPECT_LT(grant.block, adopted.header().block_budget);
  ASSERT_TRUE(append(adopted, lane, 30'000));
  EXPECT_EQ(memory_of(adopted), layout::data_memory_bytes(adopted.header()));
}

// As a server leaves it that is killed between two steps of a move.
TEST(TableParts, HaveTheirMemoryAgainAfterADeathInAMove) {
  auto table = make_table();
  const uint32_t budget = table->header().block_budget;
  const uint64_t memory = layout::data_memory_bytes(table->header());
  BlockRecord* blocks = blocks_to_change(*table);
  // One lost its mark and has its pages; one was allocated and not marked; one had its pages taken.
  blocks[0].backing = 0;
  TableData data;
  Segment directory;
  uint32_t bare = 2 * budget - 1;
  ASSERT_EQ(blocks[bare].backing, 0u);
  TableHeader header = table->header();
  table->take_segments(&directory, &data);
  ASSERT_TRUE(data.allocate(header, bare).ok());
  blocks[budget].backing = 0;
  ASSERT_TRUE(data.release(header, budget));
  auto next = Table::adopt(std::move(directory), std::move(data));
  ASSERT_TRUE(next.ok()) << next.status().text();
  next.value()->finish_adoption();
  EXPECT_EQ(memory_of(*next.value()), memory);
  EXPECT_EQ(backed_blocks(*next.value()), budget);
  EXPECT_EQ(next.value()->header().counters.blocks_free, budget);
}

struct Damage {
  const char* said;
  void (*make)(Table& table);
};

TEST(TableParts, AreNotAdoptedWhereTheyContradictThemselves) {
  auto header = [](Table& t) { return static_cast<TableHeader*>(t.directory().data()); };
  static auto header_of = header;
  const Damage damages[] = {
      {"has no memory", [](Table& t) { blocks_to_change(t)[0].backing = 0; }},
      {"blocks have memory", [](Table& t) { blocks_to_change(t)[t.header().block_budget - 1].backing = layout::kBlockBacked; }},
      {"who has another", [](Table& t) { parts_of(t)[0].channel = 9; }},
      {"has no part", [](Table& t) {
         blocks_to_change(t)[0].writer = 0;
         parts_of(t)[0].channel = 0;
       }},
      {"parts 33", [](Table& t) { header_of(t)->parts = 33; }},
      {"block_budget", [](Table& t) { --header_of(t)->block_budget; }},
      {"block_budget", [](Table& t) { header_of(t)->parts = 0; }},
      {"parts", [](Table& t) { header_of(t)->parts_offset = header_of(t)->directory_bytes; }},
      {"overlap", [](Table& t) { header_of(t)->parts_offset = header_of(t)->items_offset; }},
      {"block_bytes", [](Table& t) { header_of(t)->block_bytes -= 128; }},
      {"data_blocks_offset", [](Table& t) { header_of(t)->data_blocks_offset -= 128; }},
  };
  for (const Damage& damage : damages) {
    auto table = make_table();
    uint32_t lane = open_lane_of(*table, 1);
    GrantRecord grant{};
    ASSERT_TRUE(table->grant_block(lane, &grant));
    ASSERT_EQ(grant.block, 0u);
    damage.make(*table);
    auto next = pass_on(std::move(table));
    EXPECT_EQ(next.status().code(), GEAR_ECORRUPT) << damage.said;
    EXPECT_NE(next.status().text().find(damage.said), std::string::npos) << damage.said << " in: " << next.status().text();
  }
}

TEST(TableParts, AreAdoptedWithAllTheirSegmentsOrNotAtAll) {
  auto table = make_table(GEAR_MEMORY_POSIX);
  TableHeader header = table->header();
  NamesKept kept;
  table.reset();
  auto adopt = [&] { return TableData::adopt("test", header, instance(), 1); };
  EXPECT_TRUE(adopt().ok());
  SegmentName part{geteuid(), instance(), layout::SegmentKind::kPart, layout::kPartObjects + 2};
  std::string path = std::string(kSegmentFolder) + "/" + part.text();
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(layout::part_bytes(header) - 4096)), 0);
  Status small = adopt().status();
  EXPECT_EQ(small.code(), GEAR_EPROTOCOL);
  EXPECT_NE(small.text().find("part 2"), std::string::npos) << small.text();
  ASSERT_TRUE(remove_segment(part));
  EXPECT_EQ(adopt().status().code(), GEAR_ENOTFOUND);
  header.parts = 1000;
  EXPECT_EQ(adopt().status().code(), GEAR_EPROTOCOL);
  EXPECT_EQ(remove_segments_of(instance()), kParts);  // the directory, and the other parts
}

TEST(TableParts, AreAskedForInKnownWords) {
  auto refused = [](uint32_t isolation, uint32_t writers, uint32_t huge, const char* said) {
    layout::TableCreateRequest request = request_of(writers);
    request.payload_isolation = isolation;
    request.huge_pages = huge;
    layout::ColumnSpec column = u64_column();
    Status status = plan_geometry(request, &column).status();
    EXPECT_NE(status.text().find(said), std::string::npos) << said << " in: " << status.text();
    return status.code();
  };
  EXPECT_EQ(refused(2, 0, 0, "payload_isolation 2"), GEAR_EINVAL);
  EXPECT_EQ(refused(0, 4, 0, "writers_max 4 without payload_isolation"), GEAR_EINVAL);
  EXPECT_EQ(refused(1, 33, 0, "writers_max 33"), GEAR_EINVAL);
  EXPECT_EQ(refused(1, 4, GEAR_WANT_REQUIRED, "huge_pages 2"), GEAR_EUNSUPPORTED);
}

TEST(TableParts, AreNotMadeWhereTheirMemoryDoesNotFit) {
  layout::TableCreateRequest request = request_of();
  layout::ColumnSpec column = u64_column();
  Geometry geometry = plan_bare(request, &column);
  for (unsigned call = 1; call <= 2 * kParts; ++call) {
    arm_fault(getpid(), "posix_fallocate", 1 + call);
    Status status = Table::create(geometry, instance(), 1, MemoryOptions{}).status();
    disarm_fault();
    EXPECT_EQ(status.code(), GEAR_ENOSPC) << call << status.text();
  }
}

}  // namespace
}  // namespace gear::test
