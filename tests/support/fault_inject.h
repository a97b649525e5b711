// System calls that fail on demand: the N-th call of a function, counted from arming, in one process. The functions of libc
// named below are replaced in a test that includes this; nothing else is changed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace gear::test {

struct FaultyCall {
  const char* name;
  int errno_value;  // what it then says
};

// All that can fail.
const std::vector<FaultyCall>& faulty_calls();

// From here on calls [number, number + times) of the function, counted from 1, fail in that process; 0: none does, calls are
// only counted. The order is seen by processes forked after the first use of this file.
void arm_fault(pid_t process, const char* function, unsigned number, unsigned times = 1);
// Ends it. Returns how many calls there were since arming.
unsigned disarm_fault();

}  // namespace gear::test
