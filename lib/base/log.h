// The log of the library and of an embedded server: one line a call, to a sink the application may set.
#pragma once

#include <string>

namespace gear {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

using LogSink = void (*)(int level, const char* text, void* user);

// nullptr restores the default: warnings and errors to standard error. Any thread.
void set_log_sink(LogSink sink, void* user);

void log(LogLevel level, const char* pattern, ...) __attribute__((format(printf, 2, 3)));

}  // namespace gear
