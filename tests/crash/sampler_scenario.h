// A sampler's channel, both ends of it, as a list of steps that can be taken up again in the middle: by a conductor that adopts
// what another left, and a client that noticed nothing.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/clock.h"
#include "server/sampler_port.h"
#include "shm/segment_names.h"
#include "support/bare_table.h"

namespace gear::test {

enum class Act { kDemand, kTake, kReturn, kRelease, kReject, kRevoke };

// Positions are those of the completion ring; kDemand: `first` is the end.
struct ClientStep {
  Act act;
  uint64_t first = 0;
  uint32_t count = 0;
};

// What the client was given, in memory that outlives a process.
struct Given {
  static constexpr size_t kMost = 256;
  struct One {
    uint64_t key;
    uint32_t again;
  };
  std::atomic<uint32_t> step{0};  // steps done
  std::atomic<bool> ready{false};
  One at[kMost] = {};             // by position; key 0: not taken
};

inline constexpr uint32_t kItems = 12;
inline constexpr uint64_t kChannelId = 5;
inline constexpr uint64_t kTableId = 3;

class SamplerRig {
 public:
  SamplerRig(uint64_t instance, bool in_group, Given* given) : instance_(instance), in_group_(in_group), given_(given) {}

  void create() {
    layout::TableCreateRequest request{};
    snprintf(request.name, sizeof request.name, "t");
    request.capacity_items = 2 * kItems;
    request.column_count = 1;
    request.lanes_max = 2;
    request.numa_node = -1;
    request.sampler = GEAR_SELECT_FIFO;
    request.memory = GEAR_MEMORY_POSIX;
    request.max_times_sampled = in_group_ ? 0 : 1;
    layout::ColumnSpec column = u64_column();
    table_ = make_bare(request, &column, nullptr, instance_, kTableId);
    uint32_t lane = table_->open_lane(1);
    for (uint32_t row = 0; row < kItems; ++row) {
      layout::GrantRecord grant{};
      bool filled = table_->unfilled_blocks(lane) > 0;
      ASSERT_TRUE(filled || table_->grant_block(lane, &grant));
      uint32_t done = 0;
      ASSERT_EQ(table_->commit(lane, 1, &done), Admit::kDone);
    }
    table_->close_lane(lane);
    layout::SamplerOpenRequest sampler{};
    sampler.table_id = kTableId;
    sampler.prefetch = 4;
    sampler.batch_rows_max = 4;
    sampler.batches_max = 4;
    sampler.index = table_->header().sampler_index;
    if (in_group_) snprintf(sampler.group, sizeof sampler.group, "train");
    auto port = SamplerPort::open(table_, sampler, {instance_, kChannelId, 1, posix(), 0});
    ASSERT_TRUE(port.ok()) << port.status().text();
    port_ = port.take();
    *ledger() = port_->describe();
    ledger()->sampler = sampler;
    port_->keep_in(ledger());
    given_->ready.store(true);
  }

  // The segments stay, all else goes.
  void die() {
    NamesKept kept;
    port_.reset();
    table_.reset();
  }

  void adopt() {
    NamesKept kept;
    auto segment = [&](layout::SegmentKind kind, uint64_t object) {
      Result<Segment> adopted = Segment::adopt("test", kind, instance_, object);
      EXPECT_TRUE(adopted.ok()) << adopted.status().text();
      return adopted.ok() ? adopted.take() : Segment();
    };
    auto table = Table::adopt(segment(layout::SegmentKind::kDirectory, kTableId),
                              segment(layout::SegmentKind::kData, kTableId));
    ASSERT_TRUE(table.ok()) << table.status().text();
    table_ = table.take();
    if (in_group_) {
      Status group = table_->adopt_group(segment(layout::SegmentKind::kGroup, layout::kGroupObjects * kTableId));
      ASSERT_TRUE(group.ok()) << group.text();
    }
    auto port = SamplerPort::adopt(table_, segment(layout::SegmentKind::kChannel, kChannelId), ledger());
    ASSERT_TRUE(port.ok()) << port.status().text();
    port_ = port.take();
    table_->finish_adoption();
    ASSERT_FALSE(port_->broken());
    work();
  }

