// ctest: labels=unit timeout=60
#include "server/ledger.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gear {
namespace {

using layout::ChannelRecord;
using layout::SessionRecord;

uint64_t instance() { return 0x7e59000000000000u | static_cast<uint64_t>(getpid()); }

class LedgerTest : public testing::Test {
 protected:
  ~LedgerTest() override { remove_segments_of(instance()); }

  std::unique_ptr<Ledger> make(uint32_t memory = GEAR_MEMORY_POSIX) {
    auto made = Ledger::create(instance(), 3, 5, memory);
    EXPECT_TRUE(made.ok()) << made.status().text();
    return made.take();
  }
  // As if its server was killed.
  void kill(std::unique_ptr<Ledger> ledger) {
    NamesKept kept;
    ledger.reset();
  }
  Result<Segment> segment() {
    return Segment::adopt("adopt", layout::SegmentKind::kLedger, instance(), 0);
  }
};

SessionRecord session(uint64_t id) {
  SessionRecord record{};
  record.id = id;
  record.pid = 100 + static_cast<int32_t>(id);
  return record;
}
ChannelRecord channel(uint32_t id) {
  ChannelRecord record{};
  record.id = id;
  record.applied = 1000 + id;
  return record;
}

TEST_F(LedgerTest, OutlivesItsServer) {
  auto ledger = make();
  EXPECT_EQ(ledger->take_session_id(), 1u);
  EXPECT_EQ(ledger->take_table_id(), 1u);
  EXPECT_EQ(ledger->take_channel_id(), 1u);
  ASSERT_NE(ledger->add(session(1)), nullptr);
  ASSERT_NE(ledger->add(channel(1)), nullptr);
  ChannelRecord* second = ledger->add(channel(2));
  ASSERT_NE(second, nullptr);
  second->applied = 7;
  ledger->remove(ledger->channels()[0]);
  kill(std::move(ledger));

  Result<Segment> left = segment();
  ASSERT_TRUE(left.ok()) << left.status().text();
  auto adopted = Ledger::adopt(left.take());
  ASSERT_TRUE(adopted.ok()) << adopted.status().text();
  Ledger& next = *adopted.value();
  EXPECT_EQ(next.take_session_id(), 2u);
  EXPECT_EQ(next.take_table_id(), 2u);
  EXPECT_EQ(next.take_channel_id(), 2u);
  ASSERT_EQ(next.sessions().size(), 1u);
  EXPECT_EQ(next.sessions()[0]->pid, 101);
  ASSERT_EQ(next.channels().size(), 1u);
  EXPECT_EQ(next.channels()[0]->id, 2u);
  EXPECT_EQ(next.channels()[0]->applied, 7u);
}

TEST_F(LedgerTest, HasRoomAgainForWhatWasRemoved) {
  auto ledger = make(GEAR_MEMORY_MEMFD);
  SessionRecord* records[3];
  for (uint64_t id = 1; id <= 3; ++id) records[id - 1] = ledger->add(session(id));
  EXPECT_EQ(ledger->add(session(4)), nullptr);
  ledger->remove(records[1]);
  EXPECT_EQ(ledger->sessions().size(), 2u);
  SessionRecord* again = ledger->add(session(4));
  EXPECT_EQ(again, records[1]);
  EXPECT_EQ(again->pid, 104);
}

TEST_F(LedgerTest, PassesIdsOfTablesThatAreThere) {
  auto ledger = make(GEAR_MEMORY_MEMFD);
  ledger->pass_table_id(9);
  ledger->pass_table_id(4);
  EXPECT_EQ(ledger->take_table_id(), 10u);
}

TEST_F(LedgerTest, IsRefusedWhenItsRecordsDoNotFitAndStaysWhereItIs) {
  auto ledger = make();
  kill(std::move(ledger));
  {
    Result<Segment> left = segment();
    ASSERT_TRUE(left.ok());
    static_cast<layout::LedgerHeader*>(left.value().data())->channels_max = 5'000'000;
    auto adopted = Ledger::adopt(left.take());
    ASSERT_FALSE(adopted.ok());
    EXPECT_EQ(adopted.status().code(), GEAR_ECORRUPT);
    EXPECT_NE(adopted.status().text().find("5000000"), std::string::npos) << adopted.status().text();
  }
  EXPECT_TRUE(segment().ok());
}

TEST_F(LedgerTest, IsPrivateWhereNothingCouldFindIt) {
  auto ledger = make(GEAR_MEMORY_MEMFD);
  EXPECT_EQ(segment().status().code(), GEAR_ENOTFOUND);
}

}  // namespace
}  // namespace gear
