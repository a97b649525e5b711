#include "geard/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace gear::daemon {
namespace {

constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                 spdlog::level::warn, spdlog::level::err};

const char* level_name(spdlog::level::level_enum level) {
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    if (kLevels[i] == level) return log_level_names()[i].name;
  }
  return "info";
}

// {"time":"2025-01-31T12:00:00.123Z","level":"info","text":"..."}
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    time_.format(message, time_text_);
    nlohmann::ordered_json line;
    line["time"] = std::string(time_text_.data(), time_text_.size());
    line["level"] = level_name(message.level);
    line["text"] = std::string(message.payload.data(), message.payload.size());
    time_text_.clear();
    // A name in the text may be anything but UTF-8.
    const std::string text =
        line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }

 private:
  spdlog::pattern_formatter time_{"%Y-%m-%dT%H:%M:%S.%eZ", spdlog::pattern_time_type::utc, ""};
  spdlog::memory_buf_t time_text_;
};

// "<6>text": the journal takes the level from the prefix and knows the time itself (sd-daemon(3)).
class JournalFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const char* prefix = message.level >= spdlog::level::err    ? "<3>"
                         : message.level == spdlog::level::warn ? "<4>"
                         : message.level == spdlog::level::info ? "<6>"
                                                                : "<7>";
    out.append(prefix, prefix + 3);
    out.append(message.payload.data(), message.payload.data() + message.payload.size());
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JournalFormatter>();
  }
};

// Whether standard error is the journal's stream, which systemd names as device:inode.
bool stderr_is_journal() {
  const char* stream = getenv("JOURNAL_STREAM");
  struct stat status;
  unsigned long long device = 0;
  unsigned long long inode = 0;
  return stream != nullptr && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
         fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

void from_library(int level, const char* text, void*) {
  log_line(static_cast<uint32_t>(level), text);
}

}  // namespace

const NameList& log_level_names() {
  static const NameList list = {{"debug", 0}, {"info", 1}, {"warning", 2}, {"error", 3}};
  return list;
}

const NameList& log_format_names() {
  static const NameList list = {{"text", 0}, {"json", 1}};
  return list;
}

void start_log(const LogOptions& options) {
  auto logger =
      std::make_shared<spdlog::logger>("geard", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (options.format == static_cast<uint32_t>(LogFormat::kJson)) {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else if (stderr_is_journal()) {
    logger->set_formatter(std::make_unique<JournalFormatter>());
  } else {
    auto text = std::make_unique<spdlog::pattern_formatter>();
    text->set_pattern("%Y-%m-%d %H:%M:%S.%e geard %l: %v");
    logger->set_formatter(std::move(text));
  }
  logger->set_level(kLevels[options.level & 3]);
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  set_log_sink(from_library, nullptr);
}

void log_line(uint32_t level, const std::string& text) {
  spdlog::log(kLevels[level & 3], "{}", text);
}

}  // namespace gear::daemon
