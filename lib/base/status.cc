#include "base/status.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace gear {

static std::string format_list(const char* pattern, va_list list) {
  va_list again;
  va_copy(again, list);
  int length = vsnprintf(nullptr, 0, pattern, again);
  va_end(again);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) vsnprintf(text.data(), text.size() + 1, pattern, list);
  return text;
}

std::string format(const char* pattern, ...) {
  va_list list;
  va_start(list, pattern);
  std::string text = format_list(pattern, list);
  va_end(list);
  return text;
}

Status error(int code, const char* pattern, ...) {
  va_list list;
  va_start(list, pattern);
  std::string text = format_list(pattern, list);
  va_end(list);
  return Status(code, std::move(text));
}

Status within(const std::string& tried, const Status& failure) {
  if (failure.ok()) return failure;
  return Status(failure.code(), tried + ": " + failure.text());
}

Status system_error(int errno_value, const std::string& what) {
  int code = GEAR_ESYSTEM;
  switch (errno_value) {
    case ENOSPC: code = GEAR_ENOSPC; break;
    case ENOMEM: code = GEAR_ENOMEM; break;
    case EMFILE:
    case ENFILE: code = GEAR_EMFILE; break;
    case EACCES:
    case EPERM: code = GEAR_EPERM; break;
    case ETIMEDOUT: code = GEAR_ETIMEDOUT; break;
    default: break;
  }
  char words[128];
  const char* described = strerror_r(errno_value, words, sizeof words);
  return Status(code, format("%s: %s (errno %d)", what.c_str(), described, errno_value));
}

}  // namespace gear
