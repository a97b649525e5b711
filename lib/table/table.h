// A table, the conductor's side: steps come in, items are made, drawn and removed.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/shared_word.h"
#include "base/rng.h"
#include "base/status.h"
#include "layout/channel.h"
#include "limit/rate_limiter.h"
#include "select/selector.h"
#include "shm/segment.h"
#include "table/block_pool.h"
#include "table/drawn.h"
#include "table/geometry.h"
#include "table/group.h"
#include "table/item_order.h"
#include "table/lane.h"
#include "table/prompt_groups.h"
#include "table/table_data.h"

namespace gear {

// What became of a record. Nothing changed unless kDone, or kBlocked with steps counted.
enum class Admit {
  kDone,
  kBlocked,  // the limiter does not admit the item; try again when the table changed
  kBroken,   // no client of ours sends this
  kRejected  // breaks a rule of the table: not made, the stream goes on
};

// Conductor only, throughout. It writes the directory; direct samplers read it meanwhile and rely on the orders stated in
// layout/directory.h. Every operation is O(1) but for the selectors' O(log n), blocks within reach, and items that span
// many blocks. Steady state allocates nothing but what prompt groups and redeliveries of consumer groups keep.
// Files: table.cc, table_lanes.cc, table_parts.cc, table_steps.cc, table_items.cc, table_groups.cc; intent.cc for those to come; adopt.cc,
// adopt_lanes.cc, with the rules of fsck.cc.
class Table {
 public:
  // Makes the segments and formats them: may take long, so it runs outside the conductor's thread.
  // Errors: those of TableData::create.
  static Result<std::unique_ptr<Table>> create(const Geometry& geometry, uint64_t instance_id,
                                               uint64_t table_id, const MemoryOptions& memory);

  // Takes over the table of a server that died, whose segments these are: its facts are checked, all else is made anew from
  // them, and the indexes are repaired while direct samplers go on drawing. The caller then
  //   claims: own_lane for each lane that has a writer, rest_of for each writer's channel, adopt_draw for each draw that
  //   is out, and calls finish_adoption. Until then nothing else may be asked of the table.
  // Errors: ECORRUPT, the text names what contradicts what; ENOMEM.
  static Result<std::unique_ptr<Table>> adopt(Segment directory, TableData data);
  // Blocks and episode slots, held from here on, that the writer of a channel may be storing into and that no lane of it
  // has. The channel is one that lives: what others were storing into is free after finish_adoption.
  LaneRest rest_of(uint32_t channel);
  // A draw that is out holds its rows again; `posted`: it is neither taken nor returned. False, and nothing changed, when
  // its rows are not there any more.
  bool adopt_draw(const Drawn& drawn, bool posted);
  // Finishes the step at which the other server died; closes lanes that nobody owns; frees what nobody needs.
  void finish_adoption();
  // For one who adopts them in this process. The table is of no use after it.
  void take_segments(Segment* directory, TableData* data);

  // Of the writer's record that is applied next. When it is the one at which a server died, what of it is done already is
  // not done again.
  void begin_record(uint32_t channel, uint64_t position);
  // Whether that record of a writer is the one at which a server died, and is done: after finish_adoption, until another begins.
  bool record_done(uint32_t channel, uint64_t position) const {
    return header_->intent.channel == channel && header_->intent.position == position && record_done();
  }
  const layout::LaneRecord& lane_record(uint32_t lane) const { return lane_records_[lane]; }
  // What the lane's writer asked for and does not have: kept for a server to come. Grants count down by themselves.
  void note_wants(uint32_t lane, uint32_t blocks, uint32_t episodes);
  // Whether the record begun is the one that asked last: it is applied, then.
  bool wants_noted(uint32_t lane) const;
  uint32_t blocks_wanted(uint32_t lane) const { return layout::wanted_blocks(lanes_[lane].wants); }
  uint32_t episodes_wanted(uint32_t lane) const { return layout::wanted_episodes(lanes_[lane].wants); }
  // What the lane was granted and its writer has not filled: blocks with room, oldest first, and episode slots in their
  // order, the first is that of the open or coming episode.
  std::vector<layout::GrantRecord> grants_out(uint32_t lane) const;
  const std::vector<uint32_t>& episodes_out(uint32_t lane) const { return lanes_[lane].episodes; }

