// Errors of calls that make descriptors.
#pragma once

#include <string>

#include "base/status.h"

namespace gear {

// As system_error, but EMFILE names the limit and how to raise it.
Status descriptor_error(int errno_value, const std::string& what);

}  // namespace gear
