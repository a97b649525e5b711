// Structs that cross the ABI: each begins with struct_size, and only ever grows at its end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/status.h"
#include "gear.h"

namespace gear::client {

// Whether a caller's struct of `given_bytes` can be read as one that this library knows with
// `known_bytes`, and whose first version had `first_bytes`. Smaller than that is ESTRUCT: no version
// had it. Larger than known comes from a later gear.h: it is fine as long as what is not known here is
// all zero, ESTRUCT otherwise. `what` is the struct's name.
Status check_struct_in(const char* what, const void* given, uint32_t given_bytes,
                       size_t first_bytes, size_t known_bytes);

// The same for a struct that the library fills: what is not known here is left alone.
Status check_struct_out(const char* what, uint32_t given_bytes, size_t first_bytes,
                        size_t known_bytes);

// What the first version of a struct had: to the first field that was added since, or all of it.
template <typename T>
inline constexpr size_t kFirstBytes = sizeof(T);
template <>
inline constexpr size_t kFirstBytes<gear_connect_options> = offsetof(gear_connect_options, reconnect_timeout_ns);
template <>
inline constexpr size_t kFirstBytes<gear_table_options> = offsetof(gear_table_options, selectors);
template <>
inline constexpr size_t kFirstBytes<gear_writer_options> = offsetof(gear_writer_options, lane_names);
template <>
inline constexpr size_t kFirstBytes<gear_sampler_options> = offsetof(gear_sampler_options, selector);
template <>
inline constexpr size_t kFirstBytes<gear_window> = offsetof(gear_window, compute);
template <>
inline constexpr size_t kFirstBytes<gear_tensor> = offsetof(gear_tensor, loss_mask);
template <>
inline constexpr size_t kFirstBytes<gear_table_info> = offsetof(gear_table_info, capacity_bytes);
template <>
inline constexpr size_t kFirstBytes<gear_table_stats> = offsetof(gear_table_stats, bytes);

// Whether write_struct will do.
template <typename T>
Status check_writable(const char* what, const T* given) {
  return check_struct_out(what, given->struct_size, kFirstBytes<T>, sizeof(T));
}

// Copies an option struct of any version; fields that the caller's version lacks are zero, their default.
template <typename T>
Status read_struct(const char* what, const T* given, T* known) {
  GEAR_TRY(check_struct_in(what, given, given->struct_size, kFirstBytes<T>, sizeof(T)));
  memset(static_cast<void*>(known), 0, sizeof(T));
  memcpy(static_cast<void*>(known), given, std::min<size_t>(given->struct_size, sizeof(T)));
  known->struct_size = sizeof(T);
  return {};
}

// Copies a struct to the caller's, as much as that has room for; its struct_size stays.
template <typename T>
Status write_struct(const char* what, const T& known, T* given) {
  uint32_t given_bytes = given->struct_size;
  GEAR_TRY(check_struct_out(what, given_bytes, kFirstBytes<T>, sizeof(T)));
  memcpy(static_cast<void*>(given), &known, std::min<size_t>(given_bytes, sizeof(T)));
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
