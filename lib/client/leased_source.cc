// The conductor draws, counts and pins; this end asks, gathers, and says what it took.

#include <algorithm>

#include "base/shared_word.h"
#include "client/row_source.h"
#include "client/text.h"

namespace gear::client {
namespace {

using layout::DrawRecord;
using layout::SubmissionOp;
using layout::SubmissionRecord;

// How long the conductor may take to tell whether it took a record that it must have seen by now.
constexpr int64_t kVerdictNs = 1'000'000'000;

SubmissionRecord record_of(SubmissionOp op, uint64_t argument, uint64_t count) {
  SubmissionRecord record{};
  record.op = static_cast<uint32_t>(op);
  record.argument = argument;
  record.count = static_cast<uint32_t>(count);
  return record;
}

// Draws that were posted stay in the completion ring until they are taken (they count, and their
// leases are the batch's) or returned (they never were). Both go in the order posted.
class LeasedSource final : public RowSource {
 public:
  LeasedSource(const TableView& table, const SamplerPlan& plan, Channel& channel)
      : table_(table),
        plan_(plan),
        channel_(channel),
        line_(std::make_shared<LeaseLine>(channel, table.header->lease_timeout_ms,
                                          !plan.group.empty())),
        anchor_rng_(anchor_seed(plan.seed)),
        scratch_(plan.batch_rows_max) {}
  ~LeasedSource() override { line_->close(); }

  Status fill(Batch& batch, uint32_t rows, int64_t timeout_ns) override;
  uint64_t redrawn() const override { return redrawn_; }
  std::shared_ptr<LeaseLine> leases() const override { return line_; }

 private:
  Status obtain(uint32_t rows, uint32_t rows_min, int64_t timeout_ns, uint32_t* ready);
  Status demand(uint32_t rows, uint32_t rows_min, int64_t deadline_ns, bool ask_once);
  void withdraw();
  Status take(Batch& batch, uint32_t count, int64_t deadline_ns, bool* taken);
  Status ask_whether_taken(uint64_t first, uint32_t count, int64_t deadline_ns, bool* taken);
  bool revoked(uint64_t draw) const { return observe(channel_.header().draws_revoked) > draw; }
  void skip_revoked();
  void read_draws(Batch& batch, uint32_t count);
  Status replace_moved(Batch& batch, int64_t deadline_ns);
  bool all_there_is() const;
  bool repeated(const Batch& batch, uint32_t row) const;
  DrawnItem item_of(const DrawRecord& draw) const;
  void describe(Batch& batch, uint32_t row, const DrawRecord& draw, const DrawnItem& item);
  Status timed_out(uint32_t rows, int64_t timeout_ns) const;

