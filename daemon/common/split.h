// The parts of a text between separators.
#pragma once

#include <string>
#include <vector>

namespace gear::daemon {

// At least one part; those between neighbouring separators are "".
inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace gear::daemon
