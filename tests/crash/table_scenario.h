// What a conductor does to a table, as a list of operations that can be taken up again in the middle; and a picture of the
// table that does not depend on which slots and blocks things came to lie in.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/crash_point.h"
#include "support/bare_table.h"
#include "table/fsck.h"
#include "table/table.h"

namespace gear::test {

using layout::BlockRecord;
using layout::EpisodeRecord;
using layout::ItemRecord;
using layout::kNone;
using layout::LaneRecord;

enum class Do { kOpen, kNeed, kServe, kNeedEpisode, kCommit, kEnd, kCells, kItem, kPriority, kVersion, kUpdate, kDelete,
                kReset, kRetune, kCloseLane, kTakeOver, kRelease, kName, kClose };

// lane counts the lanes of the channel. Records of a writer have a position: their place in the list.
struct Operation {
  Do what;
  uint32_t channel = 1;
  uint32_t lane = 0;
  uint32_t count = 0;
  uint64_t rows_after = 0;
  double value = 0;
  uint32_t flags = 0;
};

// Least and largest difference that the rate limiter gets in turn: ranges without a number in common, so that who stored one
// bound of the second with one of the first would leave none at all.
inline constexpr double kBounds[2][2] = {{0, 1e6}, {2e6, 3e6}};

// Unique over the whole test: the content of row `row` of a lane.
inline uint64_t content_of(uint32_t channel, uint32_t lane, uint64_t row) {
  return uint64_t{channel} << 48 | uint64_t{lane} << 40 | (row + 1);
}

struct SeenItem {
  uint32_t length = 0, flags = 0, times_sampled = 0;
  double priority = 0;
  double probability = 0;  // of the sampler
  uint64_t version = 0;
  bool cells = false;
  auto operator<=>(const SeenItem&) const = default;
};

struct Picture {
  std::map<uint64_t, SeenItem> items;  // by the content of their first row
  std::map<std::string, uint64_t> numbers;
  std::string torn;
};

// The server's side of the lanes, with the table.
class Driver {
 public:
  explicit Driver(std::unique_ptr<Table> table) : table_(std::move(table)) {}

  Table& table() { return *table_; }
  std::unique_ptr<Table> take() { return std::move(table_); }

  // As a server that finds its ports again does; unless nobody claims anything.
  void claim(bool alive) {
    if (!alive) return;
    for (uint32_t lane = 0; lane < table_->header().lanes_max; ++lane) {
      const LaneRecord& record = table_->lane_record(lane);
      if (record.state == 0 || (record.state & layout::kLaneLeaving) != 0) continue;
      table_->own_lane(lane, &owner_);
    }
    for (uint32_t channel = 1; channel < rest_.size(); ++channel) rest_[channel] = table_->rest_of(channel);
  }

  uint32_t lane_of(uint32_t channel, uint32_t index) {
    for (uint32_t lane = 0; lane < table_->header().lanes_max; ++lane) {
      const LaneRecord& record = table_->lane_record(lane);
      if (record.state != 0 && record.channel == channel && record.owner_index == index) return lane;
    }
    return kNone;
  }

  void apply(const Operation& op, uint64_t position);

 private:
  void serve(uint32_t lane);
  void write_rows(uint32_t lane, const Operation& op);

