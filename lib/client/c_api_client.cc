// gear.h, section 2: client; and, of section 8, what a server tells about itself.

#include <cstring>

#include "client/c_api.h"
#include "client/options.h"
#include "client/text.h"

using namespace gear;          // NOLINT: this file is the C edge of the namespace
using namespace gear::client;  // NOLINT

int gear_connect(const char* endpoint, const gear_connect_options* options, gear_client** client) {
  return guarded([&]() -> Status {
    GEAR_TRY(need(client, "gear_connect", "client"));
    gear_connect_options known = GEAR_CONNECT_OPTIONS_INIT;
    if (options != nullptr) GEAR_TRY(read_struct("gear_connect_options", options, &known));
    Result<std::unique_ptr<Client>> connected = Client::connect(endpoint, known);
    if (!connected.ok()) return connected.status();
    *client = reinterpret_cast<gear_client*>(connected.value().release());
    return {};
  });
}

int gear_close(gear_client* client) {
  return guarded([&]() -> Status {
    GEAR_TRY(check_handle(behind(client)));
    GEAR_TRY(behind(client)->end_calls());
    delete behind(client);
    return {};
  });
}

int gear_get_server_info(gear_client* client, gear_server_info* info) {
  return guarded([&]() -> Status {
    Call call(behind(client));
    GEAR_TRY(call.status());
    GEAR_TRY(need(info, "gear_get_server_info", "info"));
    GEAR_TRY(check_writable("gear_server_info", info));
    Result<Reply> reply = behind(client)->session().ask(layout::ControlOp::kServerInfo, nullptr, 0);
    if (!reply.ok()) return within("server info", reply.status());
    layout::ServerInfoReply told;
    GEAR_TRY(read_reply(reply.value(), 0, &told));
    gear_server_info known = GEAR_SERVER_INFO_INIT;
    known.pid = told.pid;
    known.version = told.version;
    known.layout_version = told.layout_version;
    known.layout_fingerprint = told.fingerprint;
    known.instance_id = told.instance_id;
    known.uptime_ns = told.uptime_ns;
    known.clients = told.clients;
    known.tables = told.tables;
    known.writers = told.writers;
    known.samplers = told.samplers;
    known.records = told.records;
    known.wakeups = told.wakeups;
    memcpy(known.event_loop, told.event_loop, sizeof known.event_loop);
    known.event_loop[sizeof known.event_loop - 1] = '\0';
    return write_struct("gear_server_info", known, info);
  });
}
