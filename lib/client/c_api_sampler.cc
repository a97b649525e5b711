// gear.h, section 5: samplers.

#include "client/c_api.h"
#include "client/options.h"

using namespace gear;          // NOLINT: this file is the C edge of the namespace
using namespace gear::client;  // NOLINT

int gear_sampler_open(gear_table* table, const gear_sampler_options* options,
                      gear_sampler** sampler) {
  return guarded([&]() -> Status {
    Call call(behind(table));
    GEAR_TRY(call.status());
    GEAR_TRY(need(sampler, "gear_sampler_open", "sampler"));
    gear_sampler_options known = GEAR_SAMPLER_OPTIONS_INIT;
    if (options != nullptr) GEAR_TRY(read_struct("gear_sampler_options", options, &known));
    Result<std::unique_ptr<Sampler>> opened = Sampler::open(*behind(table), known);
    if (!opened.ok()) return opened.status();
    *sampler = reinterpret_cast<gear_sampler*>(behind(table)->keep(opened.take()));
    return {};
  });
}

int gear_sample(gear_sampler* sampler, uint32_t rows, int64_t timeout_ns, gear_batch** batch) {
  return guarded([&]() -> Status {
    Call call(behind(sampler));
    GEAR_TRY(call.status());
    GEAR_TRY(need(batch, "gear_sample", "batch"));
    return behind(sampler)->sample(rows, timeout_ns, batch);
  });
}

int gear_sample_into(gear_sampler* sampler, uint32_t rows, int64_t timeout_ns,
                     const gear_destination* destinations, size_t count, gear_batch** batch) {
  return guarded([&]() -> Status {
    Call call(behind(sampler));
    GEAR_TRY(call.status());
    GEAR_TRY(need(destinations, "gear_sample_into", "destinations"));
    GEAR_TRY(need(batch, "gear_sample_into", "batch"));
    return behind(sampler)->sample_into(rows, timeout_ns, destinations, count, batch);
  });
}

int gear_sampler_begin_epoch(gear_sampler* sampler, uint64_t epoch, uint64_t* rows) {
  return guarded([&]() -> Status {
    Call call(behind(sampler));
    GEAR_TRY(call.status());
    uint64_t ignored = 0;
    return behind(sampler)->begin_epoch(epoch, rows != nullptr ? rows : &ignored);
  });
}

int gear_sampler_get_stats(const gear_sampler* sampler, gear_sampler_stats* stats) {
  return guarded([&]() -> Status {
    Call call(behind(sampler));
    GEAR_TRY(call.status());
    GEAR_TRY(need(stats, "gear_sampler_get_stats", "stats"));
    return write_struct("gear_sampler_stats", behind(sampler)->stats(), stats);
  });
}

int gear_sampler_close(gear_sampler* sampler) {
  return guarded([&]() -> Status {
    GEAR_TRY(check_handle(behind(sampler)));
    // As in gear_writer_close.
    Call call(&behind(sampler)->table().client());
    GEAR_TRY(call.status());
    GEAR_TRY(end_calls_on(*behind(sampler)));
    Sampler* closing = behind(sampler);
    Status status = closing->close();
    closing->table().forget(closing);
    return status;
  });
}
