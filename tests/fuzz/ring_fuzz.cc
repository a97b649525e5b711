// The conductor's end of channels whose client pushes any record, sound ones among them, and scribbles over positions and records.
// No invariant of the conductor breaks, and nothing outside the channel is touched. Servers die, and others go on.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iterator>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "fuzz/input.h"
#include "fuzz/small_table.h"
#include "server/adoption.h"
#include "server/conductor.h"
#include "server/items_port.h"
#include "server/leases.h"
#include "server/ledger.h"
#include "server/sampler_port.h"
#include "server/writer_port.h"

namespace {

using namespace gear;
using layout::SubmissionOp;
using test::Input;

constexpr uint32_t kWriterOps[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 3, 3, 1, 4};
constexpr uint32_t kSamplerOps[] = {16, 17, 18, 19, 20, 21, 17, 16, 19, 17};
constexpr uint32_t kItemsOps[] = {32, 33, 34, 32};

// A client's end, with what a sound client would know.
struct Client {
  Port* port;       // of the server that is there now
  Mapping mapping;  // the client's own of the channel, which outlives servers
  SubmissionProducer submissions;
  CompletionConsumer completions;
  uint32_t lanes = 1;
  bool direct = false;
  bool grouped = false;
  uint64_t granted[3] = {};  // rows
  uint64_t episode[3] = {};  // steps of the open one
  uint64_t rows[3] = {};
  uint64_t taken = 0;     // draws taken or returned; behind this one they are posted
  uint64_t released = 0;  // leases

