// The identity of a server: its lock, its sockets and its instance segment.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "layout/instance.h"
#include "server/server.h"
#include "shm/descriptor.h"
#include "shm/segment.h"

namespace gear {

// One server process (or embedded server). With a socket path it holds the exclusive lock of that path, so what a dead
// server of the same path left behind may be removed. Goes: sockets, lock file and segment with it.
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
  layout::InstanceSegment* words() const {
    return static_cast<layout::InstanceSegment*>(segment_.data());
  }

 private:
  Instance() = default;
  Status lock(const std::string& path);
  Status listen(const std::string& path);

  uint64_t id_ = 0;
  std::string path_;
  std::string lock_path_;
  std::string abstract_name_;
  Descriptor lock_;
  Descriptor path_listener_;
  Descriptor abstract_listener_;
  Segment segment_;
};

}  // namespace gear
