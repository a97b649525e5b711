#include "shm/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <new>
#include <utility>

#include "shm/memory.h"

namespace gear {
namespace {

namespace ipc = boost::interprocess;

// What Boost.Interprocess maps: a descriptor that stays its owner's.
class Mappable {
 public:
  explicit Mappable(int fd) : fd_(fd) {}
  ipc::mapping_handle_t get_mapping_handle() const {
    return ipc::ipcdetail::mapping_handle_from_file_handle(fd_);
  }

 private:
  int fd_;
};

Status not_mapped(int errno_value, size_t bytes, const char* how) {
  if (errno_value != ENOMEM) return system_error(errno_value, format("mmap of %s, %s", human_bytes(bytes).c_str(), how));
  return error(GEAR_ENOMEM,
               "mmap of %s, %s: no address space for it (ENOMEM); raise ulimit -v or vm.max_map_count, or lower capacity",
               human_bytes(bytes).c_str(), how);
}

const char* access_text(bool writable) { return writable ? "writable" : "read-only"; }

}  // namespace

Mapping::Mapping() = default;

Mapping::Mapping(Mapping&& other) noexcept
    : region_(std::move(other.region_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      owner_pid_(other.owner_pid_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(region_, other.region_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(owner_pid_, other.owner_pid_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ == nullptr) return;
  if (owner_pid_ != getpid()) {
    (void)region_.release();
  } else if (region_ == nullptr) {
    munmap(data_, size_);
  }
}

Result<Mapping> Mapping::reserve(size_t bytes) {
  Mapping mapping;
  void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return not_mapped(errno, bytes, "reserved");
  mapping.data_ = range;
  mapping.size_ = bytes;
  mapping.owner_pid_ = getpid();
  return mapping;
}

Status Mapping::place(size_t at, int fd, uint64_t offset, size_t bytes, bool writable) {
  int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* placed = mmap(static_cast<char*>(data_) + at, bytes, access, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset));
  return placed != MAP_FAILED ? Status() : not_mapped(errno, bytes, access_text(writable));
}

// A core dump would read every page that has no memory, and so give it some.
Status Mapping::keep_private() {
  if (madvise(data_, size_, MADV_DONTFORK) != 0) return system_error(errno, "madvise(MADV_DONTFORK)");
  (void)madvise(data_, size_, MADV_DONTDUMP);
  return {};
}

Result<Mapping> Mapping::map(int fd, size_t bytes, bool writable) {
  if (bytes == 0) return error(GEAR_ESYSTEM, "mmap of 0 bytes");
  Mapping mapping;
  try {
    mapping.region_ = std::make_unique<ipc::mapped_region>(
        Mappable(fd), writable ? ipc::read_write : ipc::read_only, 0, bytes);
  } catch (const ipc::interprocess_exception& failure) {
    return not_mapped(failure.get_native_error(), bytes, access_text(writable));
  } catch (const std::bad_alloc&) {
    return error(GEAR_ENOMEM, "mmap of %s: no memory for its record", human_bytes(bytes).c_str());
  }
  mapping.data_ = mapping.region_->get_address();
  mapping.size_ = mapping.region_->get_size();
  mapping.owner_pid_ = getpid();
  if (madvise(mapping.data_, bytes, MADV_DONTFORK) != 0) {
    return system_error(errno, "madvise(MADV_DONTFORK)");
  }
  return mapping;
}

}  // namespace gear