  const layout::TableHeader& header() const { return *header_; }
  uint64_t id() const { return header_->table_id; }
  const char* name() const { return header_->name; }
  layout::TableState state() const { return static_cast<layout::TableState>(header_->state); }
  void set_state(layout::TableState state);
  const Segment& directory() const { return directory_; }
  const TableData& data() const { return data_; }

  // Parts of the data (table_parts.cc), with payload isolation. A writer's channel takes one before it opens lanes: one of its
  // user that nobody has now, else one that nobody ever had; it is left when nobody stores into it any more. Errors: ELIMIT.
  bool parted() const { return header_->parts != 0; }
  Result<uint32_t> take_part(uint32_t channel, uint32_t uid);
  bool part_left_for(uint32_t uid) const { return part_for(uid) != layout::kNone; }
  // kNone: it has none.
  uint32_t part_of(uint32_t channel) const;
  void leave_part(uint32_t channel);
  // As BlockPool's.
  bool memory_may_come() const { return pool_->memory_may_come(); }
  uint64_t memory_moves() const { return pool_->moves(); }

  // Lanes. open_lane: kNone when lanes_max are open. owner_index: the writer's own number of it. Channels count from 1.
  uint32_t open_lane(uint32_t channel, uint32_t owner_index = 0);
  void close_lane(uint32_t lane);  // ends an open episode as truncated
  // Names of lanes (table_lanes.cc). lane_named: kNone when no open lane has that name. O(1).
  void own_lane(uint32_t lane, LaneOwner* owner);
  void name_lane(uint32_t lane, uint64_t name);
  void release_name(uint32_t lane);
  uint32_t lane_named(uint64_t name) const;
  LaneOwner& lane_owner(uint32_t lane) const { return *lanes_[lane].owner; }
  uint32_t lane_owner_index(uint32_t lane) const { return lanes_[lane].owner_index; }
  // Ends the lane as close_lane does, but keeps what its writer may still be storing into; release lets it go.
  LaneRest take_over_lane(uint32_t lane);
  void release(const LaneRest& rest);
  uint32_t lanes_open() const { return lanes_open_; }

  // Grants the lane one more block, evicting items for it if none is free. False: nothing left to evict.
  bool grant_block(uint32_t lane, layout::GrantRecord* grant);
  bool grant_episode(uint32_t lane, uint32_t* slot);
  // Blocks granted to the lane that still have rows to fill.
  uint32_t unfilled_blocks(uint32_t lane) const {
    return static_cast<uint32_t>(lanes_[lane].blocks.size()) - lanes_[lane].filling;
  }

  // Rows admitted of the lane so far, final observations too.
  uint64_t lane_rows(uint32_t lane) const { return lanes_[lane].next_row; }
  // Admits up to `count` rows of the lane as steps; *done says how many.
  Admit commit(uint32_t lane, uint32_t count, uint32_t* done);
  // rows_after: the lane's rows with the final observation, as its writer counts them.
  Admit end_episode(uint32_t lane, uint32_t flags, uint64_t rows_after);
  Admit give_episode_cells(uint32_t lane);
  Admit make_item(uint32_t lane, uint32_t length, double priority);
  Admit set_priority(uint32_t lane, bool given, double priority);
  Admit set_version(uint32_t lane, uint64_t version);
  // Coming items of the lane are members of a prompt group; size 0: of none.
  Admit set_prompt_group(uint32_t lane, uint64_t group, uint32_t size);

