// Draws without replacement: every item, or every step of every item, once an epoch, over a table that stays as it is.
//
// A row of the epoch is a number: the how-manieth item in order of slots, or (GEAR_ANCHOR_EVERY_STEP) the how-manieth
// step of those items laid end to end. EpochOrder shuffles the numbers; place p of the shuffle belongs to rank p mod
// world. Ranks need not know of each other: they agree on the numbers because they see one table.

#include <algorithm>

#include "client/epoch_order.h"
#include "client/row_source.h"
#include "client/text.h"

namespace gear::client {
namespace {

// What tells whether items came or went.
struct Version {
  uint64_t inserts;
  uint64_t deletes;
  uint64_t resets;
  bool operator==(const Version&) const = default;
};

Version version_of(const TableView& table) {
  const layout::TableCounters& counters = table.header->counters;
  return {observe(counters.inserts), observe(counters.deletes), observe(counters.epoch)};
}

// The items of a table, in order of slots.
struct ItemList {
  Version version{};
  std::vector<uint32_t> slots;
  std::vector<uint64_t> first_steps;  // steps of the items before each; every_step only
  uint64_t steps = 0;

  // False when items came or went meanwhile. O(slots of the table).
  bool read(const TableView& table, bool every_step);
};

bool ItemList::read(const TableView& table, bool every_step) {
  version = version_of(table);
  uint64_t count = observe(table.header->counters.items);
  slots.reserve(count);
  if (every_step) first_steps.reserve(count);
  for (uint32_t slot = 0; slot < table.header->item_slots && slots.size() < count; ++slot) {
    const layout::ItemRecord& item = table.items[slot];
    if (observe(item.generation) % 2 == 0) continue;
    slots.push_back(slot);
    if (every_step) first_steps.push_back(steps);
    steps += peek(item.length);
  }
  return slots.size() == count && version_of(table) == version;
}

class EpochSource final : public RowSource {
 public:
  EpochSource(const TableView& table, const SamplerPlan& plan, Channel& channel)
      : table_(table),
        plan_(plan),
        channel_(channel),
        every_step_(plan.anchor == GEAR_ANCHOR_EVERY_STEP),
        scratch_(plan.batch_rows_max) {}

  Status fill(Batch& batch, uint32_t rows, int64_t timeout_ns) override;
  Status begin_epoch(uint64_t epoch, uint64_t* rows) override;
  uint64_t redrawn() const override { return 0; }

 private:
  struct Row {
    uint32_t slot;
    uint32_t step;  // every_step_ only
    uint64_t number;
  };

  uint64_t items_wanted() const {
    return static_cast<uint64_t>(std::max<int64_t>(1, peek(table_.header->limiter.min_size)));
  }
  uint64_t items() const { return observe(table_.header->counters.items); }
  uint64_t rows_of_all() const { return every_step_ ? list_.steps : list_.slots.size(); }
  uint64_t share() const {
    uint64_t all = rows_of_all();
    return all / plan_.world + (plan_.rank < all % plan_.world ? 1 : 0);
  }

  Status begin_first(int64_t timeout_ns);
  Row row_at(uint64_t place) const;
  uint32_t anchor_of(const Row& row, const DrawnItem& item) const;
  bool read_rows(Batch& batch, uint32_t count);
  Status over() const;
  Status changed() const;

  const TableView& table_;
  const SamplerPlan& plan_;
  Channel& channel_;
  const bool every_step_;
  DrawScratch scratch_;

