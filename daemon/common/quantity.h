// Counts and durations as people write them, and counts, sizes and durations as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "common/parsed.h"

namespace gear::daemon {

// "250000", "250_000", "100k", "1M", "2G" (powers of 1000) or "64Ki", "1Mi", "2Gi" (of 1024).
Parsed<uint64_t> parse_count(const std::string& text);

// A number and a unit out of ns us ms s min h, as "20us", "1.5 s", "2min"; "0" needs no unit. In
// ns.
Parsed<int64_t> parse_duration_ns(const std::string& text);

// A finite number, as "0.6" or "1e-3".
Parsed<double> parse_real(const std::string& text);

// A finite number, or a count with a suffix, as "2.5" or "10k".
Parsed<double> parse_amount(const std::string& text);

std::string format_bytes(uint64_t bytes);              // "64.0 MiB"
std::string format_duration_ns(uint64_t duration_ns);  // "3 min 5 s"
std::string format_real(double value);                 // shortest text that reads back the same

}  // namespace gear::daemon
