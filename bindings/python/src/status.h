// From gear_status to Python exceptions, from seconds to nanoseconds, and waiting without the GIL.
#pragma once

#include <gear.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace gear_python {

namespace nb = nanobind;

// Names the Python callable (status, text) -> exception that turns a status into an exception.
void set_error_factory(nb::object factory);

// Throws the exception of `status` with this text; the attribute `accepted` is set when >= 0.
[[noreturn]] void raise(int status, const std::string& text, int64_t accepted = -1);

// Throws the exception of `status` with this thread's gear_last_error().
[[noreturn]] void raise_last(int status);

inline void check(int status) {
  if (status != GEAR_OK) raise_last(status);
}

// Seconds to nanoseconds; raises InvalidArgument for NaN and negative values.
int64_t to_nanoseconds(double seconds);

// The text of a wait that ended with nothing: this thread's gear_last_error() and the time given.
std::string timed_out_text(double seconds);

// Cuts a wait into slices, so that Ctrl-C is seen within one of them.
class Deadline {
 public:
  static constexpr int64_t kSliceNs = 50'000'000;

  explicit Deadline(double seconds)
      : left_ns_(to_nanoseconds(seconds)), begin_(std::chrono::steady_clock::now()) {}

  int64_t left_ns() const {
    const auto spent = std::chrono::steady_clock::now() - begin_;
    return std::max<int64_t>(
        0, left_ns_ - std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
  }

 private:
  int64_t left_ns_;
  std::chrono::steady_clock::time_point begin_;
};

// Calls call(timeout_ns) without the GIL, in slices, until it answers anything but ETIMEDOUT or the
// deadline has passed. Raises what a signal handler raised.
template <typename Call>
int wait_sliced(const Deadline& deadline, Call&& call) {
  while (true) {
    const int64_t left_ns = deadline.left_ns();
    int status;
    {
      nb::gil_scoped_release released;
      status = call(std::min(left_ns, Deadline::kSliceNs));
    }
    if (status != GEAR_ETIMEDOUT || left_ns <= Deadline::kSliceNs) return status;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

// For calls that are short unless they block: tries with the GIL first, waits without it.
template <typename Call>
int try_then_wait(double seconds, bool heavy, Call&& call) {
  if (!heavy) {
    const int status = call(0);
    if (status != GEAR_ETIMEDOUT || seconds == 0.0) return status;
  }
  return wait_sliced(Deadline(seconds), call);
}

// Raises for every status but GEAR_OK; names the whole time given when it ran out.
inline void check_waited(int status, double seconds) {
  if (status == GEAR_OK) return;
  if (status == GEAR_ETIMEDOUT) raise(status, timed_out_text(seconds));
  raise_last(status);
}

// Marks an object as inside a call, which other threads must not enter. Made with the GIL held.
class Exclusive {
 public:
  Exclusive(bool& busy, const char* what) : busy_(busy) {
    if (busy) {
      raise(GEAR_ESTATE,
            std::string(what) + " is in use by another thread; it belongs to one thread at a time");
    }
    busy = true;
  }
  ~Exclusive() { busy_ = false; }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  bool& busy_;
};

}  // namespace gear_python
