// Draws from the shared index, gathers, and checks that nothing moved meanwhile: no round trip, no
// lock, no system call.

#include <algorithm>

#include "client/distinct_picks.h"
#include "client/row_source.h"
#include "client/text.h"
#include "select/direct.h"

namespace gear::client {
namespace {

using layout::SubmissionOp;

// A row that moved so often in a row looks at the table and the clock before it tries on.
constexpr uint32_t kTriesAtOnce = 64;

// Naps while the table has items but none that can be drawn: all have weight 0, and no one tells
// when that changes.
constexpr int64_t kNapLeastNs = 50'000;
constexpr int64_t kNapMostNs = 10'000'000;

class DirectSource final : public RowSource {
 public:
  DirectSource(const TableView& table, const SamplerPlan& plan, Channel& channel)
      : table_(table),
        plan_(plan),
        channel_(channel),
        index_(table.header->indexes[plan.index]),
        rng_(plan.seed),
        anchor_rng_(anchor_seed(plan.seed)),
        scratch_(plan.batch_rows_max),
        picks_(plan.batch_rows_max) {
    if (plan.unique) distinct_ = std::make_unique<DistinctPicks>(table, index_, plan.batch_rows_max);
  }

  Status fill(Batch& batch, uint32_t rows, int64_t timeout_ns) override;
  uint64_t redrawn() const override { return redrawn_; }

 private:
  // When a call gives up; looked up only once it has to wait.
  class Patience {
   public:
    explicit Patience(int64_t timeout_ns) : timeout_ns_(timeout_ns) {}
    int64_t deadline_ns() {
      if (deadline_ns_ == 0) deadline_ns_ = deadline_after(timeout_ns_);
      return deadline_ns_;
    }
    bool ended() { return now_ns() >= deadline_ns(); }

   private:
    int64_t timeout_ns_;
    int64_t deadline_ns_ = 0;
  };

  uint64_t items_wanted() const {
    return static_cast<uint64_t>(std::max<int64_t>(1, peek(table_.header->limiter.min_size)));
  }
  // Acquire: an item that is counted can be found in the index.
  uint64_t items() const { return observe(table_.header->counters.items); }

  Status draw(uint32_t count, DistinctPicks* distinct, Patience& patience, uint64_t* population,
              uint32_t* drawn);
  Status wait_for_items(Patience& patience);
  Status wait_for_weight(Patience& patience, int64_t* nap_ns);
  void take_notices();
  void read_picks(Batch& batch, uint32_t rows);
  bool read_version(const DrawnItem& item, uint64_t* version) const;
  Status redraw_moved(Batch& batch, uint32_t rows, Patience& patience, bool* whole);
  Status redraw(Batch& batch, uint32_t row, Patience& patience, bool* done);
  Status timed_out() const;

