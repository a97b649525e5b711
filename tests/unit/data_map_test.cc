// ctest: labels=unit timeout=60
//
// Parts of a table's data, mapped at their places in one range of addresses.

#include "shm/data_map.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "support/child.h"

namespace gear::test {
namespace {

constexpr uint32_t kParts = 3;

class PartsMapped : public testing::Test {
 protected:
  PartsMapped() : page_(static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) {
    header_.parts = kParts;
    header_.block_budget = 2;
    header_.block_count = kParts * header_.block_budget;
    header_.block_bytes = 2 * page_;
    header_.episode_cell_bytes = page_ / 2;
    header_.episode_slots = kParts * 4;
    header_.data_blocks_offset = page_;
    header_.data_episodes_offset = page_ + header_.block_count * header_.block_bytes + page_;
    header_.data_bytes = header_.data_episodes_offset + header_.episode_slots * header_.episode_cell_bytes;
    for (uint32_t part = 0; part < kParts; ++part) {
      fds_[part].reset(memfd_create("part", MFD_CLOEXEC));
      EXPECT_EQ(ftruncate(fds_[part].get(), static_cast<off_t>(layout::part_bytes(header_))), 0);
    }
  }
  char* block(const Mapping& map, uint32_t block) const {
    return static_cast<char*>(map.data()) + header_.data_blocks_offset + block * header_.block_bytes;
  }
  char* cells(const Mapping& map, uint32_t slot) const {
    return static_cast<char*>(map.data()) + header_.data_episodes_offset + slot * header_.episode_cell_bytes;
  }
  Result<Mapping> all() { return map_parts("open", header_, fds_); }
  Result<Mapping> one(uint32_t part) { return map_part("write", header_, part, fds_[part].get()); }

  uint64_t page_;
  layout::TableHeader header_{};
  Descriptor fds_[kParts];
};

TEST_F(PartsMapped, ShowReadersWhatEachWriterStoresAtItsPlace) {
  auto readers = all();
  ASSERT_TRUE(readers.ok()) << readers.status().text();
  EXPECT_EQ(readers.value().size(), header_.data_bytes);
  for (uint32_t part = 0; part < kParts; ++part) {
    auto writers = one(part);
    ASSERT_TRUE(writers.ok()) << writers.status().text();
    for (uint32_t i = 0; i < 2; ++i) *block(writers.value(), part * 2 + i) = static_cast<char>(10 * part + i + 1);
    for (uint32_t i = 0; i < 4; ++i) *cells(writers.value(), part * 4 + i) = static_cast<char>(100 + 4 * part + i);
  }
  for (uint32_t i = 0; i < 2 * kParts; ++i) EXPECT_EQ(*block(readers.value(), i), static_cast<char>(10 * (i / 2) + i % 2 + 1));
  for (uint32_t i = 0; i < 4 * kParts; ++i) EXPECT_EQ(*cells(readers.value(), i), static_cast<char>(100 + i));
}

TEST_F(PartsMapped, LetAWriterTouchNothingElse) {
  const std::string fault = "killed by signal 11";
  // Made by the child itself, for it inherits none.
  auto stores = [&](const std::function<char*(const Mapping&)>& place) {
    return in_child([&]() -> std::string {
      auto map = one(1);
      if (!map.ok()) return map.status().text();
      *const_cast<volatile char*>(place(map.value())) = 1;
      return "stored";
    });
  };
  EXPECT_EQ(stores([&](const Mapping& map) { return block(map, 2); }), "stored");
  EXPECT_EQ(stores([&](const Mapping& map) { return block(map, 4) - 1; }), "stored");
  EXPECT_EQ(stores([&](const Mapping& map) { return block(map, 4); }), fault);
  EXPECT_EQ(stores([&](const Mapping& map) { return block(map, 2) - 1; }), fault);
  EXPECT_EQ(stores([&](const Mapping& map) { return cells(map, 4); }), "stored");
  EXPECT_EQ(stores([&](const Mapping& map) { return cells(map, 4) - 1; }), fault);
  EXPECT_EQ(stores([&](const Mapping& map) { return cells(map, 8); }), fault);
  EXPECT_EQ(stores([&](const Mapping& map) { return static_cast<char*>(map.data()); }), fault);
}

TEST_F(PartsMapped, AreReadOnlyToReaders) {
  EXPECT_EQ(in_child([&]() -> std::string {
    auto map = all();
    *const_cast<volatile char*>(block(map.value(), 0)) = 1;
    return "stored";
  }), "killed by signal 11");
}

TEST_F(PartsMapped, AreNotInheritedByAForkedChild) {
  auto map = all();
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(*block(map.value(), 1), 0);
  EXPECT_EQ(in_child([&] { return std::string(1, static_cast<char>('a' + *block(map.value(), 1))); }), "killed by signal 11");
  EXPECT_EQ(in_child([&] {
    { Mapping gone = map.take(); }  // unmaps nothing of what may lie there now
    return std::string("ended");
  }), "ended");
}

// A writer of a file in /dev/shm can do that to its own: nobody else's rows suffer.
TEST_F(PartsMapped, AreOpenToReadersThoughAWriterCutItsOwnShort) {
  ASSERT_EQ(ftruncate(fds_[2].get(), static_cast<off_t>(page_)), 0);
  auto map = all();
  ASSERT_TRUE(map.ok()) << map.status().text();
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(*block(map.value(), i), 0);
  EXPECT_EQ(in_child([&]() -> std::string {
    signal(SIGBUS, SIG_DFL);  // as SIGSEGV: a sanitizer would tell of it, and exit
    auto own = all();
    return std::string(1, static_cast<char>('a' + *const_cast<volatile char*>(block(own.value(), 4))));
  }), "killed by signal 7");
}

TEST_F(PartsMapped, AreRefusedWhenTheyAreNotWhatTheHeaderSays) {
  auto refused = [](const Status& status, const char* said) {
    EXPECT_EQ(status.code(), GEAR_EPROTOCOL) << status.text();
    EXPECT_NE(status.text().find(said), std::string::npos) << status.text();
  };
  ASSERT_EQ(ftruncate(fds_[2].get(), static_cast<off_t>(layout::part_bytes(header_) - page_)), 0);
  refused(one(2).status(), "part 2");
  EXPECT_TRUE(one(1).ok());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  refused(map_part("write", header_, 0, ends[0]).status(), "no memory");
  refused(map_part("write", header_, kParts, fds_[0].get()).status(), "part 3 of 3");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace gear::test