  layout::ChannelHeader* header() { return static_cast<layout::ChannelHeader*>(mapping.data()); }
};

// What a sound client would do: what it asks for, and what the table has, comes first.
uint32_t possible(Client& client, layout::SubmissionRecord& record) {
  const layout::TableHeader& table = client.port->table().header();
  uint32_t lane = record.lane;
  auto op = static_cast<SubmissionOp>(record.op);
  bool has_episodes = table.episode_slots != 0;
  if ((op == SubmissionOp::kNeedEpisode && !has_episodes) || (op == SubmissionOp::kEpisodeCells && !has_episodes) ||
      (op == SubmissionOp::kVersion && table.versions_offset == 0) ||
      (op == SubmissionOp::kPromptGroup && table.prompt_groups_max == 0) ||
      (op == SubmissionOp::kItem && table.item_policy != GEAR_ITEMS_EXPLICIT)) {
    op = SubmissionOp::kCommit;
  }
  if (op == SubmissionOp::kCommit && client.episode[lane] + record.count > 8) op = SubmissionOp::kEnd;
  bool fits = client.rows[lane] + record.count + 1 <= client.granted[lane];
  if ((op == SubmissionOp::kCommit || op == SubmissionOp::kEnd) && !fits) op = SubmissionOp::kNeedBlock;
  if (op == SubmissionOp::kNeedBlock) client.granted[lane] += record.count * 4;
  if (op == SubmissionOp::kCommit) client.episode[lane] += record.count;
  if (op == SubmissionOp::kEnd) client.episode[lane] = 0;
  return static_cast<uint32_t>(op);
}

// As above: takes and returns what was posted, releases what was taken, demands where there is none.
void sound_sampler_record(Client& client, uint8_t form, layout::SubmissionRecord& record) {
  auto op = client.direct ? SubmissionOp::kWatch : static_cast<SubmissionOp>(record.op);
  uint64_t posted = client.completions.head() + client.completions.available();
  uint64_t untaken = posted >= client.taken ? posted - client.taken : 0;
  uint64_t held = client.taken - client.released;
  if (op == SubmissionOp::kReject && (form & 0x40) != 0) op = SubmissionOp::kRelease;
  bool resolves = op == SubmissionOp::kTake || op == SubmissionOp::kReturn;
  bool ends = op == SubmissionOp::kRelease || op == SubmissionOp::kReject;
  if ((resolves && untaken == 0) || (ends && held == 0)) op = SubmissionOp::kDemand;
  record.op = static_cast<uint32_t>(op);
  record.argument = client.taken + record.count;
  if (op == SubmissionOp::kTake || op == SubmissionOp::kReturn) {
    record.count = static_cast<uint32_t>(std::min<uint64_t>(record.count, untaken));
    record.argument = client.taken;
    client.taken += record.count;
  } else if (op == SubmissionOp::kRelease || op == SubmissionOp::kReject) {
    record.count = static_cast<uint32_t>(std::min<uint64_t>(record.count, held));
    record.argument = client.released;
    client.released += record.count;
  } else if (op == SubmissionOp::kDemand) {
    record.count = form / 4 % 2;
  } else {
    record.argument = form / 4 % 8;
  }
}

// Of an item that is there or was, mostly.
uint64_t key_of(Input& input, Client& client) {
  const layout::TableHeader& table = client.port->table().header();
  uint8_t form = input.byte();
  uint32_t slot = form % 8;
  uint64_t generation = form / 8 % 4;
  if (form < 0xe0 && slot < table.item_slots) {
    generation = layout::at_offset<layout::ItemRecord>(static_cast<const void*>(&table), table.items_offset)[slot].generation;
  }
  return layout::make_key(generation, slot, table.slot_bits);
}

// Most of the records are those of a sound client.
layout::SubmissionRecord record_of(Input& input, Client& client) {
  layout::SubmissionRecord record{};
  uint8_t what = input.byte();
  uint8_t form = input.byte();
  bool sound = form < 0xd0;
  record.count = sound ? form % 4 + 1 : static_cast<uint32_t>(input.number());
  switch (client.port->kind()) {
    case layout::ChannelKind::kWriter: {
      record.op = kWriterOps[what % std::size(kWriterOps)];
      record.lane = sound ? form / 4 % client.lanes : input.byte();
      if (sound) record.op = possible(client, record);
      record.value = sound ? form / 16.0 : input.real();
      record.flags = sound ? form % 2 + 1 + (form & 8) * 32u : static_cast<uint32_t>(input.number());
      uint64_t& rows = client.rows[record.lane % 3];
      auto op = static_cast<SubmissionOp>(record.op);
      record.argument = !sound ? input.number() : op == SubmissionOp::kCommit ? (rows += record.count) : form % 4;
      if (op == SubmissionOp::kEnd && sound) record.argument = rows += (form & 8) / 8;
      break;
    }
    case layout::ChannelKind::kSampler: {
      record.op = kSamplerOps[what % std::size(kSamplerOps)];
      if (sound) {
        sound_sampler_record(client, form, record);
      } else {
        record.argument = input.byte() % 2 == 0 ? client.taken + input.byte() % 16 - 8u : input.number();
      }
      break;
    }
    case layout::ChannelKind::kItems:
      record.op = kItemsOps[what % std::size(kItemsOps)];
      record.argument = sound ? key_of(input, client) : input.number();
      record.value = input.real();
  }
  return record;
}

void push(Input& input, Client& client) {
  layout::SubmissionRecord record = record_of(input, client);
  if (!client.submissions.has_room(1)) return;
  client.submissions.push(record);
  client.submissions.publish_tail();
  if (client.port->kind() != layout::ChannelKind::kItems || record.op != static_cast<uint32_t>(SubmissionOp::kUpdates)) return;
  // All of the run, at most; an end that is missing makes updates of the records that come.
  uint32_t records = std::min(record.count / 2 + record.count % 2, 40u);
  if (input.byte() % 8 == 0) records = input.byte() % 4;
  for (; records > 0; --records) {
    layout::UpdateRecord updates{};
    for (auto& update : updates.update) update = {key_of(input, client), input.real()};
    if (!client.submissions.has_room(1)) return;
    client.submissions.push(updates);
    client.submissions.publish_tail();
  }
}

// What was posted is looked at and taken; its number is not believed.
void take_posted(Client& client) {
  uint64_t available = std::min<uint64_t>(client.completions.available(), client.submissions.slots());
  for (uint64_t i = 0; i < available; ++i) {
    if (client.completions.look(i).type > 64) break;
  }
  client.completions.take(available);
  if (client.submissions.waiting() > client.submissions.tail()) client.rows[0] = 0;
}

// Any word of the channel: positions, what the conductor writes, records.
void scribble(Input& input, Client& client) {
  char* begin = static_cast<char*>(client.mapping.data());
  uint64_t place = input.byte() < 0xa0 ? sizeof(layout::SegmentHeader) + input.byte() * 8u : input.take<uint16_t>() * 8u;
  if (place + sizeof(uint64_t) > client.mapping.size()) return;
  uint64_t value = input.number();
  memcpy(begin + place, &value, sizeof value);
}

const uint64_t kInstance = 0x67656172'00000000 | static_cast<uint32_t>(getpid());
constexpr uint64_t kSessions = 8;

MemoryOptions named_memory() {
  MemoryOptions memory;
  memory.memory = GEAR_MEMORY_POSIX;
  return memory;
}

// Ports are kept in a ledger, whose records come back with them.
struct World {
  std::unique_ptr<Conductor> conductor;
  Ledger& ledger;
  std::shared_ptr<Table> table;
  int64_t now;

