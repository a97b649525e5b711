#include "table/table_data.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace gear {

using layout::SegmentKind;
using layout::TableHeader;

namespace {

uint64_t part_object(uint64_t table_id, uint32_t part) { return layout::kPartObjects * table_id + part; }

uint64_t offset_in_part(const TableHeader& header, uint32_t block) {
  return header.data_blocks_offset + block % header.block_budget * header.block_bytes;
}

}  // namespace

uint32_t first_backed(const TableHeader& header, uint32_t part) {
  return header.block_budget / header.parts + (part < header.block_budget % header.parts ? 1 : 0);
}

Result<TableData> TableData::create(const std::string& purpose, const TableHeader& header, uint64_t instance_id,
                                    uint64_t table_id, const MemoryOptions& memory) {
  if (header.parts == 0) {
    Result<Segment> whole =
        Segment::create(purpose, SegmentKind::kData, header.data_bytes, instance_id, table_id, memory);
    if (!whole.ok()) return whole.status();
    return TableData(whole.take());
  }
  if (memory.huge_pages != GEAR_WANT_NO || memory.lock != GEAR_WANT_NO) {
    log(LogLevel::kWarning, "%s: huge_pages and lock are not for the data of payload_isolation per_writer, whose memory moves; "
        "going on without", purpose.c_str());
  }
  GEAR_TRY(check_room(purpose, layout::data_memory_bytes(header), memory));
  TableData data;
  data.parts_ = header.parts;
  data.bytes_ = header.data_bytes;
  data.segments_.reserve(header.parts);
  for (uint32_t part = 0; part < header.parts; ++part) {
    GEAR_TRY(data.make_part(purpose, header, instance_id, table_id, memory));
  }
  return data;
}

Status TableData::make_part(const std::string& purpose, const TableHeader& header, uint64_t instance_id, uint64_t table_id,
                            const MemoryOptions& memory) {
  auto part = static_cast<uint32_t>(segments_.size());
  Result<Segment> made = Segment::create_sparse(purpose, SegmentKind::kPart, layout::part_bytes(header), instance_id,
                                                part_object(table_id, part), memory);
  if (!made.ok()) return made.status();
  segments_.push_back(made.take());
  Segment& segment = segments_.back();
  uint64_t blocks = first_backed(header, part) * header.block_bytes;
  if (blocks > 0) GEAR_TRY(segment.allocate_range(purpose, header.data_blocks_offset, blocks, memory.populate));
  uint64_t episodes = layout::part_episodes_bytes(header);
  if (episodes == 0) return {};
  uint64_t begin = header.data_blocks_offset + layout::part_blocks_bytes(header);
  return segment.allocate_range(purpose, begin, episodes, memory.populate);
}

Result<TableData> TableData::adopt(const std::string& purpose, const TableHeader& header, uint64_t instance_id,
                                   uint64_t table_id) {
  if (header.parts == 0) {
    Result<Segment> whole = Segment::adopt(purpose, SegmentKind::kData, instance_id, table_id);
    if (!whole.ok()) return whole.status();
    return TableData(whole.take());
  }
  if (header.parts > layout::kPartsMax) {
    return error(GEAR_EPROTOCOL, "%s: a directory of %u parts, at most %u are possible", purpose.c_str(), header.parts,
                 layout::kPartsMax);
  }
  TableData data;
  data.parts_ = header.parts;
  data.bytes_ = header.data_bytes;
  for (uint32_t part = 0; part < header.parts; ++part) {
    Result<Segment> adopted = Segment::adopt(purpose, SegmentKind::kPart, instance_id, part_object(table_id, part));
    if (!adopted.ok()) return adopted.status();
    if (adopted.value().size() < layout::part_bytes(header)) {
      return error(GEAR_EPROTOCOL, "%s: part %u has %zu bytes, the directory says %llu", purpose.c_str(), part,
                   adopted.value().size(), static_cast<unsigned long long>(layout::part_bytes(header)));
    }
    data.segments_.push_back(adopted.take());
  }
  return data;
}

void TableData::trim(const TableHeader& header, uint32_t part) {
  struct stat file {};
  int fd = segments_[part].writable_fd();
  const auto planned = static_cast<off_t>(layout::part_bytes(header));
  if (fstat(fd, &file) != 0 || file.st_size <= planned || ftruncate(fd, planned) == 0) return;
  log(LogLevel::kWarning, "table \"%s\": part %u keeps the %lld bytes that its writer gave it: %s", header.name, part,
      static_cast<long long>(file.st_size), strerror(errno));
}

bool TableData::room_for(const TableHeader& header) const {
  MemoryOptions options;
  options.memory = header.memory;
  return check_room("memory for another writer", header.block_bytes, options).ok();
}

void TableData::publish_magic() {
  for (Segment& segment : segments_) segment.publish_magic();
}

void TableData::keep_names() {
  for (Segment& segment : segments_) segment.keep_name();
}

std::vector<int> TableData::read_only_fds() const {
  std::vector<int> fds;
  for (const Segment& segment : segments_) fds.push_back(segment.read_only_fd());
  return fds;
}

Status TableData::allocate(const TableHeader& header, uint32_t block, uint32_t count) {
  return segments_[layout::part_of_block(header, block)].allocate_range("memory for another writer", offset_in_part(header, block),
                                                               count * header.block_bytes);
}

bool TableData::release(const TableHeader& header, uint32_t block, uint32_t count) {
  return segments_[layout::part_of_block(header, block)].release_range(offset_in_part(header, block), count * header.block_bytes);
}

}  // namespace gear
