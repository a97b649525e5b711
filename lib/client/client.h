// A client: one connection to a server, and all that was opened through it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/embedded.h"
#include "client/handle.h"
#include "client/session.h"
#include "gear.h"

namespace gear::client {

class Table;

// Any thread. Owns its tables, which own their writers and samplers.
class Client final : public Handle {
 public:
  static constexpr uint64_t kMagic = 0x746e65696c437247u;
  static constexpr const char* kNoun = "client";
  static constexpr bool kShared = true;  // calls of several threads at once

  // `endpoint` as in gear_connect; options of this library's version.
  static Result<std::unique_ptr<Client>> connect(const char* endpoint,
                                                 const gear_connect_options& options);
  ~Client();

  Session& session() { return *session_; }

  Table* keep(std::unique_ptr<Table> table);
  void forget(Table* table);

  // Before it is closed: no further call begins on it or on what was opened through it; those under way end with ECLOSED
  // and are waited for. Errors: EINVAL where another thread closes it, EBUSY as end_calls_on.
  Status end_calls();

 private:
  Client(EmbeddedLink embedded, std::unique_ptr<Session> session);

  EmbeddedLink embedded_;  // outlives the session
  std::unique_ptr<Session> session_;
  std::mutex mutex_;  // guards the list
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace gear::client