  // Draws. `draws_ready(n)` says whether n draws would succeed now. A draw counts as reserved until it is taken (sampled) or
  // returned; its pin lasts until unpin. `index` is the table's sampler or one of the named selectors.
  bool draws_ready(uint64_t n) const;
  bool draw(Rng& rng, Drawn* drawn) { return draw(header_->sampler_index, rng, {}, drawn); }
  bool draw(uint32_t index, Rng& rng, const VersionFilter& filter, Drawn* drawn);
  void take(const Drawn& drawn, bool counted = false);
  void give_back(const Drawn& drawn, bool uncounted = false);
  void unpin(const Pin& pin);
  // For the server that comes after a death: before a draw, take, return or acknowledgement what it changes is noted in the
  // header, and end_intent follows once the state of lease `number` of the channel tells that it is done. A step found in
  // the middle is completed with `counted` or `uncounted` when the count that it begins with was made; a draw is undone.
  void begin_draw(uint32_t channel, uint64_t number);
  void intend(layout::IntentOp op, uint32_t channel, uint64_t number, const Drawn& drawn,
              const ConsumerGroup* group);
  void end_intent();
  void undo_draw();
  void keep_draw_counted();
  uint32_t times_sampled(uint32_t slot) const { return slot < items_used_ ? items_[slot].times_sampled : 0; }

  // Consumer groups. open_group makes the group when there is none of that name.
  // Errors: EUNSUPPORTED (max_times_sampled), ELIMIT.
  Result<std::shared_ptr<ConsumerGroup>> open_group(const char* name, bool from_oldest);
  std::shared_ptr<ConsumerGroup> find_group(const char* name) const;
  const std::vector<std::shared_ptr<ConsumerGroup>>& groups() const { return groups_; }
  void drop_group(ConsumerGroup& group);
  // Groups that a server left: each segment after the table is adopted, then the samplers' leases, then finish_groups once.
  // Errors: EPROTOCOL, and the others serve.
  Status adopt_group(Segment segment);
  void adopt_lease(ConsumerGroup& group, const Drawn& drawn);
  void adopt_waiting(ConsumerGroup& group, const Drawn& drawn);  // given back meanwhile
  void finish_groups();
  // Prompt groups that a server left: once the items are there; and once they can be shown, after finish_groups.
  void adopt_prompts();
  void finish_prompts();
  bool draws_ready_for(ConsumerGroup& group, const VersionFilter& filter, uint64_t n);
  bool draw_for(ConsumerGroup& group, const VersionFilter& filter, Drawn* drawn);
  void take_for(ConsumerGroup& group, const Drawn& drawn, bool counted = false);
  void give_back_for(ConsumerGroup& group, const Drawn& drawn);  // newest first
  void acknowledge(ConsumerGroup& group, const Drawn& drawn);  // the caller unpins
  void deliver_again(ConsumerGroup& group, const Drawn& drawn);

  // Never goes down.
  void raise_version(uint64_t version);
  // `direct_allowed` follows. The limits are checked by the caller.
  void retune(const gear_rate_limiter& limits);
  // Items that can be drawn, of whatever weight.
  uint64_t drawable() const { return indexed_; }
  // For a run of draws without repetition: set_aside takes a drawn item out of the index that it came from (a mixture: out
  // of all that it draws from), false when it is not there any more; put_back returns it to its place. All that a run sets
  // aside is put back before anything else is asked of the table.
  bool set_aside(uint32_t index, const Drawn& drawn);
  void put_back(uint32_t index, uint32_t slot);
  // Of a draw from the index being this item, now.
  double probability(uint32_t index, const Drawn& drawn) const;

  // Items by key, as in gear_items_result; runs of updates go between begin_updates and end_updates.
  enum class KeyOutcome { kApplied, kStale, kUnknown, kRejected };
  void begin_updates();
  void end_updates();
  // Brings the item of a key near, for an update that comes soon. Any key.
  void foresee(uint64_t key) const {
    uint32_t slot = layout::key_slot(key, header_->slot_bits);
    if (slot >= items_used_) return;
    prefetch_to_write(&items_[slot]);
    for (const auto& selector : selectors_) selector->foresee(slot);
  }
  KeyOutcome update_priority(uint64_t key, double priority);
  KeyOutcome delete_item(uint64_t key);

