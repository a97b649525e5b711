#include "client/text.h"

#include <cstring>

#include "base/utf8.h"
#include "layout/directory.h"
#include "table/geometry.h"

namespace gear::client {

std::string duration_text(int64_t duration_ns) {
  if (duration_ns < 1'000) return format("%lld ns", static_cast<long long>(duration_ns));
  auto ns = static_cast<double>(duration_ns);
  if (duration_ns < 1'000'000) return format("%.4g us", ns * 1e-3);
  if (duration_ns < 1'000'000'000) return format("%.4g ms", ns * 1e-6);
  return format("%.4g s", ns * 1e-9);
}

std::string shape_text(uint32_t dtype, uint32_t element_bytes, uint32_t rank,
                       const int64_t* shape) {
  std::string text;
  if (dtype == GEAR_BYTES) {
    text = format("bytes(%u)", element_bytes);
  } else if (dtype >= GEAR_BOOL && dtype < GEAR_BYTES) {
    text = dtype_name(dtype);
  } else {
    text = format("dtype %u", dtype);
  }
  if (rank > layout::kRankMax || (rank > 0 && shape == nullptr))
    return text + format(" of rank %u", rank);
  text += " [";
  for (uint32_t axis = 0; axis < rank; ++axis) {
    text += format("%s%lld", axis > 0 ? "," : "", static_cast<long long>(shape[axis]));
  }
  return text + "]";
}

Status check_name(const char* what, const char* name) {
  if (name == nullptr) {
    return error(GEAR_EINVAL, "%s is NULL; give a name of 1 to %u bytes", what,
                 layout::kNameBytesMax);
  }
  size_t bytes = strnlen(name, layout::kNameBytesMax + 1);
  if (bytes == 0) {
    return error(GEAR_ENAME, "%s is empty; give 1 to %u bytes", what, layout::kNameBytesMax);
  }
  if (bytes > layout::kNameBytesMax) {
    return error(GEAR_ENAME, "%s \"%.32s...\" has more than %u bytes; give a shorter one", what,
                 name, layout::kNameBytesMax);
  }
  if (!valid_utf8(name, bytes)) {
    return error(GEAR_ENAME, "%s of %zu bytes is not UTF-8; give it in UTF-8", what, bytes);
  }
  return {};
}

Status check_group_name(const char* name) {
  GEAR_TRY(check_name("group", name));
  if (strlen(name) <= layout::kGroupNameBytesMax) return {};
  return error(GEAR_ENAME, "group \"%s\" has %zu bytes; give at most %u", name, strlen(name),
               layout::kGroupNameBytesMax);
}

}  // namespace gear::client