  const TableView& table_;
  const SamplerPlan& plan_;
  Channel& channel_;
  const layout::IndexRecord index_;
  Rng rng_;
  Rng anchor_rng_;
  DrawScratch scratch_;
  std::vector<Pick> picks_;
  std::unique_ptr<DistinctPicks> distinct_;  // nullptr: an item may come twice in a batch
  uint64_t redrawn_ = 0;
  uint64_t watching_ = 0;  // items that the conductor was asked to tell of; 0: nothing asked
  uint64_t watching_mark_ = 0;  // of the server that was asked
};

Status DirectSource::fill(Batch& batch, uint32_t rows, int64_t timeout_ns) {
  Patience patience(timeout_ns);
  for (bool whole = false; !whole;) {
    uint32_t drawn = 0;
    GEAR_TRY(draw(rows, distinct_.get(), patience, &batch.population, &drawn));
    read_picks(batch, drawn);
    uint32_t moved = gather_rows(table_, plan_.windows, scratch_.items.data(), batch.anchors, drawn,
                                 0, batch.windows.data(), scratch_.outcomes.data());
    whole = true;
    if (moved > 0) GEAR_TRY(redraw_moved(batch, drawn, patience, &whole));
    batch.set_rows(drawn);
  }
  return {};
}

// Picks `count` slots, waiting until the table has what it takes; unique ones, when that is all there is, fewer.
Status DirectSource::draw(uint32_t count, DistinctPicks* distinct, Patience& patience,
                          uint64_t* population, uint32_t* drawn) {
  int64_t nap_ns = kNapLeastNs;
  for (;;) {
    if (!channel_.is_served()) return channel_.health();
    *population = items();
    if (*population < items_wanted()) {
      GEAR_TRY(wait_for_items(patience));
      continue;
    }
    *drawn = distinct != nullptr
                 ? distinct->draw(rng_, count, picks_.data())
                 : direct_pick(index_, table_.directory, rng_, count, picks_.data());
    if (*drawn > 0) return {};
    GEAR_TRY(wait_for_weight(patience, &nap_ns));
  }
}

// The conductor wakes the channel once the table has the items; a request that stands from an
// earlier call will do.
Status DirectSource::wait_for_items(Patience& patience) {
  if (patience.ended()) return timed_out();
  uint64_t wanted = items_wanted();
  take_notices();
  uint64_t mark = channel_.server_mark();
  // A server that took over may not know what the one before was asked.
  if ((watching_ != wanted || mark != watching_mark_) && channel_.submissions().has_room(1)) {
    layout::SubmissionRecord record{};
    record.op = static_cast<uint32_t>(SubmissionOp::kWatch);
    record.argument = wanted;
    channel_.submissions().push(record);
    watching_ = wanted;
    watching_mark_ = mark;
  }
  channel_.submit(Urgency::kAnswer);
  Status status = channel_.wait_until(patience.deadline_ns(), [&] {
    take_notices();
    return watching_ == 0 || items() >= wanted || channel_.server_mark() != mark;
  });
  return status.code() == GEAR_ETIMEDOUT ? timed_out() : status;
}

Status DirectSource::wait_for_weight(Patience& patience, int64_t* nap_ns) {
  if (patience.ended()) return timed_out();
  int64_t end_ns = std::min(patience.deadline_ns(), deadline_after(*nap_ns));
  *nap_ns = std::min(*nap_ns * 2, kNapMostNs);
  Status status = channel_.wait_until(end_ns, [] { return false; });
  return status.code() == GEAR_ETIMEDOUT ? Status() : status;
}

void DirectSource::take_notices() {
  uint64_t notices = channel_.completions().available();
  if (notices == 0) return;
  channel_.completions().take(notices);
  watching_ = 0;
}

// False when the item is too old for this sampler. The version is of the item's generation, or the gather, which comes
// after, finds that the item moved.
bool DirectSource::read_version(const DrawnItem& item, uint64_t* version) const {
  *version = table_.versions != nullptr ? peek(table_.versions[item.slot]) : 0;
  return plan_.version_policy == GEAR_VERSION_ANY ||
         !layout::version_behind(*version, peek(table_.header->counters.version), plan_.version_lag);
}

// Picks become items and anchors. A slot whose item has gone, or is too old, becomes a row that moved.
void DirectSource::read_picks(Batch& batch, uint32_t rows) {
  for (uint32_t row = 0; row < rows; ++row) prefetch_item(table_, picks_[row].slot);
  for (uint32_t row = 0; row < rows; ++row) {
    DrawnItem& item = scratch_.items[row];
    if (!read_item(table_, picks_[row].slot, &item) ||
        !read_version(item, &batch.versions[row])) {
      // No block: the gather calls it moved.
      item = DrawnItem{};
      item.block = layout::kNone;
    }
    uint32_t anchor = pick_anchor(plan_.anchor, item.length, plan_.window_length, anchor_rng_);
    describe_row(batch, row, item, anchor);
    batch.probabilities[row] = picks_[row].probability;
    batch.times_sampled[row] = 0;
  }
}

// *whole false: rows without repetition were not to be had one by one; the batch is to be drawn anew.
Status DirectSource::redraw_moved(Batch& batch, uint32_t rows, Patience& patience, bool* whole) {
  for (uint32_t row = 0; row < rows && *whole; ++row) {
    if (scratch_.outcomes[row] == GatherOutcome::kMoved) {
      GEAR_TRY(redraw(batch, row, patience, whole));
    }
  }
  return {};
}

Status DirectSource::redraw(Batch& batch, uint32_t row, Patience& patience, bool* done) {
  for (uint32_t tries = 1;; ++tries) {
    ++redrawn_;
    if (tries % kTriesAtOnce == 0) {
      if (patience.ended()) return timed_out();
      *done = distinct_ == nullptr;
      if (!*done) return {};
    }
    uint32_t drawn = 0;
    GEAR_TRY(draw(1, nullptr, patience, &batch.population, &drawn));
    if (distinct_ && !distinct_->add(picks_[0].slot)) continue;
    DrawnItem item;
    if (!read_item(table_, picks_[0].slot, &item)) continue;
    if (!read_version(item, &batch.versions[row])) continue;
    uint32_t anchor = pick_anchor(plan_.anchor, item.length, plan_.window_length, anchor_rng_);
    GatherOutcome outcome =
        gather_row(table_, plan_.windows, item, anchor, row, batch.windows.data());
    if (outcome == GatherOutcome::kMoved) continue;
    describe_row(batch, row, item, anchor);
    batch.probabilities[row] = picks_[0].probability;
    return {};
  }
}

Status DirectSource::timed_out() const {
  uint64_t have = items();
  return error(
      GEAR_ETIMEDOUT,
      "the table has %llu items, draws begin at %llu%s; append and flush steps, or raise "
      "timeout_ns",
      static_cast<unsigned long long>(have), static_cast<unsigned long long>(items_wanted()),
      have >= items_wanted()
          ? ", but none of them stayed, has a priority above 0, or is of a version that is asked for"
          : "");
}

}  // namespace

std::unique_ptr<RowSource> make_direct_source(const TableView& table, const SamplerPlan& plan,
                                              Channel& channel) {
  return std::make_unique<DirectSource>(table, plan, channel);
}

}  // namespace gear::client
