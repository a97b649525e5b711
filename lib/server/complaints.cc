#include "server/complaints.h"

#include "base/clock.h"
#include "base/log.h"

namespace gear {

void Complaints::say(const std::string& text) {
  int64_t now = now_ns();
  if (now >= second_end_ns_) {
    if (left_out_ > 0) {
      log(LogLevel::kWarning, "%llu more lines about clients were left out", static_cast<unsigned long long>(left_out_));
    }
    second_end_ns_ = now + 1'000'000'000;
    said_ = 0;
    left_out_ = 0;
  }
  if (said_ < kLinesASecond) {
    ++said_;
    log(LogLevel::kWarning, "%s", text.c_str());
  } else {
    ++left_out_;
  }
}

}  // namespace gear
