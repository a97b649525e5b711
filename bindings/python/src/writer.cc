// Appending: one step, many steps, one step in each of many lanes, and in place.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cells.h"
#include "client.h"
#include "status.h"

namespace gear_python {
namespace {

constexpr double kTimeout = 30.0;

// Above this many bytes a call copies without the GIL.
constexpr uint64_t kHeavyBytes = 64 * 1024;

// Owns a gear_writer and with it the mapping that Writer.reserve shows. Closed when the last of
// those who share it has gone.
class WriterCore {
 public:
  WriterCore(std::shared_ptr<Table> table, const gear_writer_options& options)
      : table_(std::move(table)) {
    gear_table* raw_table = table_->raw();
    check(call_unlocked(client(), [&] { return gear_writer_open(raw_table, &options, &raw_); }));
    table_->add_child();
  }
  ~WriterCore() { close(); }
  WriterCore(const WriterCore&) = delete;
  WriterCore& operator=(const WriterCore&) = delete;

  gear_writer* raw() const { return raw_; }
  Table& table() const { return *table_; }
  Client& client() const { return table_->client(); }

  int close() {
    gear_writer* raw = std::exchange(raw_, nullptr);
    if (raw == nullptr) return GEAR_OK;
    table_->drop_child();
    if (!client().usable()) return GEAR_OK;  // closed with the client, or to be
    return call_unlocked(client(), [raw] { return gear_writer_close(raw); });
  }

 private:
  std::shared_ptr<Table> table_;
  gear_writer* raw_ = nullptr;
};

// The base of the arrays that one Writer.reserve hands out: while one is alive, their memory stays
// mapped.
class Export {
 public:
  explicit Export(std::shared_ptr<WriterCore> core)
      : client_(core->table().client_ptr()), core_(std::move(core)) {
    client_->add_export();
  }
  ~Export() {
    core_.reset();
    client_->drop_export();
  }
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;

 private:
  std::shared_ptr<Client> client_;
  std::shared_ptr<WriterCore> core_;
};

gear_writer_options to_options(uint32_t lanes, const std::optional<std::vector<uint64_t>>& names,
                               bool take_over, uint32_t autoreset) {
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  options.lanes = lanes;
  options.autoreset = autoreset;
  options.take_over = take_over ? 1 : 0;
  if (!names) return options;
  if (names->size() != lanes) {
    raise(GEAR_ESHAPE, "open writer: " + std::to_string(names->size()) + " names for " +
                           std::to_string(lanes) + " lanes; give one for each");
  }
  options.lane_names = names->data();
  return options;
}

gear_end to_end(const std::string& end) {
  if (end == "terminated") return GEAR_TERMINATED;
  if (end == "truncated") return GEAR_TRUNCATED;
  raise(GEAR_EINVAL, "end is \"" + end + "\"; it is \"terminated\" or \"truncated\"");
}

// One thread at a time. All members are touched with the GIL held; raw_ is used without it while
// busy_ is set.
class Writer {
 public:
  Writer(std::shared_ptr<Table> table, uint32_t lanes,
         const std::optional<std::vector<uint64_t>>& names, bool take_over, uint32_t autoreset)
      : core_(std::make_shared<WriterCore>(std::move(table),
                                           to_options(lanes, names, take_over, autoreset))),
        cells_(core_->table()),
        final_cells_(core_->table()),
        lanes_(lanes == 0 ? 1 : lanes) {}

  uint32_t lanes() const { return lanes_; }
  bool closed() const { return core_ == nullptr || !core_->client().usable(); }

  void append(uint32_t lane, nb::handle columns, double timeout, const nb::kwargs& named) {
    Use use(*this);
    cells_.gather(columns, named, false);
    check_waited(try_then_wait(timeout, cells_.bytes() >= kHeavyBytes,
                               [&](int64_t timeout_ns) {
                                 return gear_writer_append(raw_, lane, cells_.data(), cells_.size(),
                                                           timeout_ns);
                               }),
                 timeout);
  }

