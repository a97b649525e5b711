#include "table/fsck.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>

#include "base/shared_word.h"
#include "base/status.h"
#include "gather/check_directory.h"
#include "layout/directory.h"
#include "layout/index.h"
#include "limit/rate_limiter.h"
#include "select/recency.h"
#include "select/selector.h"
#include "select/sum_tree.h"
#include "table/selector_plan.h"

namespace gear {
namespace {

using layout::BlockRecord;
using layout::EpisodeRecord;
using layout::IndexRecord;
using layout::ItemRecord;
using layout::kNone;
using layout::LaneRecord;
using layout::PartRecord;
using layout::TableHeader;

constexpr size_t kFindingsMax = 20;
constexpr uint32_t kReachMost = 1u << 20;         // as plan_geometry allows
constexpr uint64_t kRowsMost = uint64_t{1} << 62;  // no lane gets there
constexpr int kReadTries = 100;

using Value = unsigned long long;

class Checker {
 public:
  Checker(const void* directory, uint64_t directory_bytes, uint64_t data_bytes, CheckForm form)
      : base_(directory),
        header_(static_cast<const TableHeader*>(directory)),
        directory_bytes_(directory_bytes),
        data_bytes_(data_bytes),
        form_(form) {}

  Findings run() {
    if (!header_is_sound()) return findings_;
    lanes_ = layout::at_offset<LaneRecord>(base_, header_->lanes_offset);
    blocks_ = layout::at_offset<BlockRecord>(base_, header_->blocks_offset);
    items_ = layout::at_offset<ItemRecord>(base_, header_->items_offset);
    episodes_ = layout::at_offset<EpisodeRecord>(base_, header_->episodes_offset);
    parts_ = layout::at_offset<PartRecord>(base_, header_->parts_offset);
    check_limiter_record();
    check_lanes();
    check_blocks();
    check_episodes();
    check_items();
    check_indexes();
    check_intent();
    check_parts();
    return findings_;
  }

 private:
  // True when it holds.
  __attribute__((format(printf, 3, 4))) bool rule(bool holds, const char* pattern, ...) {
    if (holds) return true;
    if (findings_.texts.size() >= kFindingsMax) {
      ++findings_.left_out;
      return false;
    }
    char text[512];
    va_list values;
    va_start(values, pattern);
    vsnprintf(text, sizeof text, pattern, values);
    va_end(values);
    findings_.texts.push_back(text);
    return false;
  }
  bool strict() const { return form_ == CheckForm::kAdoption; }

  bool header_is_sound();
  bool numbers_are_sound();
  bool array_is_sound(const char* what, uint64_t offset, uint64_t count, uint64_t size, uint64_t align);
  bool policy_is_sound();
  bool arrays_are_apart();
  bool roles_are_sound();
  bool index_is_sound(uint32_t index);
  bool selector_is_sound(uint32_t index);
  bool tree_is_sound(uint32_t index, uint64_t offset);
  bool clients_take_it();
  void check_limiter_record();
  void check_lanes();
  void check_blocks();
  void check_block(uint32_t block, const BlockRecord& record);
  void check_episodes();
  void check_items();
  bool read_item(uint32_t slot, ItemRecord* item) const;
  bool check_item(uint32_t slot, const ItemRecord& item);
  void check_range(uint32_t slot, const ItemRecord& item);
  void check_counters(uint64_t live);
  void check_indexes();
  void check_intent();
  void check_parts();
  bool has_part(uint32_t channel, uint32_t part) const;

