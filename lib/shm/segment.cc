#include "shm/segment.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/shared_word.h"
#include "layout/fingerprint.h"
#include "shm/descriptor_error.h"
#include "shm/memory.h"
#include "shm/segment_names.h"

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 0x0004U
#endif

namespace gear {
namespace {

// An interrupted allocation is undone by the kernel; pieces keep a periodic signal from undoing all
// of it forever.
constexpr size_t kAllocationPieceBytes = size_t{64} << 20;

// A property that was not granted: the failure itself where it is required, else a line in the log,
// once.
Status unless_required(bool required, const Status& failure, std::atomic<bool>* said) {
  if (required) return failure;
  if (!said->exchange(true))
    log(LogLevel::kWarning, "%s; going on without", failure.text().c_str());
  return {};
}

Status no_space(const std::string& purpose, uint64_t asked, uint64_t free, const std::string& where,
                const char* remedy) {
  return error(GEAR_ENOSPC, "%s: %s asked, %s free in %s (ENOSPC); %s", purpose.c_str(),
               human_bytes(asked).c_str(), human_bytes(free).c_str(), where.c_str(), remedy);
}

Status no_space_in_folder(const std::string& purpose, uint64_t asked, uint64_t free) {
  return no_space(purpose, asked, free, kSegmentFolder,
                  "lower capacity, enlarge /dev/shm, or use memory = memfd");
}

uint64_t free_in_folder() {
  struct statvfs file_system;
  if (statvfs(kSegmentFolder, &file_system) != 0) return UINT64_MAX;
  return static_cast<uint64_t>(file_system.f_bavail) * file_system.f_frsize;
}

Status check_huge_page_room(const std::string& purpose, uint64_t bytes) {
  HugePagePool pool = huge_page_pool();
  if (pool.page_bytes == 0) {
    return error(GEAR_EUNSUPPORTED, "%s: this kernel has no huge pages; use huge_pages = try",
                 purpose.c_str());
  }
  uint64_t pages = bytes / pool.page_bytes;
  if (pages <= pool.free_pages) return {};
  return error(GEAR_ENOSPC,
               "%s: %llu huge pages of %s asked, %llu free in the pool (ENOSPC); raise "
               "vm.nr_hugepages, or use huge_pages = try",
               purpose.c_str(), static_cast<unsigned long long>(pages),
               human_bytes(pool.page_bytes).c_str(),
               static_cast<unsigned long long>(pool.free_pages));
}

Status allocate_pages(const std::string& purpose, int fd, size_t begin, size_t bytes, const char* where,
                      bool named) {
  for (size_t offset = begin; offset < begin + bytes;) {
    size_t piece = std::min(kAllocationPieceBytes, begin + bytes - offset);
    int why = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(piece));
    if (why == EINTR) continue;
    if (why == ENOSPC && named) return no_space_in_folder(purpose, bytes, free_in_folder());
    if (why != 0) {
      std::string what =
          format("%s: allocating %s in %s", purpose.c_str(), human_bytes(bytes).c_str(), where);
      return system_error(why, what);
    }
    offset += piece;
  }
  return {};
}

// Stores that cannot fault: the pages are allocated and zero.
void touch_pages(void* data, size_t bytes) {
  for (size_t offset = 0; offset < bytes; offset += layout::kPageBytes) {
    static_cast<volatile char*>(data)[offset] = 0;
  }
}

Result<uint64_t> size_on_pages(const std::string& purpose, size_t bytes, bool huge) {
  uint64_t page = huge ? huge_page_pool().page_bytes : static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (page == 0) page = layout::kPageBytes;
  uint64_t least = std::max<uint64_t>(bytes, sizeof(layout::SegmentHeader));
  if (least > static_cast<uint64_t>(INT64_MAX) - page) {
    return no_space(purpose, least, memory_room().free_bytes, "memory", "lower capacity");
  }
  return layout::align_up(least, page);
}

// Who made the segment, and what helps when it is of another build.
struct Maker {
  const char* maker;   // "the server's"
  const char* reader;  // "this library's"
  const char* remedy;
};
constexpr Maker kServer{"the server's", "this library's", "use one GEAR build on both sides"};
constexpr Maker kDeadServer{"the dead server's", "this server's",
                            "start the geard that made it, or discard what it left with --fresh"};

Status check_build(const std::string& purpose, const layout::SegmentHeader& header,
                   const Maker& maker) {
  if (header.version == layout::kLayoutVersion && header.fingerprint == layout::kLayoutFingerprint) {
    return {};
  }
  return error(GEAR_EVERSION,
               "%s: %s layout version is %u, fingerprint %016llx; %s are %u, %016llx; %s",
               purpose.c_str(), maker.maker, header.version,
               static_cast<unsigned long long>(header.fingerprint), maker.reader,
               layout::kLayoutVersion, static_cast<unsigned long long>(layout::kLayoutFingerprint),
               maker.remedy);
}

Status check_header(const std::string& purpose, const layout::SegmentHeader& header, uint64_t size,
                    layout::SegmentKind kind, const Maker& maker) {
  const char* about = purpose.c_str();
  uint64_t magic = observe(header.magic);
  if (magic == 0) {
    return error(GEAR_EPROTOCOL, "%s: the %s segment is half made", about, kind_name(kind));
  }
  if (magic != layout::kSegmentMagic) {
    return error(GEAR_EPROTOCOL, "%s: not a GEAR segment: it begins with %016llx, not %016llx",
                 about, static_cast<unsigned long long>(magic),
                 static_cast<unsigned long long>(layout::kSegmentMagic));
  }
  GEAR_TRY(check_build(purpose, header, maker));
  if (header.kind != static_cast<uint32_t>(kind)) {
    return error(GEAR_EPROTOCOL, "%s: a %s segment (kind %u) came, a %s segment (kind %u) was due",
                 about, kind_name(static_cast<layout::SegmentKind>(header.kind)), header.kind,
                 kind_name(kind), static_cast<uint32_t>(kind));
  }
  if (header.size_bytes != size) {
    return error(GEAR_EPROTOCOL, "%s: the %s segment has %llu bytes, its header says %llu", about,
                 kind_name(kind), static_cast<unsigned long long>(size),
                 static_cast<unsigned long long>(header.size_bytes));
  }
  return {};
}

// All but the magic.
void write_header(void* data, layout::SegmentKind kind, uint64_t bytes, uint64_t instance_id, uint64_t object_id) {
  auto* header = static_cast<layout::SegmentHeader*>(data);
  header->version = layout::kLayoutVersion;
  header->kind = static_cast<uint32_t>(kind);
  header->fingerprint = layout::kLayoutFingerprint;
  header->size_bytes = bytes;
  header->instance_id = instance_id;
  header->object_id = object_id;
}

std::atomic<bool> said_memfd, said_huge_pages, said_populate, said_lock;

// Of memory that is allocated, without huge pages of a pool.
Status populate_as_wanted(const std::string& purpose, void* data, size_t bytes, uint32_t want) {
  if (want == GEAR_WANT_NO) return {};
  Status populated = populate_pages(purpose, data, bytes);
  if (populated.code() == GEAR_EUNSUPPORTED) {
    touch_pages(data, bytes);
    return {};
  }
  return populated.ok() ? populated : unless_required(want == GEAR_WANT_REQUIRED, populated, &said_populate);
}

}  // namespace

