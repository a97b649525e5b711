// ctest: labels=unit timeout=120
//
// payload_isolation = per_writer as clients see it: what each can store into, who gets a part, and where memory is.

#include <fcntl.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "support/int_table.h"
#include "support/other_user.h"
#include "support/raw_client.h"
#include "support/server_process.h"

namespace gear::test {
namespace {

using layout::ControlOp;

constexpr uint32_t kParts = 4;
constexpr uint64_t kCapacity = 20'000;
const User kOwner{61001, 61001};
const User kStranger{61002, 61002};
const User kThird{61003, 61003};

int create_isolated(gear_client* client, gear_table** table, uint32_t mode = 0) {
  return create_int_table_with(client, "t", table, [mode](gear_table_options* options) {
    options->capacity_items = kCapacity;
    options->block_steps = 512;
    options->mode = mode;
    options->payload_isolation = GEAR_ISOLATION_PER_WRITER;
    options->writers_max = kParts;
  });
}

// A client of its own, with table "t" open.
struct Opened {
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  std::string open(const std::string& endpoint) {
    GEAR_OR_SAY(gear_connect(endpoint.c_str(), nullptr, &client));
    GEAR_OR_SAY(gear_table_open(client, "t", &table));
    return {};
  }
};

std::string create_in(const std::string& endpoint, uint32_t mode = 0) {
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  GEAR_OR_SAY(gear_connect(endpoint.c_str(), nullptr, &client));
  GEAR_OR_SAY(create_isolated(client, &table, mode));
  GEAR_OR_SAY(gear_close(client));
  return {};
}

class ServerIsolation : public testing::TestWithParam<uint32_t> {
 protected:
  ServerIsolation()
      : server_([](ServerOptions* options) {
          options->memory = GetParam();
          options->access = ConnectAccess::kAny;
        }) {}
  const std::string& endpoint() const { return server_.endpoint(); }

