// Status and Result<T>: how functions inside GEAR report failure. Exceptions never leave a function.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "gear.h"

namespace gear {

// printf into a std::string.
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// A gear_status and, when it is an error, the text that the user reads: what was tried, with which values,
// and the remedy.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(int code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const { return code_ == GEAR_OK; }
  int code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  int code_ = GEAR_OK;
  std::string text_;
};

// error(GEAR_ENOSPC, "create table \"%s\": ...", name)
Status error(int code, const char* pattern, ...) __attribute__((format(printf, 2, 3)));

// The failure with what was tried before its reason: "append to \"atari\" lane 3: the table is closed; ...". OK stays OK.
Status within(const std::string& tried, const Status& failure);

// The status that an errno of a system call means (ENOSPC, EMFILE, ...), ESYSTEM where none fits. The text is
// `what`, then the errno's own words.
Status system_error(int errno_value, const std::string& what);

// A value, or the status that tells why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}            // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}    // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T&& take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace gear

// Returns the failure of an expression of type Status to the caller.
#define GEAR_TRY(expression)                     \
  do {                                           \
    ::gear::Status gear_try_status = (expression); \
    if (!gear_try_status.ok()) return gear_try_status; \
  } while (false)
