#include "client/last_error.h"

namespace gear::client {
namespace {

std::string& text_of_thread() noexcept {
  thread_local std::string text;
  return text;
}

// Without memory for the text an older one would mislead.
void keep(const std::string& text) noexcept {
  try {
    text_of_thread() = text;
  } catch (...) {
    text_of_thread().clear();
  }
}

}  // namespace

int report(const Status& status) noexcept {
  if (!status.ok()) keep(status.text());
  return status.code();
}

int report_exception(int code) noexcept {
  try {
    keep(code == GEAR_ENOMEM ? "this process is out of memory; free some, or raise its limit"
                             : "a broken invariant of GEAR; please report it");
  } catch (...) {
    text_of_thread().clear();
  }
  return code;
}

const char* last_error() noexcept {
  return text_of_thread().c_str();
}

}  // namespace gear::client