  void reset();

  uint64_t items() const { return header_->counters.items; }
  // Grows with everything that could let a blocked insertion or a waiting draw proceed.
  uint64_t changes() const { return changes_; }

 private:
  Table() = default;
  void lay_out(const Geometry& geometry, uint64_t table_id);
  void bind();
  void open_selectors(bool format);
  // Adoption.
  void repair_counters();
  void adopt_items();
  Status check_intent() const;
  void adopt_indexes();
  Status adopt_lanes();
  Status adopt_lane(uint32_t index, std::vector<uint32_t> ahead);
  uint32_t newest_block(uint32_t index, const std::vector<uint32_t>& own) const;
  void adopt_settings(uint32_t index);
  void adopt_episodes();
  void find_newest_step(Lane& lane) const;
  void finish_intent();
  void finish_rows();
  void finish_lanes();
  void free_unneeded();
  void carry_out_reset();
  void leave_episode(uint32_t slot);
  uint32_t part_for(uint32_t uid) const;
  void finish_parts();
  bool claimed(uint32_t channel) const;
  void set_wants(uint32_t lane, uint64_t wants);
  void intend_grant(layout::IntentOp op, uint32_t lane, uint32_t slot, uint64_t generation, uint64_t wants);
  bool hidden(uint32_t slot) const;
  bool slot_left() const;
  bool item_made() const;
  bool item_owed() const { return header_->intent.slot == layout::kNone || !item_made(); }
  uint64_t rows_kept_from(const Lane& lane) const;
  // The steps that an adopter may have to finish; see IntentRecord.
  void begin_intent(layout::IntentOp op);
  bool record_done() const;
  void record_is_done();
  void begin_rows(uint32_t lane);
  void intend_item(uint64_t row, uint32_t length);
  void intend_end(uint32_t lane, uint64_t row, uint64_t bits);
  void carry_out_end();
  bool too_large(uint32_t length) const {
    return header_->capacity_bytes != 0 && item_bytes(length) > header_->capacity_bytes;
  }
  uint32_t next_slot() const { return free_items_.empty() ? items_used_ : free_items_.back(); }

  void count_rejected_item();
  uint64_t items_coming(const Lane& lane);
  bool items_blocked(const Lane& lane, uint32_t length);
  bool step_makes_item(const Lane& lane) const;
  // Of the items that steps make.
  uint32_t policy_length() const { return header_->item_policy == GEAR_ITEMS_STEP ? 1 : header_->item_length; }
  void append_row(Lane& lane, uint32_t lane_index, uint32_t mark);
  void forget_past_rows(Lane& lane);
  Admit try_end(uint32_t lane, uint32_t flags, uint64_t by);
  void cut_episode(uint32_t lane_index);
  void sync_lane(const Lane& lane, uint32_t lane_index);

