// Structs that cross the ABI: each begins with struct_size, and only ever grows at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/status.h"

namespace gear::client {

// Whether a caller's struct of `given_bytes` can be read as one that this library knows with
// `known_bytes`. Smaller is ESTRUCT: no version had it. Larger comes from a later gear.h: it is
// fine as long as what is not known here is all zero, ESTRUCT otherwise. `what` is the struct's
// name.
Status check_struct_in(const char* what, const void* given, uint32_t given_bytes,
                       size_t known_bytes);

// The same for a struct that the library fills: what is not known here is left alone.
Status check_struct_out(const char* what, uint32_t given_bytes, size_t known_bytes);

// Copies an option struct of any version. T is the newest, all of whose fields were in the first.
template <typename T>
Status read_struct(const char* what, const T* given, T* known) {
  GEAR_TRY(check_struct_in(what, given, given->struct_size, sizeof(T)));
  memcpy(known, given, sizeof(T));
  known->struct_size = sizeof(T);
  return {};
}

// Copies a struct to the caller's, whose struct_size stays.
template <typename T>
Status write_struct(const char* what, const T& known, T* given) {
  uint32_t given_bytes = given->struct_size;
  GEAR_TRY(check_struct_out(what, given_bytes, sizeof(T)));
  memcpy(given, &known, sizeof(T));
  given->struct_size = given_bytes;
  return {};
}

// Element `index` of an array of such structs, whose stride is the caller's size of them.
template <typename T>
const T* struct_at(const T* array, size_t index) {
  const char* base = reinterpret_cast<const char*>(array);
  return reinterpret_cast<const T*>(base + index * size_t{array->struct_size});
}

}  // namespace gear::client
