// The identity of a server: its lock, its sockets and its instance segment.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "layout/instance.h"
#include "server/ledger.h"
#include "server/server.h"
#include "shm/descriptor.h"
#include "shm/segment.h"

namespace gear {

// One server process (or embedded server). With a socket path it holds the exclusive lock of that path, so what a dead
// server of the same path left behind may be adopted, or removed. Goes: sockets, lock file and segments with it.
class Instance {
 public:
  // Errors: as Server::create.
  static Result<std::unique_ptr<Instance>> create(const ServerOptions& options);
  ~Instance();

  uint64_t id() const { return id_; }
  const std::string& abstract_name() const { return abstract_name_; }
  int path_listener() const { return path_listener_.get(); }          // -1 without a path
  int abstract_listener() const { return abstract_listener_.get(); }
  const Segment& segment() const { return segment_; }
  Ledger& ledger() const { return *ledger_; }
  // Where the server's own segments go.
  uint32_t memory() const { return memory_; }
  // A dead server's tables, sessions and channels are there to be adopted.
  bool adopted() const { return adopted_; }
  layout::InstanceSegment* words() const {
    return static_cast<layout::InstanceSegment*>(segment_.data());
  }

 private:
  Instance() = default;
  Status lock(const std::string& path);
  Status listen(const std::string& path, mode_t mode);
  Status listen_by_name();
  Status look_for_remains(bool fresh);
  Status adopt_own_segments();
  Status make_own_segments(const ServerOptions& options);

  uint64_t id_ = 0;
  std::string path_;
  std::string lock_path_;
  std::string abstract_name_;
  Descriptor lock_;
  Descriptor path_listener_;
  Descriptor abstract_listener_;
  uint32_t memory_ = 0;
  bool adopted_ = false;
  Segment segment_;
  std::unique_ptr<Ledger> ledger_;
};

}  // namespace gear
