// ctest: labels=unit timeout=60
//
// A server's conductor, tables and channels are left as by a kill, and adopted; the clients' ends are these tests.

#include "server/adoption.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfloat>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>

#include "base/clock.h"
#include "base/shared_word.h"
#include "server/sampler_port.h"
#include "server/writer_port.h"
#include "support/bare_table.h"

namespace gear {
namespace {

using layout::ChannelHeader;
using layout::ChannelRecord;
using layout::SegmentHeader;
using layout::SegmentKind;
using layout::SubmissionOp;
using layout::SubmissionRecord;

uint64_t instance() { return 0x7e5a000000000000u | static_cast<uint64_t>(getpid()); }

MemoryOptions posix() {
  MemoryOptions memory;
  memory.memory = GEAR_MEMORY_POSIX;
  return memory;
}

class AdoptionTest : public testing::Test {
 protected:
  static constexpr uint64_t kTable = 3;

  ~AdoptionTest() override {
    conductor_.reset();
    ledger_.reset();
    remove_segments_of(instance());
  }

  void create(uint32_t item_policy = GEAR_ITEMS_EXPLICIT) {
    auto ledger = Ledger::create(instance(), 4, 8, GEAR_MEMORY_POSIX);
    ASSERT_TRUE(ledger.ok()) << ledger.status().text();
    ledger_ = ledger.take();
    conductor_ = std::make_unique<Conductor>(*ledger_);
    layout::SessionRecord session{};
    session.id = 1;
    session.pid = getpid();
    ASSERT_NE(ledger_->add(session), nullptr);
    layout::TableCreateRequest request = test::bare_request(20, 4);
    request.capacity_steps = 100;
    request.memory = GEAR_MEMORY_POSIX;
    request.item_policy = item_policy;
    request.lease_timeout_ms = 1;
    layout::ColumnSpec column = test::u64_column();
    conductor_->add_table(test::make_bare(request, &column, nullptr, instance(), kTable));
  }

  void keep(std::unique_ptr<Port> port, const layout::SamplerOpenRequest& sampler = {}) {
    ChannelRecord record = port->describe();
    record.lanes = 1;
    record.sampler = sampler;
    port->keep_in(ledger_->add(record));
    conductor_->add_port(std::move(port));
  }
  void open_writer(uint32_t id) {
    auto port = WriterPort::open(conductor_->find_table(kTable), {1, {}, false}, {instance(), id, 1, posix(), 0});
    ASSERT_TRUE(port.ok()) << port.status().text();
    keep(port.take());
    push(id, SubmissionOp::kNeedBlock, 1);
    work();
  }
  void open_sampler(uint32_t id, const char* group = "") {
    layout::SamplerOpenRequest request{};
    request.table_id = kTable;
    request.prefetch = 0;  // a draw ahead would be a later step than the one to die in
    request.batch_rows_max = 4;
    request.batches_max = 4;
    request.index = table().header().sampler_index;
    snprintf(request.group, sizeof request.group, "%s", group);
    auto port = SamplerPort::open(conductor_->find_table(kTable), request, {instance(), id, 1, posix(), 0});
    ASSERT_TRUE(port.ok()) << port.status().text();
    keep(port.take(), request);
  }

  void push(uint32_t id, SubmissionOp op, uint32_t count, uint64_t argument = 0, double value = 0, uint32_t flags = 0) {
    ChannelHeader* header = header_of(id);
    SubmissionRecord record{};
    record.op = static_cast<uint32_t>(op);
    record.count = count;
    record.argument = argument;
    record.value = value;
    record.flags = flags;
    auto* ring = layout::at_offset<SubmissionRecord>(header, header->submission_offset);
    ring[header->submission_tail % header->submission_slots] = record;
    publish(header->submission_tail, header->submission_tail + 1);
  }
  void work() {
    while (conductor_->poll() > 0) {
    }
    ASSERT_EQ(conductor_->next_offender().session, 0u);
  }

  void die() {
    NamesKept kept;
    conductor_.reset();
    ledger_.reset();
  }
  // And works off the rings, as a server does before it serves.
  void adopt() {
    Result<Segment> left = Segment::adopt("adopt", SegmentKind::kLedger, instance(), 0);
    ASSERT_TRUE(left.ok()) << left.status().text();
    auto ledger = Ledger::adopt(left.take());
    ASSERT_TRUE(ledger.ok()) << ledger.status().text();
    ledger_ = ledger.take();
    conductor_ = std::make_unique<Conductor>(*ledger_);
    auto adopted = adopt_remains(instance(), *ledger_, *conductor_);
    ASSERT_TRUE(adopted.ok()) << adopted.status().text();
    adopted_ = adopted.take();
    conductor_->drain();
  }

