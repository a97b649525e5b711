// A writer: fills granted blocks in place, and commits by ring records.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/cells.h"
#include "client/channel.h"
#include "client/handle.h"
#include "client/writer_lane.h"
#include "gear.h"
#include "shm/mapping.h"

namespace gear::client {

class Table;

// One thread at a time. Calls are as in gear.h; errors are the statuses stated there.
//
// A row is filled before the record that commits it is published, and is the lane's own until then,
// so a call that fails has stored nothing. Everything that a call pushes has its room in the ring
// before the call stores anything.
//
// append in steady state: no lock, no allocation, no system call; O(bytes of the row).
class Writer final : public Handle {
 public:
  static constexpr uint64_t kMagic = 0x7265746972574772u;
  static constexpr const char* kNoun = "writer";
  static constexpr bool kShared = false;  // calls of several threads at once

  // Options of this library's version, lanes at least 1. Errors: as gear_writer_open.
  static Result<std::unique_ptr<Writer>> open(Table& table, const gear_writer_options& options);
  ~Writer();

  Table& table() const { return table_; }

  Status append(uint32_t lane, const gear_cell* cells, size_t cell_count, int64_t timeout_ns);
  // *accepted is untouched when the cells do not fit.
  Status append_many(uint32_t lane, const gear_cell* cells, size_t cell_count, size_t step_count,
                     int64_t timeout_ns, size_t* accepted);
  // *accepted is written in any case.
  Status append_vector(const gear_vector_step& step, int64_t timeout_ns, uint32_t* accepted);
  Status reserve(uint32_t lane, int64_t timeout_ns, void** cells, size_t cell_count);
  Status advance(uint32_t lane, int64_t timeout_ns);

  Status give_episode_cells(uint32_t lane, const gear_cell* cells, size_t cell_count,
                            int64_t timeout_ns);
  Status end_episode(uint32_t lane, uint32_t end, const gear_cell* cells, size_t cell_count,
                     int64_t timeout_ns);
  Status make_item(uint32_t lane, uint32_t length, double priority, int64_t timeout_ns);
  Status set_priority(uint32_t lane, const double* priority, int64_t timeout_ns);
  Status set_version(uint32_t lane, uint64_t version, int64_t timeout_ns);
  Status set_prompt_group(uint32_t lane, uint64_t group, uint32_t size, int64_t timeout_ns);

  Status flush(int64_t timeout_ns, uint64_t* waiting);
  Status close();
  // Any thread: waits of calls end with ECLOSED.
  void end_waits() { channel_->end_waits(); }

 private:
  // One column of a vector step, as append_vector reads it.
  struct VectorCell {
    const CellSpec* spec;
    const gear_cell* cell;
    const char* data;  // of lane 0
    int64_t lane_stride;
    bool contiguous;
  };

  // What a call needs before it may store anything. Room in the ring is always needed.
  struct Needs {
    bool row = false;
    bool episode_slot = false;
    bool final_row = false;  // one more row

    uint32_t rows() const { return (row ? 1u : 0u) + (final_row ? 1u : 0u); }
  };

  Writer(Table& table, std::unique_ptr<Channel> channel, Mapping data,
         const gear_writer_options& options);

  // writer.cc: space
  bool has(const WriterLane& lane, Needs needs);
  Status obtain(uint32_t lane, Needs needs, const char* verb, int64_t timeout_ns);
  Status wait_for(uint32_t lane, Needs needs, int64_t timeout_ns);
  bool has_rows(const WriterLane& lane, Needs needs) const;
  bool lacks_block(const WriterLane& lane, Needs needs) const;
  static bool lacks_slot(const WriterLane& lane, Needs needs);
  void ask_for(uint32_t lane, Needs needs);
  void ask_sooner();
  void ask_ahead(uint32_t lane);
  void take_grants();
  void take_grant(const layout::GrantRecord& grant);
  uint64_t steps_waiting() const;
  Status tell_refused(uint64_t* waiting);
  Status out_of_space(const WriterLane& lane, Needs needs, int64_t timeout_ns);

  // writer.cc: rows
  char* row_of(const WriterLane& lane, const CellSpec& spec) const;
  char* block_of(const WriterLane& lane) const;
  void store_row(const WriterLane& lane, const gear_cell* cells, size_t cell_count);
  void commit(uint32_t lane, uint32_t rows);
  void push(layout::SubmissionOp op, uint32_t lane, uint32_t count, uint32_t flags = 0,
            double value = 0, uint64_t argument = 0);
  void submit();

  // writer_presence.cc: tables with optional columns
  void mark_present(const WriterLane& lane, const gear_cell* cells, size_t cell_count, size_t rows);
  void mark_all_present(const WriterLane& lane);

  // writer_vector.cc
  Status check_vector(const gear_vector_step& step) const;
  bool takes_part(uint32_t lane, const gear_vector_step& step) const;
  void bind_cells(const gear_vector_step& step);
  void store_vector_row(uint32_t lane, const gear_vector_step& step);
  void store_vector_final(uint32_t lane, const gear_vector_step& step);
  void append_lane(uint32_t lane, const gear_vector_step& step, uint32_t end);

  // writer_episode.cc
  void push_end(uint32_t lane, uint32_t end, bool has_final);
  void store_final_row(const WriterLane& lane, const gear_cell* cells, size_t cell_count);
  Status check_item(uint32_t lane, uint32_t length, double priority) const;

  // One look at the ring, for writers that can lose lanes only.
  void hear_of_lost_lanes() {
    if (may_lose_lanes_ && channel_->completions().available() > 0) take_grants();
  }
  Status check_lane(uint32_t lane, const char* verb);
  Status check_held(uint32_t lane, const char* verb) const;
  Status check_unreserved(uint32_t lane, const char* verb) const;
  Status check_appendable(uint32_t lane, size_t steps) const;
  Status check_cells(uint32_t lane, const char* verb, const gear_cell* cells, size_t cell_count,
                     CellSet set) const;
  std::string tried(const char* verb, uint32_t lane) const;

  Table& table_;
  std::unique_ptr<Channel> channel_;
  Mapping data_map_;
  char* data_;
  CellSpecs specs_;
  std::vector<WriterLane> lanes_;

  // Constants of the table.
  uint32_t block_steps_;
  uint32_t blocks_ahead_;
  bool has_episodes_;
  bool may_lose_lanes_;  // they have names, so another writer can take them over
  bool has_optional_;  // every row has presence bits
  // What may be granted: of its part, where the table has parts.
  uint32_t first_block_;
  uint32_t block_span_;
  uint32_t first_slot_;
  uint32_t slot_span_;

  uint64_t rows_low_;      // with so few rows left a lane asks for more
  uint64_t accepted_ = 0;  // steps committed to the ring
  uint32_t refused_told_ = 0;  // records of lost lanes that flush has told of
  uint64_t steps_refused_ = 0;  // steps among them
  uint32_t autoreset_;  // gear_autoreset
  std::vector<VectorCell> vector_cells_;  // scratch of append_vector, as is the next
  std::vector<gear_cell> final_cells_;
  bool broken_ = false;    // a grant made no sense
};

}  // namespace gear::client