  void remove() {
    port_.reset();
    table_.reset();
    for (const SegmentName& name : list_segments(instance_)) remove_segment(name);
  }

  Table& table() { return *table_; }
  Port& port() { return *port_; }
  ConsumerGroup* group() { return table_->find_group("train").get(); }
  void set_ledger(layout::ChannelRecord* ledger) { ledger_ = ledger; }
  layout::ChannelHeader* header() { return static_cast<layout::ChannelHeader*>(port_->segment().data()); }

  void work() {
    for (int turn = 0; turn < 100 && port_->work() > 0; ++turn) {
    }
  }

  // The steps from where they were left. A step pushes one record, so the ring tells whether it was pushed.
  void go_on(const std::vector<ClientStep>& steps) {
    uint64_t pushed = 0;
    for (uint32_t i = 0; i < steps.size(); ++i) {
      const ClientStep& step = steps[i];
      if (i >= given_->step.load()) {
        if (step.act == Act::kRevoke) {
          port_->tick(INT64_MAX / 2);
        } else {
          if (step.act == Act::kTake) read(step);
          if (header()->submission_tail == pushed) push(step, pushed);
          if (step.act == Act::kTake || step.act == Act::kReturn) {
            publish(header()->completion_head, step.first + step.count);
          }
        }
        work();
        given_->step.store(i + 1);
      }
      if (step.act != Act::kRevoke) ++pushed;
    }
  }

  const layout::DrawRecord& drawn(uint64_t position) {
    const auto* ring = layout::at_offset<layout::CompletionRecord>(header(), header()->completion_offset);
    return ring[position % header()->completion_slots].draw;
  }

 private:
  static MemoryOptions posix() {
    MemoryOptions memory;
    memory.memory = GEAR_MEMORY_POSIX;
    return memory;
  }
  layout::ChannelRecord* ledger() { return ledger_ != nullptr ? ledger_ : &own_ledger_; }

  void read(const ClientStep& step) {
    if (header()->draws_revoked > step.first) return;  // too late: void
    ASSERT_GE(header()->completion_tail, step.first + step.count);
    for (uint64_t at = step.first; at < step.first + step.count; ++at) {
      const layout::DrawRecord& draw = drawn(at);
      given_->at[at] = {draw.key, draw.type == static_cast<uint32_t>(layout::CompletionType::kItemAgain)};
    }
  }

  void push(const ClientStep& step, uint64_t position) {
    static constexpr layout::SubmissionOp kOps[] = {
        layout::SubmissionOp::kDemand, layout::SubmissionOp::kTake,   layout::SubmissionOp::kReturn,
        layout::SubmissionOp::kRelease, layout::SubmissionOp::kReject};
    layout::SubmissionRecord record{};
    record.op = static_cast<uint32_t>(kOps[static_cast<size_t>(step.act)]);
    record.argument = step.first;
    record.count = step.count;
    auto* ring = layout::at_offset<layout::SubmissionRecord>(header(), header()->submission_offset);
    ring[position % header()->submission_slots] = record;
    publish(header()->submission_tail, position + 1);
  }

