#include "shm/data_map.h"

#include <sys/stat.h>

#include <cerrno>

namespace gear {
namespace {

using layout::TableHeader;

Status check_part(const std::string& purpose, const TableHeader& header, uint32_t part, int fd) {
  struct stat file;
  if (fstat(fd, &file) != 0) return system_error(errno, purpose + ": fstat of a part of the data");
  if (S_ISREG(file.st_mode) && static_cast<uint64_t>(file.st_size) >= layout::part_bytes(header)) return {};
  return error(GEAR_EPROTOCOL, "%s: part %u of the data is %s of %lld bytes, not memory of %llu", purpose.c_str(), part,
               S_ISREG(file.st_mode) ? "memory" : "no memory", static_cast<long long>(file.st_size),
               static_cast<unsigned long long>(layout::part_bytes(header)));
}

Status place(Mapping& map, const TableHeader& header, uint32_t part, int fd, bool writable) {
  const uint64_t blocks = layout::part_blocks_bytes(header);
  const uint64_t episodes = layout::part_episodes_bytes(header);
  GEAR_TRY(map.place(header.data_blocks_offset + part * blocks, fd, header.data_blocks_offset, blocks, writable));
  if (episodes == 0) return {};
  return map.place(header.data_episodes_offset + part * episodes, fd, header.data_blocks_offset + blocks, episodes, writable);
}

}  // namespace

Result<Mapping> map_parts(const std::string& purpose, const TableHeader& header, const Descriptor* descriptors) {
  Result<Mapping> map = Mapping::reserve(header.data_bytes);
  if (!map.ok()) return within(purpose, map.status());
  for (uint32_t part = 0; part < header.parts; ++part) {
    GEAR_TRY(within(purpose, place(map.value(), header, part, descriptors[part].get(), false)));
  }
  GEAR_TRY(within(purpose, map.value().keep_private()));
  return map;
}

Result<Mapping> map_part(const std::string& purpose, const TableHeader& header, uint32_t part, int fd) {
  if (part >= header.parts) {
    return error(GEAR_EPROTOCOL, "%s: part %u of %u came; use builds of one version", purpose.c_str(), part, header.parts);
  }
  GEAR_TRY(check_part(purpose, header, part, fd));
  Result<Mapping> map = Mapping::reserve(header.data_bytes);
  if (!map.ok()) return within(purpose, map.status());
  GEAR_TRY(within(purpose, place(map.value(), header, part, fd, true)));
  GEAR_TRY(within(purpose, map.value().keep_private()));
  return map;
}

}  // namespace gear