  Table& table() { return *conductor_->find_table(kTable); }
  ChannelHeader* header_of(uint32_t id) {
    return static_cast<ChannelHeader*>(conductor_->find_port(id)->segment().data());
  }
  ChannelRecord* record_of(uint32_t id) { return conductor_->find_port(id)->kept_in(); }
  // What any client may do: it maps the segment writable.
  void scribble(SegmentKind kind, uint64_t object, const std::function<void(SegmentHeader*)>& edit) {
    SegmentHeader header;
    FILE* file = fopen(path_of(kind, object).c_str(), "r+");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(fread(&header, sizeof header, 1, file), 1u);
    edit(&header);
    rewind(file);
    ASSERT_EQ(fwrite(&header, sizeof header, 1, file), 1u);
    ASSERT_EQ(fclose(file), 0);
  }
  static std::string path_of(SegmentKind kind, uint64_t object) {
    return std::string(kSegmentFolder) + "/" + SegmentName{geteuid(), instance(), kind, object}.text();
  }
  static bool there(SegmentKind kind, uint64_t object) { return access(path_of(kind, object).c_str(), F_OK) == 0; }

  // The server died before it wrote down that the record is applied, and before it told the client.
  void forget_last_record(uint32_t id) {
    --record_of(id)->applied;
    header_of(id)->submission_head = record_of(id)->applied;
  }

  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Conductor> conductor_;
  Adopted adopted_;
};

TEST_F(AdoptionTest, ARecordThatIsDoneIsNotAppliedAgainThoughOthersWorkFirst) {
  create();
  open_writer(1);
  open_writer(2);
  push(2, SubmissionOp::kCommit, 2, 2);
  push(2, SubmissionOp::kItem, 1, 0, 1.0);
  work();
  ASSERT_EQ(table().items(), 1u);
  forget_last_record(2);
  push(1, SubmissionOp::kCommit, 2, 2);
  push(1, SubmissionOp::kItem, 1, 0, 1.0);
  die();
  adopt();
  EXPECT_EQ(table().items(), 2u);
  EXPECT_EQ(table().header().counters.inserts, 2u);
  EXPECT_EQ(header_of(2)->submission_head, header_of(2)->submission_tail);
  EXPECT_EQ(header_of(1)->submission_head, header_of(1)->submission_tail);
  EXPECT_EQ(conductor_->next_offender().session, 0u);
  push(2, SubmissionOp::kItem, 2, 0, 1.0);
  work();
  EXPECT_EQ(table().items(), 3u);
}

TEST_F(AdoptionTest, AnEndThatIsDoneIsNotAppliedAgainThoughADrawComesFirst) {
  create(GEAR_ITEMS_STEP);
  open_sampler(1);
  open_writer(2);
  push(2, SubmissionOp::kCommit, 2, 2);
  push(2, SubmissionOp::kEnd, 0, 3, 0, GEAR_TERMINATED | layout::kEndHasFinal);
  work();
  ASSERT_EQ(table().header().counters.episodes, 1u);
  forget_last_record(2);
  push(1, SubmissionOp::kDemand, 4, 4);
  die();
  adopt();
  EXPECT_EQ(table().header().counters.episodes, 1u);
  EXPECT_EQ(conductor_->next_offender().session, 0u);
  EXPECT_EQ(header_of(2)->submission_head, header_of(2)->submission_tail);
}

TEST_F(AdoptionTest, TellsAClientOfWhatItsServerAppliedAndDidNotTell) {
  create();
  open_writer(1);
  push(1, SubmissionOp::kCommit, 4, 4);  // the whole block: no grant is told of again
  work();
  --header_of(1)->submission_head;
  die();
  adopt();
  EXPECT_EQ(header_of(1)->submission_head, header_of(1)->submission_tail);
}

TEST_F(AdoptionTest, LeasesOfASamplerThatDoesNothingExpire) {
  create(GEAR_ITEMS_STEP);
  open_writer(1);
  open_sampler(2);
  push(1, SubmissionOp::kCommit, 4, 4);
  work();
  push(2, SubmissionOp::kDemand, 4, 4);
  work();
  ASSERT_GT(header_of(2)->completion_tail, 0u);
  push(2, SubmissionOp::kTake, 4, 0);
  work();
  publish(header_of(2)->completion_head, uint64_t{4});
  die();
  adopt();
  EXPECT_EQ(static_cast<SamplerPort*>(conductor_->find_port(2))->rows_leased_most(), 16u);
  ASSERT_NE(conductor_->tick_due(), INT64_MAX);
  usleep(2000);
  conductor_->tick(std::max(conductor_->tick_due(), now_ns()));
  conductor_->tick(std::max(conductor_->tick_due(), now_ns()));
  EXPECT_FALSE(conductor_->find_port(2)->wants_tick());
}

TEST(ProcessToAsk, IsDeadWhenThePidIsNobodysOrAnothers) {
  EXPECT_FALSE(ProcessWatch::to_ask(getpid(), process_start_ticks(getpid())).dead());
  EXPECT_FALSE(ProcessWatch::to_ask(getpid(), 0).dead());
  EXPECT_TRUE(ProcessWatch::to_ask(getpid(), process_start_ticks(getpid()) + 1).dead());
  EXPECT_FALSE(ProcessWatch::to_ask(getpid(), 0).pollable());
  pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(ProcessWatch::to_ask(child, 0).dead());
}

TEST_F(AdoptionTest, BelievesNoHeaderThatClientsCanWrite) {
  const std::function<void(SegmentHeader*)> edits[] = {
      [](SegmentHeader* header) { header->magic = 0; },
      [](SegmentHeader* header) { header->magic = 77; },
      [](SegmentHeader* header) { header->version += 1; },
      [](SegmentHeader* header) { header->fingerprint ^= 1; },
      [](SegmentHeader* header) { memset(header, 0xff, sizeof *header); },
  };
  create(GEAR_ITEMS_STEP);
  open_writer(1);
  push(1, SubmissionOp::kCommit, 2, 2);
  work();
  uint64_t rows = 2;
  for (const auto& edit : edits) {
    SCOPED_TRACE(rows);
    die();
    scribble(SegmentKind::kData, kTable, edit);
    scribble(SegmentKind::kChannel, 1, edit);
    ASSERT_TRUE(check_builds(list_segments(instance())).ok());
    adopt();
    ASSERT_NE(conductor_->find_table(kTable), nullptr);
    ASSERT_NE(conductor_->find_port(1), nullptr);
    EXPECT_EQ(table().items(), rows);
    EXPECT_TRUE(map_segment("read", table().data().read_only_fds()[0], SegmentKind::kData, false).ok());
    if (rows < 4) {
      push(1, SubmissionOp::kCommit, 1, ++rows);
      work();
      EXPECT_EQ(table().items(), rows);
    }
  }
}

TEST_F(AdoptionTest, RefusesADirectoryOfAnotherBuild) {
  create();
  die();
  scribble(SegmentKind::kDirectory, kTable, [](SegmentHeader* header) { header->fingerprint ^= 1; });
  EXPECT_EQ(check_builds(list_segments(instance())).code(), GEAR_EVERSION);
}

TEST_F(AdoptionTest, SetsATableAsideWhoseDataIsOfAnotherSizeOrGone) {
  for (off_t size : {off_t{8192}, off_t{10}, off_t{0}, off_t{1} << 30, off_t{-1}}) {
    SCOPED_TRACE(size);
    create(GEAR_ITEMS_STEP);
    open_writer(1);
    die();
    std::string data = path_of(SegmentKind::kData, kTable);
    ASSERT_EQ(size < 0 ? unlink(data.c_str()) : truncate(data.c_str(), size), 0);
    adopt();
    EXPECT_EQ(conductor_->find_table(kTable), nullptr);
    ASSERT_EQ(adopted_.set_aside.size(), 1u);
    EXPECT_EQ(adopted_.set_aside[0].name, "t");
    EXPECT_TRUE(there(SegmentKind::kDirectory, kTable));
    EXPECT_EQ(there(SegmentKind::kData, kTable), size >= 0);
    adopted_ = {};
    conductor_.reset();
    ledger_.reset();
    remove_segments_of(instance());
  }
}

TEST_F(AdoptionTest, DiscardsAllButTablesThatAreSetAsideAndTheirGroups) {
  create(GEAR_ITEMS_STEP);
  open_writer(1);
  open_sampler(2, "train");
  auto there_are = [] {
    std::map<SegmentKind, size_t> counts;
    for (const SegmentName& name : list_segments(instance())) ++counts[name.kind];
    return counts;
  };
  ASSERT_EQ(there_are()[SegmentKind::kGroup], 1u);
  die();
  ASSERT_EQ(truncate(path_of(SegmentKind::kData, kTable).c_str(), 8192), 0);
  adopt();
  ASSERT_EQ(adopted_.set_aside.size(), 1u);
  die();
  EXPECT_GT(discard_remains(list_segments(instance())), 0u);
  EXPECT_EQ(there_are(), (std::map<SegmentKind, size_t>{
                             {SegmentKind::kDirectory, 1}, {SegmentKind::kData, 1}, {SegmentKind::kGroup, 1}}));
  drop_set_aside(instance(), kTable);
  EXPECT_TRUE(list_segments(instance()).empty());
}

// However it is found out, and not again.
TEST_F(AdoptionTest, AccusesOnceWhoBrokeTheProtocolOfATableThatEnds) {
  create();
  open_writer(1);
  push(1, static_cast<SubmissionOp>(77), 1);
  conductor_->close_table(table());
  ASSERT_TRUE(conductor_->find_port(1)->broken());
  EXPECT_EQ(conductor_->next_offender().session, 0u);
  EXPECT_GT(conductor_->poll(), 0u);
  EXPECT_EQ(conductor_->next_offender().session, 1u);
  EXPECT_EQ(conductor_->poll(), 0u);
  conductor_->drain();
  EXPECT_EQ(conductor_->next_offender().session, 0u);
}

TEST_F(AdoptionTest, ExpelsAClientWhoseChannelIsLost) {
  create();
  open_writer(1);
  die();
  ASSERT_EQ(truncate(path_of(SegmentKind::kChannel, 1).c_str(), 4096), 0);
  adopt();
  EXPECT_EQ(conductor_->next_offender().session, 1u);
  EXPECT_TRUE(conductor_->find_port(1)->broken());
}

}  // namespace
}  // namespace gear
