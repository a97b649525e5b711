// The control protocol, server's side: one request in, one reply out.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "server/access.h"
#include "server/adoption.h"
#include "server/conductor.h"
#include "server/instance.h"
#include "server/quotas.h"
#include "server/session.h"
#include "server/sessions.h"
#include "server/table_maker.h"

namespace gear {

// What goes back to the client. The descriptors stay their owners'.
struct Reply {
  static Reply failed(Status status) {
    Reply reply;
    reply.status = std::move(status);
    return reply;
  }
  template <typename Body>
  static Reply with_body(const Body& body) {
    Reply reply;
    reply.body.resize(sizeof body);
    memcpy(reply.body.data(), &body, sizeof body);
    return reply;
  }
  // One more of the names of a list; false when it does not fit.
  bool add_name(const char* name) {
    size_t length = strlen(name) + 1;
    if (body.size() + length > layout::kControlBytesMax) return false;
    body.insert(body.end(), name, name + length);
    return true;
  }

  Status status;
  std::vector<char> body;
  std::vector<int> descriptors;
  bool later = false;  // the answer follows when a table is made
};

// Server's thread only. Every field of a request is checked before it has any effect.
class Requests {
 public:
  Requests(const ServerOptions& options, Instance& instance, Conductor& conductor,
           TableMaker& maker, Sessions& sessions, const Quotas& quotas)
      : options_(options), instance_(instance), conductor_(conductor), maker_(maker), sessions_(sessions),
        quotas_(quotas) {}

  Reply answer(Session& session, const layout::ControlHeader& header, const char* body);
  // The reply to the request that asked for the table.
  Reply table_made(TableMade made);

  // The client did not get this reply: it must have no effect.
  void take_back(uint16_t op, const Reply& reply);

  // What ServerInfo tells beside what is counted elsewhere.
  struct Facts {
    uint64_t wakeups = 0;
    const char* event_loop = "";
  };
  Facts facts;

  // Adopted from the server before: nobody can use them, but they can be dropped.
  std::vector<SetAsideTable> set_aside;

 private:
  Reply hello(Session& session, const layout::HelloRequest& request);
  Reply create_table(const Session& session, const layout::ControlHeader& header,
                     const char* body);
  Reply open_table(const Session& session, const layout::TableNameRequest& request);
  Reply attach_table(const Session& session, const layout::TableAttachRequest& request);
  Reply end_table(const Session& session, const layout::TableIdRequest& request, bool reset);
  Reply drop_table(const Session& session, const layout::TableNameRequest& request);
  Reply list_tables(const Session& session);
  Reply retune_table(const Session& session, const layout::TableRetuneRequest& request);
  Reply raise_version(const Session& session, const layout::TableVersionRequest& request);
  Reply about_group(const Session& session, const layout::GroupRequest& request, bool drop);
  Reply list_groups(const Session& session, const layout::TableIdRequest& request);
  Reply open_writer(Session& session, const layout::ControlHeader& header, const char* body);
  Reply open_sampler(Session& session, const layout::SamplerOpenRequest& request);
  Reply open_items(Session& session, const layout::TableIdRequest& request);
  Reply close_channel(const Session& session, const layout::ChannelIdRequest& request);
  Reply server_info();

  Reply table_reply(const Table& table);
  Reply channel_reply(Session& session, Result<std::unique_ptr<Port>> port,
                      const layout::SamplerOpenRequest* sampler, uint32_t lanes);
  // The table, if it is there and the session's user may do that with it.
  Result<std::shared_ptr<Table>> table_for(const Session& session, uint64_t id, Access access, const char* what);
  // The same, and open.
  Result<std::shared_ptr<Table>> usable_table(const Session& session, uint64_t id, Access access, const char* what);
  // The same, and there is room for another channel.
  Result<std::shared_ptr<Table>> table_for_channel(const Session& session, uint64_t id, Access access, const char* what);
  Status check_channels(const Session& session) const;
  ChannelPlace new_place(const Session& session) const;
  void keep(Session& session, Port& port, const layout::SamplerOpenRequest* sampler, uint32_t lanes);
  const SetAsideTable* find_set_aside(const std::string& name) const;
  Reply drop_set_aside_table(const Session& session, const SetAsideTable& table);

  const ServerOptions& options_;
  Instance& instance_;
  Conductor& conductor_;
  TableMaker& maker_;
  Sessions& sessions_;
  const Quotas& quotas_;
  std::map<std::string, TableInMaking> being_made_;
};

}  // namespace gear