  uint64_t instance_;
  bool in_group_;
  Given* given_;
  std::shared_ptr<Table> table_;
  std::unique_ptr<Port> port_;
  layout::ChannelRecord own_ledger_{};
  layout::ChannelRecord* ledger_ = nullptr;
};

// Of items that are drawn once: 12 of them, the first four taken and released, two of the next returned and drawn once
// more, four taken, what is left revoked and demanded anew, two of those taken.
inline std::vector<ClientStep> steps_of_single_draws() {
  return {{Act::kDemand, 4, 4},  {Act::kTake, 0, 4},   {Act::kReturn, 4, 2}, {Act::kRelease, 0, 4}, {Act::kTake, 6, 4},
          {Act::kRelease, 6, 4}, {Act::kRevoke},       {Act::kTake, 10, 2},  {Act::kDemand, 18, 4}, {Act::kTake, 14, 2},
          {Act::kRelease, 14, 2}};
}

// The same, but the second four are rejected, so that they come again.
inline std::vector<ClientStep> steps_of_a_group() {
  return {{Act::kDemand, 4, 4}, {Act::kTake, 0, 4},  {Act::kReturn, 4, 2},   {Act::kRelease, 0, 4},
          {Act::kTake, 6, 4},   {Act::kReject, 6, 4}, {Act::kRevoke},        {Act::kDemand, 18, 4},
          {Act::kTake, 14, 4},  {Act::kRelease, 14, 4}, {Act::kTake, 18, 4}, {Act::kRelease, 18, 2}};
}

// Every item was delivered once, but for redeliveries of what was rejected; counts and what is left are right.
inline void check_single_draws(SamplerRig& rig, const Given& given) {
  std::set<uint64_t> keys;
  size_t taken = 0;
  for (const Given::One& one : given.at) {
    if (one.key == 0) continue;
    ++taken;
    EXPECT_TRUE(keys.insert(one.key).second) << one.key << " came twice";
  }
  EXPECT_EQ(taken, 10u);
  const layout::TableCounters& counters = rig.table().header().counters;
  EXPECT_EQ(counters.samples, 10u);
  EXPECT_EQ(counters.deletes, 10u);
  EXPECT_EQ(counters.items, 2u);
  EXPECT_EQ(rig.header()->takes_void, 11u);
  rig.port().give_up();
  EXPECT_EQ(rig.table().drawable(), 2u);
  Rng rng(1);
  Drawn drawn{};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(rig.table().draw(rng, &drawn));
    EXPECT_TRUE(keys.insert(drawn.record.key).second) << drawn.record.key << " was given already";
    rig.table().take(drawn);
    rig.table().unpin(drawn.pin);
  }
  EXPECT_FALSE(rig.table().draws_ready(1));
  rig.table().reset();
  EXPECT_EQ(counters.blocks_free, rig.table().header().block_count);
}

inline void check_group(SamplerRig& rig, const Given& given) {
  std::map<uint64_t, int> first, again;
  std::set<uint64_t> rejected;
  for (size_t at = 0; at < Given::kMost; ++at) {
    if (given.at[at].key == 0) continue;
    ++(given.at[at].again != 0 ? again : first)[given.at[at].key];
    if (at >= 6 && at < 10) rejected.insert(given.at[at].key);
  }
  EXPECT_EQ(first.size(), size_t{kItems});
  for (auto [key, times] : first) EXPECT_EQ(times, 1) << key;
  EXPECT_EQ(again.size(), rejected.size());
  for (auto [key, times] : again) {
    EXPECT_EQ(times, 1) << key;
    EXPECT_EQ(rejected.count(key), 1u) << key << " was never rejected";
  }
  ConsumerGroup* group = rig.group();
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->counts.delivered, 16u);
  EXPECT_EQ(group->counts.redelivered, 4u);
  EXPECT_EQ(group->counts.acknowledged, 10u);
  EXPECT_EQ(group->counts.in_flight, 2u);
  EXPECT_EQ(group->counts.missed, 0u);
  EXPECT_EQ(group->lag(), 0u);
  EXPECT_EQ(rig.table().header().counters.samples, uint64_t{kItems});
  rig.port().give_up();
  EXPECT_EQ(group->available(), 2u);
  EXPECT_EQ(group->redeliveries(), 2u);
  EXPECT_EQ(group->counts.in_flight, 0u);
  rig.table().reset();
  EXPECT_EQ(rig.table().header().counters.blocks_free, uint64_t{rig.table().header().block_count});
}

}  // namespace gear::test
