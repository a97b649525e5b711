// gear.h, section 4: writers.

#include "client/c_api.h"
#include "client/options.h"

using namespace gear;          // NOLINT: this file is the C edge of the namespace
using namespace gear::client;  // NOLINT

namespace {

Status need_cells(const gear_cell* cells, size_t cell_count, const char* function) {
  return cell_count > 0 ? need(cells, function, "cells") : Status();
}

}  // namespace

int gear_writer_open(gear_table* table, const gear_writer_options* options, gear_writer** writer) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    GEAR_TRY(need(writer, "gear_writer_open", "writer"));
    gear_writer_options known = GEAR_WRITER_OPTIONS_INIT;
    if (options != nullptr) GEAR_TRY(read_struct("gear_writer_options", options, &known));
    if (known.lanes == 0) known.lanes = 1;
    Result<std::unique_ptr<Writer>> opened = Writer::open(*behind(table), known);
    if (!opened.ok()) return opened.status();
    *writer = reinterpret_cast<gear_writer*>(behind(table)->keep(opened.take()));
    return {};
  });
}

int gear_writer_append(gear_writer* writer, uint32_t lane, const gear_cell* cells,
                       size_t cell_count, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    GEAR_TRY(need_cells(cells, cell_count, "gear_writer_append"));
    return behind(writer)->append(lane, cells, cell_count, timeout_ns);
  });
}

int gear_writer_append_many(gear_writer* writer, uint32_t lane, const gear_cell* cells,
                            size_t cell_count, size_t step_count, int64_t timeout_ns,
                            size_t* accepted) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    GEAR_TRY(need_cells(cells, cell_count, "gear_writer_append_many"));
    GEAR_TRY(need(accepted, "gear_writer_append_many", "accepted"));
    return behind(writer)->append_many(lane, cells, cell_count, step_count, timeout_ns, accepted);
  });
}

int gear_writer_append_vector(gear_writer* writer, const gear_vector_step* step, int64_t timeout_ns,
                              uint32_t* accepted) {
  return guarded([&]() -> Status {
    constexpr const char* kFunction = "gear_writer_append_vector";
    Call call(behind(writer));
    GEAR_TRY(call.status());
    uint32_t ignored = 0;
    uint32_t& dealt_with = accepted != nullptr ? *accepted : ignored;
    dealt_with = 0;
    GEAR_TRY(need(step, kFunction, "step"));
    gear_vector_step known = GEAR_VECTOR_STEP_INIT;
    GEAR_TRY(read_struct("gear_vector_step", step, &known));
    GEAR_TRY(need_cells(known.cells, known.cell_count, kFunction));
    if (known.final_cell_count > 0) GEAR_TRY(need(known.final_cells, kFunction, "final_cells"));
    return behind(writer)->append_vector(known, timeout_ns, &dealt_with);
  });
}

int gear_writer_reserve(gear_writer* writer, uint32_t lane, int64_t timeout_ns, void** cells,
                        size_t cell_count) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    GEAR_TRY(need(cells, "gear_writer_reserve", "cells"));
    return behind(writer)->reserve(lane, timeout_ns, cells, cell_count);
  });
}

int gear_writer_advance(gear_writer* writer, uint32_t lane, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    return behind(writer)->advance(lane, timeout_ns);
  });
}

int gear_writer_episode_cells(gear_writer* writer, uint32_t lane, const gear_cell* cells,
                              size_t cell_count, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    GEAR_TRY(need_cells(cells, cell_count, "gear_writer_episode_cells"));
    return behind(writer)->give_episode_cells(lane, cells, cell_count, timeout_ns);
  });
}

int gear_writer_end_episode(gear_writer* writer, uint32_t lane, gear_end end,
                            const gear_cell* cells, size_t cell_count, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    GEAR_TRY(need_cells(cells, cell_count, "gear_writer_end_episode"));
    return behind(writer)->end_episode(lane, static_cast<uint32_t>(end), cells, cell_count,
                                       timeout_ns);
  });
}

int gear_writer_item(gear_writer* writer, uint32_t lane, uint32_t length, double priority,
                     int64_t timeout_ns) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    return behind(writer)->make_item(lane, length, priority, timeout_ns);
  });
}

int gear_writer_set_priority(gear_writer* writer, uint32_t lane, const double* priority,
                             int64_t timeout_ns) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    return behind(writer)->set_priority(lane, priority, timeout_ns);
  });
}

int gear_writer_set_version(gear_writer* writer, uint32_t lane, uint64_t version,
                            int64_t timeout_ns) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    return behind(writer)->set_version(lane, version, timeout_ns);
  });
}

int gear_writer_set_prompt_group(gear_writer* writer, uint32_t lane, uint64_t group, uint32_t size,
                                 int64_t timeout_ns) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    return behind(writer)->set_prompt_group(lane, group, size, timeout_ns);
  });
}

int gear_writer_flush(gear_writer* writer, int64_t timeout_ns, uint64_t* waiting) {
  return guarded([&]() -> Status {
    Call call(behind(writer));
    GEAR_TRY(call.status());
    uint64_t ignored = 0;
    return behind(writer)->flush(timeout_ns, waiting != nullptr ? waiting : &ignored);
  });
}

int gear_writer_close(gear_writer* writer) {
  return guarded([&]() -> Status {
    GEAR_TRY(check_handle(behind(writer)));
    // A call on the client, so that who closes that waits for this.
    Call call(&behind(writer)->table().client());
    GEAR_TRY(call.status());
    GEAR_TRY(end_calls_on(*behind(writer)));
    Writer* closing = behind(writer);
    Status status = closing->close();
    // The handle ends in any case: what the server could not be told it learns from the end of the
    // connection.
    closing->table().forget(closing);
    return status;
  });
}
