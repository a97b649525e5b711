#include "client.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "status.h"

namespace gear_python {
namespace {

std::shared_ptr<Client> connect(const std::optional<std::string>& endpoint,
                                const std::optional<std::string>& name, double connect_timeout,
                                double request_timeout, std::optional<double> reconnect_timeout) {
  gear_connect_options options = GEAR_CONNECT_OPTIONS_INIT;
  options.name = name ? name->c_str() : nullptr;
  options.connect_timeout_ns = to_nanoseconds(connect_timeout);
  options.request_timeout_ns = to_nanoseconds(request_timeout);
  if (reconnect_timeout) {
    options.reconnect_timeout_ns =
        *reconnect_timeout > 0 ? to_nanoseconds(*reconnect_timeout) : GEAR_RECONNECT_NEVER;
  }
  gear_client* raw = nullptr;
  int status;
  {
    nb::gil_scoped_release released;
    status = gear_connect(endpoint ? endpoint->c_str() : nullptr, &options, &raw);
  }
  check(status);
  return std::make_shared<Client>(raw);
}

std::vector<std::string> list_tables(Client& client) {
  std::vector<std::string> names;
  const auto add = [](const char* name, void* user) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(name);
  };
  gear_client* raw = client.raw();
  check(call_unlocked(client, [&] { return gear_table_list(raw, add, &names); }));
  return names;
}

void drop_table(Client& client, const std::string& name) {
  gear_client* raw = client.raw();
  check(call_unlocked(client, [&] { return gear_table_drop(raw, name.c_str()); }));
}

nb::dict server_info(Client& client) {
  gear_server_info info = GEAR_SERVER_INFO_INIT;
  gear_client* raw = client.raw();
  check(call_unlocked(client, [&] { return gear_get_server_info(raw, &info); }));
  nb::dict result;
  result["pid"] = info.pid;
  result["version"] = info.version;
  result["layout_version"] = info.layout_version;
  result["layout_fingerprint"] = info.layout_fingerprint;
  result["instance_id"] = info.instance_id;
  result["uptime"] = static_cast<double>(info.uptime_ns) * 1e-9;
  result["clients"] = info.clients;
  result["tables"] = info.tables;
  result["writers"] = info.writers;
  result["samplers"] = info.samplers;
  result["records"] = info.records;
  result["wakeups"] = info.wakeups;
  result["event_loop"] = static_cast<const char*>(info.event_loop);
  return result;
}

}  // namespace

Client::~Client() {
  if (usable()) finish();
}

gear_client* Client::raw() const {
  if (closed_) raise(GEAR_ESTATE, "the client is closed; connect again");
  return raw_;
}

void Client::close() {
  if (closed_) return;
  if (calls_ > 0) {
    raise(GEAR_ESTATE, "close client: " + std::to_string(calls_) +
                           " calls are running in other threads; join these first");
  }
  closed_ = true;
  if (exports_ == 0) check(finish());
}

void Client::drop_export() {
  --exports_;
  if (exports_ == 0 && closed_) finish();
}

int Client::finish() {
  gear_client* raw = std::exchange(raw_, nullptr);
  closed_ = true;
  nb::gil_scoped_release released;
  return gear_close(raw);
}

void bind_client(nb::module_& module) {
  module.def("connect", &connect, nb::arg("endpoint").none(), nb::arg("name").none(),
             nb::arg("connect_timeout"), nb::arg("request_timeout"),
             nb::arg("reconnect_timeout").none());
  nb::class_<Client>(module, "Client")
      .def("close", &Client::close)
      .def_prop_ro("closed", &Client::closed)
      .def("tables", &list_tables)
      .def("drop", &drop_table, nb::arg("name"))
      .def("server", &server_info);
}

}  // namespace gear_python