  void insert_item(Lane& lane, uint64_t first_row, uint32_t length, double priority,
                   uint32_t flags);
  uint32_t fill_item(Lane& lane, uint64_t first_row, uint32_t length, double priority,
                     uint32_t flags);
  void show_item(uint32_t slot);
  void hide_item(Lane& lane, uint64_t first_row, uint32_t length, double priority,
                 uint32_t flags);
  void free_slot(uint32_t slot);
  void make_room(uint64_t coming);
  bool remove_something();
  layout::PromptRecord* prompt_record(uint32_t slot) const;
  void mark_members(const PromptGroups::Group& group, uint32_t bit);
  void show_prompt_group(uint64_t id);
  void drop_oldest_prompt_group();
  void free_prompt_group(uint64_t id);
  bool drop_redelivery();
  void reset_groups();
  void keep_order();
  uint32_t free_ordinal();
  bool same_item(const Drawn& drawn) const;
  void settle(ConsumerGroup& group, const Drawn& drawn);
  Drawn pinned(uint32_t slot);
  void evict_one();  // some item is in the indexes
  uint32_t any_selectable();
  // Each index of the named selectors once, also where several share it.
  template <typename Do>
  void for_each_named(Do&& act) {
    for (uint32_t i = 0; i < header_->named_count; ++i) {
      Selector* const* named = selector_of_ + header_->named_index;
      if (std::find(named, named + i, named[i]) == named + i) act(named[i]);
    }
  }
  // In and out of every index.
  void select(uint32_t slot, double priority);
  void reselect(uint32_t slot, double priority);
  void unselect(uint32_t slot);
  bool selectable(const layout::ItemRecord& item) const;
  void remove_indexed(uint32_t slot);
  void remove_item(uint32_t slot);  // from the table; not in the selectors any more
  KeyOutcome find_item(uint64_t key, uint32_t* slot) const;
  void hold_range(uint32_t block, uint32_t position, uint32_t length, bool hold);
  double coming_priority(const Lane& lane) const;
  uint64_t item_bytes(uint32_t length) const { return length * header_->step_bytes; }
  void uncount_draw(uint32_t slot);
  void pin_draw(uint32_t slot, double probability, Drawn* drawn);
  bool pick_item(uint32_t index, Rng& rng, const VersionFilter& filter, Pick* pick);
  bool version_too_old(uint64_t version, const VersionFilter& filter) const {
    return filter.policy != GEAR_VERSION_ANY &&
           layout::version_behind(version, header_->counters.version, filter.lag);
  }
  bool too_old(uint32_t slot, const VersionFilter& filter) const;
  void pass_over_old(ConsumerGroup& group, const VersionFilter& filter);
  // Out of what the index draws from; put_back lets it in again.
  void leave_out(uint32_t index, uint32_t slot);

  void hold_episode(uint32_t slot) { if (slot != layout::kNone) ++episode_holds_[slot]; }
  void drop_episode(uint32_t slot);

  Segment directory_;
  TableData data_;
  layout::TableHeader* header_ = nullptr;
  layout::LaneRecord* lane_records_ = nullptr;
  layout::BlockRecord* blocks_ = nullptr;
  uint32_t* marks_ = nullptr;
  layout::ItemRecord* items_ = nullptr;
  layout::EpisodeRecord* episodes_ = nullptr;
  layout::PartRecord* parts_ = nullptr;

  std::unique_ptr<BlockPool> pool_;
  std::vector<Lane> lanes_;
  uint32_t lanes_open_ = 0;
  uint32_t lowest_free_lane_ = 0;  // no lane below is free
  std::unordered_map<uint64_t, uint32_t> lanes_by_name_;

  // One for each index that has memory of its own; all hold the same items, and are changed together.
  std::vector<std::unique_ptr<Selector>> selectors_;
  Selector* selector_of_[layout::kIndexesMax] = {};  // by index
  Selector* remover_ = nullptr;
  Selector* largest_ = nullptr;  // nullptr unless new items take the table's largest priority
  uint64_t indexed_ = 0;         // items in the indexes
  Rng remover_rng_{0x67656172};
  RateLimiter limiter_;
  uint64_t reserved_ = 0;    // draws made, neither taken nor returned
  uint64_t draws_left_ = 0;  // with max_times_sampled: how many draws the indexed items still allow

  std::vector<uint32_t> free_items_;
  uint32_t items_used_ = 0;  // slots from here on were never used
  std::vector<std::vector<uint32_t>> free_episodes_;  // by part; one without parts
  std::vector<uint32_t> episode_holds_;
  uint64_t changes_ = 0;

  uint64_t* versions_ = nullptr;  // of items by slot, in the directory; nullptr: none kept
  PromptGroups prompt_groups_;
  ItemOrder order_;
  std::vector<std::shared_ptr<ConsumerGroup>> groups_;
  uint32_t next_ordinal_ = 0;
  std::vector<uint32_t> channels_claimed_;  // during adoption
};

}  // namespace gear
