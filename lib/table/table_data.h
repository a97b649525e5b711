// The segments of a table's data, the server's side: one for all writers, or one for each (parts).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/directory.h"
#include "shm/segment.h"

namespace gear {

// Blocks of the part that have memory when the table is made: all parts' together are the budget.
uint32_t first_backed(const layout::TableHeader& header, uint32_t part);

// One thread. The server looks at no row: it makes the segments, hands out their descriptors, and in tables with parts says
// which blocks have memory. Moves: as Segment.
class TableData {
 public:
  TableData() = default;
  TableData(Segment whole) : bytes_(whole.size()) { segments_.push_back(std::move(whole)); }  // NOLINT: a table without parts

  // As the header plans it. Errors: those of Segment::create; ENOSPC is of all parts together.
  static Result<TableData> create(const std::string& purpose, const layout::TableHeader& header, uint64_t instance_id,
                                  uint64_t table_id, const MemoryOptions& memory);
  // Those of a server that died. The header need not be checked yet. Errors: those of Segment::adopt; EPROTOCOL when a part is
  // not as large as the header says.
  static Result<TableData> adopt(const std::string& purpose, const layout::TableHeader& header, uint64_t instance_id,
                                 uint64_t table_id);

  void publish_magic();
  // The names stay when this goes.
  void keep_names();

  // What header.parts and header.data_bytes are to say.
  uint32_t parts() const { return parts_; }
  uint64_t bytes() const { return bytes_; }
  std::vector<int> read_only_fds() const;
  int writable_fd(uint32_t part) const { return segments_[part].writable_fd(); }

  const Segment& segment(uint32_t part) const { return segments_[part]; }

  // Tables with parts: memory for blocks [block, block + count) of one part, or none any more. Each is a system call.
  Status allocate(const layout::TableHeader& header, uint32_t block, uint32_t count = 1);
  bool release(const layout::TableHeader& header, uint32_t block, uint32_t count = 1);
  // Whether the system has memory for one more, by all that may refuse it.
  bool room_for(const layout::TableHeader& header) const;
  // What a writer put behind the end of its part goes; one that is cut short stays so.
  void trim(const layout::TableHeader& header, uint32_t part);

 private:
  Status make_part(const std::string& purpose, const layout::TableHeader& header, uint64_t instance_id, uint64_t table_id,
                   const MemoryOptions& memory);

  std::vector<Segment> segments_;
  uint32_t parts_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace gear
