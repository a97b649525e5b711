// Parsed<T>: what a text given by the user means, or the words that say why it means nothing.
// ValueKind: what such a text looks like.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace gear::daemon {

// What a field's value looks like: which TOML types it takes.
enum class ValueKind {
  kWord,    // a string
  kCount,   // a whole number, or a string with a suffix ("100k")
  kReal,    // a number
  kAmount,  // a number, or a string with a suffix
  kSwitch   // true, false, "yes" or "no"
};

struct Fault {
  std::string text;
};

template <typename T>
class [[nodiscard]] Parsed {
 public:
  Parsed(T value) : value_(std::move(value)) {}                // NOLINT: implicit by design
  Parsed(Fault fault) : fault_text_(std::move(fault.text)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const T& value() const { return *value_; }
  const std::string& fault_text() const { return fault_text_; }

 private:
  std::optional<T> value_;
  std::string fault_text_;
};

}  // namespace gear::daemon
