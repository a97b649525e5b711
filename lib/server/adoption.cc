#include "server/adoption.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/log.h"
#include "base/shared_word.h"
#include "layout/directory.h"
#include "server/items_port.h"
#include "server/sampler_port.h"
#include "server/writer_port.h"
#include "shm/cut_short.h"

namespace gear {
namespace {

using layout::ChannelKind;
using layout::ChannelRecord;
using layout::SegmentKind;
using layout::SessionRecord;
using layout::TableHeader;
using layout::TableState;

const char* const kPurpose = "adopt what a dead server left";

void remove_with_a_line(const SegmentName& name, const char* why) {
  if (remove_segment(name)) {
    log(LogLevel::kWarning, "removed %s/%s: %s", kSegmentFolder, name.text().c_str(), why);
  }
}

// The table that a segment is of; 0 where it is of none.
uint64_t table_of(const SegmentName& name) {
  switch (name.kind) {
    case SegmentKind::kDirectory:
    case SegmentKind::kData: return name.object_id;
    case SegmentKind::kGroup: return name.object_id / layout::kGroupObjects;
    case SegmentKind::kPart: return name.object_id / layout::kPartObjects;
    default: return 0;
  }
}

// "" when the header does not hold a name.
std::string name_in(const Segment& directory) {
  const auto* header = static_cast<const TableHeader*>(directory.data());
  if (directory.size() < sizeof(TableHeader)) return "";
  return std::string(header->name, strnlen(header->name, sizeof header->name));
}

TableState state_in(const Segment& directory) {
  if (directory.size() < sizeof(TableHeader)) return TableState::kOpen;
  return static_cast<TableState>(static_cast<const TableHeader*>(directory.data())->state);
}

// Maps directory and data of a table without owning their names.
Status open_pair(uint64_t instance_id, uint64_t id, Segment* directory, TableData* data) {
  Result<Segment> first = Segment::adopt(kPurpose, SegmentKind::kDirectory, instance_id, id);
  if (!first.ok()) return first.status();
  *directory = first.take();
  if (directory->size() < sizeof(TableHeader)) {
    return error(GEAR_EPROTOCOL, "%s: a directory of %zu bytes, its header has %zu", kPurpose, directory->size(), sizeof(TableHeader));
  }
  Result<TableData> second =
      TableData::adopt(kPurpose, *static_cast<const TableHeader*>(directory->data()), instance_id, id);
  if (!second.ok()) return second.status();
  *data = second.take();
  return {};
}

SetAsideTable set_aside(uint64_t instance_id, uint64_t id, std::string why) {
  NamesKept kept;
  SetAsideTable table;
  table.id = id;
  table.why = std::move(why);
  (void)open_pair(instance_id, id, &table.directory, &table.data);
  table.directory.keep_name();
  table.data.keep_names();
  if (table.directory.data() != nullptr) table.name = name_in(table.directory);
  if (table.name.empty()) table.name = format("table-%llx", static_cast<unsigned long long>(id));
  return table;
}

// One adoption. Every step leaves what it cannot go on with as it was; names go only where a step says so.
class Adoption {
 public:
  Adoption(uint64_t instance_id, Ledger& ledger, Conductor& conductor)
      : instance_id_(instance_id), ledger_(ledger), conductor_(conductor),
        names_(list_segments(instance_id)) {}

  Status run() {
    for (const SegmentName& name : names_) {
      if (name.kind == SegmentKind::kDirectory) GEAR_TRY(adopt_table(name.object_id));
    }
    adopt_groups();
    for (ChannelRecord* record : ledger_.channels()) GEAR_TRY(adopt_channel(record));
    for (const auto& table : conductor_.tables()) table->finish_adoption();
    for (const auto& port : conductor_.ports()) port->settle();
    adopt_sessions();
    remove_strangers();
    return {};
  }

  Adopted take() { return std::move(adopted_); }

