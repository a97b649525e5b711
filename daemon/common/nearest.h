// The known word that a mistyped one most likely meant.
#pragma once

#include <string>
#include <vector>

namespace gear::daemon {

// The one of `known` with the fewest edits from `word`, "" where none is near. O(word * known).
std::string nearest(const std::string& word, const std::vector<std::string>& known);

// "; did you mean "capacity_items"?", or "; known are a, b, c" where none is near.
std::string suggestion(const std::string& word, const std::vector<std::string>& known);

}  // namespace gear::daemon
