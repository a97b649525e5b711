#include "client/table.h"

#include <algorithm>
#include <cstring>

#include "client/endpoint.h"
#include "client/sampler.h"
#include "client/table_request.h"
#include "client/text.h"
#include "client/writer.h"
#include "gather/check_directory.h"
#include "shm/data_map.h"

namespace gear::client {

using layout::ControlOp;
using layout::SegmentKind;

namespace {

template <typename T>
T* keep_in(std::mutex& mutex, std::vector<std::unique_ptr<T>>& list, std::unique_ptr<T> one) {
  std::lock_guard lock(mutex);
  list.push_back(std::move(one));
  return list.back().get();
}

template <typename T>
void forget_in(std::mutex& mutex, std::vector<std::unique_ptr<T>>& list, const T* one) {
  std::unique_ptr<T> last;  // ends outside the lock
  std::lock_guard lock(mutex);
  auto found =
      std::find_if(list.begin(), list.end(), [one](const auto& each) { return each.get() == one; });
  if (found == list.end()) return;
  last = std::move(*found);
  list.erase(found);
}

}  // namespace

Table::Table(Client& client, Mapping directory, Mapping data, const layout::TableReply& reply)
    : Handle(kMagic),
      client_(client),
      directory_(std::move(directory)),
      data_(std::move(data)),
      view_(TableView::over(directory_.data(), data_.data())),
      reply_(reply),
      items_(*this) {}

Table::~Table() = default;

Result<std::unique_ptr<Table>> Table::create(Client& client, const gear_table_options& options) {
  Result<std::vector<char>> request = table_create_request(options);
  if (!request.ok()) return request.status();
  Result<Reply> reply =
      client.session().ask(ControlOp::kTableCreate, request.value().data(), request.value().size());
  if (!reply.ok()) return reply.status();
  auto table = map(client, format("create table \"%s\"", options.name), reply.take());
  // Its caller hears that there is no table, so there must be none.
  if (!table.ok()) {
    layout::TableNameRequest drop{};
    memcpy(drop.name, options.name, strlen(options.name));
    static_cast<void>(client.session().ask(ControlOp::kTableDrop, drop));
  }
  return table;
}

Result<std::unique_ptr<Table>> Table::open(Client& client, const char* name) {
  layout::TableNameRequest request{};
  GEAR_TRY(check_name("open table: name", name));
  memcpy(request.name, name, strlen(name));
  Result<Reply> reply = client.session().ask(ControlOp::kTableOpen, request);
  if (!reply.ok()) return reply.status();
  return map(client, format("open table \"%s\"", name), reply.take());
}

Result<std::unique_ptr<Table>> Table::attach(Client& client, const char* handle) {
  Result<layout::HandleBytes> bytes = decode_handle(handle);
  if (!bytes.ok()) return within("attach table", bytes.status());
  uint64_t here = client.session().instance_id();
  if (bytes.value().instance_id != here) {
    return error(
        GEAR_ENOTFOUND,
        "attach table: the handle is of server %016llx, this client is connected to %016llx; "
        "connect to endpoint \"handle:...\" of that handle",
        static_cast<unsigned long long>(bytes.value().instance_id),
        static_cast<unsigned long long>(here));
  }
  layout::TableAttachRequest request{};
  request.table_id = bytes.value().table_id;
  memcpy(request.secret, bytes.value().secret, sizeof request.secret);
  Result<Reply> reply = client.session().ask(ControlOp::kTableAttach, request);
  if (!reply.ok()) return reply.status();
  return map(client, "attach table", reply.take());
}

namespace {

// Nothing is mapped by what the directory says before that was checked.
Result<Mapping> map_data(const std::string& purpose, const Mapping& directory, const Reply& reply) {
  const auto& header = *static_cast<const layout::TableHeader*>(directory.data());
  if (directory.size() >= sizeof header && header.parts != 0) {
    Status sound = check_directory(&header, directory.size(), header.data_bytes);
    if (!sound.ok()) return within(purpose, sound);
    if (reply.descriptor_count != header.parts + 1) {
      return error(GEAR_EPROTOCOL, "%s: the server sent %u descriptors for a table of %u parts; use builds of one version on both sides",
                   purpose.c_str(), reply.descriptor_count, header.parts);
    }
    return map_parts(purpose, header, &reply.descriptors[1]);
  }
  Result<Mapping> data = map_segment(purpose, reply.descriptors[1].get(), SegmentKind::kData, false);
  if (!data.ok()) return data.status();
  Status sound = check_directory(&header, directory.size(), data.value().size());
  if (!sound.ok()) return within(purpose, sound);
  return data;
}

}  // namespace

Result<std::unique_ptr<Table>> Table::map(Client& client, const std::string& purpose, Reply reply) {
  layout::TableReply body;
  GEAR_TRY(read_reply(reply, 2, &body));
  Result<Mapping> directory =
      map_segment(purpose, reply.descriptors[0].get(), SegmentKind::kDirectory, false);
  if (!directory.ok()) return directory.status();
  Result<Mapping> data = map_data(purpose, directory.value(), reply);
  if (!data.ok()) return data.status();
  return std::unique_ptr<Table>(new Table(client, directory.take(), data.take(), body));
}

std::string Table::handle_text() const {
  layout::HandleBytes bytes{};
  bytes.instance_id = session().instance_id();
  bytes.table_id = reply_.table_id;
  memcpy(bytes.secret, reply_.secret, sizeof bytes.secret);
  return encode_handle(bytes);
}

Status Table::ask_about(ControlOp op, const char* what) const {
  Status status = session().ask(op, layout::TableIdRequest{id()}).status();
  return within(format("%s table \"%s\"", what, name()), status);
}

Status Table::close() {
  return ask_about(ControlOp::kTableClose, "close");
}

Status Table::reset() {
  return ask_about(ControlOp::kTableReset, "reset");
}

Result<uint32_t> Table::column_index(const char* column) const {
  std::string names;
  for (uint32_t i = 0; i < header().column_count; ++i) {
    if (strcmp(view_.columns[i].name, column) == 0) return i;
    names += format("%s\"%s\"", i > 0 ? ", " : "", view_.columns[i].name);
  }
  return error(GEAR_ENOCOLUMN, "table \"%s\" has no column \"%s\"; it has %s", name(), column,
               names.c_str());
}

Writer* Table::keep(std::unique_ptr<Writer> writer) {
  return keep_in(mutex_, writers_, std::move(writer));
}

Sampler* Table::keep(std::unique_ptr<Sampler> sampler) {
  return keep_in(mutex_, samplers_, std::move(sampler));
}

void Table::forget(Writer* writer) {
  forget_in(mutex_, writers_, writer);
}

void Table::forget(Sampler* sampler) {
  forget_in(mutex_, samplers_, sampler);
}

Status Table::end_calls() {
  if (!begin_close()) return unusable_handle(kNoun, false);
  int64_t patience_ns = session().request_timeout_ns();
  Status status = check_unused();
  if (status.ok()) {
    refuse_calls();
    items_.end_calls();
    // Nothing was opened on it meanwhile, or it stays.
    status = await_calls(deadline_after(patience_ns)) ? check_unused() : calls_remain(kNoun, patience_ns);
  }
  if (status.ok()) return {};
  items_.accept_calls();
  accept_calls();
  cancel_close();
  return status;
}

void Table::refuse_all_calls() {
  refuse_calls();
  items_.end_calls();
  std::lock_guard lock(mutex_);
  auto refuse = [](auto& one) {
    one->refuse_calls();
    one->end_waits();
  };
  for (auto& writer : writers_) refuse(writer);
  for (auto& sampler : samplers_) refuse(sampler);
}

bool Table::await_all_calls(int64_t deadline_ns) {
  if (!await_calls(deadline_ns)) return false;
  // What was opened by the last of those calls; none follows.
  refuse_all_calls();
  auto returned = [deadline_ns](auto& one) { return one->await_calls(deadline_ns); };
  return std::all_of(writers_.begin(), writers_.end(), returned) &&
         std::all_of(samplers_.begin(), samplers_.end(), returned);
}

Status Table::check_unused() {
  std::lock_guard lock(mutex_);
  if (writers_.empty() && samplers_.empty()) return {};
  return error(GEAR_ESTATE,
               "detach table \"%s\": %zu writers and %zu samplers are open on it; close them first",
               name(), writers_.size(), samplers_.size());
}

}  // namespace gear::client