  size_t append_many(uint32_t lane, nb::handle columns, double timeout, const nb::kwargs& named) {
    Use use(*this);
    cells_.gather(columns, named, true);
    const size_t steps = cells_.lead();
    size_t done = 0;
    const int status =
        try_then_wait(timeout, cells_.bytes() * steps >= kHeavyBytes, [&](int64_t timeout_ns) {
          size_t accepted = 0;
          const int result = gear_writer_append_many(raw_, lane, cells_.data(), cells_.size(),
                                                     steps - done, timeout_ns, &accepted);
          done += accepted;
          cells_.move(accepted);
          return result;
        });
    check_partly(status, timeout, done);
    return done;
  }

  size_t append_each(nb::handle columns, nb::handle mask, double timeout, const nb::kwargs& named) {
    Use use(*this);
    cells_.gather(columns, named, true);
    if (cells_.lead() != lanes_) {
      raise(GEAR_ESHAPE, "append each: the leading axis is " + std::to_string(cells_.lead()) +
                             " long, and the writer has " + std::to_string(lanes_) + " lanes");
    }
    const nb::object mask_owner = mask.is_none() ? nb::none() : mask_array(mask, "mask");
    const bool* wanted = lane_mask(mask_owner);
    uint32_t lane = 0;
    size_t done = 0;
    const int status =
        try_then_wait(timeout, cells_.bytes() * lanes_ >= kHeavyBytes, [&](int64_t timeout_ns) {
          for (; lane < lanes_; ++lane, cells_.move(1)) {
            if (wanted != nullptr && !wanted[lane]) continue;
            const int result =
                gear_writer_append(raw_, lane, cells_.data(), cells_.size(), timeout_ns);
            if (result != GEAR_OK) return result;
            ++done;
          }
          return static_cast<int>(GEAR_OK);
        });
    check_partly(status, timeout, done);
    return done;
  }

  void append_vector(nb::handle columns, nb::handle terminated, nb::handle truncated,
                     nb::handle skip, nb::handle final, double timeout, const nb::kwargs& named) {
    Use use(*this);
    cells_.gather(columns, named, true);
    final_cells_.gather(final, true);
    check_lanes(cells_.lead());
    if (final_cells_.size() > 0) check_lanes(final_cells_.lead());
    const nb::object terminated_owner = optional_mask(terminated, "terminated");
    const nb::object truncated_owner = optional_mask(truncated, "truncated");
    const nb::object skip_owner = optional_mask(skip, "skip");
    const uint8_t* skipped = bytes_of(skip_owner);
    dealt_with_.assign(lanes_, 0);
    if (skipped != nullptr) std::copy_n(skipped, lanes_, dealt_with_.begin());

    gear_vector_step step = GEAR_VECTOR_STEP_INIT;
    step.cells = cells_.data();
    step.cell_count = static_cast<uint32_t>(cells_.size());
    step.terminated = bytes_of(terminated_owner);
    step.truncated = bytes_of(truncated_owner);
    step.skip = dealt_with_.data();
    step.final_cells = final_cells_.data();
    step.final_cell_count = static_cast<uint32_t>(final_cells_.size());
    size_t done = 0;
    const int status =
        try_then_wait(timeout, cells_.bytes() * lanes_ >= kHeavyBytes, [&](int64_t timeout_ns) {
          uint32_t accepted = 0;
          const int result = gear_writer_append_vector(raw_, &step, timeout_ns, &accepted);
          // Leading lanes that have the step are left out of the next try.
          std::fill_n(dealt_with_.begin(), accepted, uint8_t{1});
          done = std::max<size_t>(done, accepted);
          return result;
        });
    check_partly(status, timeout, done);
  }

  nb::dict reserve(uint32_t lane, double timeout) {
    Use use(*this);
    std::vector<void*> places(core_->table().columns().size());
    check_waited(try_then_wait(timeout, false,
                               [&](int64_t timeout_ns) {
                                 return gear_writer_reserve(raw_, lane, timeout_ns, places.data(),
                                                            places.size());
                               }),
                 timeout);
    const auto held = reserved_.find(lane);
    if (held != reserved_.end()) return held->second;
    nb::dict views = views_of(places);
    reserved_.emplace(lane, views);
    return views;
  }