  void add(std::vector<Client>& clients, Result<std::unique_ptr<Port>> opened, uint32_t lanes,
           const layout::SamplerOpenRequest* sampler = nullptr) {
    if (!opened.ok()) return;
    clients.push_back({});
    Client& client = clients.back();
    client.port = conductor->add_port(opened.take());
    client.lanes = std::max(lanes, 1u);
    layout::ChannelRecord described = client.port->describe();
    described.lanes = lanes;
    if (sampler != nullptr) {
      described.sampler = *sampler;
      client.direct = sampler->direct != 0;
      client.grouped = sampler->group[0] != '\0';
    }
    layout::ChannelRecord* record = ledger.add(described);
    auto mapping = map_segment("fuzz", client.port->segment().writable_fd(), layout::SegmentKind::kChannel, true);
    if (record == nullptr || !mapping.ok()) abort();
    client.port->keep_in(record);
    client.mapping = mapping.take();
    client.submissions = SubmissionProducer(client.header());
    client.completions = CompletionConsumer(client.header());
  }

  // The server may die where it has told what it is about to do to a lease.
  void intend(Input& input, std::vector<Client>& clients) {
    uint8_t form = input.byte();
    if (form < 0x40 || clients.size() < 2) return;
    if (form % 8 == 7) return revoke_in_part(form, clients[1]);
    const layout::IntentOp ops[] = {layout::IntentOp::kDraw, layout::IntentOp::kTake, layout::IntentOp::kReturn,
                                    layout::IntentOp::kRelease};
    const layout::TableHeader& header = table->header();
    Drawn drawn{};
    drawn.slot = input.byte() % header.item_slots;
    const auto* items = layout::at_offset<layout::ItemRecord>(static_cast<const void*>(&header), header.items_offset);
    drawn.item_generation = items[drawn.slot].generation;
    Client& sampler = clients[1];
    uint64_t number = (form & 8) != 0 ? sampler.taken + form % 8 : sampler.released;
    auto group = table->find_group("g");
    table->intend(ops[form / 16 % 4], sampler.port->id(), number, drawn, group.get());
  }

  // Or while it takes draws back that nobody took, newest first.
  void revoke_in_part(uint8_t form, const Client& sampler) {
    SegmentName name{geteuid(), kInstance, layout::SegmentKind::kLeases, sampler.port->id()};
    int file = shm_open(("/" + name.text()).c_str(), O_RDWR, 0);
    if (sampler.direct || file < 0) return void(close(file));
    auto mapped = map_segment("fuzz", file, layout::SegmentKind::kLeases, true);
    close(file);
    if (!mapped.ok()) abort();
    auto* header = static_cast<layout::LeasesHeader*>(mapped.value().data());
    auto* leases = reinterpret_cast<layout::LeaseRecord*>(header + 1);
    uint64_t begin = header->resolved;
    uint64_t end = header->posted - std::min<uint64_t>(form / 8 % 2, header->posted - begin);
    header->revoked = std::max(header->revoked, end);
    auto group = table->find_group("g");
    for (uint64_t number = end; number > begin && number > end - std::min<uint64_t>(end, form / 16 % 4); --number) {
      layout::LeaseRecord& lease = leases[(number - 1) % header->lease_slots];
      if (Leases::state(lease) != layout::LeaseRecordState::kPosted) continue;
      Drawn drawn = Leases::drawn(lease);
      Leases::set_state(lease, layout::LeaseRecordState::kNone);
      if (sampler.grouped && group) table->give_back_for(*group, drawn);
      if (sampler.grouped) continue;
      table->give_back(drawn);
      table->unpin(drawn.pin);
    }
  }