  ServerProcess server_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, ServerIsolation, testing::Values(GEAR_MEMORY_POSIX, GEAR_MEMORY_MEMFD),
                         [](const auto& info) { return info.param == GEAR_MEMORY_POSIX ? "Posix" : "Memfd"; });

TEST_P(ServerIsolation, HandsAWriterItsPartWritableAndNothingElse) {
  ASSERT_EQ(in_child([&] { return create_in(endpoint()); }), "");
  RawClient client(endpoint());
  ASSERT_EQ(client.hello().status, GEAR_OK);
  layout::TableNameRequest name{};
  strcpy(name.name, "t");
  RawReply table = client.ask(ControlOp::kTableOpen, name);
  ASSERT_EQ(table.descriptors.size(), 1 + kParts) << table.text;
  for (const Descriptor& fd : table.descriptors) EXPECT_EQ(fcntl(fd.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  struct stat parts[kParts];
  for (uint32_t i = 0; i < kParts; ++i) ASSERT_EQ(fstat(table.descriptors[1 + i].get(), &parts[i]), 0);

  for (uint32_t writer = 0; writer < 2; ++writer) {
    layout::WriterOpenRequest request{};
    request.table_id = table.as<layout::TableReply>().table_id;
    request.lanes = 2;
    RawReply opened = client.ask(ControlOp::kWriterOpen, request);
    ASSERT_EQ(opened.descriptors.size(), 2u) << opened.text;
    EXPECT_EQ(opened.as<layout::ChannelReply>().part, writer);
    struct stat own {};
    ASSERT_EQ(fstat(opened.descriptors[1].get(), &own), 0);
    for (uint32_t i = 0; i < kParts; ++i) EXPECT_EQ(own.st_ino == parts[i].st_ino, i == writer) << i;
  }
}

// Stores through the mapping that a writer has, `away` bytes from where its coming row is.
std::string store_beside(const std::string& endpoint, int64_t away) {
  Opened own;
  std::string text = own.open(endpoint);
  if (!text.empty()) return text;
  gear_writer* writer = nullptr;
  GEAR_OR_SAY(gear_writer_open(own.table, nullptr, &writer));
  void* cell = nullptr;
  GEAR_OR_SAY(gear_writer_reserve(writer, 0, kCallNs, &cell, 1));
  volatile char* at = static_cast<char*>(cell) + away;
  *at = 1;
  return "stored";
}

TEST_P(ServerIsolation, KillsAWriterThatStoresIntoAnothersRows) {
  ASSERT_EQ(in_child([&] { return create_in(endpoint()); }), "");
  ASSERT_EQ(in_child([&]() -> std::string {
    Opened own;
    std::string text = own.open(endpoint());
    if (!text.empty()) return text;
    gear_table_info info = GEAR_TABLE_INFO_INIT;
    GEAR_OR_SAY(gear_table_describe(own.table, &info));
    if (info.payload_isolation != GEAR_ISOLATION_PER_WRITER || info.writers_max != kParts) return "described wrongly";
    return append_ints(own.table, 0, 1000);
  }), "");
  ASSERT_EQ(in_child([&]() -> std::string { return store_beside(endpoint(), 8); }), "stored");
  // As many blocks a part as the table may grant: the same block of the part behind it.
  layout::TableNameRequest name{};
  strcpy(name.name, "t");
  RawClient client(endpoint());
  ASSERT_EQ(client.hello().status, GEAR_OK);
  RawReply table = client.ask(ControlOp::kTableOpen, name);
  auto directory = map_segment("test", table.descriptors[0].get(), layout::SegmentKind::kDirectory, false);
  ASSERT_TRUE(directory.ok());
  const auto& header = *static_cast<const layout::TableHeader*>(directory.value().data());
  auto part = static_cast<int64_t>(layout::part_blocks_bytes(header));
  auto block = static_cast<int64_t>(header.block_bytes);
  EXPECT_EQ(in_child([&] { return store_beside(endpoint(), block); }), "stored") << "into another block of its part";
  EXPECT_EQ(in_child([&] { return store_beside(endpoint(), part); }), "killed by signal 11");
  EXPECT_EQ(in_child([&] { return store_beside(endpoint(), 3 * part); }), "killed by signal 11");
  // And the second writer of a table: the part before it.
  RawChannel first = client.open_writer(table.as<layout::TableReply>().table_id);
  ASSERT_NE(first.id, 0u);
  EXPECT_EQ(in_child([&] { return store_beside(endpoint(), 0); }), "stored");
  EXPECT_EQ(in_child([&] { return store_beside(endpoint(), -part); }), "killed by signal 11");
}

// Both ways of drawing, over rows of several writers.
TEST_P(ServerIsolation, ShowsReadersTheRowsOfAll) {
  ASSERT_EQ(in_child([&] { return create_in(endpoint()); }), "");
  EXPECT_EQ(in_child([&]() -> std::string {
    Opened own;
    std::string text = own.open(endpoint());
    gear_writer* writers[kParts] = {};
    for (uint32_t i = 0; i < kParts && text.empty(); ++i) GEAR_OR_SAY(gear_writer_open(own.table, nullptr, &writers[i]));
    for (int64_t value = 0; value < 30'000 && text.empty(); ++value) GEAR_OR_SAY(append_int(writers[value % kParts], value));
    for (uint32_t i = 0; i < kParts && text.empty(); ++i) GEAR_OR_SAY(gear_writer_flush(writers[i], kCallNs, nullptr));
    for (int i = 0; i < 50 && text.empty(); ++i) text = draw_ints(own.table, GEAR_SAMPLE_DIRECT, 64, 5'000, 29'999);
    for (int i = 0; i < 50 && text.empty(); ++i) text = draw_ints(own.table, GEAR_SAMPLE_LEASED, 64, 5'000, 29'999);
    return text;
  }), "");
}

TEST_P(ServerIsolation, GivesThePartOfAClosedOrKilledWriterToTheNext) {
  ASSERT_EQ(in_child([&] { return create_in(endpoint()); }), "");
  EXPECT_EQ(in_child([&]() -> std::string {
    Opened own;
    std::string text = own.open(endpoint());
    if (!text.empty()) return text;
    gear_writer* writers[kParts + 1] = {};
    for (uint32_t i = 0; i < kParts; ++i) GEAR_OR_SAY(gear_writer_open(own.table, nullptr, &writers[i]));
    GEAR_MUST(GEAR_ELIMIT, gear_writer_open(own.table, nullptr, &writers[kParts]));
    GEAR_MUST_SAY("all 4 parts (writers_max) are given");
    GEAR_MUST_SAY("has 4");
    GEAR_MUST_SAY("larger writers_max");
    for (int i = 0; i < 20; ++i) {
      GEAR_OR_SAY(append_int(writers[2], i));
      GEAR_OR_SAY(gear_writer_close(writers[2]));
      GEAR_OR_SAY(gear_writer_open(own.table, nullptr, &writers[2]));
    }
    return {};
  }), "");
  // All of them by one that is killed.
  std::string killed = in_child([&]() -> std::string {
    Opened own;
    std::string text = own.open(endpoint());
    gear_writer* writer = nullptr;
    for (uint32_t i = 0; i < kParts; ++i) GEAR_OR_SAY(gear_writer_open(own.table, nullptr, &writer));
    kill(getpid(), SIGKILL);
    return text;
  });
  EXPECT_EQ(killed, "killed by signal 9");
  EXPECT_EQ(in_child([&]() -> std::string {
    Opened own;
    std::string text = own.open(endpoint());
    gear_writer* writer = nullptr;
    for (uint32_t i = 0; i < kParts && text.empty(); ++i) GEAR_OR_SAY(gear_writer_open(own.table, nullptr, &writer));
    return text;
  }), "");
}

TEST_P(ServerIsolation, GivesAPartToNoOtherUser) {
  if (!can_be_others()) GTEST_SKIP() << "needs root, to be two users";
  ASSERT_EQ(as_user(kOwner, [&] { return create_in(endpoint(), 0666); }), "");
  auto write = [&](const User& user, uint32_t writers) {
    return as_user(user, [&]() -> std::string {
      Opened own;
      std::string text = own.open(endpoint());
      gear_writer* writer = nullptr;
      for (uint32_t i = 0; i < writers && text.empty(); ++i) GEAR_OR_SAY(gear_writer_open(own.table, nullptr, &writer));
      return text.empty() ? append_ints(own.table, 0, 1000) : text;
    });
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(write(kOwner, 1), "");
  EXPECT_EQ(write(kStranger, 1), "");
  std::string refused = write(kThird, 0);
  EXPECT_NE(refused.find("ELIMIT"), std::string::npos) << refused;
  EXPECT_EQ(refused.find("close writers"), std::string::npos) << "which that user has none of: " << refused;
  EXPECT_NE(refused.find("user 61001 has 0 and had 2"), std::string::npos) << refused;
  EXPECT_EQ(write(kOwner, 1), "");
  // Anew it is anybody's.
  EXPECT_EQ(as_user(kOwner, [&]() -> std::string {
    Opened own;
    std::string text = own.open(endpoint());
    GEAR_OR_SAY(gear_table_drop(own.client, "t"));
    GEAR_OR_SAY(create_isolated(own.client, &own.table, 0666));
    return text;
  }), "");
  EXPECT_EQ(write(kThird, 3), "");
}

// What the file system says of all parts, which the test finds by their names.
TEST(ServerIsolationMemory, StaysAtTheBudgetWhileWritersTakeTurns) {
  ServerProcess server;
  ASSERT_EQ(in_child([&]() -> std::string {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    gear_server_info server_info = GEAR_SERVER_INFO_INIT;
    gear_table_info info = GEAR_TABLE_INFO_INIT;
    GEAR_OR_SAY(gear_connect(server.endpoint().c_str(), nullptr, &client));
    GEAR_OR_SAY(create_isolated(client, &table));
    GEAR_OR_SAY(gear_get_server_info(client, &server_info));
    GEAR_OR_SAY(gear_table_describe(table, &info));
    std::string pattern = format("/dev/shm/gear.%u.%016llx.part.*", getuid(),
                                 static_cast<unsigned long long>(server_info.instance_id));
    auto memory = [&] {
      glob_t found;
      uint64_t bytes = 0;
      if (glob(pattern.c_str(), 0, nullptr, &found) != 0) return bytes;
      for (size_t i = 0; i < found.gl_pathc; ++i) {
        struct stat file {};
        if (stat(found.gl_pathv[i], &file) == 0) bytes += static_cast<uint64_t>(file.st_blocks) * 512;
      }
      globfree(&found);
      return bytes;
    };
    if (memory() != info.data_bytes) {
      return "made with " + std::to_string(memory()) + " bytes, described as " + std::to_string(info.data_bytes);
    }
    gear_writer* writers[kParts] = {};
    for (gear_writer*& writer : writers) GEAR_OR_SAY(gear_writer_open(table, nullptr, &writer));
    // Each fills the whole table in its turn.
    for (uint32_t turn = 0; turn < 2 * kParts; ++turn) {
      for (uint64_t step = 0; step < 2 * kCapacity; ++step) GEAR_OR_SAY(append_int(writers[turn % kParts], int64_t(step)));
      GEAR_OR_SAY(gear_writer_flush(writers[turn % kParts], kCallNs, nullptr));
      uint64_t now = memory();
      if (now > info.data_bytes) return "turn " + std::to_string(turn) + ": " + std::to_string(now) + " bytes";
    }
    GEAR_OR_SAY(gear_close(client));
    return {};
  }), "");
}

}  // namespace
}  // namespace gear::test
