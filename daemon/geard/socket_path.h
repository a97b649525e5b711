// Where geard listens, and the directory that must be there for it.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace gear::daemon {

// `wanted`, absolute; where it is empty, the place where clients look by default. Makes the
// directory it lies in, of that mode, if that alone is missing.
Result<std::string> prepare_socket_path(const std::string& wanted, mode_t mode);

}  // namespace gear::daemon
