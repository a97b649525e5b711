// The daemon's log: one line a call on standard error, through spdlog; GEAR's own log is led there
// too.
#pragma once

#include <string>

#include "common/names.h"
#include "common/parsed.h"

namespace gear::daemon {

enum class LogFormat : uint32_t {
  kText = 0,  // time and level; under systemd the journal's level prefix instead
  kJson = 1   // {"time", "level", "text"}
};

struct LogOptions {
  uint32_t level = 1;  // 0 debug, 1 info, 2 warning, 3 error; less is not written
  uint32_t format = static_cast<uint32_t>(LogFormat::kText);
};

const NameList& log_level_names();
const NameList& log_format_names();

// Call once, before any thread is started.
void start_log(const LogOptions& options);

// Any thread.
void log_line(uint32_t level, const std::string& text);
inline void log_info(const std::string& text) {
  log_line(1, text);
}
inline void log_warning(const std::string& text) {
  log_line(2, text);
}
inline void log_error(const std::string& text) {
  log_line(3, text);
}

}  // namespace gear::daemon
