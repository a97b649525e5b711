#include "common/quantity.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace gear::daemon {
namespace {

struct Unit {
  const char* name;
  double ns;
};
constexpr Unit kDurations[] = {{"ns", 1},  {"us", 1e3},   {"ms", 1e6},
                               {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};

struct Multiple {
  const char* name;
  uint64_t factor;
};
constexpr Multiple kMultiples[] = {{"", 1},
                                   {"k", 1000},
                                   {"M", 1000 * 1000},
                                   {"Ki", 1ull << 10},
                                   {"Mi", 1ull << 20},
                                   {"G", 1000ull * 1000 * 1000},
                                   {"Gi", 1ull << 30}};

// Splits "1.5 s" into the number and what follows it, without the spaces between.
bool split_number(const std::string& text, double* number, std::string* rest) {
  const char* end = text.data() + text.size();
  auto [next, failure] = std::from_chars(text.data(), end, *number);
  if (failure != std::errc() || !std::isfinite(*number)) return false;
  while (next != end && *next == ' ') ++next;
  rest->assign(next, end);
  return true;
}

}  // namespace

Parsed<uint64_t> parse_count(const std::string& text) {
  const Fault fault{"\"" + text +
                    "\" is not a count; give a whole number such as 250000, 100k, 1M or 64Ki"};
  uint64_t count = 0;
  size_t digits = 0;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    if (text[i] == '_' && digits != 0) continue;
    if (text[i] < '0' || text[i] > '9') break;
    if (__builtin_mul_overflow(count, 10u, &count) ||
        __builtin_add_overflow(count, static_cast<uint64_t>(text[i] - '0'), &count)) {
      return Fault{"\"" + text + "\" is over 2^64 - 1"};
    }
    ++digits;
  }
  if (digits == 0 || text[i - 1] == '_') return fault;
  const std::string suffix = text.substr(i);
  for (const Multiple& multiple : kMultiples) {
    if (suffix != multiple.name) continue;
    if (__builtin_mul_overflow(count, multiple.factor, &count)) {
      return Fault{"\"" + text + "\" is over 2^64 - 1"};
    }
    return count;
  }
  return fault;
}

Parsed<int64_t> parse_duration_ns(const std::string& text) {
  const Fault fault{"\"" + text +
                    "\" is not a duration; give a number and a unit out of ns us ms s min h, "
                    "such as 20us or 60s"};
  double number = 0;
  std::string rest;
  if (!split_number(text, &number, &rest) || std::signbit(number)) return fault;
  if (rest.empty()) {
    if (number == 0) return int64_t{0};
    return fault;
  }
  for (const Unit& unit : kDurations) {
    if (rest != unit.name) continue;
    const double ns = std::round(number * unit.ns);
    if (ns >= 0x1p63) return Fault{"\"" + text + "\" is over 292 years"};
    return static_cast<int64_t>(ns);
  }
  return fault;
}

Parsed<double> parse_real(const std::string& text) {
  double number = 0;
  std::string rest;
  if (!split_number(text, &number, &rest) || !rest.empty()) {
    return Fault{"\"" + text + "\" is not a finite number"};
  }
  return number;
}

Parsed<double> parse_amount(const std::string& text) {
  const Parsed<double> real = parse_real(text);
  if (real.ok()) return real;
  const Parsed<uint64_t> count = parse_count(text);
  if (count.ok()) return static_cast<double>(count.value());
  return Fault{"\"" + text +
               "\" is neither a finite number nor a count; give one such as 2.5 or 10k"};
}

std::string format_bytes(uint64_t bytes) {
  static const char* const kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  char text[32];
  if (bytes < 1024) {
    snprintf(text, sizeof text, "%llu B", static_cast<unsigned long long>(bytes));
    return text;
  }
  double amount = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would print as 1024.0.
  for (; amount >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  snprintf(text, sizeof text, "%.1f %s", amount, kUnits[unit]);
  return text;
}

std::string format_duration_ns(uint64_t duration_ns) {
  const unsigned long long seconds = duration_ns / 1'000'000'000;
  char text[48];
  if (seconds < 60) {
    snprintf(text, sizeof text, "%.1f s", static_cast<double>(duration_ns) / 1e9);
  } else if (seconds < 3600) {
    snprintf(text, sizeof text, "%llu min %llu s", seconds / 60, seconds % 60);
  } else if (seconds < 86400) {
    snprintf(text, sizeof text, "%llu h %llu min", seconds / 3600, seconds / 60 % 60);
  } else {
    snprintf(text, sizeof text, "%llu d %llu h", seconds / 86400, seconds / 3600 % 24);
  }
  return text;
}

std::string format_real(double value) {
  char text[64];
  const auto result = std::to_chars(text, text + sizeof text, value);
  return {text, result.ptr};
}

}  // namespace gear::daemon
