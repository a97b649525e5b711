#include "server/requests.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/shared_word.h"
#include "layout/fingerprint.h"
#include "server/items_port.h"
#include "server/sampler_port.h"
#include "server/writer_port.h"

namespace gear {
namespace {

using layout::ControlHeader;
using layout::ControlOp;

// Copies a request body out of the message; false when its size is not the op's.
template <typename Body>
bool read_body(const ControlHeader& header, const char* bytes, Body* body) {
  if (header.body_bytes != sizeof *body) return false;
  memcpy(body, bytes, sizeof *body);
  return true;
}

// Ends a fixed text field, whatever the client put there.
template <size_t N>
void terminate(char (&field)[N]) {
  field[N - 1] = '\0';
}

void fill_random(uint8_t* bytes, size_t count) {
  for (size_t got = 0; got < count;) {
    ssize_t more = getrandom(bytes + got, count - got, 0);
    if (more > 0) got += static_cast<size_t>(more);
  }
}

Reply malformed(const ControlHeader& header) {
  return Reply::failed(error(GEAR_EPROTOCOL, "request %u with a body of %u bytes, which is not that request's",
                      header.op, header.body_bytes));
}

}  // namespace

Reply Requests::answer(Session& session, const ControlHeader& header, const char* body) {
  auto op = static_cast<ControlOp>(header.op);
  if (!session.greeted() && op != ControlOp::kHello) {
    return Reply::failed(error(GEAR_EPROTOCOL, "request %u before hello", header.op));
  }
  union {
    layout::HelloRequest hello;
    layout::TableNameRequest name;
    layout::TableAttachRequest attach;
    layout::TableIdRequest id;
    layout::SamplerOpenRequest sampler;
    layout::ChannelIdRequest channel;
    layout::TableRetuneRequest retune;
    layout::TableVersionRequest version;
    layout::GroupRequest group;
  } request;
  switch (op) {
    case ControlOp::kHello:
      // That of a client that returns goes on behind it.
      if (header.body_bytes < sizeof request.hello) return malformed(header);
      memcpy(&request.hello, body, sizeof request.hello);
      if (header.body_bytes != sizeof request.hello + request.hello.channels * sizeof(uint32_t)) return malformed(header);
      return hello(session, request.hello);
    case ControlOp::kTableCreate: return create_table(session, header, body);
    case ControlOp::kTableOpen:
      if (!read_body(header, body, &request.name)) return malformed(header);
      terminate(request.name.name);
      return open_table(session, request.name);
    case ControlOp::kTableAttach:
      if (!read_body(header, body, &request.attach)) return malformed(header);
      return attach_table(session, request.attach);
    case ControlOp::kTableDrop:
      if (!read_body(header, body, &request.name)) return malformed(header);
      terminate(request.name.name);
      return drop_table(session, request.name);
    case ControlOp::kTableClose:
    case ControlOp::kTableReset:
      if (!read_body(header, body, &request.id)) return malformed(header);
      return end_table(session, request.id, op == ControlOp::kTableReset);
    case ControlOp::kTableList: return list_tables(session);
    case ControlOp::kWriterOpen:
      return open_writer(session, header, body);
    case ControlOp::kSamplerOpen:
      if (!read_body(header, body, &request.sampler)) return malformed(header);
      terminate(request.sampler.group);
      return open_sampler(session, request.sampler);
    case ControlOp::kItemsOpen:
      if (!read_body(header, body, &request.id)) return malformed(header);
      return open_items(session, request.id);
    case ControlOp::kChannelClose:
      if (!read_body(header, body, &request.channel)) return malformed(header);
      return close_channel(session, request.channel);
    case ControlOp::kTableRetune:
      if (!read_body(header, body, &request.retune)) return malformed(header);
      return retune_table(session, request.retune);
    case ControlOp::kTableVersion:
      if (!read_body(header, body, &request.version)) return malformed(header);
      return raise_version(session, request.version);
    case ControlOp::kGroupStats:
    case ControlOp::kGroupDrop:
      if (!read_body(header, body, &request.group)) return malformed(header);
      terminate(request.group.group);
      return about_group(session, request.group, op == ControlOp::kGroupDrop);
    case ControlOp::kGroupList:
      if (!read_body(header, body, &request.id)) return malformed(header);
      return list_groups(session, request.id);
    case ControlOp::kServerInfo: return server_info();
    case ControlOp::kGoodbye: session.said_goodbye = true; return {};
  }
  return Reply::failed(error(GEAR_EPROTOCOL, "request %u is not one of this version", header.op));
}

Reply Requests::hello(Session& session, const layout::HelloRequest& request) {
  if (request.layout_version != layout::kLayoutVersion ||
      request.fingerprint != layout::kLayoutFingerprint) {
    return Reply::failed(error(GEAR_EVERSION,
                        "layout: the client has version %u, fingerprint %016llx; the server version %u, fingerprint %016llx; use builds of one version on both sides",
                        request.layout_version, static_cast<unsigned long long>(request.fingerprint),
                        layout::kLayoutVersion,
                        static_cast<unsigned long long>(layout::kLayoutFingerprint)));
  }
  session.name.assign(request.name, strnlen(request.name, sizeof request.name));
  if (session.record == nullptr) {
    Status room = sessions_.check_place(session);
    if (!room.ok()) {
      sessions_.complain("refused a client: " + room.text());
      return Reply::failed(room);
    }
    layout::SessionRecord record{};
    record.id = session.id;
    record.pid = session.peer.pid;
    record.uid = session.peer.uid;
    fill_random(record.token, sizeof record.token);
    memcpy(record.name, request.name, sizeof record.name);
    session.record = instance_.ledger().add(record);
    if (session.record == nullptr) {
      return Reply::failed(error(GEAR_ELIMIT, "the server has its %u clients; close some",
                                 sessions_.clients_most()));
    }
  }
  layout::HelloReply hello{instance_.id(), static_cast<uint32_t>(session.id),
                           static_cast<uint32_t>(getpid()), session.id, {}};
  memcpy(hello.token, session.record->token, sizeof hello.token);
  Reply reply = Reply::with_body(hello);
  reply.descriptors = {instance_.segment().read_only_fd(), session.doorbell.get()};
  return reply;
}

Reply Requests::create_table(const Session& session, const ControlHeader& header,
                             const char* body) {
  layout::TableCreateRequest request;
  if (header.body_bytes < sizeof request) return malformed(header);
  memcpy(&request, body, sizeof request);
  terminate(request.name);
  if (request.column_count > layout::kColumnsMax ||
      request.selector_count > layout::kNamedSelectorsMax) {
    return malformed(header);
  }
  uint64_t columns_bytes = request.column_count * sizeof(layout::ColumnSpec);
  uint64_t selectors_bytes = request.selector_count * sizeof(layout::SelectorSpec);
  if (header.body_bytes - sizeof request != columns_bytes + selectors_bytes) {
    return malformed(header);
  }
  std::vector<layout::ColumnSpec> columns(request.column_count);
  memcpy(static_cast<void*>(columns.data()), body + sizeof request, columns_bytes);
  for (layout::ColumnSpec& column : columns) terminate(column.name);
  std::vector<layout::SelectorSpec> selectors(request.selector_count);
  if (selectors_bytes > 0) {
    memcpy(static_cast<void*>(selectors.data()), body + sizeof request + columns_bytes,
           selectors_bytes);
  }
  for (layout::SelectorSpec& selector : selectors) terminate(selector.name);

  if (request.memory > GEAR_MEMORY_MEMFD || request.huge_pages > GEAR_WANT_REQUIRED ||
      request.populate > GEAR_WANT_REQUIRED || request.lock > GEAR_WANT_REQUIRED) {
    return Reply::failed(error(GEAR_EINVAL, "create table \"%s\": memory %u, huge_pages %u, populate %u, lock %u; give a gear_memory and three gear_want",
                        request.name, request.memory, request.huge_pages, request.populate,
                        request.lock));
  }
  if (request.memory == GEAR_MEMORY_DEFAULT) request.memory = options_.memory;
  Result<uint32_t> mode = table_mode(request.name, request.mode);
  if (!mode.ok()) return Reply::failed(mode.status());
  Result<Geometry> geometry = plan_geometry(request, columns.data(), selectors.data());
  if (!geometry.ok()) return Reply::failed(geometry.status());
  layout::TableHeader& plan = geometry.value().header;
  plan.owner_uid = session.peer.uid;
  plan.owner_gid = session.peer.gid;
  plan.mode = mode.value();
  if (conductor_.find_table(request.name) || being_made_.count(request.name) > 0) {
    return Reply::failed(error(GEAR_EEXISTS, "create table \"%s\": a table of that name exists; open it, drop it, or take another name",
                        request.name));
  }
  if (find_set_aside(request.name) != nullptr) {
    return Reply::failed(error(GEAR_EEXISTS, "create table \"%s\": a table of that name is set aside, its contents contradict themselves; drop it, or take another name",
                        request.name));
  }
  if (conductor_.tables().size() + being_made_.size() >= options_.tables_max) {
    return Reply::failed(error(GEAR_ELIMIT, "create table \"%s\": the server has its %u tables; drop one, or raise tables_max",
                        request.name, options_.tables_max));
  }
  uint64_t bytes = plan.directory_bytes + layout::data_memory_bytes(plan);
  Status allowed = quotas_.check_table(session.peer, request.name, bytes, being_made_);
  if (!allowed.ok()) return Reply::failed(allowed);
  being_made_[request.name] = {session.peer.uid, bytes};
  fill_random(plan.secret, sizeof plan.secret);
  MemoryOptions memory{request.memory, request.huge_pages, request.populate, request.lock,
                       request.numa_node};
  maker_.make({geometry.take(), memory, instance_.id(), instance_.ledger().take_table_id(), session.id,
               header.request_id});
  Reply reply;
  reply.later = true;
  return reply;
}

Reply Requests::table_made(TableMade made) {
  being_made_.erase(made.job.geometry.header.name);
  if (!made.status.ok()) return Reply::failed(made.status);
  conductor_.add_table(made.table);
  log(LogLevel::kInfo, "table \"%s\": %llu items, %u blocks of %u steps", made.table->name(),
      static_cast<unsigned long long>(made.table->header().capacity_items),
      made.table->header().block_budget, made.table->header().block_steps);
  return table_reply(*made.table);
}

Reply Requests::table_reply(const Table& table) {
  layout::TableReply body{};
  body.table_id = table.id();
  body.directory_bytes = table.directory().size();
  body.data_bytes = table.data().bytes();
  memcpy(body.secret, table.header().secret, sizeof body.secret);
  Reply reply = Reply::with_body(body);
  reply.descriptors = table.data().read_only_fds();
  reply.descriptors.insert(reply.descriptors.begin(), table.directory().read_only_fd());
  return reply;
}

Reply Requests::open_table(const Session& session, const layout::TableNameRequest& request) {
  if (const SetAsideTable* aside = find_set_aside(request.name)) {
    return Reply::failed(error(GEAR_ECORRUPT, "open table \"%s\": it is set aside since the server was started again: %s; drop it (gearctl table rm), and make it anew",
                        request.name, aside->why.c_str()));
  }
  auto table = conductor_.find_table(request.name);
  if (!table) {
    return Reply::failed(error(GEAR_ENOTFOUND, "open table \"%s\": no such table; gearctl table ls shows those there are",
                        request.name));
  }
  Status allowed = check_access(table->header(), session.peer, Access::kRead, "open table");
  if (!allowed.ok()) return Reply::failed(allowed);
  return table_reply(*table);
}

Reply Requests::attach_table(const Session& session, const layout::TableAttachRequest& request) {
  auto table = conductor_.find_table(request.table_id);
  for (const SetAsideTable& aside : set_aside) {
    // Without a secret that could be believed: to others it is not there.
    if (aside.id != request.table_id || !is_privileged(session.peer)) continue;
    return Reply::failed(error(GEAR_ECORRUPT, "attach table \"%s\": it is set aside: %s", aside.name.c_str(), aside.why.c_str()));
  }
  if (!table) {
    return Reply::failed(error(GEAR_ENOTFOUND, "attach table: the table of this handle does not exist (any more)"));
  }
  if (!same_secret(table->header().secret, request.secret)) {
    return Reply::failed(error(GEAR_EPERM, "attach table: the handle's secret is not this table's"));
  }
  // The secret shows that the caller was told of the table; whether it may read it is another question.
  Status allowed = check_access(table->header(), session.peer, Access::kRead, "attach table");
  if (!allowed.ok()) return Reply::failed(allowed);
  return table_reply(*table);
}

const SetAsideTable* Requests::find_set_aside(const std::string& name) const {
  for (const SetAsideTable& table : set_aside) {
    if (table.name == name) return &table;
  }
  return nullptr;
}

// What a table that is set aside says of its owner is not believed: the server's own user, and root.
Reply Requests::drop_set_aside_table(const Session& session, const SetAsideTable& table) {
  if (!is_privileged(session.peer)) {
    return Reply::failed(error(GEAR_EPERM, "drop table \"%s\": it is set aside, and user %u is not the server's; ask that user",
                        table.name.c_str(), session.peer.uid));
  }
  drop_set_aside(instance_.id(), table.id);
  log(LogLevel::kInfo, "table \"%s\", which was set aside, dropped", table.name.c_str());
  std::erase_if(set_aside, [id = table.id](const SetAsideTable& one) { return one.id == id; });
  return {};
}

Reply Requests::end_table(const Session& session, const layout::TableIdRequest& request, bool reset) {
  auto table = usable_table(session, request.table_id, Access::kOwn, reset ? "reset" : "close");
  if (!table.ok()) return Reply::failed(table.status());
  if (reset) {
    table.value()->reset();
  } else {
    conductor_.close_table(*table.value());
  }
  return {};
}

Reply Requests::drop_table(const Session& session, const layout::TableNameRequest& request) {
  if (const SetAsideTable* aside = find_set_aside(request.name)) return drop_set_aside_table(session, *aside);
  auto table = conductor_.find_table(request.name);
  if (!table) {
    return Reply::failed(error(GEAR_ENOTFOUND, "drop table \"%s\": no such table; gearctl table ls shows those there are", request.name));
  }
  Status allowed = check_access(table->header(), session.peer, Access::kOwn, "drop table");
  if (!allowed.ok()) return Reply::failed(allowed);
  conductor_.drop_table(*table);
  log(LogLevel::kInfo, "table \"%s\" dropped", request.name);
  return {};
}

// Those that the client may open.
Reply Requests::list_tables(const Session& session) {
  Reply reply;
  for (const auto& table : conductor_.tables()) {
    if (!check_access(table->header(), session.peer, Access::kRead, "list tables").ok()) continue;
    if (!reply.add_name(table->name())) break;
  }
  // Who owned those that are set aside is not believed.
  for (const SetAsideTable& table : set_aside) {
    if (!is_privileged(session.peer) || !reply.add_name(table.name.c_str())) break;
  }
  return reply;
}

Result<std::shared_ptr<Table>> Requests::table_for(const Session& session, uint64_t id, Access access,
                                                   const char* what) {
  auto table = conductor_.find_table(id);
  if (!table) return error(GEAR_EDROPPED, "%s: the table was dropped", what);
  GEAR_TRY(check_access(table->header(), session.peer, access, what));
  return table;
}

Result<std::shared_ptr<Table>> Requests::usable_table(const Session& session, uint64_t id, Access access,
                                                      const char* what) {
  auto table = table_for(session, id, access, what);
  if (table.ok() && table.value()->state() == layout::TableState::kClosed) {
    return error(GEAR_ECLOSED, "%s: table \"%s\" is closed", what, table.value()->name());
  }
  return table;
}

Status Requests::check_channels(const Session& session) const {
  uint32_t most = std::min(options_.channels_max, instance_.ledger().channels_max());
  if (conductor_.port_count() < most) return quotas_.check_channel(session.peer);
  return error(GEAR_ELIMIT, "the server has its %u channels (writers, samplers); close some, or raise channels_max",
               most);
}

Result<std::shared_ptr<Table>> Requests::table_for_channel(const Session& session, uint64_t id, Access access,
                                                           const char* what) {
  GEAR_TRY(check_channels(session));
  return usable_table(session, id, access, what);
}

ChannelPlace Requests::new_place(const Session& session) const {
  MemoryOptions memory;
  memory.memory = instance_.memory();
  return {instance_.id(), instance_.ledger().take_channel_id(), session.id, memory, session.peer.uid};
}

Reply Requests::open_writer(Session& session, const ControlHeader& header,
                            const char* body) {
  layout::WriterOpenRequest request;
  if (header.body_bytes < sizeof request) return malformed(header);
  memcpy(&request, body, sizeof request);
  uint64_t names_bytes = request.named != 0 ? uint64_t{request.lanes} * sizeof(uint64_t) : 0;
  if (header.body_bytes - sizeof request != names_bytes) return malformed(header);
  LanesWanted wanted{request.lanes, std::vector<uint64_t>(names_bytes / sizeof(uint64_t)),
                     request.take_over != 0};
  if (names_bytes > 0) memcpy(wanted.names.data(), body + sizeof request, names_bytes);

  auto table = table_for_channel(session, request.table_id, Access::kReadWrite, "open writer");
  if (!table.ok()) return Reply::failed(table.status());
  Status allowed = quotas_.check_lanes(session.peer, request.lanes);
  if (!allowed.ok()) return Reply::failed(allowed);
  // A writer that was killed a moment ago holds no name.
  if (WriterPort::names_are_held(*table.value(), wanted.names)) sessions_.bury_the_dead(session.id);
  // So is the part of one that was closed or killed a moment ago free, and not before it is drained.
  bool parts_out = table.value()->parted() && !table.value()->part_left_for(session.peer.uid);
  if (parts_out) {
    sessions_.bury_the_dead(session.id);
    conductor_.finish_closing(*table.value());
  }
  return channel_reply(session, WriterPort::open(table.value(), wanted, new_place(session)), nullptr, wanted.lanes);
}

Reply Requests::open_sampler(Session& session, const layout::SamplerOpenRequest& request) {
  // Policy drop removes items that the sampler does not draw.
  bool removes = request.version_policy == GEAR_VERSION_DROP;
  auto table = table_for_channel(session, request.table_id, removes ? Access::kReadWrite : Access::kRead, "open sampler");
  if (!table.ok()) return Reply::failed(table.status());
  Status allowed = quotas_.check_leased(session.peer, *table.value(), SamplerPort::rows_leased_most(request));
  if (!allowed.ok()) return Reply::failed(allowed);
  return channel_reply(session, SamplerPort::open(table.value(), request, new_place(session)), &request, 0);
}

Reply Requests::open_items(Session& session, const layout::TableIdRequest& request) {
  auto table = table_for_channel(session, request.table_id, Access::kWrite, "change items");
  if (!table.ok()) return Reply::failed(table.status());
  return channel_reply(session, ItemsPort::open(table.value(), new_place(session)), nullptr, 0);
}

Reply Requests::channel_reply(Session& session, Result<std::unique_ptr<Port>> port,
                              const layout::SamplerOpenRequest* sampler, uint32_t lanes) {
  if (!port.ok()) return Reply::failed(port.status());
  Port* added = conductor_.add_port(port.take());
  keep(session, *added, sampler, lanes);
  const Table& table = added->table();
  uint32_t part = lanes > 0 ? table.part_of(added->id()) : 0;
  Reply reply = Reply::with_body(layout::ChannelReply{added->id(), part, added->segment().size()});
  reply.descriptors = {added->segment().writable_fd()};
  if (lanes > 0) reply.descriptors.push_back(table.data().writable_fd(part));
  return reply;
}

// A server that dies before this closes the lanes again; the client had no answer.
void Requests::keep(Session& session, Port& port, const layout::SamplerOpenRequest* sampler, uint32_t lanes) {
  // Not at hello: only who has a channel can hold anything, and its start time costs a look into /proc.
  bool adoptable = instance_.memory() == GEAR_MEMORY_POSIX;
  if (adoptable && session.record->start_ticks == 0 && session.peer.pid != 0) {
    publish(session.record->start_ticks, process_start_ticks(session.peer.pid));
  }
  layout::ChannelRecord record = port.describe();
  if (sampler != nullptr) record.sampler = *sampler;
  record.lanes = lanes;
  layout::ChannelRecord* kept = instance_.ledger().add(record);
  GEAR_ASSERT(kept != nullptr, "a ledger of %u channels is full of %zu ports", instance_.ledger().channels_max(),
              conductor_.port_count());
  port.keep_in(kept);
}

void Requests::take_back(uint16_t op, const Reply& reply) {
  if (!reply.status.ok()) return;
  auto which = static_cast<ControlOp>(op);
  if (layout::opens_channel(which) && reply.body.size() == sizeof(layout::ChannelReply)) {
    layout::ChannelReply channel;
    memcpy(&channel, reply.body.data(), sizeof channel);
    if (Port* port = conductor_.find_port(channel.channel_id)) port->begin_close();
  } else if (which == ControlOp::kTableCreate && reply.body.size() == sizeof(layout::TableReply)) {
    layout::TableReply made;
    memcpy(&made, reply.body.data(), sizeof made);
    if (auto table = conductor_.find_table(made.table_id)) conductor_.drop_table(*table);
  }
}

Reply Requests::close_channel(const Session& session, const layout::ChannelIdRequest& request) {
  Port* port = conductor_.find_port(request.channel_id);
  if (port == nullptr || port->session() != session.id) {
    return Reply::failed(error(GEAR_ENOTFOUND, "close channel %u: this client has no such channel",
                        request.channel_id));
  }
  port->begin_close();
  return {};
}

Reply Requests::server_info() {
  layout::ServerInfoReply info{};
  info.pid = static_cast<uint32_t>(getpid());
  info.version = GEAR_VERSION_MAJOR << 16 | GEAR_VERSION_MINOR << 8 | GEAR_VERSION_PATCH;
  info.layout_version = layout::kLayoutVersion;
  info.fingerprint = layout::kLayoutFingerprint;
  info.instance_id = instance_.id();
  info.uptime_ns = static_cast<uint64_t>(now_ns()) - instance_.words()->started_ns;
  info.clients = static_cast<uint32_t>(sessions_.count());
  info.tables = static_cast<uint32_t>(conductor_.tables().size());
  info.writers = static_cast<uint32_t>(conductor_.port_count(layout::ChannelKind::kWriter));
  info.samplers = static_cast<uint32_t>(conductor_.port_count(layout::ChannelKind::kSampler));
  info.records = conductor_.records();
  info.wakeups = facts.wakeups;
  snprintf(info.event_loop, sizeof info.event_loop, "%s", facts.event_loop);
  return Reply::with_body(info);
}

}  // namespace gear
