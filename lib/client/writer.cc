#include "client/writer.h"

#include <algorithm>
#include <cstring>

#include "client/table.h"
#include "client/text.h"
#include "shm/data_map.h"
#include "table/geometry.h"

namespace gear::client {

using layout::CompletionType;
using layout::SubmissionOp;

namespace {

// The most that is pushed for a lane at once: a step, an end, and what is asked for ahead.
constexpr uint64_t kRecordsACall = 4;

// Of one request that opens a writer.
constexpr size_t kNamesMax =
    (layout::kControlBytesMax - sizeof(layout::WriterOpenRequest)) / sizeof(uint64_t);

uint64_t low_mark(uint32_t block_steps, uint32_t blocks_ahead) {
  return std::max<uint64_t>(uint64_t{blocks_ahead} * block_steps / 2, 1);
}

}  // namespace

Writer::Writer(Table& table, std::unique_ptr<Channel> channel, Mapping data,
               const gear_writer_options& options)
    : Handle(kMagic),
      table_(table),
      channel_(std::move(channel)),
      data_map_(std::move(data)),
      data_(static_cast<char*>(data_map_.data())),
      specs_(table.view()),
      lanes_(options.lanes),
      block_steps_(table.header().block_steps),
      blocks_ahead_(blocks_ahead(table.header())),
      has_episodes_(table.header().episode_slots > 0),
      may_lose_lanes_(options.lane_names != nullptr),
      has_optional_(specs_.optional_count() > 0),
      block_span_(table.header().block_budget),
      slot_span_(layout::part_slots(table.header())),
      rows_low_(low_mark(block_steps_, blocks_ahead_)),
      autoreset_(options.autoreset),
      vector_cells_(specs_.count()),
      final_cells_(specs_.count()) {
  first_block_ = channel_->part() * block_span_;
  first_slot_ = channel_->part() * slot_span_;
}

Writer::~Writer() = default;

namespace {

Status check_open(const gear_writer_options& options) {
  if (options.autoreset > GEAR_AUTORESET_SAME_STEP) {
    return error(GEAR_EINVAL,
                 "autoreset %u is no gear_autoreset; give disabled 0, next_step 1 or same_step 2",
                 options.autoreset);
  }
  if (options.take_over > 1 || (options.take_over == 1 && options.lane_names == nullptr)) {
    return error(GEAR_EINVAL, "take_over %u and lane_names %s; give 0, or 1 and the names",
                 options.take_over, options.lane_names == nullptr ? "NULL" : "given");
  }
  if (options.lane_names != nullptr && options.lanes > kNamesMax) {
    return error(GEAR_ELIMIT, "%u lanes with names, a writer has at most %zu; open several writers",
                 options.lanes, kNamesMax);
  }
  return {};
}

// WriterOpenRequest and, where lanes have names, these.
std::vector<char> open_request(uint64_t table_id, const gear_writer_options& options) {
  bool named = options.lane_names != nullptr;
  layout::WriterOpenRequest request{table_id, options.lanes, named ? 1u : 0u, options.take_over, 0};
  size_t names_bytes = named ? options.lanes * sizeof(uint64_t) : 0;
  std::vector<char> body(sizeof request + names_bytes);
  memcpy(body.data(), &request, sizeof request);
  if (named) memcpy(body.data() + sizeof request, options.lane_names, names_bytes);
  return body;
}

Result<Mapping> map_writable(const std::string& purpose, const layout::TableHeader& table, const Channel& channel) {
  if (table.parts != 0) return map_part(purpose, table, channel.part(), channel.descriptor(1));
  return map_segment(purpose, channel.descriptor(1), layout::SegmentKind::kData, true);
}

}  // namespace

Result<std::unique_ptr<Writer>> Writer::open(Table& table, const gear_writer_options& options) {
  std::string purpose = format("open writer on \"%s\"", table.name());
  Status sound = check_open(options);
  if (!sound.ok()) return within(purpose, sound);
  std::vector<char> request = open_request(table.id(), options);
  Result<std::unique_ptr<Channel>> channel =
      Channel::open(table.session(), layout::ControlOp::kWriterOpen, request.data(), request.size(),
                    purpose, &table.header());
  if (!channel.ok()) return channel.status();
  Result<Mapping> data = map_writable(purpose, table.header(), *channel.value());
  if (!data.ok()) {
    static_cast<void>(channel.value()->close());
    return data.status();
  }
  channel.value()->drop_descriptors();
  return std::unique_ptr<Writer>(new Writer(table, channel.take(), data.take(), options));
}

std::string Writer::tried(const char* verb, uint32_t lane) const {
  return format("%s \"%s\" lane %u", verb, table_.name(), lane);
}

Status Writer::check_lane(uint32_t lane, const char* verb) {
  hear_of_lost_lanes();
  if (lane < lanes_.size()) return lanes_[lane].lost ? check_held(lane, verb) : Status();
  return error(GEAR_ELANE, "%s: the writer has %zu lanes, 0 to %zu; open it with more",
               tried(verb, lane).c_str(), lanes_.size(), lanes_.size() - 1);
}

Status Writer::check_held(uint32_t lane, const char* verb) const {
  if (!lanes_[lane].lost) return {};
  return error(GEAR_ESTALE,
               "%s: another writer took the lane over, its episode ended there; leave the lane to "
               "that one, or open a writer that takes its name over again",
               tried(verb, lane).c_str());
}

Status Writer::check_cells(uint32_t lane, const char* verb, const gear_cell* cells,
                           size_t cell_count, CellSet set) const {
  if (specs_.fit(cells, cell_count, set)) return {};
  return specs_.explain(tried(verb, lane), cells, cell_count, set);
}

// ---- space

bool Writer::has_rows(const WriterLane& lane, Needs needs) const {
  return lane.rows_left(block_steps_) >= needs.rows();
}

bool Writer::has(const WriterLane& lane, Needs needs) {
  return has_rows(lane, needs) && (!needs.episode_slot || !lane.episodes.empty()) &&
         channel_->submissions().has_room(kRecordsACall);
}

Status Writer::obtain(uint32_t index, Needs needs, const char* verb, int64_t timeout_ns) {
  needs.episode_slot = needs.episode_slot && has_episodes_;
  bool open = channel_->table_is_open();
  if (open && has(lanes_[index], needs)) return {};
  Status status = open ? wait_for(index, needs, timeout_ns) : channel_->health();
  return status.ok() ? status : within(tried(verb, index), status);
}

Status Writer::wait_for(uint32_t index, Needs needs, int64_t timeout_ns) {
  WriterLane& lane = lanes_[index];
  SubmissionProducer& ring = channel_->submissions();
  take_grants();
  if (!broken_ && has(lane, needs))
    return {};  // granted meanwhile, as is usual when it was asked for ahead
  if (!has_rows(lane, needs) && lane.blocks_wanted > 0) ask_sooner();
  bool asks = lacks_block(lane, needs) || lacks_slot(lane, needs);
  int64_t deadline_ns = deadline_after(asks ? std::max(timeout_ns, kRoundTripNs) : timeout_ns);
  if (!ring.has_room(kRecordsACall)) channel_->ring(Urgency::kAnswer);
  Status status = channel_->wait_until(deadline_ns, [&] { return ring.has_room(kRecordsACall); });
  bool over = false;
  while (status.ok() && !over) {
    ask_for(index, needs);
    status = channel_->wait_until(deadline_ns, [&] {
      take_grants();
      over = broken_ || lane.lost || has(lane, needs);
      // What stood before was granted, and is not enough.
      return over || (lacks_block(lane, needs) && ring.has_room(kRecordsACall));
    });
  }
  if (broken_) {
    return Status(GEAR_EPROTOCOL,
                  "the server granted what there is not; use builds of one version");
  }
  if (lane.lost) {
    return Status(GEAR_ESTALE,
                  "another writer took the lane over; leave it to that one, or open a writer that "
                  "takes its name over again");
  }
  return status.code() == GEAR_ETIMEDOUT ? out_of_space(lane, needs, timeout_ns) : status;
}

bool Writer::lacks_block(const WriterLane& lane, Needs needs) const {
  return !has_rows(lane, needs) && lane.blocks_wanted == 0;
}

bool Writer::lacks_slot(const WriterLane& lane, Needs needs) {
  return needs.episode_slot && lane.episodes.empty() && lane.episodes_wanted == 0;
}

// A block that was asked for ahead is not here yet: the lane fills rows faster than the conductor
// answers.
void Writer::ask_sooner() {
  rows_low_ = std::min(rows_low_ * 2, uint64_t{blocks_ahead_} * block_steps_);
}

// Requests what the lane lacks and has not requested yet, and sees that the conductor is awake to
// grant it.
void Writer::ask_for(uint32_t index, Needs needs) {
  WriterLane& lane = lanes_[index];
  if (lacks_block(lane, needs)) {
    uint64_t rows_short = needs.rows() - lane.rows_left(block_steps_);
    auto count = static_cast<uint32_t>((rows_short + block_steps_ - 1) / block_steps_);
    push(SubmissionOp::kNeedBlock, index, count);
    lane.blocks_wanted = count;
  }
  if (lacks_slot(lane, needs)) {
    push(SubmissionOp::kNeedEpisode, index, 1);
    lane.episodes_wanted = 1;
  }
  channel_->submit(Urgency::kAnswer);
}

// After rows were filled: asks for blocks, and for the next episode's slot, before they are missed.
// One request a lane stands at a time, so the completion ring, which has a place for every grant,
// never runs over.
void Writer::ask_ahead(uint32_t index) {
  WriterLane& lane = lanes_[index];
  if (lane.rows_left(block_steps_) <= rows_low_ && lane.blocks_wanted == 0) {
    take_grants();
    uint32_t beyond_front = lane.blocks.empty() ? 0 : lane.blocks.count() - 1;
    uint32_t count = std::max(blocks_ahead_ - std::min(beyond_front, blocks_ahead_), 1u);
    push(SubmissionOp::kNeedBlock, index, count);
    lane.blocks_wanted = count;
  }
  if (has_episodes_ && lane.episodes.count() + lane.episodes_wanted < 2) {
    push(SubmissionOp::kNeedEpisode, index, 1);
    ++lane.episodes_wanted;
  }
}

void Writer::take_grants() {
  CompletionConsumer& grants = channel_->completions();
  uint64_t available = grants.available();
  if (available == 0) return;
  for (uint64_t i = 0; i < available; ++i) take_grant(grants.look(i).grant);
  grants.take(available);
  // The conductor changed each block's generation before it granted the block. This orders that
  // change before our stores into the block: a reader that copies any of them and then looks at the
  // generation sees that the block moved.
  fence_generation_before_payload();
}

void Writer::take_grant(const layout::GrantRecord& grant) {
  if (grant.lane >= lanes_.size()) {
    broken_ = true;
    return;
  }
  WriterLane& lane = lanes_[grant.lane];
  switch (static_cast<CompletionType>(grant.type)) {
    case CompletionType::kBlock:
      // A server that took over cannot know which grants were read, and tells of them again.
      if (grant.start_row < lane.rows_granted) return;
      broken_ = broken_ || lane.blocks.full() || lane.blocks_wanted == 0 ||
                grant.block - first_block_ >= block_span_ || grant.start_row != lane.rows_granted;
      if (broken_) return;
      lane.blocks.push(grant.block);
      lane.rows_granted += block_steps_;
      --lane.blocks_wanted;
      lane.nothing_to_evict = false;
      return;
    case CompletionType::kEpisode:
      if (static_cast<int32_t>(static_cast<uint32_t>(grant.start_row) - lane.episodes_granted) < 0) return;
      broken_ = broken_ || lane.episodes.full() || lane.episodes_wanted == 0 ||
                grant.block - first_slot_ >= slot_span_ || grant.start_row != lane.episodes_granted;
      if (broken_) return;
      ++lane.episodes_granted;
      lane.episodes.push(grant.block);
      --lane.episodes_wanted;
      return;
    case CompletionType::kNoBlock:
      lane.nothing_to_evict = true;
      lane.no_memory = grant.block != 0;
      return;
    case CompletionType::kLaneLost:
      lane.lost = true;
      return;
    default:
      broken_ = true;
  }
}

Status Writer::out_of_space(const WriterLane& lane, Needs needs, int64_t timeout_ns) {
  std::string waited = duration_text(std::max<int64_t>(timeout_ns, 0));
  uint64_t waiting = steps_waiting();
  if (!has_rows(lane, needs) && lane.nothing_to_evict && lane.no_memory) {
    return error(GEAR_ENOSPC,
                 "no block came free in %s: memory that moves between the parts of the table's writers was lost to other processes, "
                 "and the system has none; make room in /dev/shm, or in memory and its control group",
                 waited.c_str());
  }
  if (!has_rows(lane, needs) && lane.nothing_to_evict) {
    return error(
        GEAR_ENOSPC,
        "no block came free in %s: all %u are held by open episodes, leases and other lanes, "
        "and no item is left to evict; end episodes, release batches, or create the table "
        "with more capacity_steps",
        waited.c_str(), table_.header().block_budget);
  }
  return error(GEAR_ETIMEDOUT,
               "no space in %s, %llu accepted steps wait for admission; draw items so that the "
               "limiter admits them, or raise timeout_ns",
               waited.c_str(), static_cast<unsigned long long>(waiting));
}

// ---- rows

char* Writer::block_of(const WriterLane& lane) const {
  const layout::TableHeader& header = table_.header();
  return data_ + header.data_blocks_offset + uint64_t{lane.blocks.front()} * header.block_bytes;
}

char* Writer::row_of(const WriterLane& lane, const CellSpec& spec) const {
  return block_of(lane) + spec.offset + lane.position * spec.cell_bytes;
}

void Writer::store_row(const WriterLane& lane, const gear_cell* cells, size_t cell_count) {
  for (size_t i = 0; i < cell_count; ++i) {
    const CellSpec& spec = specs_[cells[i].column];
    store_cell(spec, cells[i], row_of(lane, spec));
  }
}

void Writer::push(SubmissionOp op, uint32_t lane, uint32_t count, uint32_t flags, double value,
                  uint64_t argument) {
  layout::SubmissionRecord record{};
  record.op = static_cast<uint32_t>(op);
  record.lane = lane;
  record.count = count;
  record.flags = flags;
  record.value = value;
  record.argument = argument;
  channel_->submissions().push(record);
}

// A conductor that dozes may leave the ring alone for a while, but not until it is full.
void Writer::submit() {
  SubmissionProducer& ring = channel_->submissions();
  channel_->submit(ring.has_room(ring.slots() / 2) ? Urgency::kCommit : Urgency::kAnswer);
}

void Writer::commit(uint32_t index, uint32_t rows) {
  WriterLane& lane = lanes_[index];
  lane.fill_rows(rows, block_steps_);
  push(SubmissionOp::kCommit, index, rows, 0, 0, lane.rows);
  lane.episode_steps += rows;
  accepted_ += rows;
  ask_ahead(index);
  submit();
}

Status Writer::append(uint32_t index, const gear_cell* cells, size_t cell_count,
                      int64_t timeout_ns) {
  GEAR_TRY(check_lane(index, "append to"));
  GEAR_TRY(check_cells(index, "append to", cells, cell_count, CellSet::kEveryStepColumn));
  GEAR_TRY(check_appendable(index, 1));
  GEAR_TRY(obtain(index, {.row = true, .episode_slot = true}, "append to", timeout_ns));
  store_row(lanes_[index], cells, cell_count);
  if (has_optional_) mark_present(lanes_[index], cells, cell_count, 1);
  commit(index, 1);
  return {};
}

Status Writer::append_many(uint32_t index, const gear_cell* cells, size_t cell_count,
                           size_t step_count, int64_t timeout_ns, size_t* accepted) {
  GEAR_TRY(check_lane(index, "append to"));
  GEAR_TRY(check_cells(index, "append to", cells, cell_count, CellSet::kEveryStepColumn));
  GEAR_TRY(check_appendable(index, step_count));
  WriterLane& lane = lanes_[index];
  int64_t deadline_ns = 0;  // not looked up before the first wait
  for (*accepted = 0; *accepted < step_count;) {
    int64_t left_ns = timeout_ns;
    if (!has(lane, {.row = true, .episode_slot = has_episodes_})) {
      if (deadline_ns == 0) deadline_ns = deadline_after(timeout_ns);
      left_ns = left_until(deadline_ns);
    }
    GEAR_TRY(obtain(index, {.row = true, .episode_slot = true}, "append to", left_ns));
    size_t rows = std::min<size_t>(step_count - *accepted, block_steps_ - lane.position);
    for (size_t i = 0; i < cell_count; ++i) {
      const CellSpec& spec = specs_[cells[i].column];
      store_cells(spec, cells[i], *accepted, rows, row_of(lane, spec));
    }
    if (has_optional_) mark_present(lane, cells, cell_count, rows);
    commit(index, static_cast<uint32_t>(rows));
    *accepted += rows;
  }
  return {};
}

Status Writer::check_unreserved(uint32_t index, const char* verb) const {
  if (!lanes_[index].reserved) return {};
  return error(GEAR_ESTATE, "%s: a reserve is open on the lane; advance it first",
               tried(verb, index).c_str());
}

Status Writer::check_appendable(uint32_t index, size_t steps) const {
  GEAR_TRY(check_unreserved(index, "append to"));
  uint64_t before = lanes_[index].episode_steps;
  uint64_t limit = layout::episode_limit(table_.header());
  if (steps <= limit - before) return {};
  return error(GEAR_ESTATE,
               "%s: %zu steps to an episode of %llu, one has at most %llu; end it first, or "
               "create the table with a larger episode_steps_max",
               tried("append to", index).c_str(), steps, static_cast<unsigned long long>(before),
               static_cast<unsigned long long>(limit));
}

Status Writer::reserve(uint32_t index, int64_t timeout_ns, void** cells, size_t cell_count) {
  GEAR_TRY(check_lane(index, "reserve in"));
  if (cell_count != specs_.count()) {
    return error(GEAR_ECOUNT,
                 "%s: place for %zu pointers, the table has %u columns; give that many",
                 tried("reserve in", index).c_str(), cell_count, specs_.count());
  }
  if (!lanes_[index].reserved) GEAR_TRY(check_appendable(index, 1));
  GEAR_TRY(obtain(index, {.row = true, .episode_slot = true}, "reserve in", timeout_ns));
  WriterLane& lane = lanes_[index];
  for (uint32_t column = 0; column < specs_.count(); ++column) {
    const CellSpec& spec = specs_[column];
    cells[column] = spec.per_episode ? nullptr : row_of(lane, spec);
  }
  lane.reserved = true;
  return {};
}

Status Writer::advance(uint32_t index, int64_t timeout_ns) {
  GEAR_TRY(check_lane(index, "advance"));
  WriterLane& lane = lanes_[index];
  if (!lane.reserved) {
    return error(GEAR_ESTATE,
                 "%s: nothing is reserved; call gear_writer_reserve and write the cells "
                 "first",
                 tried("advance", index).c_str());
  }
  GEAR_TRY(obtain(index, {.row = true, .episode_slot = true}, "advance", timeout_ns));
  lane.reserved = false;
  if (has_optional_) mark_all_present(lane);
  commit(index, 1);
  return {};
}

// ---- flush and close

Status Writer::flush(int64_t timeout_ns, uint64_t* waiting) {
  SubmissionProducer& ring = channel_->submissions();
  *waiting = 0;
  if (ring.waiting() == 0) return tell_refused(waiting);
  channel_->ring(Urgency::kAnswer);
  Status status = channel_->wait_until(deadline_after(timeout_ns), [&ring] {
    // Acquire: the effects of all records before the head are in the directory.
    return ring.waiting() == 0;
  });
  if (status.ok()) return tell_refused(waiting);
  *waiting = steps_waiting();
  if (status.code() == GEAR_ETIMEDOUT) {
    return error(GEAR_ETIMEDOUT,
                 "flush \"%s\": %llu steps were not admitted in %s; draw items so that the limiter "
                 "admits them, or raise timeout_ns",
                 table_.name(), static_cast<unsigned long long>(*waiting),
                 duration_text(std::max<int64_t>(timeout_ns, 0)).c_str());
  }
  return within(format("flush \"%s\", %llu steps not admitted", table_.name(),
                       static_cast<unsigned long long>(*waiting)),
                status);
}

uint64_t Writer::steps_waiting() const {
  return accepted_ - steps_refused_ - peek(channel_->header().steps_admitted);
}

// Once all records are taken: whether some of them came for lanes that were lost by then. The others are admitted.
Status Writer::tell_refused(uint64_t* waiting) {
  uint32_t refused = peek(channel_->header().records_refused);
  if (refused == refused_told_) return {};
  refused_told_ = refused;
  *waiting = steps_waiting();
  steps_refused_ += *waiting;
  return error(GEAR_ESTALE,
               "flush \"%s\": another writer took lanes of this one over; %llu steps appended to "
               "them later were refused, all others are admitted; leave those lanes to that "
               "writer, or take their names over again",
               table_.name(), static_cast<unsigned long long>(*waiting));
}

Status Writer::close() {
  Status status = channel_->close();
  // Nothing is lost with a server that has gone but steps it had not admitted.
  bool all_admitted = steps_waiting() == 0;
  if (status.code() == GEAR_EDISCONNECTED && all_admitted) return {};
  return within(format("close writer of \"%s\"", table_.name()), status);
}

}  // namespace gear::client
