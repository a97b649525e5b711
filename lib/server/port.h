// A port: the conductor's end of one channel.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/shared_word.h"
#include "base/status.h"
#include "layout/ledger.h"
#include "shm/cut_short.h"
#include "shm/ring.h"
#include "shm/segment.h"
#include "table/table.h"

namespace gear {

// Where and for whom a channel is made.
struct ChannelPlace {
  uint64_t instance_id;
  uint32_t id;
  uint64_t session;
  MemoryOptions memory;
  uint32_t uid;  // of the session's process
};

// What a channel is made with.
struct ChannelPlan {
  layout::ChannelKind kind;
  uint32_t submission_slots;  // powers of two
  uint32_t completion_slots;
};

// Conductor only. Life: open -> (the client closes it, or dies) closing: what is accepted is still admitted -> finished.
// Or -> failed, when the table ends or the client breaks the protocol: no record is taken any more.
// Invariant: a record is copied out once, checked, applied, noted as applied in the ledger, and only then is the head
// published. A record that a conductor died in is applied again by the next one, so each effect is recognised, or is worked out
// from what was before the record (before_this), or belongs to the table, which has its own intent.
class Port {
 public:
  virtual ~Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Takes a bounded number of records and posts what is due; returns how much it did, 0 when there was nothing to do.
  // O(1) when idle.
  size_t work();

  // Something is due later even though work returned 0 (a lease may expire).
  virtual bool wants_tick() const { return false; }
  virtual void tick(int64_t) {}

  void begin_close() {
    closing_ = true;
    publish(record_->closing, 1u);
  }
  // The table ended: drain what can be admitted, then answer `status` to everything.
  void end(int status);
  void fail(int status);

  bool broken() const { return failure_ == GEAR_EPROTOCOL; }
  // Once: that the client broke the protocol, however that was found.
  bool take_offence() { return broken() && !std::exchange(told_, true); }
  // The client truncated the channel.
  bool cut_short() const { return watch_.cut(); }
  bool closing() const { return closing_; }
  bool finished() const { return closing_ && (failure_ != 0 || drained()); }
  // Gives everything held back to the table. Once, before destruction.
  virtual void give_up() = 0;

  // What the ledger is to hold of a port that was just opened, and where it holds it from then on.
  layout::ChannelRecord describe() const;
  void keep_in(layout::ChannelRecord* record) { record_ = record; }
  // nullptr when it is kept nowhere.
  layout::ChannelRecord* kept_in() const { return record_ == &unkept_ ? nullptr : record_; }

  // Once, when its table's adoption is finished and before any port works, for the table remembers one record only: passes
  // over the record at which the other server died when it is done, and tells the client how far it is.
  void settle();

  // Works off what is in the ring now, at most one ring full.
  void drain();

  layout::ChannelKind kind() const { return plan_.kind; }
  uint32_t id() const { return id_; }
  uint64_t session() const { return session_; }
  // The user in whose quotas it counts for as long as it is there, which may be longer than its session.
  uint32_t uid() const { return record_->uid; }
  Table& table() const { return *table_; }
  const Segment& segment() const { return segment_; }
  uint64_t records_taken() const { return submissions_.head(); }

 protected:
  Port(const ChannelPlan& plan, Segment segment, std::shared_ptr<Table> table, const ChannelPlace& place);

  // Adopts the channel of a port whose conductor died: it goes on at the record that had no effect yet, or a part of it.
  // Where the rings do not fit the record, or the client broke them, the port has failed.
  Port(layout::ChannelRecord* record, Segment segment, std::shared_ptr<Table> table);
  // Of the record being applied.
  uint64_t position() const { return submissions_.head(); }
  // `value` as it was before the record being applied, however often that is applied, by this conductor or the next.
  // `which`: 0 or kNoteRefused, of the two counts that one record may add to, one after the other.
  uint64_t before_this(uint64_t value, uint64_t which = 0);
  layout::ChannelRecord& record() { return *record_; }
  const layout::ChannelRecord& record() const { return *record_; }

  enum class Step { kApplied, kPart, kWait, kBroken };
  // Checks and applies one record. kWait leaves it first in the ring until the table changes; kPart until the next turn, for
  // the budget of this one is spent.
  virtual Step apply(const layout::SubmissionRecord& record) = 0;
  // What a record does beyond a record's usual work is charged to the turn; once it is spent, the turn ends.
  static constexpr uint64_t kWorkAtOnce = 4096;
  uint64_t budget() const { return spent_ < kWorkAtOnce ? kWorkAtOnce - spent_ : 0; }
  void spend(uint64_t work) { spent_ += work; }
  // Parts that the records of one ring may take beyond one turn each.
  virtual uint64_t parts_most() const { return 0; }
  // Posts what does not answer a record: grants, draws. Returns how many.
  virtual size_t post_due() { return 0; }
  // Before the head is published.
  virtual void before_publish() {}
  // Few, for a grant that one of them asks for is posted after them, and its writer may run out of rows meanwhile.
  virtual size_t records_at_once() const { return 32; }

  bool failed() const { return failure_ != 0; }
  // What was posted or counted outside work().
  void publish_progress();
  bool table_changed() const { return table_->changes() != changes_seen_; }
  layout::ChannelHeader* header() const {
    return static_cast<layout::ChannelHeader*>(segment_.data());
  }
  CompletionProducer& completions() { return completions_; }
  const CompletionProducer& completions() const { return completions_; }

 private:
  bool drained() const { return submissions_.looks_empty(); }
  size_t take_records();

  layout::ChannelRecord unkept_{};
  layout::ChannelRecord* record_ = &unkept_;
  ChannelPlan plan_;
  Segment segment_;
  CutWatch watch_;
  std::shared_ptr<Table> table_;
  uint32_t id_;
  uint64_t session_;
  SubmissionConsumer submissions_;
  CompletionProducer completions_;
  int failure_ = 0;
  bool told_ = false;           // take_offence
  bool closing_ = false;
  bool waiting_ = false;        // the first record waits for the table to change
  uint64_t changes_seen_ = ~uint64_t{0};
  uint64_t spent_ = 0;          // in this turn
  uint64_t tail_published_ = 0;
};

uint64_t channel_bytes(const ChannelPlan& plan);

// Makes the segment of a channel. Errors: those of Segment::create.
Result<Segment> make_channel(const ChannelPlan& plan, uint64_t instance_id, uint32_t channel_id,
                             const MemoryOptions& memory);

// Tells the client of a channel that nothing takes its records any more.
void end_channel(const Segment& channel, int status);

}  // namespace gear