 private:
  bool there(SegmentKind kind, uint64_t object) const {
    return std::any_of(names_.begin(), names_.end(), [&](const SegmentName& name) {
      return name.kind == kind && name.object_id == object;
    });
  }
  SegmentName name_of(SegmentKind kind, uint64_t object) const {
    return {geteuid(), instance_id_, kind, object};
  }
  bool is_aside(uint64_t table) const {
    return std::any_of(adopted_.set_aside.begin(), adopted_.set_aside.end(),
                       [table](const SetAsideTable& one) { return one.id == table; });
  }
  // There, and its maker came to the end of it.
  bool made(SegmentKind kind, uint64_t object) const {
    return there(kind, object) && look_at_segment(name_of(kind, object)) != SegmentLook::kHalfMade;
  }

  Status adopt_table(uint64_t id);
  void put_aside(uint64_t id, const std::string& why);
  void adopt_groups();
  Status adopt_channel(ChannelRecord* record);
  Result<std::unique_ptr<Port>> adopt_port(std::shared_ptr<Table> table, Segment channel,
                                           ChannelRecord* record);
  Result<Segment> channel_of(ChannelRecord* record);
  void end_channel_of(ChannelRecord* record, int status);
  void adopt_sessions();
  void remove_strangers();

  uint64_t instance_id_;
  Ledger& ledger_;
  Conductor& conductor_;
  std::vector<SegmentName> names_;
  Adopted adopted_;
  std::set<uint64_t> channels_;  // with a port
};

Status Adoption::adopt_table(uint64_t id) {
  ledger_.pass_table_id(id);
  // The directory is finished last. Where it is whole nothing goes, whatever became of the data.
  if (!made(SegmentKind::kDirectory, id)) return {};  // a stranger
  Segment directory;
  TableData data;
  Status opened = open_pair(instance_id_, id, &directory, &data);
  TableState state = directory.data() != nullptr ? state_in(directory) : TableState::kOpen;
  if (state == TableState::kDropped) return {};  // a stranger
  if (opened.code() == GEAR_EMFILE || opened.code() == GEAR_ENOMEM) return opened;
  if (!opened.ok()) {
    put_aside(id, opened.text());
    return {};
  }
  if (state == TableState::kSetAside) {
    put_aside(id, "it was set aside before");
    return {};
  }
  int64_t started = now_ns();
  Result<std::unique_ptr<Table>> table = Table::adopt(std::move(directory), std::move(data));
  if (table.status().code() == GEAR_ENOMEM) return table.status();
  if (!table.ok()) {
    put_aside(id, table.status().text());
    return {};
  }
  log(LogLevel::kInfo, "table \"%s\" adopted: %llu items, in %.1f ms", table.value()->name(),
      static_cast<unsigned long long>(table.value()->items()),
      static_cast<double>(now_ns() - started) / 1e6);
  conductor_.add_table(table.take());
  return {};
}

void Adoption::put_aside(uint64_t id, const std::string& why) {
  SetAsideTable table = set_aside(instance_id_, id, why);
  log(LogLevel::kError, "table \"%s\" is set aside, nobody can use it until it is dropped (gearctl table rm): %s",
      table.name.c_str(), why.c_str());
  if (table.directory.size() >= sizeof(TableHeader)) {
    publish(static_cast<TableHeader*>(table.directory.data())->state,
            static_cast<uint32_t>(TableState::kSetAside));
  }
  adopted_.set_aside.push_back(std::move(table));
}

void Adoption::adopt_groups() {
  for (const SegmentName& name : names_) {
    if (name.kind != SegmentKind::kGroup) continue;
    auto table = conductor_.find_table(table_of(name));
    if (!table || look_at_segment(name) != SegmentLook::kWhole) continue;  // a stranger
    Result<Segment> segment = Segment::adopt(kPurpose, name.kind, instance_id_, name.object_id);
    Status adopted = segment.ok() ? table->adopt_group(segment.take()) : segment.status();
    if (!adopted.ok()) {
      log(LogLevel::kError, "a consumer group of table \"%s\" cannot be adopted, and goes: %s",
          table->name(), adopted.text().c_str());
      remove_with_a_line(name, "its group is lost");
    }
  }
}

Status Adoption::adopt_channel(ChannelRecord* record) {
  auto table = conductor_.find_table(record->table_id);
  if (!table) {
    end_channel_of(record, is_aside(record->table_id) ? GEAR_ECORRUPT : GEAR_EDROPPED);
    return {};
  }
  Result<Segment> channel = channel_of(record);
  if (!channel.ok()) return channel.status();
  Result<std::unique_ptr<Port>> port = adopt_port(table, channel.take(), record);
  if (port.status().code() == GEAR_EMFILE || port.status().code() == GEAR_ENOMEM) return port.status();
  if (!port.ok()) {
    log(LogLevel::kError, "channel %u of table \"%s\" cannot be adopted, and ends: %s", record->id,
        table->name(), port.status().text().c_str());
    end_channel_of(record, GEAR_ECORRUPT);
    return {};
  }
  channels_.insert(record->id);
  conductor_.add_port(port.take());
  return {};
}

Result<std::unique_ptr<Port>> Adoption::adopt_port(std::shared_ptr<Table> table, Segment channel,
                                                   ChannelRecord* record) {
  switch (static_cast<ChannelKind>(record->kind)) {
    case ChannelKind::kWriter:
      return WriterPort::adopt(std::move(table), std::move(channel), record);
    case ChannelKind::kItems:
      return ItemsPort::adopt(std::move(table), std::move(channel), record);
    case ChannelKind::kSampler:
      return SamplerPort::adopt(std::move(table), std::move(channel), record);
  }
  return error(GEAR_EPROTOCOL, "channel kind %u is none", record->kind);
}

// A channel whose segment is gone, or not what the ledger says, still has a port: its writer's process may be storing into
// blocks. The port has another segment, that no client sees, and has failed.
Result<Segment> Adoption::channel_of(ChannelRecord* record) {
  ChannelPlan plan{static_cast<ChannelKind>(record->kind), record->submission_slots,
                   record->completion_slots};
  Result<Segment> channel = Segment::adopt(kPurpose, SegmentKind::kChannel, instance_id_, record->id);
  if (channel.ok() && channel.value().size() >= channel_bytes(plan)) return channel;
  if (channel.status().code() == GEAR_EMFILE || channel.status().code() == GEAR_ENOMEM) return channel;
  log(LogLevel::kError, "channel %u is lost: %s", record->id,
      channel.ok() ? "its segment is too small" : channel.status().text().c_str());
  remove_segment(name_of(SegmentKind::kChannel, record->id));
  MemoryOptions memory;
  Result<Segment> made = make_channel(plan, instance_id_, record->id, memory);
  // Positions that do not fit the record: the port fails.
  if (made.ok()) {
    publish(static_cast<layout::ChannelHeader*>(made.value().data())->submission_head,
            record->applied + 2 * uint64_t{record->submission_slots});
  }
  return made;
}

void Adoption::end_channel_of(ChannelRecord* record, int status) {
  Result<Segment> channel = Segment::adopt(kPurpose, SegmentKind::kChannel, instance_id_, record->id);
  if (channel.ok() && channel.value().size() >= sizeof(layout::ChannelHeader)) {
    CutWatch watch(channel.value().data(), channel.value().size());
    end_channel(channel.value(), status);
  }
  ledger_.remove(record);  // its segments are strangers now
}

void Adoption::adopt_sessions() {
  std::set<uint64_t> known;
  for (SessionRecord* record : ledger_.sessions()) {
    Session session;
    session.id = record->id;
    session.record = record;
    // Its groups are told when it returns.
    session.peer = {record->uid, static_cast<gid_t>(-1), record->pid, {}};
    session.name.assign(record->name, strnlen(record->name, sizeof record->name));
    if (record->pid != 0) {
      Result<ProcessWatch> watch =
          record->start_ticks != 0
              ? ProcessWatch::of_process_started(record->pid, record->start_ticks)
              : ProcessWatch::of_process(record->pid);
      // It is dead, or no descriptor is left, say: then its death is asked for.
      session.process = watch.ok() ? watch.take() : ProcessWatch::to_ask(record->pid, record->start_ticks);
    }
    known.insert(session.id);
    adopted_.sessions.push_back(std::move(session));
  }
  for (ChannelRecord* record : ledger_.channels()) {
    if (known.count(record->session) == 0) conductor_.find_port(record->id)->begin_close();
  }
}

// What has no port, no table and no group by now.
void Adoption::remove_strangers() {
  for (const SegmentName& name : names_) {
    switch (name.kind) {
      case SegmentKind::kDirectory:
      case SegmentKind::kData:
      case SegmentKind::kPart:
        if (is_aside(table_of(name)) || conductor_.find_table(table_of(name))) break;
        remove_with_a_line(name, "the table was dropped, or is half made");
        break;
      case SegmentKind::kChannel:
      case SegmentKind::kLeases:
        if (channels_.count(name.object_id) == 0) remove_with_a_line(name, "nobody has the channel");
        break;
      case SegmentKind::kGroup:
        if (is_aside(table_of(name))) break;
        if (conductor_.find_table(table_of(name)) && look_at_segment(name) == SegmentLook::kWhole) break;
        remove_with_a_line(name, "its table is gone, or it is half made");
        break;
      case SegmentKind::kInstance:
      case SegmentKind::kLedger: break;
    }
  }
}

}  // namespace

Status check_builds(const std::vector<SegmentName>& names) {
  NamesKept kept;
  for (const SegmentName& name : names) {
    if (clients_write(name.kind) || look_at_segment(name) != SegmentLook::kForeign) continue;
    Result<Segment> foreign = Segment::adopt(kPurpose, name.kind, name.instance_id, name.object_id);
    if (foreign.status().code() == GEAR_EVERSION) return foreign.status();
  }
  return {};
}

size_t discard_remains(const std::vector<SegmentName>& names) {
  std::set<uint64_t> aside;
  for (const SegmentName& name : names) {
    if (name.kind != SegmentKind::kDirectory) continue;
    NamesKept kept;
    Result<Segment> directory = Segment::adopt(kPurpose, name.kind, name.instance_id, name.object_id);
    if (directory.ok() && state_in(directory.value()) == TableState::kSetAside) aside.insert(name.object_id);
  }
  size_t removed = 0;
  for (const SegmentName& name : names) {
    if (aside.count(table_of(name)) > 0) continue;
    if (remove_segment(name)) ++removed;
  }
  return removed;
}

std::vector<SetAsideTable> find_set_aside(uint64_t instance_id) {
  std::vector<SetAsideTable> found;
  for (const SegmentName& name : list_segments(instance_id)) {
    if (name.kind != SegmentKind::kDirectory) continue;
    SetAsideTable table = set_aside(instance_id, name.object_id, "it was set aside before");
    if (table.directory.data() == nullptr || state_in(table.directory) != TableState::kSetAside) continue;
    log(LogLevel::kWarning, "table \"%s\" is set aside still; drop it when it is of no more use (gearctl table rm)",
        table.name.c_str());
    found.push_back(std::move(table));
  }
  return found;
}

Result<Adopted> adopt_remains(uint64_t instance_id, Ledger& ledger, Conductor& conductor) {
  NamesKept kept;
  Adoption adoption(instance_id, ledger, conductor);
  GEAR_TRY(adoption.run());
  return adoption.take();
}

void drop_set_aside(uint64_t instance_id, uint64_t table_id) {
  for (const SegmentName& name : list_segments(instance_id)) {
    if (table_of(name) == table_id) remove_segment(name);
  }
}

}  // namespace gear
