// Which cells a row has, in tables where a step may come without some.

#include <cstring>

#include "client/table.h"
#include "client/writer.h"

namespace gear::client {

// The presence bits of the lane's next `rows` rows, all of which have the cells given. Absent cells keep
// whatever the block held: readers look at the bits first.
void Writer::mark_present(const WriterLane& lane, const gear_cell* cells, size_t cell_count,
                          size_t rows) {
  const layout::TableHeader& header = table_.header();
  unsigned char bits[layout::kColumnsMax / 8] = {};
  for (size_t i = 0; i < cell_count; ++i) {
    uint32_t column = cells[i].column;
    bits[column / 8] = static_cast<unsigned char>(bits[column / 8] | 1u << column % 8);
  }
  char* to =
      block_of(lane) + header.presence_offset + uint64_t{lane.position} * header.presence_bytes;
  for (size_t row = 0; row < rows; ++row, to += header.presence_bytes) {
    memcpy(to, bits, header.presence_bytes);
  }
}

// A step written in place has every column.
void Writer::mark_all_present(const WriterLane& lane) {
  const layout::TableHeader& header = table_.header();
  char* to =
      block_of(lane) + header.presence_offset + uint64_t{lane.position} * header.presence_bytes;
  memset(to, 0xff, header.presence_bytes);
}

}  // namespace gear::client