// Before anything is allocated: a request that does not fit must neither fill /dev/shm for a moment
// nor bring the OOM killer.
Status check_room(const std::string& purpose, uint64_t bytes, const MemoryOptions& options) {
  rlimit file_size{};
  if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && bytes > file_size.rlim_cur) {
    return no_space(purpose, bytes, file_size.rlim_cur, "what RLIMIT_FSIZE allows",
                    "raise it with ulimit -f");
  }
  if (options.huge_pages == GEAR_WANT_REQUIRED) return check_huge_page_room(purpose, bytes);
  if (options.memory == GEAR_MEMORY_POSIX) {
    uint64_t free = free_in_folder();
    if (bytes > free) return no_space_in_folder(purpose, bytes, free);
  }
  MemoryRoom room = memory_room();
  if (bytes <= room.free_bytes) return {};
  return no_space(purpose, bytes, room.free_bytes,
                  room.where + " after a reserve of " + human_bytes(room.reserve_bytes),
                  "lower capacity");
}

// ---- Segment

Segment::Segment(Segment&& other) noexcept
    : writable_(std::move(other.writable_)),
      read_only_(std::move(other.read_only_)),
      mapping_(std::move(other.mapping_)),
      name_(std::exchange(other.name_, {})),
      owner_pid_(other.owner_pid_) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this == &other) return *this;
  remove_name();
  writable_ = std::move(other.writable_);
  read_only_ = std::move(other.read_only_);
  mapping_ = Mapping(std::move(other.mapping_));
  name_ = std::exchange(other.name_, {});
  owner_pid_ = other.owner_pid_;
  return *this;
}

Segment::~Segment() {
  remove_name();
}

