#include "server/instance.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/clock.h"
#include "base/log.h"
#include "base/shared_word.h"
#include "server/adoption.h"
#include "shm/doorbell.h"
#include "shm/message.h"
#include "shm/segment_names.h"

namespace gear {
namespace {

constexpr int64_t kListenWaitNs = 3'000'000'000;

// A path's identity is the same for every server that serves it: the segments of a dead one can be found by it.
uint64_t identity_of(const std::string& path) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char byte : path) hash = (hash ^ byte) * 0x100000001b3u;
  return (hash ^ getuid()) * 0x100000001b3u;
}

uint64_t random_identity() {
  uint64_t id = 0;
  while (id == 0) {
    if (getrandom(&id, sizeof id, 0) != sizeof id) id = static_cast<uint64_t>(now_ns());
  }
  return id;
}

std::string absolute(const std::string& path) {
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  char resolved[PATH_MAX];
  if (realpath(folder.c_str(), resolved) == nullptr) return path;
  return std::string(resolved) + "/" + file;
}

// Whoever holds the lock of the path has the identity to itself; but the kernel may take a moment to close the sockets of a
// server that was just killed (its io_uring holds them until it is torn down).
template <typename Listen>
Result<Descriptor> listen_once_free(Listen listen) {
  int64_t deadline = deadline_after(kListenWaitNs);
  Result<Descriptor> listener = listen();
  while (!listener.ok() && listener.status().code() == GEAR_EADDRINUSE && left_until(deadline) > 0) {
    usleep(2'000);
    listener = listen();
  }
  return listener;
}

}  // namespace

Result<std::unique_ptr<Instance>> Instance::create(const ServerOptions& options) {
  std::unique_ptr<Instance> instance(new Instance());
  instance->id_ = random_identity();
  instance->memory_ = options.memory;
  if (!options.socket_path.empty()) {
    std::string path = absolute(options.socket_path);
    GEAR_TRY(instance->lock(path));
    instance->id_ = identity_of(path);
    GEAR_TRY(instance->listen(path, options.access == ConnectAccess::kAny ? 0666 : 0600));
  }
  GEAR_TRY(instance->listen_by_name());
  if (!options.socket_path.empty()) {
    // A failure from here on leaves what there is as it is.
    NamesKept kept;
    GEAR_TRY(instance->look_for_remains(options.fresh));
  }
  if (!instance->adopted_) GEAR_TRY(instance->make_own_segments(options));
  layout::InstanceSegment* words = instance->words();
  publish(words->conductor_state, static_cast<uint32_t>(layout::ConductorState::kAwake));
  note(words->pid, static_cast<uint32_t>(getpid()));
  note(words->fences_for_clients, can_fence_clients() ? 1u : 0u);
  snprintf(words->socket_path, sizeof words->socket_path, "%s", instance->path_.c_str());
  // Last: a client that sees another moment sees the rest of this server's.
  publish(words->started_ns, static_cast<uint64_t>(now_ns()));
  instance->segment_.publish_magic();
  return instance;
}

Status Instance::listen_by_name() {
  abstract_name_ = format("gear/%016llx", static_cast<unsigned long long>(id_));
  auto listen = [this] { return listen_abstract(abstract_name_); };
  Result<Descriptor> abstract = lock_.valid() ? listen_once_free(listen) : listen();
  if (!abstract.ok()) return abstract.status();
  abstract_listener_ = abstract.take();
  return {};
}

// The ledger and the instance segment are made first and go last, and a pid of 0 says that a server was asked to end: without
// all of that there are no clients to go on for.
Status Instance::look_for_remains(bool fresh) {
  std::vector<SegmentName> names = list_segments(id_);
  if (names.empty()) return {};
  if (!fresh) {
    GEAR_TRY(check_builds(names));
    GEAR_TRY(adopt_own_segments());
    if (adopted_) return {};
  }
  size_t removed = fresh ? remove_segments_of(id_) : discard_remains(names);
  if (removed > 0) {
    log(LogLevel::kWarning, "removed %zu segments that a dead server of %s left", removed, path_.c_str());
  }
  return {};
}

