#include "client/last_error.h"

namespace gear::client {
namespace {

std::string& text_of_thread() {
  thread_local std::string text;
  return text;
}

}  // namespace

int report(const Status& status) noexcept {
  if (status.ok()) return GEAR_OK;
  try {
    text_of_thread() = status.text();
  } catch (...) {
    // Without memory for the text an older one would mislead.
    text_of_thread().clear();
  }
  return status.code();
}

const char* last_error() noexcept { return text_of_thread().c_str(); }

}  // namespace gear::client
