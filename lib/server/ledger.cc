#include "server/ledger.h"

#include <algorithm>

#include "base/shared_word.h"

namespace gear {

using layout::ChannelRecord;
using layout::LedgerHeader;
using layout::SessionRecord;

namespace {

uint64_t sessions_offset() { return layout::align_up(sizeof(LedgerHeader), layout::kContentionBytes); }
uint64_t channels_offset(uint32_t sessions_max) {
  return sessions_offset() + uint64_t{sessions_max} * sizeof(SessionRecord);
}
uint64_t ledger_bytes(uint32_t sessions_max, uint32_t channels_max) {
  return channels_offset(sessions_max) + uint64_t{channels_max} * sizeof(ChannelRecord);
}

// Its id makes a record one that is in use: last.
template <typename Record>
Record* fill(Record* records, std::vector<uint32_t>* free, const Record& from) {
  if (free->empty()) return nullptr;
  Record* record = &records[free->back()];
  free->pop_back();
  Record unnamed = from;
  unnamed.id = 0;
  *record = unnamed;
  publish(record->id, from.id);
  return record;
}

template <typename Record>
void free_record(Record* records, std::vector<uint32_t>* free, Record* record) {
  publish(record->id, decltype(record->id){0});
  free->push_back(static_cast<uint32_t>(record - records));
}

template <typename Record>
std::vector<Record*> in_use(Record* records, uint32_t count) {
  std::vector<Record*> used;
  for (uint32_t i = 0; i < count; ++i) {
    if (records[i].id != 0) used.push_back(&records[i]);
  }
  return used;
}

template <typename Record>
std::vector<uint32_t> free_of(const Record* records, uint32_t count) {
  std::vector<uint32_t> free;
  free.reserve(count);
  for (uint32_t i = count; i-- > 0;) {
    if (records[i].id == 0) free.push_back(i);
  }
  return free;
}

}  // namespace

Result<std::unique_ptr<Ledger>> Ledger::create(uint64_t instance_id, uint32_t sessions_max,
                                               uint32_t channels_max, uint32_t memory) {
  std::unique_ptr<Ledger> ledger(new Ledger());
  uint64_t bytes = ledger_bytes(sessions_max, channels_max);
  void* start = nullptr;
  if (memory == GEAR_MEMORY_POSIX) {
    MemoryOptions options;
    options.memory = memory;
    Result<Segment> made = Segment::create("start server", layout::SegmentKind::kLedger, bytes,
                                           instance_id, 0, options);
    if (!made.ok()) return made.status();
    ledger->segment_ = made.take();
    start = ledger->segment_.data();
  } else {
    ledger->private_ = std::make_unique<char[]>(bytes);
    start = ledger->private_.get();
  }
  auto* header = static_cast<LedgerHeader*>(start);
  header->sessions_max = sessions_max;
  header->channels_max = channels_max;
  header->sessions_offset = sessions_offset();
  header->channels_offset = channels_offset(sessions_max);
  header->next_session = 1;
  header->next_table_id = 1;
  header->next_channel_id = 1;
  ledger->open(start);
  if (ledger->segment_.named()) ledger->segment_.publish_magic();
  return ledger;
}

Result<std::unique_ptr<Ledger>> Ledger::adopt(Segment segment) {
  const auto& header = *static_cast<const LedgerHeader*>(segment.data());
  bool sound = header.sessions_offset == sessions_offset() &&
               header.channels_offset == channels_offset(header.sessions_max) &&
               ledger_bytes(header.sessions_max, header.channels_max) <= segment.size();
  if (!sound) {
    segment.keep_name();
    return error(GEAR_ECORRUPT,
                 "adopt the ledger: %u sessions at %llu and %u channels at %llu do not fit its %zu bytes; "
                 "discard what is there with --fresh",
                 header.sessions_max, static_cast<unsigned long long>(header.sessions_offset),
                 header.channels_max, static_cast<unsigned long long>(header.channels_offset),
                 segment.size());
  }
  std::unique_ptr<Ledger> ledger(new Ledger());
  ledger->segment_ = std::move(segment);
  ledger->open(ledger->segment_.data());
  return ledger;
}

void Ledger::open(void* memory) {
  header_ = static_cast<LedgerHeader*>(memory);
  sessions_ = layout::at_offset<SessionRecord>(memory, header_->sessions_offset);
  channels_ = layout::at_offset<ChannelRecord>(memory, header_->channels_offset);
  free_sessions_ = free_of(sessions_, header_->sessions_max);
  free_channels_ = free_of(channels_, header_->channels_max);
}

void Ledger::pass_table_id(uint64_t id) {
  note(header_->next_table_id, std::max(header_->next_table_id, id + 1));
}

SessionRecord* Ledger::add(const SessionRecord& session) {
  return fill(sessions_, &free_sessions_, session);
}
ChannelRecord* Ledger::add(const ChannelRecord& channel) {
  return fill(channels_, &free_channels_, channel);
}
void Ledger::remove(SessionRecord* session) { free_record(sessions_, &free_sessions_, session); }
void Ledger::remove(ChannelRecord* channel) { free_record(channels_, &free_channels_, channel); }

std::vector<SessionRecord*> Ledger::sessions() { return in_use(sessions_, header_->sessions_max); }
std::vector<ChannelRecord*> Ledger::channels() { return in_use(channels_, header_->channels_max); }

}  // namespace gear