Status Instance::adopt_own_segments() {
  const std::string purpose = "adopt what a dead server of " + path_ + " left";
  auto gone_or_half_made = [](const Status& status) {
    return status.code() == GEAR_ENOTFOUND || status.code() == GEAR_EPROTOCOL;
  };
  Result<Segment> own = Segment::adopt(purpose, layout::SegmentKind::kInstance, id_, 0);
  if (!own.ok()) return gone_or_half_made(own.status()) ? Status{} : own.status();
  bool sound = own.value().size() >= sizeof(layout::InstanceSegment);
  if (!sound || static_cast<layout::InstanceSegment*>(own.value().data())->pid == 0) return {};
  Result<Segment> ledger = Segment::adopt(purpose, layout::SegmentKind::kLedger, id_, 0);
  if (!ledger.ok()) return gone_or_half_made(ledger.status()) ? Status{} : ledger.status();
  Result<std::unique_ptr<Ledger>> read = Ledger::adopt(ledger.take());
  if (!read.ok()) return read.status();
  segment_ = own.take();
  ledger_ = read.take();
  memory_ = GEAR_MEMORY_POSIX;
  adopted_ = true;
  return {};
}

Status Instance::make_own_segments(const ServerOptions& options) {
  MemoryOptions memory;
  memory.memory = options.memory;
  Result<Segment> segment =
      Segment::create("start server", layout::SegmentKind::kInstance,
                      sizeof(layout::InstanceSegment), id_, 0, memory);
  if (!segment.ok()) return segment.status();
  segment_ = segment.take();
  Result<std::unique_ptr<Ledger>> ledger =
      Ledger::create(id_, options.clients_max + 1, options.channels_max, options.memory);  // 1: its own process
  if (!ledger.ok()) return ledger.status();
  ledger_ = ledger.take();
  return {};
}

Instance::~Instance() {
  if (path_listener_.valid()) unlink(path_.c_str());
  // While the lock is still held: who opens the file after this makes a new one.
  if (lock_.valid()) unlink(lock_path_.c_str());
}

Status Instance::lock(const std::string& path) {
  std::string lock_path = path + ".lock";
  for (;;) {
    Descriptor file(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) {
      if (errno != EACCES && errno != EPERM) return system_error(errno, "open the lock " + lock_path);
      return error(GEAR_EPERM, "open the lock %s: user %u may not write there; give another socket, in a directory of that user",
                   lock_path.c_str(), geteuid());
    }
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return system_error(errno, "take the lock " + lock_path);
      char text[32] = {};
      [[maybe_unused]] ssize_t got = pread(file.get(), text, sizeof text - 1, 0);
      int pid = atoi(text);
      // One that is just starting has not written it yet.
      std::string who = pid > 0 ? format(" (process %d)", pid) : "";
      return error(GEAR_EADDRINUSE, "a server already serves %s%s; stop it, or give another socket", path.c_str(),
                   who.c_str());
    }
    struct stat held, named;
    bool current = fstat(file.get(), &held) == 0 && stat(lock_path.c_str(), &named) == 0 &&
                   held.st_ino == named.st_ino && held.st_dev == named.st_dev;
    if (!current) continue;  // its last holder removed the file between open and lock
    // Ours from here on, so it goes with the instance even when what follows fails.
    lock_ = std::move(file);
    lock_path_ = lock_path;
    std::string pid = format("%d\n", getpid());
    if (ftruncate(lock_.get(), 0) != 0 ||
        pwrite(lock_.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
      return system_error(errno, "write the lock " + lock_path);
    }
    return {};
  }
}

Status Instance::listen(const std::string& path, mode_t mode) {
  Result<Descriptor> listener = listen_once_free([&] { return listen_unix(path, mode); });
  if (!listener.ok()) return listener.status();
  path_listener_ = listener.take();
  path_ = path;
  return {};
}

}  // namespace gear
