#include "common/column_spec.h"

#include <charconv>

#include "common/names.h"
#include "gear.h"

namespace gear::daemon {
namespace {

constexpr char kForm[] =
    "give name:dtype[:shape][:episode], or [:optional] at its end, such as reward:f32 or "
    "obs:u8:84x84x4";

// Takes the last part off `text` and returns it; "" and false where no colon is left.
bool take_last(std::string* text, std::string* part) {
  const size_t colon = text->rfind(':');
  if (colon == std::string::npos) return false;
  *part = text->substr(colon + 1);
  text->erase(colon);
  return true;
}

template <typename Integer>
bool read_integer(const std::string& text, Integer* value) {
  const char* end = text.data() + text.size();
  const auto [next, failure] = std::from_chars(text.data(), end, *value);
  return failure == std::errc() && next == end && !text.empty();
}

}  // namespace

Parsed<ColumnSpec> parse_dtype(const std::string& text) {
  ColumnSpec column;
  if (text.rfind("bytes", 0) == 0 && text != "bytes") {
    if (!read_integer(text.substr(5), &column.element_bytes) || column.element_bytes == 0) {
      return Fault{"dtype \"" + text + "\": give the bytes an element after \"bytes\", as bytes16"};
    }
    column.dtype = GEAR_BYTES;
    return column;
  }
  if (text == "bytes") {
    return Fault{"dtype \"bytes\" needs the bytes an element, as bytes16"};
  }
  const Parsed<uint32_t> dtype = value_of(dtype_names(), text);
  if (!dtype.ok()) return Fault{"dtype " + dtype.fault_text()};
  column.dtype = dtype.value();
  return column;
}

Parsed<std::vector<int64_t>> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  if (text.empty()) return shape;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('x', begin), text.size());
    int64_t extent = 0;
    if (!read_integer(text.substr(begin, end - begin), &extent) || extent < 1) {
      return Fault{"shape \"" + text +
                   "\" is not extents of at least 1 joined by x, such as 84x84x4"};
    }
    shape.push_back(extent);
    begin = end + 1;
  }
  if (shape.size() > GEAR_RANK_MAX) {
    return Fault{"shape \"" + text + "\" has rank " + std::to_string(shape.size()) + "; at most " +
                 std::to_string(GEAR_RANK_MAX)};
  }
  return shape;
}

Parsed<ColumnSpec> parse_column(const std::string& text) {
  const Fault form{"column \"" + text + "\": " + kForm};
  std::string name = text;
  std::string part;
  if (!take_last(&name, &part)) return form;
  bool per_episode = false;
  bool optional = false;
  while (part == "episode" || part == "optional") {
    (part == "episode" ? per_episode : optional) = true;
    if (!take_last(&name, &part)) return form;
  }
  if (per_episode && optional) {
    return Fault{"column \"" + text + "\": " + kPerEpisodeOrOptional};
  }

  std::string shape_text;
  Parsed<ColumnSpec> dtype = parse_dtype(part);
  // What is no dtype may be a shape with the dtype before it.
  if (!dtype.ok() && (part.empty() || (part[0] >= '0' && part[0] <= '9') || part[0] == '-')) {
    shape_text = part;
    if (shape_text.empty()) return form;
    if (!take_last(&name, &part)) return form;
    dtype = parse_dtype(part);
  }
  if (!dtype.ok()) return Fault{"column \"" + text + "\": " + dtype.fault_text()};
  const Parsed<std::vector<int64_t>> shape = parse_shape(shape_text);
  if (!shape.ok()) return Fault{"column \"" + text + "\": " + shape.fault_text()};
  if (name.empty()) return form;

  ColumnSpec column = dtype.value();
  column.name = name;
  column.shape = shape.value();
  column.per_episode = per_episode;
  column.optional = optional;
  return column;
}

std::string format_dtype(uint32_t dtype, uint32_t element_bytes) {
  std::string name = name_of(dtype_names(), dtype);
  if (dtype == GEAR_BYTES) name += std::to_string(element_bytes);
  return name;
}

std::string format_shape(const std::vector<int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

}  // namespace gear::daemon