  bool begun_ = false;
  uint64_t epoch_ = 0;
  EpochOrder order_;
  ItemList list_;
  uint64_t drawn_ = 0;  // rows of this rank's share
};

Status EpochSource::begin_epoch(uint64_t epoch, uint64_t* rows) {
  if (!channel_.is_served()) return channel_.health();
  if (items() < items_wanted()) {
    return error(GEAR_ESTATE,
                 "the table has %llu items, draws begin at %llu; append and flush all steps before "
                 "an epoch begins",
                 static_cast<unsigned long long>(items()),
                 static_cast<unsigned long long>(items_wanted()));
  }
  if (!begun_ || !(version_of(table_) == list_.version)) {
    ItemList list;
    if (!list.read(table_, every_step_)) {
      return error(GEAR_ESTATE,
                   "items came or went while the epoch began; flush and stop writers, then begin "
                   "it again");
    }
    list_ = std::move(list);
  }
  order_ = EpochOrder(rows_of_all(), plan_.seed, epoch);
  epoch_ = epoch;
  begun_ = true;
  drawn_ = 0;
  *rows = share();
  return {};
}

// Epoch 0, once the table has the items that draws wait for. The conductor is not asked to tell: nobody is in a hurry
// who waits for a table to be loaded.
Status EpochSource::begin_first(int64_t timeout_ns) {
  if (items() < items_wanted()) {
    int64_t deadline_ns = deadline_after(timeout_ns);
    Status status =
        channel_.wait_until(deadline_ns, [this] { return items() >= items_wanted(); });
    if (status.code() == GEAR_ETIMEDOUT) {
      return error(GEAR_ETIMEDOUT,
                   "the table has %llu items, draws begin at %llu; append and flush steps, or "
                   "raise timeout_ns",
                   static_cast<unsigned long long>(items()),
                   static_cast<unsigned long long>(items_wanted()));
    }
    GEAR_TRY(status);
  }
  uint64_t rows;
  return begin_epoch(0, &rows);
}

Status EpochSource::fill(Batch& batch, uint32_t rows, int64_t timeout_ns) {
  if (!channel_.is_served()) return channel_.health();
  if (!begun_) GEAR_TRY(begin_first(timeout_ns));
  auto count = static_cast<uint32_t>(std::min<uint64_t>(rows, share() - drawn_));
  if (count == 0) return over();
  if (!(version_of(table_) == list_.version) || !read_rows(batch, count)) return changed();
  uint32_t moved = gather_rows(table_, plan_.windows, scratch_.items.data(), batch.anchors, count, 0,
                               batch.windows.data(), scratch_.outcomes.data());
  if (moved > 0) return changed();
  batch.population = rows_of_all();
  batch.set_rows(count);
  drawn_ += count;
  return {};
}

EpochSource::Row EpochSource::row_at(uint64_t place) const {
  uint64_t number = order_.at(place);
  if (!every_step_) return {list_.slots[number], 0, number};
  // The last item that begins at or before the step.
  auto after = std::upper_bound(list_.first_steps.begin(), list_.first_steps.end(), number);
  auto index = static_cast<size_t>(after - list_.first_steps.begin()) - 1;
  return {list_.slots[index], static_cast<uint32_t>(number - list_.first_steps[index]), number};
}

// Random ones follow from the row, so that they do not depend on ranks or on the size of batches.
uint32_t EpochSource::anchor_of(const Row& row, const DrawnItem& item) const {
  if (every_step_) return row.step;
  if (plan_.anchor == GEAR_ANCHOR_FIRST) return 0;
  Rng rng(Rng(anchor_seed(plan_.seed)).next() + Rng(~epoch_).next() + row.number);
  return pick_anchor(plan_.anchor, item.length, plan_.window_length, rng);
}

// False when an item of the list is not there any more.
bool EpochSource::read_rows(Batch& batch, uint32_t count) {
  double probability = 1.0 / static_cast<double>(rows_of_all());
  for (uint32_t i = 0; i < count; ++i) {
    Row row = row_at((drawn_ + i) * plan_.world + plan_.rank);
    DrawnItem& item = scratch_.items[i];
    if (!read_item(table_, row.slot, &item) || row.step >= item.length) return false;
    describe_row(batch, i, item, anchor_of(row, item));
    batch.probabilities[i] = probability;
    // Of the item's generation, or the gather, which comes after, finds that the item moved.
    batch.versions[i] = table_.versions != nullptr ? peek(table_.versions[row.slot]) : 0;
    batch.times_sampled[i] = 0;
  }
  return true;
}

Status EpochSource::over() const {
  return error(GEAR_EEPOCH,
               "epoch %llu is over: rank %u of %u has had its %llu rows; call "
               "gear_sampler_begin_epoch for another",
               static_cast<unsigned long long>(epoch_), plan_.rank, plan_.world,
               static_cast<unsigned long long>(share()));
}

Status EpochSource::changed() const {
  return error(GEAR_ESTATE,
               "the table changed after epoch %llu began, so its rows are not each drawn once; "
               "stop writers and deletions, then call gear_sampler_begin_epoch",
               static_cast<unsigned long long>(epoch_));
}

Status refuse_with_epoch(const char* option) {
  return error(GEAR_EUNSUPPORTED,
               "order epoch with %s; an epoch has every row once, in an order of its own: leave "
               "one of them out",
               option);
}

}  // namespace

Status RowSource::begin_epoch(uint64_t, uint64_t*) {
  return error(GEAR_ESTATE,
               "the sampler draws by its selector and has no epochs; open it with order "
               "GEAR_ORDER_EPOCH");
}

Status check_order(const gear_sampler_options& options) {
  if (options.order > GEAR_ORDER_EPOCH) {
    return error(GEAR_EINVAL, "order %u is no gear_order; give selector 0 or epoch 1", options.order);
  }
  uint32_t world = options.world != 0 ? options.world : 1;
  if (options.rank >= world) {
    return error(GEAR_EINVAL, "rank %u of world %u; give 0 to %u", options.rank, world, world - 1);
  }
  if (options.order == GEAR_ORDER_SELECTOR) {
    if (options.anchor == GEAR_ANCHOR_EVERY_STEP) {
      return error(GEAR_EUNSUPPORTED,
                   "anchor every_step without order epoch; set order, or take anchor random_step");
    }
    if (world == 1) return {};
    return error(GEAR_EINVAL, "rank %u of world %u without order epoch; set order, or leave both 0",
                 options.rank, world);
  }
  if (world > 1 && options.seed == 0) {
    return error(GEAR_EINVAL,
                 "rank %u of world %u with seed 0, which is another one for each sampler; give all "
                 "ranks one seed, so that they share one order",
                 options.rank, world);
  }
  if (options.mode == GEAR_SAMPLE_LEASED) return refuse_with_epoch("mode leased");
  if (options.group != nullptr) return refuse_with_epoch("a group");
  if (options.unique != 0) return refuse_with_epoch("unique");
  if (options.selector != nullptr) return refuse_with_epoch("a selector");
  if (options.version_policy != GEAR_VERSION_ANY) return refuse_with_epoch("a version_policy");
  if (options.background != 0) return refuse_with_epoch("background");
  return {};
}

std::unique_ptr<RowSource> make_epoch_source(const TableView& table, const SamplerPlan& plan,
                                             Channel& channel) {
  return std::make_unique<EpochSource>(table, plan, channel);
}

}  // namespace gear::client
