// The directory as a client maps it, with any words in it: nothing outside the mappings is read, and every loop ends. The two
// mappings are allocations of their own of the very sizes stated, so that the address sanitizer sees a read beyond them.
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "fuzz/input.h"
#include "gather/check_directory.h"
#include "gather/gather.h"
#include "select/direct.h"
#include "support/bare_table.h"
#include "support/fake_table.h"
#include "table/geometry.h"
#include "table/table.h"

namespace {

using namespace gear;
using test::Input;

// A table's memory as a server left it.
struct Snapshot {
  std::vector<char> directory;
  std::vector<char> data;
};

layout::ColumnSpec column(const char* name, uint32_t dtype, uint32_t flags, int64_t extent) {
  layout::ColumnSpec spec{};
  strcpy(spec.name, name);
  spec.dtype = dtype;
  spec.flags = flags;
  spec.rank = extent > 0 ? 1 : 0;
  spec.shape[0] = extent;
  return spec;
}

layout::SelectorSpec selector(const char* name, uint32_t kind, double proportion) {
  layout::SelectorSpec spec{};
  strcpy(spec.name, name);
  spec.selector = kind;
  spec.proportion = proportion;
  spec.alpha = 0.6;
  spec.half_life = 3;
  spec.top_k = 2;
  return spec;
}

layout::TableCreateRequest request_of(uint32_t sampler, uint32_t policy) {
  layout::TableCreateRequest request{};
  strcpy(request.name, "hostile");
  request.capacity_items = 12;
  request.capacity_steps = 24;
  request.item_policy = policy;
  if (policy == GEAR_ITEMS_SEQUENCE) {
    request.item_length = 3;
    request.item_period = 1;
  }
  request.episode_steps_max = 8;
  request.sampler = sampler;
  request.remover = GEAR_SELECT_FIFO;
  request.priority_alpha = 0.6;
  request.half_life = 3;
  request.top_k = 3;
  request.limiter = {1, 1, -1e300, 1e300};
  request.lanes_max = 2;
  request.block_steps = 4;
  request.window_before_max = 6;
  request.window_after_max = 6;
  request.memory = GEAR_MEMORY_MEMFD;
  request.lease_timeout_ms = 1000;
  request.numa_node = -1;
  return request;
}

Snapshot make(layout::TableCreateRequest request, std::vector<layout::ColumnSpec> columns,
              std::vector<layout::SelectorSpec> selectors) {
  request.column_count = static_cast<uint32_t>(columns.size());
  request.selector_count = static_cast<uint32_t>(selectors.size());
  auto made = test::make_bare(request, columns.data(), selectors.data());
  Table& table = *made;
  uint32_t lane = table.open_lane(1);
  for (uint32_t step = 0; step < 20; ++step) {
    layout::GrantRecord grant{};
    uint32_t slot = 0;
    while (table.unfilled_blocks(lane) < 2 && table.grant_block(lane, &grant)) {
    }
    if (step % 7 == 0 && table.header().episode_slots > 0 && table.grant_episode(lane, &slot)) {
      table.give_episode_cells(lane);
    }
    uint32_t done = 0;
    table.commit(lane, 1, &done);
    // One with a final observation, one without; the last episode is open.
    if (step == 6) table.end_episode(lane, GEAR_TERMINATED, table.lane_rows(lane));
    if (step == 13) table.end_episode(lane, GEAR_TRUNCATED | layout::kEndHasFinal, table.lane_rows(lane) + 1);
  }
  Snapshot snapshot;
  const auto* directory = static_cast<const char*>(table.directory().data());
  const auto* data = static_cast<const char*>(table.data().segment(0).data());
  snapshot.directory.assign(directory, directory + table.header().directory_bytes);
  snapshot.data.assign(data, data + table.header().data_bytes);
  return snapshot;
}

const std::vector<Snapshot>& snapshots() {
  static const std::vector<Snapshot> all = [] {
    std::vector<Snapshot> list;
    list.push_back(make(request_of(GEAR_SELECT_UNIFORM, GEAR_ITEMS_STEP),
                        {column("x", GEAR_F32, 0, 3), column("r", GEAR_F32, 0, 0)}, {}));
    auto mixture = request_of(GEAR_SELECT_MIXTURE, GEAR_ITEMS_SEQUENCE);
    mixture.versions = 1;
    list.push_back(make(mixture,
                        {column("x", GEAR_U8, GEAR_COLUMN_OPTIONAL, 5), column("r", GEAR_F64, 0, 0),
                         column("goal", GEAR_I32, GEAR_COLUMN_PER_EPISODE, 2)},
                        {selector("p", GEAR_SELECT_PRIORITIZED, 0.4), selector("n", GEAR_SELECT_RECENCY, 0.3),
                         selector("k", GEAR_SELECT_TOP_K, 0.2), selector("f", GEAR_SELECT_LIFO, 0.1)}));
    auto whole = request_of(GEAR_SELECT_PRIORITIZED, GEAR_ITEMS_EPISODE);
    whole.remover = GEAR_SELECT_MIN_HEAP;
    whole.table_weights = 1;
    whole.new_priority = 1;
    list.push_back(make(whole, {column("x", GEAR_I64, 0, 2), column("r", GEAR_F32, 0, 0)},
                        {selector("m", GEAR_SELECT_MAX_HEAP, 0), selector("u", GEAR_SELECT_UNIFORM, 0)}));
    return list;
  }();
  return all;
}

using Memory = std::unique_ptr<char, decltype(&free)>;

Memory copy_of(const std::vector<char>& bytes) {
  Memory memory(static_cast<char*>(aligned_alloc(layout::kPageBytes, bytes.size())), &free);
  memcpy(memory.get(), bytes.data(), bytes.size());
  return memory;
}

// Some words are changed, each within one of the directory's arrays, or anywhere.
void scribble(Input& input, const layout::TableHeader& sound, char* directory, size_t bytes) {
  const uint64_t begins[] = {0, sound.columns_offset, sound.lanes_offset, sound.blocks_offset, sound.marks_offset,
                             sound.items_offset, sound.episodes_offset, sound.indexes[sound.sampler_index].offset,
                             sound.indexes[sound.remover_index].offset, sizeof(layout::SegmentHeader) + 256,
                             offsetof(layout::TableHeader, indexes), sound.indexes[sound.index_count - 1].offset};
  for (uint32_t words = input.byte() % 32; words > 0 && !input.empty(); --words) {
    uint64_t begin = begins[input.byte() % std::size(begins)];
    uint64_t place = (begin + input.take<uint16_t>()) % (bytes - sizeof(uint64_t));
    uint64_t value = input.number();
    size_t width = (value >> 63) != 0 && value > ~uint64_t{0} - 256 ? (input.byte() % 2 + 1) * 4 : 4;
    if (value > UINT32_MAX) width = 8;
    memcpy(directory + place / 4 * 4, &value, width);
  }
}

const char* const kNames[] = {"a", "b", "c"};
const char* const kColumns[] = {"x", "r", "goal", nullptr};

// What a table of request_of keeps for windows, and what goes together.
void make_sound(uint8_t form, gear_window* window) {
  window->offset = std::clamp(window->offset, -6, 4);
  window->length = std::min(window->length, 6u);
  window->burn_in = std::min(window->burn_in, window->length);
  if (window->compute >= GEAR_COMPUTE_NSTEP_RETURN) {
    window->steps = form / 64 + 1u;
    window->discount = 0.5;
    window->offset = std::min(window->offset, 0);
  }
  if (window->compute == GEAR_COMPUTE_NSTEP_RETURN) {
    window->column = "r";
  } else if (window->compute != GEAR_COMPUTE_NONE) {
    window->column = nullptr;
  } else if (window->column == nullptr) {
    window->column = "x";
  } else if (strcmp(window->column, "goal") == 0) {
    window->offset = 0;
    window->length = 1;
    window->burn_in = 0;
  }
}

std::vector<gear_window> windows_of(Input& input) {
  std::vector<gear_window> windows;
  for (uint32_t count = input.byte() % 4; count > 0; --count) {
    gear_window window = GEAR_WINDOW_INIT;
    window.column = kColumns[input.byte() % std::size(kColumns)];
    window.offset = static_cast<int8_t>(input.byte()) % 8;
    window.length = input.byte() % 10;
    window.pad = input.byte() % 3;
    window.fill = input.byte() % 2;
    uint8_t compute = input.byte();
    window.compute = compute % 2 == 0 ? compute / 4 % 9 : GEAR_COMPUTE_NONE;
    window.burn_in = input.byte() % 3;
    if (input.byte() >= 0x20) make_sound(compute, &window);
    window.name = kNames[windows.size()];
    windows.push_back(window);
  }
  return windows;
}

constexpr uint32_t kRows = 6;

void draw_and_gather(Input& input, const TableView& view, const layout::IndexRecord& index) {
  auto windows = windows_of(input);
  auto plan = plan_windows(view, windows.empty() ? nullptr : windows.data(), windows.size());
  Rng rng(input.byte());
  Pick picks[kRows] = {};
  uint32_t made = direct_pick(index, view.directory, rng, kRows, picks);
  direct_least_probability(index, view.directory);
  if (!plan.ok()) return;
  for (const WindowPlan& window : plan.value()) {
    if (window.length * window.cell_bytes > 1 << 16) return;  // memory of the caller's, as it asked for it
  }
  test::FakeBatch batch(plan.value(), kRows);
  DrawnItem items[kRows] = {};
  uint32_t anchors[kRows] = {};
  GatherOutcome outcomes[kRows];
  for (uint32_t i = 0; i < kRows; ++i) {
    uint32_t slot = i < made ? picks[i].slot : input.byte() % 16;
    direct_probability(index, view.directory, slot);
    if (!read_item(view, slot, &items[i])) items[i].block = layout::kNone;
    // A leased draw is believed as little.
    if (i % 3 == 2) items[i].item_generation = kItemPinned;
    anchors[i] = pick_anchor(input.byte() % 4, items[i].length, 2, rng);
  }
  gather_rows(view, plan.value(), items, anchors, kRows, 0, batch.buffers(), outcomes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  Input input(bytes, size);
  const Snapshot& snapshot = snapshots()[input.byte() % snapshots().size()];
  Memory directory = copy_of(snapshot.directory);
  Memory data = copy_of(snapshot.data);
  const auto& sound = *reinterpret_cast<const layout::TableHeader*>(snapshot.directory.data());
  if (size > 0 && !check_directory(snapshot.directory.data(), snapshot.directory.size(), snapshot.data.size()).ok()) abort();
  size_t seen = snapshot.directory.size();
  if (input.byte() == 0xff) seen = input.take<uint16_t>() % (seen + 1);
  scribble(input, sound, directory.get(), snapshot.directory.size());
  Status status = check_directory(directory.get(), seen, snapshot.data.size());
  if (!status.ok()) return status.text().empty() ? abort(), 1 : 0;
  TableView view = TableView::over(directory.get(), data.get());
  for (uint32_t i = 0; i < 3; ++i) {
    draw_and_gather(input, view, view.header->indexes[input.byte() % view.header->index_count]);
  }
  return 0;
}