  void advance(uint32_t lane, double timeout) {
    Use use(*this);
    check_waited(try_then_wait(timeout, false,
                               [&](int64_t timeout_ns) {
                                 return gear_writer_advance(raw_, lane, timeout_ns);
                               }),
                 timeout);
    const auto held = reserved_.find(lane);
    if (held == reserved_.end()) return;
    for (auto [name, view] : held->second) forbid_writing(view);
    reserved_.erase(held);
  }

  void episode_cells(uint32_t lane, nb::handle columns, double timeout, const nb::kwargs& named) {
    Use use(*this);
    cells_.gather(columns, named, false);
    check_waited(try_then_wait(timeout, cells_.bytes() >= kHeavyBytes,
                               [&](int64_t timeout_ns) {
                                 return gear_writer_episode_cells(raw_, lane, cells_.data(),
                                                                  cells_.size(), timeout_ns);
                               }),
                 timeout);
  }

  void end_episode(uint32_t lane, const std::string& end, nb::handle columns, double timeout,
                   const nb::kwargs& named) {
    Use use(*this);
    const gear_end kind = to_end(end);
    cells_.gather(columns, named, false);
    check_waited(try_then_wait(timeout, cells_.bytes() >= kHeavyBytes,
                               [&](int64_t timeout_ns) {
                                 return gear_writer_end_episode(raw_, lane, kind, cells_.data(),
                                                                cells_.size(), timeout_ns);
                               }),
                 timeout);
  }

  void item(uint32_t lane, uint32_t length, double priority, double timeout) {
    Use use(*this);
    check_waited(try_then_wait(timeout, false,
                               [&](int64_t timeout_ns) {
                                 return gear_writer_item(raw_, lane, length, priority, timeout_ns);
                               }),
                 timeout);
  }

  void set_priority(uint32_t lane, std::optional<double> priority, double timeout) {
    Use use(*this);
    check_waited(try_then_wait(timeout, false,
                               [&](int64_t timeout_ns) {
                                 return gear_writer_set_priority(
                                     raw_, lane, priority ? &*priority : nullptr, timeout_ns);
                               }),
                 timeout);
  }

  void flush(double timeout) {
    Use use(*this);
    uint64_t waiting = 0;
    const int status = wait_sliced(Deadline(timeout), [&](int64_t timeout_ns) {
      return gear_writer_flush(raw_, timeout_ns, &waiting);
    });
    if (status == GEAR_ETIMEDOUT) {
      raise(status, timed_out_text(timeout) + "; " + std::to_string(waiting) + " steps wait");
    }
    check(status);
  }

  void close() {
    if (closed()) return;
    { Use use(*this); }
    for (auto& [lane, views] : reserved_) {
      for (auto [name, view] : views) forbid_writing(view);
    }
    reserved_.clear();
    const std::shared_ptr<WriterCore> core = std::move(core_);
    if (core.use_count() == 1) check(core->close());
  }

 private:
  // One call: the writer is open, no other thread is in it, and its cells are let go at the end.
  class Use {
   public:
    explicit Use(Writer& writer) : exclusive_(writer.busy_, "the writer"), writer_(writer) {
      if (writer.core_ == nullptr) raise(GEAR_ESTATE, "the writer is closed; open another");
      writer.core_->table().raw();
      scope_.emplace(writer.core_->client());
      writer.raw_ = writer.core_->raw();
    }
    ~Use() {
      writer_.cells_.release();
      writer_.final_cells_.release();
    }

   private:
    Exclusive exclusive_;
    Writer& writer_;
    std::optional<CallScope> scope_;
  };

  const bool* lane_mask(const nb::object& mask) const {
    if (mask.is_none()) return nullptr;
    if (array_length(mask) != lanes_) {
      raise(GEAR_ESHAPE, "append each: the mask is " + std::to_string(array_length(mask)) +
                             " long, and the writer has " + std::to_string(lanes_) + " lanes");
    }
    return static_cast<const bool*>(array_data(mask));
  }

