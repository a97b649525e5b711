// Drawing batches.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "batch.h"
#include "client.h"
#include "status.h"

namespace gear_python {
namespace {

// (column, name, offset, length, pad, fill)
using WindowTuple = std::tuple<std::string, std::string, int32_t, uint32_t, uint32_t, uint32_t>;

gear_window to_window(const WindowTuple& source) {
  const auto& [column, name, offset, length, pad, fill] = source;
  gear_window window = GEAR_WINDOW_INIT;
  window.column = column.c_str();
  window.name = name.empty() ? nullptr : name.c_str();
  window.offset = offset;
  window.length = length;
  window.pad = pad;
  window.fill = fill;
  return window;
}

// One thread at a time. All members are touched with the GIL held; raw_ is used without it while
// busy_ is set.
class Sampler {
 public:
  Sampler(std::shared_ptr<Table> table, const std::vector<WindowTuple>& windows,
          uint32_t batch_rows_max, uint32_t batches_max, uint32_t mode, uint32_t anchor,
          uint64_t seed, uint32_t prefetch, uint32_t rows_min, double beta, uint32_t normalise,
          uint32_t order, uint32_t rank, uint32_t world)
      : table_(std::move(table)), batch_rows_max_(batch_rows_max), has_rows_min_(rows_min != 0) {
    std::vector<gear_window> raw_windows;
    for (const WindowTuple& window : windows) raw_windows.push_back(to_window(window));
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.windows = raw_windows.empty() ? nullptr : raw_windows.data();
    options.window_count = static_cast<uint32_t>(raw_windows.size());
    options.batch_rows_max = batch_rows_max;
    options.batches_max = batches_max;
    options.mode = mode;
    options.anchor = anchor;
    options.seed = seed;
    options.prefetch = prefetch;
    options.rows_min = rows_min;
    options.beta = beta;
    options.normalise = normalise;
    options.order = order;
    options.rank = rank;
    options.world = world;
    gear_table* raw_table = table_->raw();
    check(call_unlocked(client(), [&] { return gear_sampler_open(raw_table, &options, &raw_); }));
    table_->add_child();
  }

  ~Sampler() {
    if (raw_ == nullptr) return;
    table_->drop_child();
    if (client().usable()) call_unlocked(client(), [this] { return gear_sampler_close(raw_); });
  }

  bool closed() const { return raw_ == nullptr || !client().usable(); }

  Batch* sample(std::optional<uint32_t> rows, double timeout) {
    Exclusive exclusive(busy_, "the sampler");
    CallScope scope(client());
    check_open();
    gear_batch* batch = nullptr;
    const auto draw = [&](int64_t timeout_ns) {
      return gear_sample(raw_, rows.value_or(batch_rows_max_), timeout_ns, &batch);
    };
    // With rows_min the end of the timeout has a meaning of its own, so it is not cut.
    check_waited(has_rows_min_ ? draw_once(draw, timeout) : wait_sliced(Deadline(timeout), draw),
                 timeout);
    return new Batch(batch);
  }

  uint64_t begin_epoch(uint64_t epoch) {
    Exclusive exclusive(busy_, "the sampler");
    check_open();
    uint64_t rows = 0;
    check(call_unlocked(client(), [&] { return gear_sampler_begin_epoch(raw_, epoch, &rows); }));
    return rows;
  }

  nb::object stats() {
    Exclusive exclusive(busy_, "the sampler");
    check_open();
    gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
    check(gear_sampler_get_stats(raw_, &stats));
    return nb::module_::import_("gear.info")
        .attr("SamplerStats")(stats.direct != 0, stats.batches, stats.rows, stats.redrawn,
                              stats.bytes);
  }

  void close() {
    if (closed()) return;
    Exclusive exclusive(busy_, "the sampler");
    gear_sampler* raw = std::exchange(raw_, nullptr);
    table_->drop_child();
    check(call_unlocked(client(), [raw] { return gear_sampler_close(raw); }));
  }

 private:
  Client& client() const { return table_->client(); }

  void check_open() const {
    table_->raw();
    if (raw_ == nullptr) raise(GEAR_ESTATE, "the sampler is closed; open another");
  }

  template <typename Draw>
  static int draw_once(const Draw& draw, double timeout) {
    const int64_t timeout_ns = to_nanoseconds(timeout);
    nb::gil_scoped_release released;
    return draw(timeout_ns);
  }

  std::shared_ptr<Table> table_;
  gear_sampler* raw_ = nullptr;
  uint32_t batch_rows_max_;
  bool has_rows_min_;
  bool busy_ = false;
};

}  // namespace

void bind_sampler(nb::module_& module) {
  nb::class_<Sampler>(module, "Sampler",
                      "Draws batches from one table; made by Table.sampler. One thread at a time.\n"
                      "As a context manager it closes itself.")
      .def(nb::init<std::shared_ptr<Table>, const std::vector<WindowTuple>&, uint32_t, uint32_t,
                    uint32_t, uint32_t, uint64_t, uint32_t, uint32_t, double, uint32_t, uint32_t,
                    uint32_t, uint32_t>(),
           nb::arg("table"), nb::arg("windows"), nb::arg("batch_rows_max"), nb::arg("batches_max"),
           nb::arg("mode"), nb::arg("anchor"), nb::arg("seed"), nb::arg("prefetch"),
           nb::arg("rows_min"), nb::arg("beta"), nb::arg("normalise"), nb::arg("order") = 0,
           nb::arg("rank") = 0, nb::arg("world") = 0)
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](Sampler& sampler, const nb::args&) { sampler.close(); })
      .def_prop_ro("closed", &Sampler::closed)
      .def("sample", &Sampler::sample, nb::arg("rows") = nb::none(), nb::kw_only(),
           nb::arg("timeout") = 30.0, nb::rv_policy::take_ownership,
           "Draws `rows` items (default: the sampler's batch) with replacement and gathers their\n"
           "windows. Blocks until the limiter admits them, up to `timeout` seconds; Ctrl-C\n"
           "interrupts it. Errors: TimedOut (nothing drawn), Busy (all batches are held), Closed,\n"
           "Dropped, InvalidArgument.")
      .def("begin_epoch", &Sampler::begin_epoch, nb::arg("epoch"),
           "order \"epoch\": begins epoch `epoch` and returns the rows of this rank's share. The\n"
           "last batch may be shorter; then sample raises EpochOver. The first sample begins epoch\n"
           "0 by itself. Errors: StateError (another order, or a table that is changing).")
      .def("stats", &Sampler::stats, "Counts since the sampler was opened.")
      .def("close", &Sampler::close,
           "Items drawn ahead return to the table, uncounted. Batches that are held stay valid.");
}

}  // namespace gear_python
