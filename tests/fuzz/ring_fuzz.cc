// The conductor's end of channels whose client pushes any record, sound ones among them, and scribbles over positions and records.
// No invariant of the conductor breaks, and nothing outside the channel is touched.
#include <iterator>
#include <vector>

#include "base/clock.h"
#include "fuzz/input.h"
#include "fuzz/small_table.h"
#include "server/conductor.h"
#include "server/items_port.h"
#include "server/ledger.h"
#include "server/sampler_port.h"
#include "server/writer_port.h"

namespace {

using namespace gear;
using layout::SubmissionOp;
using test::Input;

constexpr uint32_t kWriterOps[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 3, 3, 1, 4};
constexpr uint32_t kSamplerOps[] = {16, 17, 18, 19, 20, 21, 17, 16, 19};
constexpr uint32_t kItemsOps[] = {32, 33, 34, 32};

// A client's end, with what a sound client would know.
struct Client {
  Port* port;
  SubmissionProducer submissions;
  CompletionConsumer completions;
  uint32_t lanes = 1;
  uint64_t granted[3] = {};  // rows
  uint64_t episode[3] = {};  // steps of the open one
  uint64_t rows[3] = {};
  uint64_t taken = 0;
  uint64_t released = 0;

  layout::ChannelHeader* header() { return static_cast<layout::ChannelHeader*>(port->segment().data()); }
};

std::shared_ptr<Table> table_of(uint8_t kind) {
  auto request = test::small_request("ring");
  layout::ColumnSpec columns[] = {test::small_column(), test::small_column("goal", GEAR_COLUMN_PER_EPISODE)};
  if (kind % 2 == 1) request.column_count = 2;
  switch (kind / 2 % 4) {
    case 0: break;
    case 1:
      request.item_policy = GEAR_ITEMS_EXPLICIT;
      request.versions = 1;
      request.prompt_groups_max = 2;
      break;
    case 2:
      request.item_policy = GEAR_ITEMS_SEQUENCE;
      request.item_length = 2;
      request.item_period = 1;
      request.max_times_sampled = 2;
      request.sampler = GEAR_SELECT_PRIORITIZED;
      request.priority_alpha = 1;
      break;
    default:
      request.item_policy = GEAR_ITEMS_EPISODE;
      request.limiter = {2, 1, -4, 4};
      request.sampler = GEAR_SELECT_FIFO;
      request.capacity_bytes = 60;
  }
  return test::make_table(request, columns);
}

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

// Half of the records are those of a sound client.
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
      auto op = static_cast<SubmissionOp>(record.op);
      if (op == SubmissionOp::kTake || op == SubmissionOp::kReturn) {
        record.count = sound ? 1 : record.count;
        client.taken += sound;
      }
      record.argument = !sound ? input.number() : op == SubmissionOp::kDemand ? client.taken + record.count
                                                                                : client.released;
      if (op == SubmissionOp::kRelease && sound) record.count = 1, ++client.released;
      break;
    }
    case layout::ChannelKind::kItems:
      record.op = kItemsOps[what % std::size(kItemsOps)];
      record.argument = sound ? layout::make_key(form / 8 % 4, form % 8, client.port->table().header().slot_bits)
                              : input.number();
      record.value = input.real();
  }
  return record;
}

void push(Input& input, Client& client, Conductor& conductor) {
  layout::SubmissionRecord record = record_of(input, client);
  if (!client.submissions.has_room(1)) conductor.poll();
  client.submissions.push(record);
  client.submissions.publish_tail();
  if (record.op == static_cast<uint32_t>(SubmissionOp::kUpdates) && record.count % 2 == 1) {
    layout::UpdateRecord updates{};
    for (auto& update : updates.update) update = {record.argument, record.value};
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
  char* begin = static_cast<char*>(client.port->segment().data());
  uint64_t place = input.byte() < 0xa0 ? sizeof(layout::SegmentHeader) + input.byte() * 8u : input.take<uint16_t>() * 8u;
  if (place + sizeof(uint64_t) > client.port->segment().size()) return;
  uint64_t value = input.number();
  memcpy(begin + place, &value, sizeof value);
}

void act(Input& input, std::vector<Client>& clients, Conductor& conductor, int64_t* now) {
  uint8_t what = input.byte();
  Client& client = clients[(what >> 4) % clients.size()];
  switch (what % 16) {
    case 10: case 11: conductor.poll(); break;
    case 12: take_posted(client); break;
    case 13: conductor.tick(*now += int64_t{input.byte()} * 20'000'000); break;
    case 14: scribble(input, client); break;
    case 15:
      if (input.byte() % 8 == 0) client.port->begin_close();
      break;
    default: push(input, client, conductor);
  }
}

template <typename Opened>
void add(Conductor& conductor, std::vector<Client>& clients, Opened opened) {
  if (!opened.ok()) return;
  clients.push_back({});
  clients.back().port = conductor.add_port(opened.take());
  clients.back().submissions = SubmissionProducer(clients.back().header());
  clients.back().completions = CompletionConsumer(clients.back().header());
}

Ledger* new_ledger() {
  return Ledger::create(1, 4, 16, GEAR_MEMORY_MEMFD).take().release();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  auto table = table_of(input.byte());
  static Ledger& ledger = *new_ledger();
  Conductor conductor(ledger);
  conductor.add_table(table);
  std::vector<Client> clients;
  MemoryOptions memory;
  uint8_t form = input.byte();
  add(conductor, clients, WriterPort::open(table, {2, {7, 8}, false}, 1, 1, 1, memory));
  clients.front().lanes = 2;
  layout::SamplerOpenRequest sampler{};
  sampler.table_id = table->id();
  sampler.direct = form % 4 == 3;
  sampler.prefetch = form & 4;
  sampler.unique = sampler.prefetch == 0 && (form & 8) != 0;
  sampler.batch_rows_max = 4;
  sampler.batches_max = 2;
  sampler.index = table->header().sampler_index;
  sampler.version_policy = table->header().versions_offset != 0 ? form / 16 % 3 : 0;
  sampler.version_lag = 1;
  if ((form & 0x80) != 0) strcpy(sampler.group, "g");
  add(conductor, clients, SamplerPort::open(table, sampler, 1, 2, 2, memory));
  add(conductor, clients, ItemsPort::open(table, 1, 3, 3, memory));
  if ((form & 1) != 0) add(conductor, clients, WriterPort::open(table, {1, {7}, true}, 1, 4, 4, memory));
  int64_t now = now_ns();
  for (uint32_t acts = 0; acts < 200 && !input.empty() && conductor.port_count() == clients.size(); ++acts) {
    act(input, clients, conductor, &now);
  }
  uint64_t rows = table->header().counters.steps;
  if (rows % 2 == 0) conductor.close_table(*table);
  for (uint64_t session = 1; session <= 4; ++session) conductor.close_ports_of(session);
  for (uint32_t polls = 0; polls < 100 && conductor.port_count() > 0; ++polls) conductor.poll();
  while (conductor.next_offender().session != 0) {
  }
  return 0;
}
