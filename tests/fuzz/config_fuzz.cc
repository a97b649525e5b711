// geard's configuration, and the short forms of columns, selectors, items and limiters that it shares with gearctl.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "common/quantity.h"
#include "geard/config.h"

namespace {

void must(bool holds) {
  if (!holds) abort();
}

// As geard reads it.
void read_as_file(const std::string& text, size_t faults) {
  using namespace gear::daemon;
  static const int file = memfd_create("fuzz", 0);
  must(ftruncate(file, 0) == 0 && pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  Config config;
  must(read_config("/proc/self/fd/" + std::to_string(file), &config).size() == faults);
  must(read_config("/proc/self/fd/none", &config).size() == 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gear::daemon;
  std::string text(reinterpret_cast<const char*>(data), size);
  Config config;
  const std::vector<ConfigFault> faults = read_config_text(text, &config);
  for (const ConfigFault& fault : faults) must(!format_fault("geard.toml", fault).empty());
  read_as_file(text, faults.size());
  for (const DeclaredTable& table : config.tables) must(table.bytes > 0);

  // Each line is one of the short forms, too.
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    auto column = parse_column(line);
    must(column.ok() || !column.fault_text().empty());
    if (column.ok()) {
      must(parse_dtype(format_dtype(column.value().dtype, column.value().element_bytes)).ok());
      must(!format_shape(column.value().shape).empty());
    }
    auto selector = parse_selector(line);
    must(selector.ok() || !selector.fault_text().empty());
    auto limiter = parse_limiter(line);
    if (limiter.ok()) must(!format_limiter(limiter.value()).empty());
    gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
    auto items = parse_items(line, options);
    if (items.ok()) {
      must(!format_items(items.value().item_policy, items.value().item_length, items.value().item_period).empty());
    }
    auto mode = parse_mode(line);
    must(!mode.ok() ? !mode.fault_text().empty() : parse_mode(format_mode(mode.value())).value() == mode.value());
    auto count = parse_count(line);
    must(!count.ok() ? !count.fault_text().empty() : !format_bytes(count.value()).empty());
    auto real = parse_real(line);
    if (real.ok()) must(parse_real(format_real(real.value())).value() == real.value());
    auto amount = parse_amount(line);
    if (!amount.ok()) must(!amount.fault_text().empty());
    auto duration = parse_duration_ns(line);
    must(!duration.ok() ? !duration.fault_text().empty() : !format_duration_ns(duration.value()).empty());
  }
  return 0;
}
