// For tests that adopt what a dead process left, once for each of its stores: the places that an adoption comes by, each when
// it is first met, so that the test can have the adopter die there too.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/crash_point.h"

namespace gear::test {

class AdoptionPlaces {
 public:
  void begin() { before_ = crash_points_visits(); }
  // Those of this process since begin() that no earlier call told.
  std::vector<std::string> end() {
    std::vector<std::string> fresh;
    for (const auto& [place, visits] : crash_points_visits()) {
      auto earlier = before_.find(place);
      if (earlier != before_.end() && earlier->second == visits) continue;
      if (known_.insert(place).second) fresh.push_back(place);
    }
    return fresh;
  }

 private:
  std::map<std::string, uint64_t> before_;
  std::set<std::string> known_;
};

}  // namespace gear::test
