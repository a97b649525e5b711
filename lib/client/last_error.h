// The text behind gear_last_error.
#pragma once

#include "base/status.h"

namespace gear::client {

// Keeps a failure's text for the calling thread and returns its code. Success changes nothing.
// Never throws.
int report(const Status& status) noexcept;

// The same for a failure that has no Status: an exception that ends here.
int report_exception(int code) noexcept;

// This thread's latest failure; "" when there was none.
const char* last_error() noexcept;

}  // namespace gear::client
