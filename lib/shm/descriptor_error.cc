#include "shm/descriptor_error.h"

#include <sys/resource.h>

#include <cerrno>

namespace gear {

Status descriptor_error(int errno_value, const std::string& what) {
  if (errno_value != EMFILE) return system_error(errno_value, what);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return error(
      GEAR_EMFILE,
      "%s: the descriptor table is full (EMFILE, RLIMIT_NOFILE is %llu); close descriptors, "
      "or raise it with ulimit -n",
      what.c_str(), static_cast<unsigned long long>(limit.rlim_cur));
}

}  // namespace gear
