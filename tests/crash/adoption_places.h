// For tests that adopt what a dead process left, once for each of its stores: the places that an adoption comes by, each when
// it is first met, so that the test can have the adopter die there too.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/crash_point.h"

namespace gear::test {

class AdoptionPlaces {
 public:
  void begin() { before_ = crash_points_visits(); }
  // Those of this process since begin() that no earlier call met are deaths to come, after that of store `at`.
  void end(uint64_t at) {
    for (const auto& [place, visits] : crash_points_visits()) {
      auto earlier = before_.find(place);
      if (earlier != before_.end() && earlier->second == visits) continue;
      if (known_.insert(place).second) deaths_.push_back({at, place});
    }
  }
  const std::vector<std::pair<uint64_t, std::string>>& deaths() const { return deaths_; }

 private:
  std::map<std::string, uint64_t> before_;
  std::set<std::string> known_;
  std::vector<std::pair<uint64_t, std::string>> deaths_;
};

}  // namespace gear::test
