#include "client/client.h"

#include <errno.h>

#include <algorithm>

#include "base/clock.h"
#include "client/endpoint.h"
#include "client/fork_guard.h"
#include "client/table.h"
#include "client/text.h"

namespace gear::client {
namespace {

constexpr int64_t kConnectTimeoutNs = 5'000'000'000;
constexpr int64_t kRequestTimeoutNs = 30'000'000'000;
constexpr int64_t kReconnectTimeoutNs = 60'000'000'000;

Status check_timeouts(const gear_connect_options& options) {
  if (options.connect_timeout_ns >= 0 && options.request_timeout_ns >= 0) return {};
  return error(
      GEAR_EINVAL,
      "connect: connect_timeout_ns %lld, request_timeout_ns %lld; give nanoseconds, or 0 for "
      "the default",
      static_cast<long long>(options.connect_timeout_ns),
      static_cast<long long>(options.request_timeout_ns));
}

Result<Descriptor> reach(const Endpoint& endpoint, EmbeddedLink* embedded, int64_t deadline_ns) {
  switch (endpoint.kind) {
    case Endpoint::Kind::kPath:
      return connect_unix(endpoint.target, deadline_ns);
    case Endpoint::Kind::kAbstract:
      return connect_abstract(endpoint.target, deadline_ns);
    case Endpoint::Kind::kEmbedded:
      break;
  }
  Result<EmbeddedLink> joined = join_embedded_server(endpoint.target);
  if (!joined.ok()) return within("start an embedded server", joined.status());
  *embedded = joined.take();
  return connect_abstract(embedded->abstract_name, deadline_ns);
}

// An embedded server goes with this process.
Comeback comeback_to(const Endpoint& endpoint, const gear_connect_options& options) {
  if (endpoint.kind == Endpoint::Kind::kEmbedded || options.reconnect_timeout_ns < 0) return {};
  int64_t timeout_ns = options.reconnect_timeout_ns != 0 ? options.reconnect_timeout_ns : kReconnectTimeoutNs;
  return {[endpoint](int64_t deadline_ns) { return reach(endpoint, nullptr, deadline_ns); }, timeout_ns};
}

}  // namespace

Client::Client(EmbeddedLink embedded, std::unique_ptr<Session> session)
    : Handle(kMagic), embedded_(std::move(embedded)), session_(std::move(session)) {}

Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(const char* text,
                                                const gear_connect_options& options) {
  GEAR_TRY(check_timeouts(options));
  Result<Endpoint> endpoint = parse_endpoint(text);
  if (!endpoint.ok()) return within("connect", endpoint.status());
  watch_forks();
  int64_t deadline_ns = deadline_after(options.connect_timeout_ns != 0 ? options.connect_timeout_ns
                                                                       : kConnectTimeoutNs);

  EmbeddedLink embedded;
  Result<Descriptor> socket = reach(endpoint.value(), &embedded, deadline_ns);
  if (!socket.ok()) return socket.status();
  Result<std::unique_ptr<Session>> session = Session::open(
      socket.take(), options.name != nullptr ? options.name : program_invocation_short_name,
      options.request_timeout_ns != 0 ? options.request_timeout_ns : kRequestTimeoutNs,
      deadline_ns, comeback_to(endpoint.value(), options));
  if (!session.ok()) return within("connect", session.status());
  return std::unique_ptr<Client>(new Client(std::move(embedded), session.take()));
}

Status Client::end_calls() {
  if (!begin_close()) return unusable_handle(kNoun, false);
  int64_t patience_ns = session_->request_timeout_ns();
  int64_t deadline_ns = deadline_after(patience_ns);
  refuse_calls();
  session_->end_calls();
  auto refuse_tables = [this] {
    std::lock_guard lock(mutex_);
    for (auto& table : tables_) table->refuse_all_calls();
  };
  refuse_tables();
  bool returned = await_calls(deadline_ns);
  if (returned) {
    refuse_tables();  // those that the last calls opened; none follow
    returned = std::all_of(tables_.begin(), tables_.end(), [deadline_ns](auto& table) {
      return table->await_all_calls(deadline_ns);
    });
  }
  if (returned) return {};
  cancel_close();
  return calls_remain(kNoun, patience_ns);
}

Table* Client::keep(std::unique_ptr<Table> table) {
  std::lock_guard lock(mutex_);
  tables_.push_back(std::move(table));
  return tables_.back().get();
}

void Client::forget(Table* table) {
  std::unique_ptr<Table> last;  // ends outside the lock
  std::lock_guard lock(mutex_);
  auto found = std::find_if(tables_.begin(), tables_.end(),
                            [table](const auto& one) { return one.get() == table; });
  if (found == tables_.end()) return;
  last = std::move(*found);
  tables_.erase(found);
}

}  // namespace gear::client
