#include "gather/window.h"

#include <cstring>
#include <optional>

#include "gather/copy_payload.h"
#include "gather/visit.h"

namespace gear {

using layout::kNone;

namespace {

// What of `span` a block gives.
struct Run {
  int64_t begin;
  int64_t end;
  bool last;  // nothing of the span follows in later blocks
};

Run run_in(const TableView& table, const WindowPlan& window, const AnchorRow& at,
           const Visit& visit, const Span& span) {
  int64_t committed_end = std::min(span.end, visit.rows_end());
  Run run{std::max(span.begin, visit.base), episode_end(table, at, visit, committed_end), false};
  run.last = run.end < committed_end || run.end >= span.end ||
             visit.place.rows < table.header->block_steps;
  if (is_final(table, visit, run.end - 1)) {
    run.last = true;
    if (!present(table, visit, run.end - 1, window.column)) --run.end;
  }
  return run;
}

// Which of the rows have the cell, for the mask.
void copy_presence(const TableView& table, const WindowPlan& window, const Visit& visit,
                   const Run& run, uint8_t* mask) {
  for (int64_t row = run.begin; row < run.end; ++row) {
    *mask++ = present(table, visit, row, window.column) ? 1 : 0;
  }
}

// Copies the rows of `span` that exist to `to`, back to back, and for an optional column which of
// them have the cell to `mask`; returns how many, nothing when a block changed hands. Each turn moves on by block_steps rows, so the span bounds the walk whatever
// the links say.
std::optional<uint32_t> copy_rows(const TableView& table, const WindowPlan& window,
                                  AnchorRow* anchor, const Span& span, char* to,
                                  uint8_t* mask) {
  const AnchorRow& at = *anchor;
  uint64_t copied = 0;
  if (span.begin >= span.end) return 0;
  Visit visit = visit_anchor(at);
  if (span.begin < visit.base && !go_to(table, span.begin, &visit)) return std::nullopt;
  for (;;) {
    Run run = run_in(table, window, at, visit, span);
    if (run.begin < run.end) {
      auto rows = static_cast<uint64_t>(run.end - run.begin);
      const char* column = table.block_data(visit.place.block) + window.column_offset;
      copy_payload(to + copied * window.cell_bytes,
                   column + static_cast<uint64_t>(run.begin - visit.base) * window.cell_bytes,
                   rows * window.cell_bytes);
      if (window.optional) copy_presence(table, window, visit, run, mask + copied);
      copied += rows;
    }
    bool more_may_come = visit.place.rows < table.header->block_steps;
    if (more_may_come) anchor->reach_end = std::min(anchor->reach_end, visit.rows_end());
    if (run.last) break;
    Walk walk = follow(table, Link::kNext, &visit.place);
    if (walk == Walk::kMoved) return std::nullopt;
    // The block is full, and nothing was committed after it yet; what follows an item within reach
    // is never taken back before the item is.
    if (walk == Walk::kNoBlock) {
      anchor->reach_end = std::min(anchor->reach_end, visit.rows_end());
      return static_cast<uint32_t>(copied);
    }
    visit.base += table.header->block_steps;
  }
  if (!unchanged(table, visit.place)) return std::nullopt;
  return static_cast<uint32_t>(copied);
}

void fill_cells(char* to, uint64_t count, uint64_t cell_bytes, const char* edge) {
  if (edge == nullptr) {
    memset(to, 0, count * cell_bytes);
    return;
  }
  for (uint64_t i = 0; i < count; ++i) memcpy(to + i * cell_bytes, edge, cell_bytes);
}

// Where the window has no cell: zeros, or under edge fill the last cell before it, the first of all
// where none comes before.
void fill_gaps(const WindowPlan& window, const uint8_t* mask, char* cells) {
  uint64_t bytes = window.cell_bytes;
  const char* edge = nullptr;
  if (window.fill == GEAR_FILL_EDGE) {
    const void* first = memchr(mask, 1, window.length);
    if (first != nullptr) edge = cells + (static_cast<const uint8_t*>(first) - mask) * bytes;
  }
  for (uint32_t place = 0; place < window.length; ++place) {
    char* cell = cells + place * bytes;
    if (mask[place] == 0) {
      fill_cells(cell, 1, bytes, edge);
    } else if (edge != nullptr) {
      edge = cell;
    }
  }
}

// pad_row for an optional column: the mask of the `count` steps from `begin` on is there already.
void pad_optional_row(const WindowPlan& window, uint32_t begin, uint32_t count, uint32_t row,
                      const WindowBuffer& buffer) {
  uint8_t* mask = buffer.mask + uint64_t{row} * window.length;
  memset(mask, 0, begin);
  memset(mask + begin + count, 0, window.length - begin - count);
  buffer.lengths[row] = count;
  fill_gaps(window, mask, cells_of(buffer, row));
}

}  // namespace

void pad_row(const WindowPlan& window, uint32_t begin, uint32_t count, uint32_t row,
             const WindowBuffer& buffer) {
  char* cells = cells_of(buffer, row);
  uint64_t bytes = window.cell_bytes;
  uint32_t end = begin + count;
  bool edge = window.fill == GEAR_FILL_EDGE && count > 0;
  fill_cells(cells, begin, bytes, edge ? cells + begin * bytes : nullptr);
  fill_cells(cells + end * bytes, window.length - end, bytes,
             edge ? cells + (end - 1) * bytes : nullptr);

  uint8_t* mask = buffer.mask + uint64_t{row} * window.length;
  memset(mask, 0, begin);
  memset(mask + begin, 1, count);
  memset(mask + end, 0, window.length - end);
  buffer.lengths[row] = count;
}

bool gather_window(const TableView& table, const WindowPlan& window, AnchorRow* at, uint32_t row,
                   const WindowBuffer& buffer) {
  Span span = span_of(window, *at);
  span.begin = std::max(span.begin, -int64_t{at->step});
  char* cells = cells_of(buffer, row);
  uint8_t* mask = buffer.mask + uint64_t{row} * window.length;

  uint32_t begin = 0;
  if (window.pad != GEAR_PAD_RIGHT && span.begin < span.end) {
    begin = static_cast<uint32_t>(span.begin - window.offset);
  }
  std::optional<uint32_t> copied =
      copy_rows(table, window, at, span, cells + begin * window.cell_bytes, mask + begin);
  if (!copied) return false;
  if (window.pad == GEAR_PAD_LEFT && begin + *copied < window.length) {
    // Where the episode ends was not known before the copy.
    uint32_t aligned = window.length - *copied;
    memmove(cells + aligned * window.cell_bytes, cells + begin * window.cell_bytes,
            *copied * window.cell_bytes);
    if (window.optional) memmove(mask + aligned, mask + begin, *copied);
    begin = aligned;
  }
  if (window.optional) {
    pad_optional_row(window, begin, *copied, row, buffer);
  } else {
    pad_row(window, begin, *copied, row, buffer);
  }
  return true;
}

bool gather_episode_cell(const TableView& table, const WindowPlan& window, uint32_t episode,
                         uint32_t row, const WindowBuffer& buffer) {
  const layout::TableHeader& header = *table.header;
  if (episode == kNone) {
    pad_row(window, 0, 0, row, buffer);
    return true;
  }
  if (episode >= header.episode_slots) return false;
  const layout::EpisodeRecord& record = table.episodes[episode];
  uint64_t generation = observe(record.generation);
  if (generation % 2 == 0) return false;
  // Acquire: the cells are whole when `given` is seen.
  bool given = observe(record.given) != 0;
  if (given) {
    copy_payload(cells_of(buffer, row),
                 table.data + header.data_episodes_offset +
                     uint64_t{episode} * header.episode_cell_bytes + window.column_offset,
                 window.cell_bytes);
  }
  fence_copy_before_check();
  if (peek(record.generation) != generation) return false;
  pad_row(window, 0, given ? 1 : 0, row, buffer);
  return true;
}

}  // namespace gear