  // The server dies between two records, and the next one adopts all. The table was written by servers alone: it is whole.
  // False when a channel that its client broke is gone.
  bool start_again(Input& input, std::vector<Client>& clients) {
    std::vector<uint32_t> ids;
    intend(input, clients);
    for (const Client& client : clients) ids.push_back(client.port->id());
    {
      NamesKept kept;
      conductor.reset();
      table.reset();
    }
    conductor = std::make_unique<Conductor>(ledger);
    auto adopted = adopt_remains(kInstance, ledger, *conductor);
    table = adopted.ok() ? conductor->find_table(uint64_t{1}) : nullptr;
    if (!table) {
      bool aside = adopted.ok() && !adopted.value().set_aside.empty();
      fprintf(stderr, "%s\n", aside ? adopted.value().set_aside[0].why.c_str() : adopted.status().text().c_str());
      abort();
    }
    conductor->drain();
    conductor->end_closed();
    for (size_t i = 0; i < clients.size(); ++i) clients[i].port = conductor->find_port(ids[i]);
    return conductor->port_count() == clients.size();
  }
};

// Another writer, which takes over lanes of the first.
void take_over(Input& input, std::vector<Client>& clients, World& world) {
  uint32_t id = static_cast<uint32_t>(clients.size()) + 1;
  if (id > 7) return;
  uint8_t form = input.byte();
  LanesWanted wanted{form % 2 + 1u, {7u + form / 2 % 3}, form < 0xc0};
  if (wanted.lanes == 2) wanted.names.push_back(7u + form / 8 % 3);
  world.add(clients, WriterPort::open(world.table, wanted, {kInstance, id, id, named_memory(), 0}), wanted.lanes);
}

void act(Input& input, std::vector<Client>& clients, World& world) {
  uint8_t what = input.byte();
  Client& client = clients[(what >> 4) % clients.size()];
  switch (what % 16) {
    case 10: case 11: world.conductor->poll(); break;
    case 12: take_posted(client); break;
    case 13: world.conductor->tick(world.now += int64_t{input.byte()} * 20'000'000); break;
    case 14: scribble(input, client); break;
    case 15:
      if (uint8_t form = input.byte(); form % 8 == 0) {
        client.port->begin_close();
      } else if (form % 8 == 1) {
        take_over(input, clients, world);
      } else if (form % 8 == 2) {
        world.table->raise_version(form / 8);
      } else if (form % 8 == 3) {
        if (!world.start_again(input, clients)) clients.clear();
      } else if (form % 8 == 4) {
        auto group = world.table->find_group("g");
        if (group) world.table->drop_group(*group);
      } else if (form == 0xff) {
        world.table->reset();
      }
      break;
    default: push(input, client);
  }
}

Ledger* new_ledger() {
  set_log_sink([](int, const char*, void*) {}, nullptr);
  Ledger* ledger = Ledger::create(kInstance, kSessions, 16, GEAR_MEMORY_MEMFD).take().release();
  for (uint64_t id = 1; id <= kSessions; ++id) {
    layout::SessionRecord session{};
    session.id = id;
    ledger->add(session);
  }
  return ledger;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  static Ledger& ledger = *new_ledger();
  World world{std::make_unique<Conductor>(ledger), ledger, test::table_of_kind(input.byte(), kInstance), now_ns()};
  world.conductor->add_table(world.table);
  std::vector<Client> clients;
  MemoryOptions memory = named_memory();
  uint8_t form = input.byte();
  world.add(clients, WriterPort::open(world.table, {2, {7, 8}, false}, {kInstance, 1, 1, memory, 0}), 2);
  layout::SamplerOpenRequest sampler{};
  const layout::TableHeader& header = world.table->header();
  sampler.table_id = world.table->id();
  sampler.direct = form % 4 == 3;
  sampler.prefetch = form & 4;
  sampler.unique = sampler.prefetch == 0 && (form & 8) != 0;
  sampler.batch_rows_max = 4;
  sampler.batches_max = 2;
  sampler.index = header.sampler_index;
  sampler.version_policy = header.versions_offset != 0 ? form / 16 % 3 : 0;
  sampler.version_lag = 1;
  if ((form & 0x80) != 0) strcpy(sampler.group, "g");
  world.add(clients, SamplerPort::open(world.table, sampler, {kInstance, 2, 2, memory, 0}), 0, &sampler);
  world.add(clients, ItemsPort::open(world.table, {kInstance, 3, 3, memory, 0}), 0);
  if ((form & 1) != 0) world.add(clients, WriterPort::open(world.table, {1, {7}, true}, {kInstance, 4, 4, memory, 0}), 1);
  for (uint32_t acts = 0; acts < 200 && !input.empty() && !clients.empty(); ++acts) {
    act(input, clients, world);
    if (world.conductor->port_count() != clients.size()) break;
  }
  Conductor& conductor = *world.conductor;
  if (world.table->header().counters.steps % 2 == 0) conductor.close_table(*world.table);
  for (uint64_t session = 1; session <= kSessions; ++session) conductor.close_ports_of(session);
  for (uint32_t polls = 0; polls < 1000 && conductor.port_count() > 0; ++polls) conductor.poll();
  // What the limiter does not admit waits for the table to change.
  conductor.close_table(*world.table);
  conductor.poll();
  while (conductor.next_offender().session != 0) {
  }
  if (conductor.port_count() > 0 || !ledger.channels().empty()) abort();
  return 0;
}
