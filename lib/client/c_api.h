// The edge of the library: what every function of gear.h does around its call.
#pragma once

#include <cstring>
#include <new>
#include <vector>

#include "base/status.h"
#include "client/client.h"
#include "client/handle.h"
#include "client/last_error.h"
#include "client/sampler.h"
#include "client/table.h"
#include "client/writer.h"
#include "gear.h"

namespace gear::client {

// Runs the body of a function of gear.h, which returns a Status: keeps a failure's text, and lets
// no exception out.
template <typename Body>
int guarded(const Body& body) noexcept {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report_exception(GEAR_ENOMEM);
  } catch (...) {
    return report_exception(GEAR_EINTERNAL);
  }
}

// EINVAL when the pointer, called `name` in gear.h, is NULL.
Status need(const void* pointer, const char* function, const char* name);

// Calls name(i, user) for each of a reply's names, which are NUL-terminated, the last one perhaps not.
inline void tell_names(std::vector<char>& names, void (*name)(const char* name, void* user),
                       void* user) {
  names.push_back('\0');
  for (size_t at = 0; at + 1 < names.size(); at += strlen(&names[at]) + 1) name(&names[at], user);
}

// The objects behind the opaque pointers.
inline Client* behind(gear_client* handle) {
  return reinterpret_cast<Client*>(handle);
}
inline Table* behind(gear_table* handle) {
  return reinterpret_cast<Table*>(handle);
}
inline const Table* behind(const gear_table* handle) {
  return reinterpret_cast<const Table*>(handle);
}
inline Writer* behind(gear_writer* handle) {
  return reinterpret_cast<Writer*>(handle);
}
inline Sampler* behind(gear_sampler* handle) {
  return reinterpret_cast<Sampler*>(handle);
}
inline const Sampler* behind(const gear_sampler* handle) {
  return reinterpret_cast<const Sampler*>(handle);
}

// Before a writer or sampler is closed: its calls under way, of other threads, end with ECLOSED and are waited for. Errors:
// EINVAL where another thread closes it, EBUSY when a call did not return in request_timeout_ns: it is not closed then.
template <typename T>
Status end_calls_on(T& handle) {
  if (!handle.begin_close()) return unusable_handle(T::kNoun, false);
  handle.refuse_calls();
  handle.end_waits();
  int64_t patience_ns = handle.table().session().request_timeout_ns();
  if (handle.await_calls(deadline_after(patience_ns))) return {};
  handle.cancel_close();
  return calls_remain(T::kNoun, patience_ns);
}

}  // namespace gear::client