thread_local int NamesKept::kept_ = 0;

void Segment::remove_name() {
  if (!name_.empty() && owner_pid_ == getpid() && !NamesKept::any()) shm_unlink(name_.c_str());
  name_.clear();
}

// A lock that lasts as long as its holder: who finds the name can tell whether its server lives, whatever namespaces lie
// between. Not on what clients are given writable: they would hold the lock too.
Status Segment::hold(const std::string& what, layout::SegmentKind kind) const {
  if (clients_write(kind)) return {};
  if (flock(writable_.get(), LOCK_SH | LOCK_NB) == 0) return {};
  return error(GEAR_EADDRINUSE, "%s: another process holds it (gearctl gc?); try again when that is done",
               what.c_str());
}

Status Segment::open_named(const std::string& purpose, layout::SegmentKind kind,
                           uint64_t instance_id, uint64_t object_id) {
  std::string name = "/" + SegmentName{geteuid(), instance_id, kind, object_id}.text();
  std::string what = purpose + ": shm_open " + name;
  writable_.reset(shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!writable_.valid()) {
    if (errno == EEXIST) {
      return error(GEAR_EEXISTS,
                   "%s: it exists already in %s; remove it if no server of instance "
                   "%016llx runs",
                   what.c_str(), kSegmentFolder, static_cast<unsigned long long>(instance_id));
    }
    if (errno == ENOENT || errno == ENOSYS) {
      return error(GEAR_EUNSUPPORTED, "%s: %s is not there; mount a tmpfs, or use memory = memfd",
                   what.c_str(), kSegmentFolder);
    }
    return descriptor_error(errno, what);
  }
  name_ = std::move(name);
  owner_pid_ = getpid();
  read_only_.reset(shm_open(name_.c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (!read_only_.valid()) return descriptor_error(errno, what + " read-only");
  return hold(what, kind);
}

// Sets *named when memfds are not allowed here and a named segment is to be made.
Status Segment::open_memfd(const std::string& purpose, layout::SegmentKind kind, bool huge,
                           bool* named) {
  std::string label = std::string("gear.") + kind_name(kind);
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0u);
  writable_.reset(memfd_create(label.c_str(), flags));
  if (!writable_.valid()) {
    int why = errno;
    std::string what = purpose + (huge ? ": memfd_create of huge pages" : ": memfd_create");
    if (why != EPERM && why != ENOSYS && why != EINVAL) return descriptor_error(why, what);
    *named = !huge;
    return unless_required(
        huge,
        error(GEAR_EUNSUPPORTED, "%s: not available here (errno %d); use memory = posix",
              what.c_str(), why),
        &said_memfd);
  }
  if (fchmod(writable_.get(), 0600) != 0)
    return system_error(errno, purpose + ": fchmod of a memfd");
  std::string again = format("/proc/self/fd/%d", writable_.get());
  read_only_.reset(open(again.c_str(), O_RDONLY | O_CLOEXEC));
  if (!read_only_.valid()) {
    return descriptor_error(errno, purpose + ": opening " + again +
                                       " read-only (is /proc mounted? memory = posix needs none)");
  }
  return {};
}

Status Segment::size_and_map(const std::string& purpose, size_t bytes, const MemoryOptions& options) {
  if (ftruncate(writable_.get(), static_cast<off_t>(bytes)) != 0) {
    return system_error(errno,
                        format("%s: ftruncate to %s", purpose.c_str(), human_bytes(bytes).c_str()));
  }
  Result<Mapping> mapped = Mapping::map(writable_.get(), bytes, true);
  if (!mapped.ok()) return within(purpose, mapped.status());
  mapping_ = mapped.take();
  // Policies come before the first touch of a page.
  if (options.numa_node < 0) return {};
  return bind_pages(purpose, mapping_.data(), bytes, options.numa_node);
}

Status Segment::allocate(const std::string& purpose, size_t bytes, const MemoryOptions& options,
                         bool named) {
  bool hugetlb = options.huge_pages == GEAR_WANT_REQUIRED;
  void* data = mapping_.data();
  if (options.huge_pages == GEAR_WANT_TRY) {
    Status advised = advise_huge_pages(purpose, data, bytes, named);
    // Only a touch makes a huge page. A shortage shows again, as an error, in what follows.
    if (advised.ok())
      (void)populate_pages(purpose, data, bytes);
    else
      GEAR_TRY(unless_required(false, advised, &said_huge_pages));
  }
  const char* where = hugetlb ? "huge pages" : named ? kSegmentFolder : "memory";
  GEAR_TRY(allocate_pages(purpose, writable_.get(), 0, bytes, where, named));
  if (hugetlb) {
    // The limit of a control group on huge pages shows at the touch only.
    Status populated = populate_pages(purpose, data, bytes);
    bool would_fault = populated.code() != GEAR_EUNSUPPORTED;
    if (!populated.ok()) {
      GEAR_TRY(unless_required(would_fault || options.populate == GEAR_WANT_REQUIRED, populated, &said_populate));
    }
  } else {
    GEAR_TRY(populate_as_wanted(purpose, data, bytes, options.populate));
  }
  if (options.lock != GEAR_WANT_NO) {
    Status locked = lock_pages(purpose, data, bytes);
    if (!locked.ok())
      GEAR_TRY(unless_required(options.lock == GEAR_WANT_REQUIRED, locked, &said_lock));
  }
  return {};
}

Result<Segment> Segment::create(const std::string& purpose, layout::SegmentKind kind, size_t bytes,
                                uint64_t instance_id, uint64_t object_id,
                                const MemoryOptions& options) {
  bool named = options.memory == GEAR_MEMORY_POSIX;
  bool hugetlb = options.huge_pages == GEAR_WANT_REQUIRED;
  if (named && hugetlb) {
    return error(
        GEAR_EUNSUPPORTED,
        "%s: huge_pages = required takes hugetlb pages, which a named segment cannot have; "
        "use memory = memfd, or huge_pages = try",
        purpose.c_str());
  }
  Result<uint64_t> size = size_on_pages(purpose, bytes, hugetlb);
  if (!size.ok()) return size.status();
  GEAR_TRY(check_room(purpose, size.value(), options));
  return make(purpose, kind, size.value(), size.value(), instance_id, object_id, options);
}

Result<Segment> Segment::create_sparse(const std::string& purpose, layout::SegmentKind kind,
                                       size_t bytes, uint64_t instance_id, uint64_t object_id,
                                       const MemoryOptions& options) {
  MemoryOptions plain = options;
  plain.huge_pages = GEAR_WANT_NO;
  plain.lock = GEAR_WANT_NO;
  Result<uint64_t> size = size_on_pages(purpose, bytes, false);
  if (!size.ok()) return size.status();
  return make(purpose, kind, size.value(), size_t(sysconf(_SC_PAGESIZE)), instance_id, object_id, plain);
}

Result<Segment> Segment::make(const std::string& purpose, layout::SegmentKind kind, size_t size,
                              size_t allocated, uint64_t instance_id, uint64_t object_id,
                              const MemoryOptions& options) {
  bool named = options.memory == GEAR_MEMORY_POSIX;
  bool hugetlb = options.huge_pages == GEAR_WANT_REQUIRED;
  Segment segment;
  if (!named) GEAR_TRY(segment.open_memfd(purpose, kind, hugetlb, &named));
  if (named) GEAR_TRY(segment.open_named(purpose, kind, instance_id, object_id));
  if (fchmod(segment.writable_.get(), 0600) != 0) {
    return system_error(errno, purpose + ": fchmod of a segment");
  }
  GEAR_TRY(segment.size_and_map(purpose, size, options));
  GEAR_TRY(segment.allocate(purpose, allocated, options, named));
  if (!named && fcntl(segment.writable_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error(errno, purpose + ": sealing a memfd");
  }
  write_header(segment.data(), kind, size, instance_id, object_id);
  return segment;
}

Status Segment::allocate_range(const std::string& purpose, uint64_t offset, uint64_t bytes, uint32_t populate) {
  Status done = allocate_pages(purpose, writable_.get(), offset, bytes, named() ? kSegmentFolder : "memory", named());
  if (done.ok()) done = populate_as_wanted(purpose, static_cast<char*>(data()) + offset, bytes, populate);
  if (!done.ok()) release_range(offset, bytes);
  return done;
}

bool Segment::release_range(uint64_t offset, uint64_t bytes) {
  int done;
  do {
    done = fallocate(writable_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes));
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

void Segment::publish_magic() {
  // Release: who sees the magic sees a finished segment.
  publish(static_cast<layout::SegmentHeader*>(data())->magic, layout::kSegmentMagic);
}

// ---- segments of others

namespace {
Result<Mapping> map_sized(const std::string& purpose, int fd, layout::SegmentKind kind, bool writable) {
  struct stat file;
  if (fstat(fd, &file) != 0) return system_error(errno, purpose + ": fstat of a segment");
  if (!S_ISREG(file.st_mode)) {
    return error(GEAR_EPROTOCOL, "%s: the descriptor of the %s segment is not one of memory",
                 purpose.c_str(), kind_name(kind));
  }
  if (file.st_size < static_cast<off_t>(sizeof(layout::SegmentHeader))) {
    return error(GEAR_EPROTOCOL, "%s: the %s segment has %lld bytes, a header alone has %zu",
                 purpose.c_str(), kind_name(kind), static_cast<long long>(file.st_size),
                 sizeof(layout::SegmentHeader));
  }
  size_t bytes = static_cast<size_t>(file.st_size);
  Result<Mapping> mapped = Mapping::map(fd, bytes, writable);
  if (!mapped.ok()) return within(purpose, mapped.status());
  return mapped;
}

Result<Mapping> map_checked(const std::string& purpose, int fd, layout::SegmentKind kind,
                            bool writable, const Maker& maker) {
  Result<Mapping> mapped = map_sized(purpose, fd, kind, writable);
  if (!mapped.ok()) return mapped;
  const auto* header = static_cast<const layout::SegmentHeader*>(mapped.value().data());
  GEAR_TRY(check_header(purpose, *header, mapped.value().size(), kind, maker));
  return mapped;
}
}  // namespace

Result<Mapping> map_segment(const std::string& purpose, int fd, layout::SegmentKind kind,
                            bool writable) {
  return map_checked(purpose, fd, kind, writable, kServer);
}

Result<Segment> Segment::adopt(const std::string& purpose, layout::SegmentKind kind,
                               uint64_t instance_id, uint64_t object_id) {
  std::string name = "/" + SegmentName{geteuid(), instance_id, kind, object_id}.text();
  std::string what = purpose + ": " + kSegmentFolder + name;
  Segment segment;
  segment.writable_.reset(shm_open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0));
  if (!segment.writable_.valid()) {
    if (errno == ENOENT) return error(GEAR_ENOTFOUND, "%s: it is not there", what.c_str());
    return descriptor_error(errno, what);
  }
  struct stat file;
  if (fstat(segment.writable_.get(), &file) != 0) return system_error(errno, what + ": fstat");
  if (file.st_uid != geteuid() || (file.st_mode & 0777) != 0600) {
    return error(GEAR_EPERM, "%s: it has owner %u and mode %03o, not %u and 600; remove it", what.c_str(),
                 file.st_uid, file.st_mode & 0777, geteuid());
  }
  GEAR_TRY(segment.hold(what, kind));
  bool believed = !clients_write(kind);
  Result<Mapping> mapped = believed ? map_checked(what, segment.writable_.get(), kind, true, kDeadServer)
                                    : map_sized(what, segment.writable_.get(), kind, true);
  if (!mapped.ok()) return mapped.status();
  if (!believed) GEAR_TRY(segment.replace_header(what, kind, mapped.value().size(), instance_id, object_id));
  const auto& header = *static_cast<const layout::SegmentHeader*>(mapped.value().data());
  if (believed && (header.instance_id != instance_id || header.object_id != object_id)) {
    return error(GEAR_EPROTOCOL, "%s: its header says instance %016llx, object %llx", what.c_str(),
                 static_cast<unsigned long long>(header.instance_id),
                 static_cast<unsigned long long>(header.object_id));
  }
  segment.read_only_.reset(shm_open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0));
  if (!segment.read_only_.valid()) return descriptor_error(errno, what + " read-only");
  segment.mapping_ = mapped.take();
  segment.name_ = std::move(name);
  segment.owner_pid_ = getpid();
  return segment;
}

// Whatever a client left there: whose it is, the name says; whether it is whole and large enough, the caller knows. Not through
// the mapping: the client may cut the file short at this moment, and a store would be a SIGBUS.
Status Segment::replace_header(const std::string& what, layout::SegmentKind kind, uint64_t bytes, uint64_t instance_id,
                               uint64_t object_id) {
  layout::SegmentHeader header{};
  write_header(&header, kind, bytes, instance_id, object_id);
  header.magic = layout::kSegmentMagic;
  ssize_t written = pwrite(writable_.get(), &header, sizeof header, 0);
  if (written == static_cast<ssize_t>(sizeof header)) return {};
  return system_error(written < 0 ? errno : EIO, what + ": write of its header");
}

size_t remove_segments_of(uint64_t instance_id) {
  size_t removed = 0;
  for (const SegmentName& name : list_segments(instance_id)) {
    if (remove_segment(name)) ++removed;
  }
  return removed;
}

}  // namespace gear
