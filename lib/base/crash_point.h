// Crash points: in a build with GEAR_CRASH_POINTS every store through publish() and note() can be the last thing that this
// process does. Tests only; without the definition nothing of it is there.
//
// GEAR_CRASH_AT=N: the process ends, with status kCrashStatus, right after the N-th such store (from 1). GEAR_CRASH_LIST=PATH:
// each place in the source that stores is appended there when it is first reached, as "lib/folder/file:line".
// GEAR_CRASH_DEATHS=PATH: so is each place that was a process's last, with the program's name, once a death.
#pragma once

#ifdef GEAR_CRASH_POINTS

#include <cstdint>
#include <map>
#include <string>

namespace gear {

inline constexpr int kCrashStatus = 99;

// After the store at this place. Any thread.
void crash_point(const char* file, int line);

// For tests that choose by themselves: counting begins anew, and the store number `at` is the last one; 0: none is.
void crash_points_arm(uint64_t at);
uint64_t crash_points_counted();
// The store at `place`, when it is made for the visit-th time (from 1), is the last one; "": none is.
void crash_points_arm_at(const std::string& place, uint64_t visit);
// Places reached in this process so far (and in those it was forked from), and how often.
std::map<std::string, uint64_t> crash_points_visits();

}  // namespace gear

#endif