  const TableView& table_;
  const SamplerPlan& plan_;
  Channel& channel_;
  std::shared_ptr<LeaseLine> line_;
  Rng anchor_rng_;
  DrawScratch scratch_;
  uint64_t redrawn_ = 0;
};

Status LeasedSource::fill(Batch& batch, uint32_t rows, int64_t timeout_ns) {
  if (!channel_.table_is_open()) return channel_.health();
  uint32_t rows_min = plan_.rows_min != 0 ? std::min(plan_.rows_min, rows) : rows;
  const int64_t deadline_ns = deadline_after(std::max<int64_t>(timeout_ns, 0));
  int64_t take_by_ns = 0;
  uint32_t ready = 0;
  uint32_t moved = 0;
  batch.leases.run_count = 0;
  for (bool taken = false; !taken;) {
    GEAR_TRY(obtain(rows, rows_min, timeout_ns, &ready));
    batch.population = peek(table_.header->counters.items);
    batch.set_rows(ready);
    read_draws(batch, ready);
    moved = gather_rows(table_, plan_.windows, scratch_.items.data(), batch.anchors, ready, 0,
                        batch.windows.data(), scratch_.outcomes.data());
    take_by_ns = deadline_after(std::max(timeout_ns, kRoundTripNs));
    GEAR_TRY(take(batch, ready, take_by_ns, &taken));
    // Revoked meanwhile, and nothing of the batch is taken: from the start, with what is left of the time.
    if (!taken && timeout_ns > 0) timeout_ns = std::max<int64_t>(left_until(deadline_ns), 0);
  }
  if (moved > 0) GEAR_TRY(replace_moved(batch, take_by_ns));
  // Fewer than were demanded: what comes now is for nobody.
  if (ready < rows) withdraw();
  return {};
}

// Waits until `rows` draws are posted, or, once the time ends, `rows_min`.
Status LeasedSource::obtain(uint32_t rows, uint32_t rows_min, int64_t timeout_ns, uint32_t* ready) {
  CompletionConsumer& draws = channel_.completions();
  skip_revoked();
  *ready = rows;
  if (draws.available() >= rows) return {};
  bool ask_once = timeout_ns <= 0;
  // Nothing to ask for: an empty table, and no time to wait for it to change.
  if (ask_once && peek(table_.header->counters.items) == 0) return timed_out(rows, timeout_ns);

  int64_t deadline_ns = deadline_after(ask_once ? kRoundTripNs : timeout_ns);
  Status status = demand(rows, rows_min, deadline_ns, ask_once);
  // With them went the demand.
  while (status.ok() && revoked(draws.head())) {
    skip_revoked();
    status = demand(rows, rows_min, deadline_ns, ask_once);
  }
  uint64_t available = draws.available();
  if (available >= rows) return {};
  bool over = status.ok() || status.code() == GEAR_ETIMEDOUT;
  // What is posted is leased, whether the server is there or not.
  bool enough = over || status.code() == GEAR_EDISCONNECTED;
  if (enough && (available >= rows_min || all_there_is())) {
    *ready = static_cast<uint32_t>(available);
    return {};
  }
  withdraw();
  return over ? timed_out(rows, timeout_ns) : status;
}

// Asks for draws up to `rows`; with ask_once it is enough that the conductor has looked.
Status LeasedSource::demand(uint32_t rows, uint32_t rows_min, int64_t deadline_ns, bool ask_once) {
  CompletionConsumer& draws = channel_.completions();
  SubmissionRecord record = record_of(SubmissionOp::kDemand, draws.head() + rows, rows_min);
  for (;;) {
    uint64_t mark = channel_.server_mark();
    bool met = false;
    GEAR_TRY(line_->push(record, Urgency::kAnswer, deadline_ns));
    GEAR_TRY(channel_.wait_until(deadline_ns, [&] {
      // The head is looked at first: the conductor publishes what it posted before the head that
      // tells it has looked.
      bool looked = ask_once && line_->waiting() == 0;
      met = draws.available() >= rows || all_there_is() || looked || revoked(draws.head());
      return met || channel_.server_mark() != mark;
    }));
    // Else a server took over, which may not know the demand. Asked twice it is the same demand.
    if (met) return {};
  }
}

// Unique draws: what is posted is all that can be drawn.
bool LeasedSource::all_there_is() const {
  if (!plan_.unique) return false;
  CompletionConsumer& draws = channel_.completions();
  uint64_t available = draws.available();
  return available > 0 && observe(channel_.header().draws_end) == draws.head() + available;
}

// Unique draws: another row of the batch has this one's item.
bool LeasedSource::repeated(const Batch& batch, uint32_t row) const {
  if (!plan_.unique) return false;
  for (uint32_t other = 0; other < batch.rows; ++other) {
    if (other != row && batch.keys[other] == batch.keys[row]) return true;
  }
  return false;
}

// Ends a demand that was not met. What the conductor posted before it saw that goes back, unless it
// is wanted ahead; so it waits, briefly, until the conductor has seen it. If that fails the draws
// serve the next call.
void LeasedSource::withdraw() {
  CompletionConsumer& draws = channel_.completions();
  int64_t deadline_ns = deadline_after(kRoundTripNs);
  SubmissionRecord record = record_of(SubmissionOp::kDemand, draws.head(), 0);
  if (!line_->push(record, Urgency::kAnswer, deadline_ns).ok()) return;
  Status seen = channel_.wait_until(deadline_ns, [&] { return line_->waiting() == 0; });
  skip_revoked();
  uint64_t posted = draws.available();
  if (plan_.prefetch > 0 || posted == 0) return;
  // Also when it was not seen in time: others wait for these items.
  if (!line_->push(record_of(SubmissionOp::kReturn, draws.head(), posted), Urgency::kAnswer, deadline_ns)
           .ok()) {
    return;
  }
  draws.take(posted);
}

// Draws that the conductor took back because they were not taken in time: nobody here may have them.
void LeasedSource::skip_revoked() {
  CompletionConsumer& draws = channel_.completions();
  uint64_t end = observe(channel_.header().draws_revoked);
  if (end > draws.head()) draws.take(end - draws.head());
}

// The first `count` draws are the batch's: from here on they count as sampled, and their leases
// run. *taken is false when they were revoked before; then none of them is.
Status LeasedSource::take(Batch& batch, uint32_t count, int64_t deadline_ns, bool* taken) {
  CompletionConsumer& draws = channel_.completions();
  uint64_t first = draws.head();
  bool more_ready = draws.available() >= 2 * uint64_t{count};
  *taken = false;
  if (revoked(first)) return {};
  // Before the conductor's own clock is read, so this end never takes a lease for longer than it
  // is.
  batch.leases.drawn_ns = now_ns();
  // Writers that the limiter holds back may wait for this, and so does this end for draws ahead.
  GEAR_TRY(line_->push(record_of(SubmissionOp::kTake, first, count),
                       more_ready ? Urgency::kCommit : Urgency::kAnswer, deadline_ns));
  // Either this look sees that the conductor revokes them, or the conductor sees the record before it does.
  fence_store_before_look();
  *taken = true;
  if (revoked(first)) GEAR_TRY(ask_whether_taken(first, count, deadline_ns, taken));
  if (!*taken) return {};
  LeaseRun* last = batch.leases.run_count > 0 ? &batch.leases.runs[batch.leases.run_count - 1] : nullptr;
  if (last != nullptr && last->first + last->count == first) {
    last->count += count;
  } else {
    batch.leases.runs[batch.leases.run_count++] = {first, count};
  }
  draws.take(count);
  return {};
}

// The record and the conductor's decision to revoke crossed: it tells which was first, or the next server's conductor does.
Status LeasedSource::ask_whether_taken(uint64_t first, uint32_t count, int64_t deadline_ns, bool* taken) {
  line_->submit(Urgency::kAnswer);
  Status seen = channel_.wait_until(std::max(deadline_ns, deadline_after(kVerdictNs)), [&] { return line_->waiting() == 0; });
  if (!seen.ok()) {
    // Nobody will have them, so they come back as if rejected.
    LeaseHold hold{};
    hold.runs[hold.run_count++] = {first, count};
    hold.drawn_ns = now_ns();
    channel_.completions().take(count);
    static_cast<void>(line_->end(hold, line_->acknowledges() ? LeaseEnd::kRejected : LeaseEnd::kReleased));
    return seen;
  }
  *taken = observe(channel_.header().takes_void) <= first;
  return {};
}

void LeasedSource::read_draws(Batch& batch, uint32_t count) {
  for (uint32_t row = 0; row < count; ++row) {
    const DrawRecord& draw = channel_.completions().look(row).draw;
    scratch_.items[row] = item_of(draw);
    describe(batch, row, draw, scratch_.items[row]);
  }
}

DrawnItem LeasedSource::item_of(const DrawRecord& draw) const {
  DrawnItem item;
  item.key = draw.key;
  item.item_generation = kItemPinned;
  item.block_generation = draw.block_generation;
  item.slot = layout::key_slot(draw.key, table_.header->slot_bits);
  item.block = draw.block;
  item.position = draw.position;
  item.length = draw.length;
  item.episode = draw.episode;
  item.times_sampled = draw.times_sampled;
  item.priority = draw.priority;
  return item;
}

void LeasedSource::describe(Batch& batch, uint32_t row, const DrawRecord& draw,
                            const DrawnItem& item) {
  uint32_t anchor = pick_anchor(plan_.anchor, item.length, plan_.window_length, anchor_rng_);
  describe_row(batch, row, item, anchor);
  batch.probabilities[row] = draw.probability;
  batch.times_sampled[row] = draw.times_sampled;
  bool again = draw.type == static_cast<uint32_t>(layout::CompletionType::kItemAgain);
  batch.redelivered[row] = again ? 1 : 0;
  batch.versions[row] = draw.version;
}

// Pins keep what was drawn, so a row moves only when the conductor revoked the draw. Such rows are
// drawn again one by one; the revoked lease ends with the batch.
Status LeasedSource::replace_moved(Batch& batch, int64_t deadline_ns) {
  for (uint32_t row = 0; row < batch.rows; ++row) {
    while (scratch_.outcomes[row] == GatherOutcome::kMoved) {
      ++redrawn_;
      uint32_t ready = 0;
      Status status = batch.leases.run_count < LeaseHold::kRunsMax
                          ? obtain(1, 1, left_until(deadline_ns), &ready)
                          : Status(GEAR_ETIMEDOUT,
                                   "draws are revoked faster than they are made; "
                                   "raise lease_timeout_ms of the table");
      if (status.ok()) {
        const DrawRecord& draw = channel_.completions().look(0).draw;
        DrawnItem item = item_of(draw);
        describe(batch, row, draw, item);
        scratch_.outcomes[row] =
            gather_row(table_, plan_.windows, item, batch.anchors[row], row, batch.windows.data());
        if (repeated(batch, row)) scratch_.outcomes[row] = GatherOutcome::kMoved;
        bool taken = false;
        status = take(batch, 1, deadline_ns, &taken);
        if (!taken) scratch_.outcomes[row] = GatherOutcome::kMoved;
      }
      if (!status.ok()) {
        static_cast<void>(line_->end(batch.leases, line_->acknowledges() ? LeaseEnd::kRejected
                                                                        : LeaseEnd::kReleased));
        return status;
      }
    }
  }
  return {};
}

Status LeasedSource::timed_out(uint32_t rows, int64_t timeout_ns) const {
  return error(
      GEAR_ETIMEDOUT,
      "%u draws were not admitted in %s, the table has %llu items; append steps, lower the "
      "limiter's bounds, set rows_min, or raise timeout_ns",
      rows, duration_text(std::max<int64_t>(timeout_ns, 0)).c_str(),
      static_cast<unsigned long long>(peek(table_.header->counters.items)));
}

}  // namespace

std::unique_ptr<RowSource> make_leased_source(const TableView& table, const SamplerPlan& plan,
                                              Channel& channel) {
  return std::make_unique<LeasedSource>(table, plan, channel);
}

}  // namespace gear::client
