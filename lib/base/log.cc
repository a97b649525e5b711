#include "base/log.h"

#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace gear {
namespace {

void write_to_stderr(int level, const char* text, void*) {
  static const char* const kNames[] = {"debug", "info", "warning", "error"};
  if (level >= static_cast<int>(LogLevel::kWarning)) {
    fprintf(stderr, "gear %s: %s\n", kNames[level & 3], text);
  }
}

std::mutex sink_mutex;
LogSink sink = write_to_stderr;
void* sink_user = nullptr;

}  // namespace

void set_log_sink(LogSink new_sink, void* user) {
  std::lock_guard lock(sink_mutex);
  sink = new_sink != nullptr ? new_sink : write_to_stderr;
  sink_user = user;
}

void log(LogLevel level, const char* pattern, ...) {
  char text[1024];
  va_list list;
  va_start(list, pattern);
  vsnprintf(text, sizeof text, pattern, list);
  va_end(list);
  std::lock_guard lock(sink_mutex);
  sink(static_cast<int>(level), text, sink_user);
}

}  // namespace gear
