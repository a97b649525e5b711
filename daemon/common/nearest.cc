#include "common/nearest.h"

#include <algorithm>
#include <numeric>

namespace gear::daemon {
namespace {

// Insertions, deletions, replacements and swaps of neighbours that turn a into b.
size_t edit_count(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_edits = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    // "capacity" means "capacity_items", however many letters are missing.
    const bool begins = word.size() >= 3 && candidate.rfind(word, 0) == 0;
    const size_t edits = begins ? 1 : edit_count(word, candidate);
    if (edits < best_edits && edits < std::max(word.size(), candidate.size())) {
      best = candidate;
      best_edits = edits;
    }
  }
  return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  if (!near.empty()) return "; did you mean \"" + near + "\"?";
  std::string text = "; known are ";
  for (size_t i = 0; i < known.size(); ++i) text += (i == 0 ? "" : ", ") + known[i];
  return text;
}

}  // namespace gear::daemon
