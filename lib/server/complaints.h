// The log lines that a client can cause by what it does wrong: bounded, so that it cannot fill the log.
#pragma once

#include <cstdint>
#include <string>

namespace gear {

// Server's thread only. So many lines a second; how many more there were is said with the first line of a later second.
class Complaints {
 public:
  static constexpr uint32_t kLinesASecond = 20;

  // As a warning.
  void say(const std::string& text);

 private:
  int64_t second_end_ns_ = 0;
  uint32_t said_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace gear
