#include "shm/data_map.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "shm/memory.h"

namespace gear {
namespace {

using layout::TableHeader;

Status not_mapped(const std::string& purpose, size_t bytes) {
  std::string what = format("%s: mmap of %s", purpose.c_str(), human_bytes(bytes).c_str());
  if (errno != ENOMEM) return system_error(errno, what);
  return error(GEAR_ENOMEM, "%s: no address space for it (ENOMEM); raise ulimit -v or vm.max_map_count, or lower capacity or "
               "writers_max", what.c_str());
}

Status check_part(const std::string& purpose, const TableHeader& header, uint32_t part, int fd) {
  struct stat file;
  if (fstat(fd, &file) != 0) return system_error(errno, purpose + ": fstat of a part of the data");
  if (S_ISREG(file.st_mode) && static_cast<uint64_t>(file.st_size) >= layout::part_bytes(header)) return {};
  return error(GEAR_EPROTOCOL, "%s: part %u of the data is %s of %lld bytes, not memory of %llu", purpose.c_str(), part,
               S_ISREG(file.st_mode) ? "memory" : "no memory", static_cast<long long>(file.st_size),
               static_cast<unsigned long long>(layout::part_bytes(header)));
}

}  // namespace

DataMap::DataMap(DataMap&& other) noexcept { *this = std::move(other); }

DataMap& DataMap::operator=(DataMap&& other) noexcept {
  std::swap(whole_, other.whole_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(owner_pid_, other.owner_pid_);
  return *this;
}

DataMap::~DataMap() {
  if (data_ != nullptr && !whole_.valid() && owner_pid_ == getpid()) munmap(data_, size_);
}

Result<DataMap> DataMap::reserve(const std::string& purpose, size_t bytes) {
  void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return not_mapped(purpose, bytes);
  DataMap map;
  map.data_ = range;
  map.size_ = bytes;
  map.owner_pid_ = getpid();
  return map;
}

Status DataMap::place(const std::string& purpose, const TableHeader& header, uint32_t part, int fd, bool writable) {
  struct Run {
    uint64_t bytes;
    uint64_t from;  // in the part
    uint64_t at;    // of the first part's
  };
  const uint64_t blocks = layout::part_blocks_bytes(header);
  const uint64_t episodes = layout::part_episodes_bytes(header);
  const Run runs[] = {{blocks, header.data_blocks_offset, header.data_blocks_offset},
                      {episodes, header.data_blocks_offset + blocks, header.data_episodes_offset}};
  for (const Run& run : runs) {
    if (run.bytes == 0) continue;
    char* at = static_cast<char*>(data_) + run.at + part * run.bytes;
    int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    if (mmap(at, run.bytes, access, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(run.from)) == MAP_FAILED) {
      return not_mapped(purpose, run.bytes);
    }
  }
  return {};
}

// A core dump would read every page that has no memory, and so give it some.
Status DataMap::keep_private(const std::string& purpose) {
  if (madvise(data_, size_, MADV_DONTFORK) != 0) return system_error(errno, purpose + ": madvise(MADV_DONTFORK)");
  (void)madvise(data_, size_, MADV_DONTDUMP);
  return {};
}

Result<DataMap> DataMap::of_parts(const std::string& purpose, const TableHeader& header, const Descriptor* descriptors) {
  Result<DataMap> map = reserve(purpose, header.data_bytes);
  if (!map.ok()) return map;
  for (uint32_t part = 0; part < header.parts; ++part) {
    GEAR_TRY(map.value().place(purpose, header, part, descriptors[part].get(), false));
  }
  GEAR_TRY(map.value().keep_private(purpose));
  return map;
}

Result<DataMap> DataMap::of_part(const std::string& purpose, const TableHeader& header, uint32_t part, int fd) {
  if (part >= header.parts) {
    return error(GEAR_EPROTOCOL, "%s: part %u of %u came; use builds of one version", purpose.c_str(), part, header.parts);
  }
  Result<DataMap> map = reserve(purpose, header.data_bytes);
  if (!map.ok()) return map;
  GEAR_TRY(check_part(purpose, header, part, fd));
  GEAR_TRY(map.value().place(purpose, header, part, fd, true));
  GEAR_TRY(map.value().keep_private(purpose));
  return map;
}

}  // namespace gear
