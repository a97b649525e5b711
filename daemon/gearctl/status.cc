#include "gearctl/status.h"

#include <cstdio>

#include "common/quantity.h"
#include "gearctl/tables.h"

namespace gear::daemon {
namespace {

std::string version_text(uint32_t version) {
  return std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 255) + "." +
         std::to_string(version & 255);
}

// 64 bits as text: a JSON number is a double to many readers.
std::string hex_text(uint64_t value) {
  char text[17];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string count(const Json& server, const char* key) {
  return std::string(key) + " " + server[key].dump();
}

}  // namespace

Json server_status(gear_client* client, const std::string& endpoint) {
  gear_server_info info = GEAR_SERVER_INFO_INIT;
  check(gear_get_server_info(client, &info));
  Json server;
  server["pid"] = info.pid;
  server["version"] = version_text(info.version);
  server["layout_version"] = info.layout_version;
  server["layout_fingerprint"] = hex_text(info.layout_fingerprint);
  server["instance_id"] = hex_text(info.instance_id);
  server["uptime_ns"] = info.uptime_ns;
  server["event_loop"] =
      std::string(info.event_loop, strnlen(info.event_loop, sizeof info.event_loop));
  server["clients"] = info.clients;
  server["tables"] = info.tables;
  server["writers"] = info.writers;
  server["samplers"] = info.samplers;
  server["records"] = info.records;
  server["wakeups"] = info.wakeups;
  Json status;
  status["endpoint"] = endpoint_name(endpoint);
  status["server"] = std::move(server);
  status["tables"] = list_tables(client)["tables"];
  return status;
}

std::string render_status(const Json& status) {
  const Json& server = status["server"];
  TextTable facts({"endpoint", printable(status["endpoint"].get<std::string>())});
  facts.add({"server", "geard " + server["version"].get<std::string>() + ", pid " +
                           server["pid"].dump() + ", up " +
                           format_duration_ns(server["uptime_ns"].get<uint64_t>()) + ", " +
                           server["event_loop"].get<std::string>() + ", layout " +
                           server["layout_version"].dump()});
  facts.add({"connected", count(server, "clients") + " (this one included), " +
                              count(server, "writers") + ", " + count(server, "samplers")});
  facts.add({"conductor", count(server, "records") + ", " + count(server, "wakeups")});
  return facts.text() + "\n" + render_tables(status);
}

}  // namespace gear::daemon