  std::unique_ptr<Table> table_;
  Owner owner_;
  std::array<LaneRest, 4> rest_;
};

inline const BlockRecord* blocks_of(const Table& table) {
  return layout::at_offset<BlockRecord>(table.directory().data(), table.header().blocks_offset);
}
inline const ItemRecord* items_of(const Table& table) {
  return layout::at_offset<ItemRecord>(table.directory().data(), table.header().items_offset);
}
inline const EpisodeRecord* episodes_of(const Table& table) {
  return layout::at_offset<EpisodeRecord>(table.directory().data(), table.header().episodes_offset);
}
inline uint64_t* cell_of(const Table& table, uint32_t block, uint64_t row) {
  const layout::TableHeader& header = table.header();
  const auto* column = layout::at_offset<layout::ColumnRecord>(table.directory().data(), header.columns_offset);
  uint32_t part = header.parts != 0 ? block / header.block_budget : 0;
  uint64_t in_part = block - part * header.block_budget;
  return layout::at_offset<uint64_t>(table.data().segment(part).data(),
                                     header.data_blocks_offset + in_part * header.block_bytes + column->offset + row * 8);
}

// The client's stores: not those of the conductor, so that no crash point is among them.
inline void Driver::write_rows(uint32_t lane, const Operation& op) {
  uint32_t steps = table_->header().block_steps;
  for (const layout::GrantRecord& grant : table_->grants_out(lane)) {
    for (uint64_t row = op.rows_after - op.count; row < op.rows_after; ++row) {
      if (row < grant.start_row || row >= grant.start_row + steps) continue;
      *cell_of(*table_, grant.block, row - grant.start_row) = content_of(op.channel, op.lane, row);
    }
  }
}

inline void Driver::serve(uint32_t lane) {
  while (table_->blocks_wanted(lane) > 0) {
    layout::GrantRecord grant{};
    if (!table_->grant_block(lane, &grant)) return;
  }
  while (table_->episodes_wanted(lane) > 0) {
    uint32_t slot = 0;
    if (!table_->grant_episode(lane, &slot)) return;
  }
}

inline uint64_t name_of(const Table& table, const ItemRecord& item) {
  return *cell_of(table, item.block, item.position) * 64 + item.length;
}

// By name: content of the first row and length. kNone: no such item is there.
inline uint32_t find_item(const Table& table, uint64_t name) {
  for (uint32_t slot = 0; slot < table.header().item_slots; ++slot) {
    const ItemRecord& item = items_of(table)[slot];
    if (item.generation % 2 == 1 && name_of(table, item) == name) return slot;
  }
  return kNone;
}

inline std::vector<uint64_t> names_of(const Table& table) {
  std::vector<uint64_t> names;
  for (uint32_t slot = 0; slot < table.header().item_slots; ++slot) {
    const ItemRecord& item = items_of(table)[slot];
    if (item.generation % 2 == 1) names.push_back(name_of(table, item));
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline void Driver::apply(const Operation& op, uint64_t position) {
  uint32_t lane = lane_of(op.channel, op.lane);
  table_->begin_record(op.channel, position);
  Admit admit = Admit::kDone;
  switch (op.what) {
    case Do::kOpen:
      if (table_->part_of(op.channel) == kNone) {
        ASSERT_TRUE(table_->take_part(op.channel, 1000 + op.channel).ok());
      }
      if (lane == kNone) {
        lane = table_->open_lane(op.channel, op.lane);
        ASSERT_NE(lane, kNone);
      }
      table_->own_lane(lane, &owner_);
      break;
    case Do::kNeed:
      if (!table_->wants_noted(lane)) {
        table_->note_wants(lane, table_->blocks_wanted(lane) + op.count, table_->episodes_wanted(lane));
      }
      break;
    case Do::kNeedEpisode:
      if (!table_->wants_noted(lane)) {
        table_->note_wants(lane, table_->blocks_wanted(lane), table_->episodes_wanted(lane) + 1);
      }
      break;
    case Do::kServe: serve(lane); break;
    case Do::kCommit: {
      write_rows(lane, op);
      uint64_t rows = table_->lane_rows(lane);
      ASSERT_LE(rows, op.rows_after);
      ASSERT_LE(op.rows_after - rows, op.count);
      uint32_t done = 0;
      admit = table_->commit(lane, static_cast<uint32_t>(op.rows_after - rows), &done);
      break;
    }
    case Do::kEnd:
      if ((op.flags & layout::kEndHasFinal) != 0) {
        Operation final = op;
        final.count = 1;
        write_rows(lane, final);
      }
      admit = table_->end_episode(lane, op.flags, op.rows_after);
      break;
    case Do::kCells: admit = table_->give_episode_cells(lane); break;
    case Do::kItem:
      admit = table_->make_item(lane, op.count, op.value);
      if (admit == Admit::kRejected) admit = Admit::kDone;
      break;
    case Do::kPriority: admit = table_->set_priority(lane, op.flags != 0, op.value); break;
    case Do::kVersion: admit = table_->set_version(lane, op.rows_after); break;
    case Do::kUpdate:
    case Do::kDelete: {
      uint32_t slot = find_item(*table_, op.rows_after);
      if (slot == kNone) break;  // deleted already, by the one that died
      uint64_t key = layout::make_key(items_of(*table_)[slot].generation, slot, table_->header().slot_bits);
      if (op.what == Do::kDelete) {
        table_->delete_item(key);
        break;
      }
      table_->begin_updates();
      table_->update_priority(key, op.value);
      table_->end_updates();
      break;
    }
    case Do::kReset:
      if (table_->header().counters.epoch == op.count) table_->reset();  // else the adopter finished it
      break;
    case Do::kRetune: {
      const double* bounds = kBounds[op.count % 2];
      table_->retune({op.value, 1, bounds[0], bounds[1]});
      break;
    }
    case Do::kCloseLane:
      // Its writer closed: what the one that died did not come to let go goes with it.
      if (lane != kNone) table_->close_lane(lane);
      table_->release(rest_[op.channel]);
      rest_[op.channel] = {};
      table_->leave_part(op.channel);
      break;
    case Do::kTakeOver: {
      if (lane == kNone) break;
      LaneRest rest = table_->take_over_lane(lane);
      LaneRest& all = rest_[op.channel];
      all.blocks.insert(all.blocks.end(), rest.blocks.begin(), rest.blocks.end());
      all.episodes.insert(all.episodes.end(), rest.episodes.begin(), rest.episodes.end());
      break;
    }
    case Do::kRelease:
      table_->release(rest_[op.channel]);
      rest_[op.channel] = {};
      break;
    case Do::kName:
      if (table_->lane_named(op.count) != kNone && table_->lane_named(op.count) != lane) {
        table_->release_name(table_->lane_named(op.count));
      }
      if (table_->lane_named(op.count) == kNone) table_->name_lane(lane, op.count);
      break;
    case Do::kClose: table_->set_state(layout::TableState::kClosed); break;
  }
  ASSERT_EQ(admit, Admit::kDone) << "operation " << position;
}

inline Picture picture_of(Table& table) {
  Picture picture;
  const layout::TableHeader& header = table.header();
  const layout::TableCounters& c = header.counters;
  picture.numbers = {{"items", c.items}, {"inserts", c.inserts}, {"deletes", c.deletes}, {"steps", c.steps},
                     {"episodes", c.episodes}, {"evictions", c.evictions}, {"blocks_free", c.blocks_free},
                     {"lanes_open", c.lanes_open}, {"epoch", c.epoch}, {"bytes", c.bytes}, {"rejected", c.items_rejected},
                     {"priority_max", uint64_t(c.priority_max * 1024)}};
  picture.numbers["state"] = header.state;
  auto bound = [](double diff) { return std::fabs(diff) < 1e9 ? static_cast<uint64_t>(diff) : ~uint64_t{0}; };
  picture.numbers["least difference"] = bound(header.limiter.min_diff);
  picture.numbers["largest difference"] = bound(header.limiter.max_diff);
  for (uint32_t lane = 0; lane < header.lanes_max; ++lane) {
    const LaneRecord& record = table.lane_record(lane);
    if (record.state == 0) continue;
    std::string name = "lane " + std::to_string(record.channel) + "." + std::to_string(record.owner_index) + " ";
    picture.numbers[name + "rows"] = table.lane_rows(lane);
    picture.numbers[name + "episode"] = record.episode_row;
    picture.numbers[name + "unfilled"] = table.unfilled_blocks(lane);
    picture.numbers[name + "wanted"] = table.blocks_wanted(lane) + 100 * table.episodes_wanted(lane);
    picture.numbers[name + "slots"] = table.episodes_out(lane).size();
    picture.numbers[name + "name"] = (record.state & layout::kLaneNamed) != 0 ? record.name : 0;
  }
  uint64_t marks_sum = 0;
  const auto* marks = layout::at_offset<uint32_t>(table.directory().data(), header.marks_offset);
  const auto* versions = layout::at_offset<uint64_t>(table.directory().data(), header.versions_offset);
  for (uint32_t block = 0; block < header.block_count; ++block) {
    if (blocks_of(table)[block].generation % 2 == 0) continue;
    for (uint32_t row = 0; row < blocks_of(table)[block].rows; ++row) {
      marks_sum += marks[block * header.block_steps + row] * uint64_t{*cell_of(table, block, row) % 10007};
    }
  }
  picture.numbers["marks"] = marks_sum;
  for (uint32_t slot = 0; slot < header.item_slots; ++slot) {
    const ItemRecord& item = items_of(table)[slot];
    if (item.generation % 2 == 0) continue;
    uint64_t first = *cell_of(table, item.block, item.position);
    uint32_t block = item.block;
    uint32_t position = item.position;
    for (uint32_t i = 0; i < item.length; ++i, ++position) {
      if (position == header.block_steps) {
        block = blocks_of(table)[block].next;
        position = 0;
      }
      uint64_t content = *cell_of(table, block, position);
      if (content != first + i) picture.torn += "row " + std::to_string(i) + " of the item at " + std::to_string(first);
    }
    if (picture.items.count(first * 64 + item.length) > 0) picture.torn += "twice: " + std::to_string(first);
    Drawn drawn{};
    drawn.slot = slot;
    bool cells = item.episode != kNone && episodes_of(table)[item.episode].given != 0;
    double probability = table.probability(header.sampler_index, drawn);
    picture.items[first * 64 + item.length] = {item.length, item.flags, item.times_sampled, item.priority,
                                               std::round(probability * 1e9) / 1e9,
                                               header.versions_offset != 0 ? versions[slot] : 0, cells};
  }
  return picture;
}

}  // namespace gear::test
