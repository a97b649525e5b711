#include "client/options.h"

#include <algorithm>

namespace gear::client {
namespace {

// No later version grows a struct by more; beyond it struct_size was never initialised, and is not
// read by.
constexpr size_t kGrowthMax = 512;

Status refused(const char* what, uint32_t given_bytes, size_t known_bytes, const char* why) {
  return error(
      GEAR_ESTRUCT,
      "%s: struct_size is %u, this library knows %zu bytes%s; initialise it with its _INIT "
      "macro",
      what, given_bytes, known_bytes, why);
}

}  // namespace

Status check_struct_in(const char* what, const void* given, uint32_t given_bytes,
                       size_t first_bytes, size_t known_bytes) {
  if (given_bytes < first_bytes || given_bytes > known_bytes + kGrowthMax) {
    return refused(what, given_bytes, known_bytes, "");
  }
  if (given_bytes <= known_bytes) return {};
  const char* bytes = static_cast<const char*>(given);
  bool unknown_asked =
      std::any_of(bytes + known_bytes, bytes + given_bytes, [](char byte) { return byte != 0; });
  if (unknown_asked) {
    return refused(what, given_bytes, known_bytes, " and a field beyond them is set");
  }
  return {};
}

Status check_struct_out(const char* what, uint32_t given_bytes, size_t first_bytes,
                        size_t known_bytes) {
  if (given_bytes < first_bytes || given_bytes > known_bytes + kGrowthMax) {
    return refused(what, given_bytes, known_bytes, "");
  }
  return {};
}

}  // namespace gear::client