  void check_lanes(size_t extent) const {
    if (extent == lanes_) return;
    raise(GEAR_ESHAPE, "append vector: the leading axis is " + std::to_string(extent) +
                           " long, and the writer has " + std::to_string(lanes_) + " lanes");
  }

  nb::object optional_mask(nb::handle mask, const char* what) const {
    if (mask.is_none()) return nb::none();
    nb::object array = mask_array(mask, what);
    if (array_length(array) != lanes_) {
      raise(GEAR_ESHAPE, std::string("append vector: ") + what + " is " +
                             std::to_string(array_length(array)) + " long, and the writer has " +
                             std::to_string(lanes_) + " lanes");
    }
    return array;
  }

  static const uint8_t* bytes_of(const nb::object& mask) {
    return mask.is_none() ? nullptr : static_cast<const uint8_t*>(array_data(mask));
  }

  // Raises for every status but GEAR_OK; the exception tells how many steps were stored.
  static void check_partly(int status, double timeout, size_t done) {
    if (status == GEAR_OK) return;
    const std::string text =
        status == GEAR_ETIMEDOUT ? timed_out_text(timeout) : std::string(gear_last_error());
    raise(status, text, static_cast<int64_t>(done));
  }

  nb::dict views_of(const std::vector<void*>& places) {
    nb::object owner = nb::cast(new Export(core_), nb::rv_policy::take_ownership);
    nb::dict views;
    for (const Column& column : core_->table().columns()) {
      if (column.per_episode()) continue;
      views[column.name] = make_array(places[column.index], column.descr, column.shape.size(),
                                      column.shape.data(), nullptr, owner, true);
    }
    return views;
  }

