// A table that a server left, with any words in its directory: the next server sets it aside with a word, or goes on with a table
// that keeps its rules through whatever is then asked of it.
#include <sys/mman.h>

#include <iterator>
#include <vector>

#include "fuzz/input.h"
#include "fuzz/small_table.h"
#include "support/bare_table.h"
#include "table/fsck.h"

namespace {

using namespace gear;
using test::Input;

constexpr uint32_t kChannel = 5;
constexpr uint32_t kLanes = 2;
constexpr uint64_t kPage = layout::kPageBytes;

// What a conductor does to a table, as its clients ask for it.
struct Work {
  explicit Work(Table& worked) : table(worked) {}

  Table& table;
  std::vector<Drawn> posted;
  std::vector<Drawn> taken;
  Rng rng{1};
  uint64_t position = 0;
  std::shared_ptr<ConsumerGroup> group = nullptr;
  std::vector<Drawn> group_posted;
  std::vector<Drawn> group_taken;

  void append(uint32_t lane, uint32_t count) {
    layout::GrantRecord grant{};
    uint32_t slot = 0;
    while (table.unfilled_blocks(lane) < 2 && table.grant_block(lane, &grant)) {
    }
    if (table.header().episode_slots > 0 && table.episodes_out(lane).empty()) table.grant_episode(lane, &slot);
    uint32_t done = 0;
    table.commit(lane, count, &done);
  }
  void draw() {
    Drawn drawn;
    if (table.draws_ready(1) && table.draw(rng, &drawn)) posted.push_back(drawn);
  }
  void take(bool back) {
    if (posted.empty()) return;
    Drawn drawn = posted.back();
    posted.pop_back();
    if (back) {
      table.give_back(drawn);
      table.unpin(drawn.pin);
    } else {
      table.take(drawn);
      taken.push_back(drawn);
    }
  }
  void release() {
    if (taken.empty()) return;
    table.unpin(taken.back().pin);
    taken.pop_back();
  }
  // A consumer of the group: draws, takes, returns, acknowledges, or is gone.
  void consume(uint8_t what) {
    if (group == nullptr) return;
    std::vector<Drawn>& from = what % 5 < 3 ? group_posted : group_taken;
    Drawn drawn;
    if (what % 5 == 0) {
      if (table.draws_ready_for(*group, {}, 1) && table.draw_for(*group, {}, &drawn)) group_posted.push_back(drawn);
      return;
    }
    if (from.empty()) return;
    drawn = from.back();
    from.pop_back();
    switch (what % 5) {
      case 1:
        table.take_for(*group, drawn);
        group_taken.push_back(drawn);
        break;
      case 2: table.give_back_for(*group, drawn); break;
      case 3:
        table.acknowledge(*group, drawn);
        table.unpin(drawn.pin);
        break;
      default: table.deliver_again(*group, drawn);
    }
  }
  void change_item(Input& input) {
    const layout::TableHeader& header = table.header();
    uint32_t slot = input.byte() % header.item_slots;
    const auto* items = layout::at_offset<layout::ItemRecord>(static_cast<const void*>(&header), header.items_offset);
    uint64_t key = layout::make_key(items[slot].generation, slot, header.slot_bits);
    if (input.byte() % 2 == 0) {
      table.delete_item(key);
    } else {
      table.begin_updates();
      table.update_priority(key, input.real());
      table.end_updates();
    }
  }
  void step(Input& input) {
    uint8_t what = input.byte();
    uint32_t lane = what / 16 % kLanes;
    table.begin_record(kChannel, ++position);
    switch (what % 16) {
      case 0: case 1: case 2: case 3: append(lane, what / 32 + 1); break;
      case 4: table.end_episode(lane, what / 32 % 2 + 1, table.lane_rows(lane)); break;
      case 5: table.give_episode_cells(lane); break;
      case 6: table.make_item(lane, what / 32 + 1, input.real()); break;
      case 7: case 8: draw(); break;
      case 9: take(what >= 0xc0); break;
      case 10: release(); break;
      case 11: change_item(input); break;
      case 12: table.set_prompt_group(lane, what / 64, what / 32 % 4); break;
      case 13: table.set_priority(lane, what < 0x80, input.real()); break;
      case 14: table.raise_version(what / 16); table.set_version(lane, what / 32); break;
      default:
        what < 0xf0 ? consume(what / 16) : table.reset();
    }
  }
};

// Whatever the process maps later lies elsewhere: what is touched beyond a table's memory is found.
void* guard() { return mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

void must_hold(const Table& table, const char* when) {
  Findings findings = find_contradictions(table.directory().data(), table.directory().size(), table.data().bytes(),
                                      CheckForm::kAdoption);
  if (findings.texts.empty()) return;
  fprintf(stderr, "%s: %s\n", when, findings.texts.front().c_str());
  abort();
}

uint64_t array_begin(const layout::TableHeader& h, uint8_t which) {
  const uint64_t begins[] = {h.lanes_offset,
                             h.blocks_offset,
                             h.marks_offset,
                             h.items_offset,
                             h.episodes_offset,
                             h.versions_offset,
                             h.prompts_offset,
                             h.indexes[h.sampler_index].offset,
                             h.indexes[h.remover_index].offset,
                             offsetof(layout::TableHeader, intent),
                             offsetof(layout::TableHeader, counters),
                             offsetof(layout::TableHeader, limiter),
                             offsetof(layout::TableHeader, table_id),
                             offsetof(layout::TableHeader, indexes)};
  return begins[which % std::size(begins)];
}

// What a server writes down of the lane as it is, so that there is something to finish.
void fit_intent(uint8_t form, layout::TableHeader* header) {
  using layout::IntentOp;
  layout::IntentRecord& intent = header->intent;
  const auto& lane = layout::at_offset<layout::LaneRecord>(header, header->lanes_offset)[intent.lane % header->lanes_max];
  const auto* blocks = layout::at_offset<layout::BlockRecord>(header, header->blocks_offset);
  const auto* items = layout::at_offset<layout::ItemRecord>(header, header->items_offset);
  const auto* episodes = layout::at_offset<layout::EpisodeRecord>(header, header->episodes_offset);
  auto op = static_cast<IntentOp>(intent.op);
  uint64_t rows = lane.tail_block == layout::kNone ? 0 : blocks[lane.tail_block].start_row + blocks[lane.tail_block].rows;
  intent.number = form % 16 | uint64_t{lane.open_episode} << 32;
  bool final = op == IntentOp::kEnd && (intent.number & layout::kIntentFinal) != 0;
  intent.row = op == IntentOp::kEnd ? rows + (final && (form & 16) != 0) : rows - (form & 16) / 16;
  intent.first_row = op == IntentOp::kEnd ? lane.episode_row : rows - std::min<uint64_t>(rows, form % 4);
  if (op == IntentOp::kCells) {
    intent.slot = lane.open_episode;
    for (uint32_t slot = 0; slot < header->episode_slots; ++slot) {
      if (episodes[slot].given != 0) intent.slot = slot;
    }
    return;
  }
  for (uint32_t slot = 0; slot < header->item_slots && (form & 32) != 0; ++slot) {
    if (items[slot].generation % 2 == 0) intent.slot = slot;
  }
  if (intent.slot < header->item_slots) intent.slot_generation = items[intent.slot].generation;
}

// An intent whose every word is possible, so that those that contradict the rest are met too.
void intend(Input& input, layout::TableHeader* header) {
  layout::IntentRecord& intent = header->intent;
  intent.op = input.byte() % 13;
  intent.channel = input.byte() % 2 * kChannel;
  intent.lane = input.byte() % 3;
  intent.slot = input.byte() % 8 == 7 ? layout::kNone : input.byte() % 7;
  intent.slot_generation = input.byte() % 4;
  intent.row = input.number();
  intent.first_row = input.number();
  intent.number = input.number() | uint64_t{input.byte()} << 32;
  intent.evicting = input.byte() % 2;
  if (uint8_t form = input.byte(); form >= 0x40) fit_intent(form, header);
}

void damage(Input& input, layout::TableHeader* header) {
  const layout::TableHeader sound = *header;
  if (input.byte() % 4 == 0) intend(input, header);
  for (uint32_t words = input.byte() % 12; words > 0 && !input.empty(); --words) {
    uint64_t place = (array_begin(sound, input.byte()) + input.byte() * 4u) % (sound.directory_bytes - sizeof(uint64_t));
    // The segment's own header is checked before any of this is looked at.
    if (place < sizeof(layout::SegmentHeader)) continue;
    uint64_t value = input.number();
    size_t width = value > UINT32_MAX && value < ~uint64_t{0} - 256 ? sizeof(uint64_t) : sizeof(uint32_t);
    memcpy(reinterpret_cast<char*>(header) + place / 4 * 4, &value, width);
  }
}

// A consumer group as a server left it, but for some words.
Segment left_group(Input& input, const Table& table) {
  const layout::TableHeader& header = table.header();
  uint64_t slots = header.item_slots;
  auto made = Segment::create("fuzz", layout::SegmentKind::kGroup, ConsumerGroup::bytes_for(slots), 1,
                              layout::kGroupObjects * header.table_id, {});
  if (!made.ok()) abort();
  auto* group = static_cast<layout::GroupHeader*>(made.value().data());
  strcpy(group->name, "g");
  group->item_slots = slots;
  group->insertions = slots;
  group->cursor = input.byte() % 8;
  auto* numbers = reinterpret_cast<uint64_t*>(group + 1);
  auto* progress = reinterpret_cast<uint8_t*>(numbers + slots);
  for (uint64_t slot = 0; slot < slots; ++slot) {
    numbers[slot] = slot + 1;
    progress[slot] = input.byte() % 4;
  }
  for (uint32_t words = input.byte() % 4; words > 0; --words) {
    uint64_t place = (offsetof(layout::GroupHeader, name) + input.byte() * 8u) % ConsumerGroup::bytes_for(slots) / 8 * 8;
    uint64_t value = input.number();
    memcpy(reinterpret_cast<char*>(group) + place, &value, sizeof value);
  }
  return made.take();
}

void go_on(Input& input, std::unique_ptr<Table> table, const Work& before) {
  test::Owner owner;
  for (uint32_t lane = 0; lane < std::min(kLanes, table->header().lanes_max); ++lane) {
    const layout::LaneRecord& record = table->lane_record(lane);
    if (record.state != 0 && record.channel == kChannel) table->own_lane(lane, &owner);
  }
  LaneRest rest = table->rest_of(kChannel);
  Work work(*table);
  work.position = before.position;
  if (input.byte() % 2 == 0 && table->header().max_times_sampled == 0 && table->adopt_group(left_group(input, *table)).ok()) {
    work.group = table->groups().front();
  }
  auto claim = [&](const std::vector<Drawn>& draws, bool posted, std::vector<Drawn>* kept) {
    for (const Drawn& drawn : draws) {
      if (table->adopt_draw(drawn, posted)) kept->push_back(drawn);
    }
  };
  claim(before.posted, true, &work.posted);
  // A sampler of the group has them, where there is one.
  claim(before.taken, false, work.group ? &work.group_taken : &work.taken);
  for (const Drawn& drawn : work.group_taken) {
    table->adopt_lease(*work.group, drawn);
    ++work.group->counts.in_flight;
  }
  table->finish_adoption();
  must_hold(*table, "adopted");
  // As a port does, which has failed where its lanes are not there.
  bool whole = table->header().lanes_max >= kLanes;
  for (uint32_t lane = 0; whole && lane < kLanes; ++lane) {
    const layout::LaneRecord& record = table->lane_record(lane);
    whole = record.state != 0 && record.channel == kChannel;
  }
  for (uint32_t steps = 0; whole && steps < 40 && !input.empty(); ++steps) work.step(input);
  must_hold(*table, "at work");
  while (!work.posted.empty()) work.take(false);
  while (!work.taken.empty()) work.release();
  while (!work.group_posted.empty()) work.consume(2);
  while (!work.group_taken.empty()) work.consume(3);
  if (work.group) table->drop_group(*work.group);
  table->release(rest);
  for (uint32_t lane = 0; lane < table->header().lanes_max; ++lane) {
    if (table->lane_record(lane).state != 0) table->close_lane(lane);
  }
  table->reset();
  must_hold(*table, "closed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  void* above = guard();
  auto table = test::table_of_kind(input.byte());
  void* below = guard();
  Work work(*table);
  if (table->parted()) (void)table->take_part(kChannel, 1000);
  for (uint32_t lane = 0; lane < kLanes; ++lane) table->open_lane(kChannel, lane);
  for (uint32_t steps = input.byte() % 32; steps > 0 && !input.empty(); --steps) work.step(input);
  must_hold(*table, "left");
  Segment directory;
  TableData cells;
  table->take_segments(&directory, &cells);
  damage(input, static_cast<layout::TableHeader*>(directory.data()));
  auto adopted = Table::adopt(std::move(directory), std::move(cells));
  if (adopted.ok()) {
    go_on(input, adopted.take(), work);
  } else if (adopted.status().text().empty()) {
    abort();
  }
  munmap(above, kPage);
  munmap(below, kPage);
  return 0;
}