  const void* base_;
  const TableHeader* header_;
  uint64_t directory_bytes_;
  uint64_t data_bytes_;
  CheckForm form_;
  const LaneRecord* lanes_ = nullptr;
  const BlockRecord* blocks_ = nullptr;
  const ItemRecord* items_ = nullptr;
  const EpisodeRecord* episodes_ = nullptr;
  const PartRecord* parts_ = nullptr;
  Findings findings_;
};

bool Checker::array_is_sound(const char* what, uint64_t offset, uint64_t count, uint64_t size, uint64_t align) {
  bool fits = offset >= sizeof(TableHeader) && offset <= directory_bytes_ && offset % align == 0 &&
              count <= (directory_bytes_ - offset) / size;
  return rule(fits, "%s: %llu of %llu bytes at offset %llu of a directory of %llu bytes", what, Value{count}, Value{size},
              Value{offset}, Value{directory_bytes_});
}

bool Checker::numbers_are_sound() {
  const TableHeader& h = *header_;
  bool good = rule(h.lanes_max >= 1, "%u lanes", h.lanes_max);
  good &= rule(h.capacity_items >= 1 && h.item_slots == h.capacity_items + 1, "%u item slots for a capacity of %llu", h.item_slots,
               Value{h.capacity_items});
  return policy_is_sound() && good;
}

bool Checker::policy_is_sound() {
  const TableHeader& h = *header_;
  bool good = rule(h.item_steps_max >= 1 && h.item_policy <= 3, "item policy %u, at most %u steps", h.item_policy,
                   h.item_steps_max);
  good &= rule(h.item_policy != GEAR_ITEMS_SEQUENCE ||
                   (h.item_length >= 1 && h.item_length <= h.item_steps_max && h.item_period >= 1),
               "items of %u steps every %u, at most %u", h.item_length, h.item_period, h.item_steps_max);
  good &= rule(h.item_policy != GEAR_ITEMS_EPISODE || layout::episode_limit(h) <= h.item_steps_max,
               "episodes of up to %llu steps, items of at most %u", Value{layout::episode_limit(h)}, h.item_steps_max);
  good &= rule(h.window_before_max <= kReachMost && h.window_after_max <= kReachMost && h.block_steps <= kReachMost,
               "windows reach %u steps back and %u ahead, blocks of %u", h.window_before_max, h.window_after_max, h.block_steps);
  return rule((h.prompts_offset != 0) == (h.prompt_groups_max != 0), "%u prompt groups, their records at %llu",
              h.prompt_groups_max, Value{h.prompts_offset}) && good;
}

bool Checker::header_is_sound() {
  if (!rule(directory_bytes_ >= sizeof(TableHeader), "a directory of %llu bytes, its header has %zu",
            Value{directory_bytes_}, sizeof(TableHeader))) {
    return false;
  }
  const TableHeader& h = *header_;
  bool good = rule(h.directory_bytes == directory_bytes_ && h.data_bytes == data_bytes_,
                   "segments of %llu and %llu bytes, the header says %llu and %llu", Value{directory_bytes_},
                   Value{data_bytes_}, Value{h.directory_bytes}, Value{h.data_bytes});
  if (!good || !numbers_are_sound() || !clients_take_it()) return false;
  if (h.prompts_offset != 0) {
    good &= array_is_sound("prompt records", h.prompts_offset, h.item_slots, sizeof(layout::PromptRecord), 8);
  }
  for (uint32_t i = 0; i < h.index_count; ++i) good &= index_is_sound(i);
  return good && arrays_are_apart() && roles_are_sound();
}

// What every client checks before it uses the table: one that they all refuse is of no use, and what is checked below relies on it.
bool Checker::clients_take_it() {
  Status status = check_directory(base_, directory_bytes_, data_bytes_);
  return rule(status.ok(), "%s", status.text().c_str());
}

// No word belongs to two arrays; indexes that are alike share one.
bool Checker::arrays_are_apart() {
  const TableHeader& h = *header_;
  struct Range {
    uint64_t begin;
    uint64_t bytes;
  };
  std::vector<Range> ranges = {{0, sizeof(TableHeader)},
                               {h.columns_offset, h.column_count * sizeof(layout::ColumnRecord)},
                               {h.lanes_offset, h.lanes_max * sizeof(LaneRecord)},
                               {h.blocks_offset, h.block_count * sizeof(BlockRecord)},
                               {h.marks_offset, uint64_t{h.block_count} * h.block_steps * sizeof(uint32_t)},
                               {h.items_offset, h.item_slots * sizeof(ItemRecord)},
                               {h.episodes_offset, h.episode_slots * sizeof(EpisodeRecord)},
                               {h.parts_offset, h.parts * sizeof(PartRecord)}};
  if (h.versions_offset != 0) ranges.push_back({h.versions_offset, h.item_slots * sizeof(uint64_t)});
  if (h.prompts_offset != 0) ranges.push_back({h.prompts_offset, h.item_slots * sizeof(layout::PromptRecord)});
  for (uint32_t i = 0; i < h.index_count; ++i) {
    bool shared = false;
    for (uint32_t before = 0; before < i; ++before) {
      shared |= h.indexes[before].offset == h.indexes[i].offset && same_index(h, before, i);
    }
    if (!shared) ranges.push_back({h.indexes[i].offset, selector_index_bytes(h.indexes[i].selector, h.item_slots)});
  }
  std::erase_if(ranges, [](const Range& range) { return range.bytes == 0; });
  std::sort(ranges.begin(), ranges.end(), [](const Range& one, const Range& other) { return one.begin < other.begin; });
  bool good = true;
  for (size_t i = 1; i < ranges.size(); ++i) {
    const Range& before = ranges[i - 1];
    good &= rule(before.bytes <= ranges[i].begin - before.begin, "arrays overlap: %llu bytes at %llu, and the next at %llu",
                 Value{before.bytes}, Value{before.begin}, Value{ranges[i].begin});
  }
  return good;
}

// What each index is used for asks for its kind.
bool Checker::roles_are_sound() {
  const TableHeader& h = *header_;
  auto is = [&](uint32_t index, uint32_t selector) { return index == kNone || h.indexes[index].selector == selector; };
  bool good = rule(selector_removes(h.indexes[h.remover_index].selector), "remover of kind %u",
                   h.indexes[h.remover_index].selector);
  good &= rule(is(h.largest_index, GEAR_SELECT_MAX_HEAP) && is(h.smallest_index, GEAR_SELECT_MIN_HEAP),
               "indexes %u and %u are not the heaps of the largest and the smallest", h.largest_index, h.smallest_index);
  double sum = 0;
  for (uint32_t i = h.named_index; i < h.named_index + h.named_count; ++i) {
    const IndexRecord& named = h.indexes[i];
    good &= rule(named.selector != GEAR_SELECT_MIXTURE && priority_valid(named.proportion),
                 "named selector %u of kind %u, proportion %g", i, named.selector, named.proportion);
    sum += named.proportion;
  }
  bool mixed = h.indexes[h.sampler_index].selector == GEAR_SELECT_MIXTURE;
  return rule(!mixed || (std::isfinite(sum) && sum > 0), "a mixture of proportions that sum to %g", sum) && good;
}

// Every index begins with the capacity, as recency's own head does.
bool Checker::index_is_sound(uint32_t i) {
  const IndexRecord& record = header_->indexes[i];
  if (!rule(selector_known(record.selector), "index %u: selector %u", i, record.selector)) return false;
  uint64_t bytes = selector_index_bytes(record.selector, header_->item_slots);
  if (bytes == 0) return true;  // a mixture
  if (!rule(record.bytes >= bytes, "index %u: %llu bytes, selector %u needs %llu", i, Value{record.bytes}, record.selector,
            Value{bytes})) {
    return false;
  }
  uint64_t capacity = *layout::at_offset<uint64_t>(base_, record.offset);
  if (!rule(capacity == header_->item_slots, "index %u: capacity %llu, %u item slots", i, Value{capacity},
            header_->item_slots)) {
    return false;
  }
  return selector_is_sound(i);
}

// What a selector is made with, and of its memory what never changes.
bool Checker::selector_is_sound(uint32_t i) {
  const IndexRecord& record = header_->indexes[i];
  if (!rule(priority_valid(record.alpha) && priority_valid(record.epsilon), "index %u: alpha %g, epsilon %g", i, record.alpha,
            record.epsilon)) {
    return false;
  }
  if (record.selector == GEAR_SELECT_TOP_K) {
    uint64_t places = layout::at_offset<layout::HeapIndex>(base_, record.offset)->top_places;
    return rule(record.top_k >= 1 && places == std::min<uint64_t>(record.top_k, header_->item_slots),
                "index %u: %llu places for the %u largest", i, Value{places}, record.top_k);
  }
  if (record.selector == GEAR_SELECT_PRIORITIZED) return tree_is_sound(i, record.offset);
  if (record.selector != GEAR_SELECT_RECENCY) return true;
  const auto* recency = layout::at_offset<layout::RecencyIndex>(base_, record.offset);
  uint64_t numbers = recency_index_bytes(header_->item_slots) - header_->item_slots * sizeof(uint64_t);
  return rule(std::isfinite(record.half_life) && record.half_life > 0 && recency->number_offset == numbers,
              "index %u: half life %g, numbers at %llu", i, record.half_life, Value{recency->number_offset}) &&
         tree_is_sound(i, record.offset + sizeof(layout::RecencyIndex));
}

bool Checker::tree_is_sound(uint32_t i, uint64_t offset) {
  const auto* tree = layout::at_offset<layout::SumTreeIndex>(base_, offset);
  SumTreeShape shape = sum_tree_shape(header_->item_slots);
  bool same = tree->capacity == header_->item_slots && tree->level_count == shape.level_count &&
              std::equal(shape.offset, shape.offset + shape.level_count, tree->level_offset);
  return rule(same, "index %u: a tree of %u levels for %llu of %u slots, or levels that are elsewhere", i, tree->level_count,
              Value{tree->capacity}, header_->item_slots);
}

void Checker::check_limiter_record() {
  if (!strict()) return;
  const layout::LimiterRecord& r = header_->limiter;
  Status status = check_limiter({r.samples_per_insert, r.min_size, r.min_diff, r.max_diff});
  rule(status.ok(), "%s", status.text().c_str());
}

void Checker::check_lanes() {
  std::map<uint64_t, uint32_t> by_name;
  for (uint32_t index = 0; index < header_->lanes_max; ++index) {
    const LaneRecord& lane = lanes_[index];
    uint32_t state = peek(lane.state);
    uint32_t tail = peek(lane.tail_block);
    uint32_t open = peek(lane.open_episode);
    if (state == 0) continue;
    rule((state & layout::kLaneOpen) != 0 && state < 8, "lane %u: state %u", index, state);
    rule(tail == kNone || tail < header_->block_count, "lane %u: newest block %u of %u", index, tail, header_->block_count);
    rule(open == kNone || open < header_->episode_slots, "lane %u: episode slot %u of %u", index, open,
         header_->episode_slots);
    if (!strict()) continue;
    if ((state & layout::kLaneNamed) != 0) {
      auto [named, first] = by_name.emplace(lane.name, index);
      rule(first, "lane %u: its name, %llu, is that of lane %u too", index, Value{lane.name}, named->second);
    }
    rule(lane.prompt_size == 0 || (header_->prompts_offset != 0 && lane.prompt_size <= header_->capacity_items),
         "lane %u: coming items are of a prompt group of %u", index, lane.prompt_size);
    rule(lane.priority_given == 0 || priority_valid(lane.priority), "lane %u: coming items have priority %g", index,
         lane.priority);
  }
}

void Checker::check_blocks() {
  for (uint32_t block = 0; block < header_->block_count; ++block) {
    const BlockRecord& shared = blocks_[block];
    uint64_t generation = observe(shared.generation);
    if (generation % 2 == 0) continue;
    BlockRecord record{generation,           peek(shared.start_row), peek(shared.lane), peek(shared.rows),
                       peek(shared.previous), peek(shared.next),      0,                peek(shared.backing)};
    fence_copy_before_check();
    if (peek(shared.generation) == generation) check_block(block, record);
  }
}

void Checker::check_block(uint32_t block, const BlockRecord& record) {
  const TableHeader& h = *header_;
  rule(record.lane < h.lanes_max, "block %u of generation %llu: lane %u of %u", block, Value{record.generation}, record.lane,
       h.lanes_max);
  rule(record.rows <= h.block_steps, "block %u: %u rows, it has room for %u", block, record.rows, h.block_steps);
  rule(record.start_row % h.block_steps == 0 && record.start_row < kRowsMost, "block %u: begins at row %llu, blocks have %u", block,
       Value{record.start_row}, h.block_steps);
  rule(h.parts == 0 || record.backing == layout::kBlockBacked, "block %u of generation %llu has no memory", block,
       Value{record.generation});
  auto neighbour = [&](uint32_t other) { return other == kNone || (other < h.block_count && other != block); };
  bool sound = rule(neighbour(record.next) && neighbour(record.previous), "block %u: between %u and %u, of %u", block,
                    record.previous, record.next, h.block_count);
  if (!sound || !strict() || record.next == kNone) return;
  const BlockRecord& next = blocks_[record.next];
  if (next.generation % 2 == 0 || next.previous != block) return;
  rule(next.start_row == record.start_row + h.block_steps && next.lane == record.lane && record.rows == h.block_steps,
       "block %u: %u rows from %llu of lane %u, the next one, %u, begins at %llu of lane %u", block, record.rows,
       Value{record.start_row}, record.lane, record.next, Value{next.start_row}, next.lane);
}

void Checker::check_episodes() {
  for (uint32_t slot = 0; slot < header_->episode_slots; ++slot) {
    if (observe(episodes_[slot].generation) % 2 == 0) continue;
    uint32_t lane = peek(episodes_[slot].lane);
    rule(lane < header_->lanes_max, "episode slot %u: lane %u of %u", slot, lane, header_->lanes_max);
  }
}

// False: the item is free, or moves all the time.
bool Checker::read_item(uint32_t slot, ItemRecord* item) const {
  const ItemRecord& shared = items_[slot];
  for (int tries = 0; tries < kReadTries; ++tries) {
    uint64_t generation = observe(shared.generation);
    if (generation % 2 == 0) return false;
    *item = {generation,          peek(shared.priority), peek(shared.block),         peek(shared.position),
             peek(shared.length), peek(shared.episode),  peek(shared.times_sampled), peek(shared.flags)};
    fence_copy_before_check();
    if (peek(shared.generation) == generation) return true;
  }
  return false;
}

void Checker::check_items() {
  uint64_t live = 0;
  const auto* prompts = layout::at_offset<layout::PromptRecord>(base_, header_->prompts_offset);
  for (uint32_t slot = 0; slot < header_->item_slots; ++slot) {
    ItemRecord item;
    if (read_item(slot, &item)) {
      ++live;
    } else if (strict() && header_->prompts_offset != 0 && prompts[slot].size != 0) {
      item = items_[slot];
    } else {
      continue;
    }
    if (check_item(slot, item)) check_range(slot, item);
  }
  check_counters(live);
}

bool Checker::check_item(uint32_t slot, const ItemRecord& item) {
  const TableHeader& h = *header_;
  bool good = rule(item.block < h.block_count && item.position < h.block_steps && item.length >= 1 &&
                       item.length <= h.item_steps_max,
                   "item slot %u: %u rows from row %u of block %u; there are %u blocks of %u, and items of at most %u", slot,
                   item.length, item.position, item.block, h.block_count, h.block_steps, h.item_steps_max);
  good &= rule(priority_valid(item.priority), "item slot %u: priority %g", slot, item.priority);
  good &= rule(item.episode == kNone || item.episode < h.episode_slots, "item slot %u: episode slot %u of %u", slot,
               item.episode, h.episode_slots);
  good &= rule(h.max_times_sampled == 0 || item.times_sampled <= h.max_times_sampled,
               "item slot %u: drawn %u times, at most %u are allowed", slot, item.times_sampled, h.max_times_sampled);
  return good;
}

// The item's rows are in blocks of its lane. Online the item may go meanwhile, and then its blocks: what is found wrong
// counts only while it is still there.
void Checker::check_range(uint32_t slot, const ItemRecord& item) {
  const TableHeader& h = *header_;
  uint32_t block = item.block;
  uint64_t left = item.length;
  uint32_t position = item.position;
  const char* wrong = nullptr;
  for (;;) {
    uint64_t here = std::min<uint64_t>(left, h.block_steps - position);
    if (observe(blocks_[block].generation) % 2 == 0) wrong = "is free";
    if (peek(blocks_[block].rows) < position + here) wrong = "has too few rows";
    left -= here;
    if (wrong != nullptr || left == 0) break;
    position = 0;
    uint32_t next = observe(blocks_[block].next);
    // An adopter lets go of links that only one end has.
    if (next >= h.block_count || (strict() && (blocks_[next].previous != block || blocks_[next].rows == 0))) {
      wrong = "is the last of its chain";
      break;
    }
    block = next;
  }
  bool episode_free = item.episode != kNone && observe(episodes_[item.episode].generation) % 2 == 0;
  fence_copy_before_check();
  if (peek(items_[slot].generation) != item.generation) return;
  rule(wrong == nullptr, "item slot %u: %u rows from row %u of block %u, and block %u %s", slot, item.length, item.position,
       item.block, block, wrong == nullptr ? "" : wrong);
  rule(!episode_free, "item slot %u: its episode slot %u is free", slot, item.episode);
}

// A server that died may have changed the items and not yet the one counter that follows.
void Checker::check_counters(uint64_t live) {
  const layout::TableCounters& c = header_->counters;
  if (!strict()) {
    uint64_t items = observe(c.items);
    rule(items <= header_->item_slots, "%llu items in %u slots", Value{items}, header_->item_slots);
    return;
  }
  // A reset puts the counters to 0 one by one, and its epoch is counted last.
  bool resetting = header_->intent.op == static_cast<uint32_t>(layout::IntentOp::kReset) && header_->intent.number == c.epoch;
  auto lag = static_cast<int64_t>(live - (c.inserts - c.deletes));
  rule(resetting || (lag >= -1 && lag <= 1), "%llu items are there, of %llu inserted and %llu deleted", Value{live},
       Value{c.inserts}, Value{c.deletes});
  rule(priority_valid(c.priority_max), "largest priority %g", c.priority_max);
}

// Every index begins with capacity and count, but for recency, whose tree has them.
void Checker::check_indexes() {
  for (uint32_t i = 0; i < header_->index_count; ++i) {
    const IndexRecord& record = header_->indexes[i];
    if (record.selector == GEAR_SELECT_MIXTURE) continue;
    uint64_t skip = record.selector == GEAR_SELECT_RECENCY ? sizeof(layout::RecencyIndex) : 0;
    const auto* index = layout::at_offset<layout::UniformIndex>(base_, record.offset + skip);
    uint64_t count = observe(index->count);
    rule(count <= header_->item_slots, "index %u: %llu entries for %u slots", i, Value{count}, header_->item_slots);
    if (record.selector != GEAR_SELECT_UNIFORM) continue;
    const auto* slots = layout::at_offset<uint32_t>(index, sizeof(layout::UniformIndex));
    for (uint64_t at = 0; at < std::min<uint64_t>(count, header_->item_slots); ++at) {
      uint32_t slot = peek(slots[at]);
      rule(slot < header_->item_slots, "index %u: slot %u of %u", i, slot, header_->item_slots);
    }
  }
}

void Checker::check_intent() {
  if (!strict()) return;
  const layout::IntentRecord& intent = header_->intent;
  using layout::IntentOp;
  auto op = static_cast<IntentOp>(intent.op);
  uint64_t slots = header_->item_slots;
  if (op == IntentOp::kGrantBlock) slots = header_->block_count;
  if (op == IntentOp::kGrantEpisode || op == IntentOp::kCells) slots = header_->episode_slots;
  rule(intent.op <= static_cast<uint32_t>(IntentOp::kRelease), "intent %u", intent.op);
  if (op == IntentOp::kNothing || op == IntentOp::kReset) return;
  bool lane = layout::makes_item(op) || op == IntentOp::kGrantBlock || op == IntentOp::kGrantEpisode;
  rule(!lane || intent.lane < header_->lanes_max, "intent %u: lane %u of %u", intent.op, intent.lane, header_->lanes_max);
  if (op == IntentOp::kTake || op == IntentOp::kReturn) return;
  bool may_lack = layout::makes_item(op) && intent.slot == kNone;
  rule(may_lack || intent.slot < slots, "intent %u: slot %u of %llu", intent.op, intent.slot, Value{slots});
}

bool Checker::has_part(uint32_t channel, uint32_t part) const {
  return parts_[part].channel == channel && parts_[part].given != 0;
}

// Whoever may store into a block or a slot has the part that it is in.
void Checker::check_parts() {
  const TableHeader& h = *header_;
  if (h.parts == 0 || !strict()) return;
  uint32_t backed = 0;
  for (uint32_t block = 0; block < h.block_count; ++block) {
    const BlockRecord& record = blocks_[block];
    uint32_t part = layout::part_of_block(h, block);
    rule(record.backing == 0 || record.backing == layout::kBlockBacked, "block %u: a backing of %u", block, record.backing);
    if (record.backing != 0) ++backed;
    rule(record.generation % 2 == 0 || record.writer == 0 || has_part(record.writer, part),
         "block %u of part %u is writer %u's, who has another", block, part, record.writer);
  }
  rule(backed <= h.block_budget, "%u blocks have memory, at most %u are to", backed, h.block_budget);
  for (uint32_t slot = 0; slot < h.episode_slots; ++slot) {
    const EpisodeRecord& record = episodes_[slot];
    uint32_t part = layout::part_of_slot(h, slot);
    rule(record.generation % 2 == 0 || record.writer == 0 || has_part(record.writer, part),
         "episode slot %u of part %u is writer %u's, who has another", slot, part, record.writer);
  }
  for (uint32_t index = 0; index < h.lanes_max; ++index) {
    const LaneRecord& lane = lanes_[index];
    bool has = lane.state == 0;
    for (uint32_t part = 0; part < h.parts && !has; ++part) has = has_part(lane.channel, part);
    rule(has && (lane.state == 0 || lane.channel != 0), "lane %u: its writer %u has no part", index, lane.channel);
  }
}

}  // namespace

Findings find_contradictions(const void* directory, uint64_t directory_bytes, uint64_t data_bytes, CheckForm form) {
  return Checker(directory, directory_bytes, data_bytes, form).run();
}

}  // namespace gear