  std::shared_ptr<WriterCore> core_;  // null: closed
  CellSet cells_;
  CellSet final_cells_;
  std::vector<uint8_t> dealt_with_;  // scratch of append_vector
  uint32_t lanes_;
  bool busy_ = false;
  gear_writer* raw_ = nullptr;                       // core_'s, while a call runs
  std::unordered_map<uint32_t, nb::dict> reserved_;  // by lane: views handed out and not advanced
};

}  // namespace

void bind_writer(nb::module_& module) {
  nb::class_<Export>(module, "_Export");
  nb::class_<Writer>(
      module, "Writer",
      "Appends steps to lanes of one table; made by Table.writer. One thread at a time.\n\n"
      "Columns are given by keyword, as append(0, observation=x, reward=1.0), or as a dict, which\n"
      "also serves columns named like a parameter. A value is a numpy array or scalar of exactly "
      "the\n"
      "column's dtype and shape (any strides), a Python number where the column holds that kind,\n"
      "bytes, or an object with __dlpack__ or a buffer. Nothing is stored unless all of them fit.\n"
      "Timeouts are in seconds; calls wait only for want of space, without the GIL, and Ctrl-C\n"
      "interrupts them. Errors of all: InvalidArgument (NoColumn, DtypeError, ShapeError, ...),\n"
      "StateError, TimedOut, Closed, Dropped, Disconnected. As a context manager it closes itself.")
      .def(nb::init<std::shared_ptr<Table>, uint32_t, const std::optional<std::vector<uint64_t>>&,
                    bool, uint32_t>(),
           nb::arg("table"), nb::arg("lanes"), nb::arg("names") = nb::none(),
           nb::arg("take_over") = false, nb::arg("autoreset") = 0)
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](Writer& writer, const nb::args&) { writer.close(); })
      .def_prop_ro("lanes", &Writer::lanes, "Lanes of this writer, numbered from 0.")
      .def_prop_ro("closed", &Writer::closed)
      .def("append", &Writer::append, nb::arg("lane"), nb::arg("columns") = nb::none(),
           nb::kw_only(), nb::arg("timeout") = kTimeout, nb::arg("named"),
           "Appends one step to a lane: a value for every per-step column.")
      .def("append_many", &Writer::append_many, nb::arg("lane"), nb::arg("columns") = nb::none(),
           nb::kw_only(), nb::arg("timeout") = kTimeout, nb::arg("named"),
           "Appends n steps to a lane; arrays are [n, shape...]. Returns n. An exception's\n"
           "`accepted` tells how many leading steps were stored all the same.")
      .def("append_each", &Writer::append_each, nb::arg("columns") = nb::none(), nb::kw_only(),
           nb::arg("mask") = nb::none(), nb::arg("timeout") = kTimeout, nb::arg("named"),
           "Appends one step to every lane, as a vector environment yields them; arrays are\n"
           "[lanes, shape...]. mask, [lanes] bool, leaves lanes out. Returns the steps appended.\n"
           "An exception's `accepted` tells how many lanes, in order, had theirs stored.")
      .def("append_vector", &Writer::append_vector, nb::arg("columns") = nb::none(), nb::kw_only(),
           nb::arg("terminated") = nb::none(), nb::arg("truncated") = nb::none(),
           nb::arg("skip") = nb::none(), nb::arg("final") = nb::none(),
           nb::arg("timeout") = kTimeout, nb::arg("named"),
           "Appends the step that a vector environment just took, in every lane, and ends the\n"
           "episodes that are marked; arrays are [lanes, shape...], marks [lanes] bool.\n"
           "Columns are what was shown before the actions were chosen, the actions and the\n"
           "rewards. final, a dict, is what was shown after the last step, of lanes that end: the\n"
           "step's observations, or with autoreset \"same_step\" info[\"final_obs\"]. With\n"
           "\"next_step\" the call after an end carries no step for the lanes that ended. An\n"
           "exception's `accepted` tells how many leading lanes were dealt with: skip those.")
      .def("reserve", &Writer::reserve, nb::arg("lane"), nb::kw_only(),
           nb::arg("timeout") = kTimeout,
           "Appends without a copy: {column: writable array}, the place in shared memory of the\n"
           "lane's next step. Fill all of them, then advance. A second reserve gives the same\n"
           "arrays. After advance they are read-only, and later their place is used again. A\n"
           "writer stays open until the last of its arrays is gone.")
      .def("advance", &Writer::advance, nb::arg("lane"), nb::kw_only(),
           nb::arg("timeout") = kTimeout, "Appends the step whose place reserve gave.")
      .def("episode_cells", &Writer::episode_cells, nb::arg("lane"),
           nb::arg("columns") = nb::none(), nb::kw_only(), nb::arg("timeout") = kTimeout,
           nb::arg("named"),
           "Gives the per-episode columns of the lane's current (or, before its first step, "
           "coming)\n"
           "episode, all of them, once an episode.")
      .def(
          "end_episode", &Writer::end_episode, nb::arg("lane"), nb::arg("end"),
          nb::arg("columns") = nb::none(), nb::kw_only(), nb::arg("timeout") = kTimeout,
          nb::arg("named"),
          "Ends the lane's episode. end: \"terminated\" (no value beyond) or \"truncated\" (cut\n"
          "off). The columns, any subset, are the final observation: a window of offset +1 at the\n"
          "last step shows them. StateError when the episode has no step.")
      .def("item", &Writer::item, nb::arg("lane"), nb::arg("length"), nb::arg("priority") = 1.0,
           nb::kw_only(), nb::arg("timeout") = kTimeout,
           "Tables with items=\"explicit\": makes an item of the lane's last `length` steps.")
      .def("set_priority", &Writer::set_priority, nb::arg("lane"), nb::arg("priority").none(),
           nb::kw_only(), nb::arg("timeout") = kTimeout,
           "Sets the priority of the items that the lane's coming steps make. None: the largest\n"
           "the table has seen.")
      .def("flush", &Writer::flush, nb::arg("timeout") = kTimeout,
           "Returns when every accepted step is drawable, and safe from any process's death.")
      .def("close", &Writer::close,
           "Ends open episodes as truncated and gives the lanes back (when the last array of "
           "reserve\n"
           "is gone). Closing twice is fine.");
}

}  // namespace gear_python
