// A GEAR server: the conductor's loop, its sessions and its control socket. geard runs one in its main thread, an
// embedded client in a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace gear {

// Which users' processes may connect, beside root's.
enum class ConnectAccess : uint32_t {
  kOwnUser = 0,  // those of the user the server runs as
  kAny = 1       // all; then the owner and mode of each table rule, and UserQuotas bound what each user has
};

// Of every user but root and the one the server runs as; 0 is without limit. What is over is refused with ELIMIT.
struct UserQuotas {
  uint32_t clients_max = 256;
  uint32_t channels_max = 4096;
  uint32_t lanes_max = 65536;
  uint32_t tables_max = 256;
  uint64_t table_bytes_max = 0;
  uint64_t leased_bytes_max = 0;  // rows that leased samplers may hold and prefetch, each as long as the table's longest item
};

struct ServerOptions {
  std::string socket_path;          // empty: only the abstract socket of the instance (embedded)
  uint32_t memory = GEAR_MEMORY_MEMFD;  // where tables that do not say go, and the server's own segments
  bool allow_io_uring = true;
  bool fresh = false;               // discards what a dead server of the path left, instead of adopting it
  uint32_t clients_max = 1024;
  uint32_t tables_max = 1024;
  uint32_t channels_max = 16384;    // writers, samplers and item channels together
  ConnectAccess access = ConnectAccess::kOwnUser;
  UserQuotas user_quotas;
  int64_t hello_timeout_ns = 5'000'000'000;  // a connection that has not greeted by then is closed
  int64_t spin_ns = 20'000;         // polls the rings without sleeping after the last record; longer where that pays
  int64_t drowsy_ns = 20'000'000;   // then every kDrowsyPollNs, then sleeps until a doorbell
};

class Server {
 public:
  virtual ~Server() = default;

  // Binds the sockets and, with a socket path, takes the exclusive lock of that path (path + ".lock"): EADDRINUSE when
  // another server holds it (its pid is in the text); a stale socket is replaced, and what a dead server of this path left
  // in /dev/shm is adopted: its tables, sessions and channels go on. A table that contradicts itself is set aside.
  // Errors: ENOTSOCKET, EPERM, EINVAL (path too long), EVERSION (a server of another build left it; nothing is changed),
  // ECORRUPT (its ledger), EMFILE, ENOMEM, ESYSTEM.
  static Result<std::unique_ptr<Server>> create(const ServerOptions& options);

  // Serves until stop. `tick`, if given, is called from the loop at least every tick_ns while it serves.
  virtual void run(std::function<void()> tick = nullptr, int64_t tick_ns = 0) = 0;

  // Makes run return soon. Any thread; async-signal-safe.
  virtual void stop() = 0;

  virtual const std::string& abstract_name() const = 0;  // of the socket that handles lead to
  virtual uint64_t instance_id() const = 0;
};

}  // namespace gear
