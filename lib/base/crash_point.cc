#include "base/crash_point.h"

#ifdef GEAR_CRASH_POINTS

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

namespace gear {
namespace {

using Place = std::pair<int, std::string_view>;  // line and file

struct State {
  std::mutex mutex;  // guards all
  uint64_t counted = 0;
  uint64_t last = 0;
  std::string last_place;
  uint64_t last_visit = 0;
  std::map<Place, uint64_t> visits;
  int list = -1;
  int deaths = -1;

  State() {
    if (const char* at = getenv("GEAR_CRASH_AT")) last = strtoull(at, nullptr, 10);
    list = open_list("GEAR_CRASH_LIST");
    deaths = open_list("GEAR_CRASH_DEATHS");
  }
  static int open_list(const char* variable) {
    const char* path = getenv(variable);
    return path != nullptr ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  }
};

State& state() {
  static State* all = new State;  // never destroyed: threads may store until the end
  return *all;
}

// From the source tree's root, however the compiler was called.
std::string name_of(const Place& place) {
  std::string_view file = place.second;
  size_t root = file.rfind("lib/");
  for (size_t at = root; at != std::string_view::npos && at > 0; at = file.rfind("lib/", at - 1)) {
    if (file[at - 1] == '/') root = at;
  }
  if (root != std::string_view::npos) file.remove_prefix(root);
  return std::string(file) + ":" + std::to_string(place.first);
}

void append_to(int list, const std::string& line) {
  std::string text = line + "\n";
  if (list >= 0 && write(list, text.data(), text.size()) < 0) abort();
}

}  // namespace

void crash_point(const char* file, int line) {
  State& all = state();
  std::lock_guard<std::mutex> lock(all.mutex);
  Place place{line, file};
  bool fresh = ++all.visits[place] == 1;
  if (fresh && all.list >= 0) append_to(all.list, name_of(place));
  bool last = ++all.counted == all.last;
  if (all.last_visit > 0 && name_of(place) == all.last_place) last = --all.last_visit == 0;
  if (!last) return;
  append_to(all.deaths, name_of(place) + " " + program_invocation_short_name);
  _exit(kCrashStatus);
}

void crash_points_arm(uint64_t at) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().counted = 0;
  state().last = at;
  state().last_visit = 0;
}

void crash_points_arm_at(const std::string& place, uint64_t visit) {
  crash_points_arm(0);
  std::lock_guard<std::mutex> lock(state().mutex);
  state().last_place = place;
  state().last_visit = place.empty() ? 0 : visit;
}

uint64_t crash_points_counted() {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().counted;
}

std::map<std::string, uint64_t> crash_points_visits() {
  std::lock_guard<std::mutex> lock(state().mutex);
  std::map<std::string, uint64_t> named;
  for (const auto& [place, visits] : state().visits) named[name_of(place)] += visits;
  return named;
}

}  // namespace gear

#endif
