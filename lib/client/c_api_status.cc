// gear.h, section 1: version, status, last error; and the log.

#include "base/log.h"
#include "client/c_api.h"

namespace gear::client {

Status need(const void* pointer, const char* function, const char* name) {
  if (pointer != nullptr) return {};
  return error(GEAR_EINVAL, "%s: %s is NULL; give a pointer", function, name);
}

}  // namespace gear::client

#define GEAR_TEXT_OF(number) GEAR_TEXT_OF_EXPANDED(number)
#define GEAR_TEXT_OF_EXPANDED(number) #number

uint32_t gear_version(void) {
  return GEAR_VERSION_MAJOR << 16 | GEAR_VERSION_MINOR << 8 | GEAR_VERSION_PATCH;
}

const char* gear_version_string(void) {
  return GEAR_TEXT_OF(GEAR_VERSION_MAJOR) "." GEAR_TEXT_OF(GEAR_VERSION_MINOR) "." GEAR_TEXT_OF(
      GEAR_VERSION_PATCH);
}

const char* gear_status_string(int status) {
#define GEAR_STATUS_CASE(name) \
  case name:                   \
    return #name
  switch (status) {
    GEAR_STATUS_CASE(GEAR_OK);
    GEAR_STATUS_CASE(GEAR_EINVAL);
    GEAR_STATUS_CASE(GEAR_ESTRUCT);
    GEAR_STATUS_CASE(GEAR_ENAME);
    GEAR_STATUS_CASE(GEAR_EDUPLICATE);
    GEAR_STATUS_CASE(GEAR_ENOCOLUMN);
    GEAR_STATUS_CASE(GEAR_EDTYPE);
    GEAR_STATUS_CASE(GEAR_ESHAPE);
    GEAR_STATUS_CASE(GEAR_ECOUNT);
    GEAR_STATUS_CASE(GEAR_EPRIORITY);
    GEAR_STATUS_CASE(GEAR_EWINDOW);
    GEAR_STATUS_CASE(GEAR_ELANE);
    GEAR_STATUS_CASE(GEAR_ESIZE);
    GEAR_STATUS_CASE(GEAR_EHANDLE);
    GEAR_STATUS_CASE(GEAR_ECONFIG);
    GEAR_STATUS_CASE(GEAR_ENOTFOUND);
    GEAR_STATUS_CASE(GEAR_EEXISTS);
    GEAR_STATUS_CASE(GEAR_ECLOSED);
    GEAR_STATUS_CASE(GEAR_EDROPPED);
    GEAR_STATUS_CASE(GEAR_ESTALE);
    GEAR_STATUS_CASE(GEAR_ESTATE);
    GEAR_STATUS_CASE(GEAR_EBUSY);
    GEAR_STATUS_CASE(GEAR_EEPOCH);
    GEAR_STATUS_CASE(GEAR_ENOMEM);
    GEAR_STATUS_CASE(GEAR_ENOSPC);
    GEAR_STATUS_CASE(GEAR_EMFILE);
    GEAR_STATUS_CASE(GEAR_ELIMIT);
    GEAR_STATUS_CASE(GEAR_EMEMLOCK);
    GEAR_STATUS_CASE(GEAR_ENOSERVER);
    GEAR_STATUS_CASE(GEAR_ENOTSOCKET);
    GEAR_STATUS_CASE(GEAR_ESTALESOCKET);
    GEAR_STATUS_CASE(GEAR_EVERSION);
    GEAR_STATUS_CASE(GEAR_EPROTOCOL);
    GEAR_STATUS_CASE(GEAR_EPERM);
    GEAR_STATUS_CASE(GEAR_EDISCONNECTED);
    GEAR_STATUS_CASE(GEAR_EADDRINUSE);
    GEAR_STATUS_CASE(GEAR_ETIMEDOUT);
    GEAR_STATUS_CASE(GEAR_EUNSUPPORTED);
    GEAR_STATUS_CASE(GEAR_ESYSTEM);
    GEAR_STATUS_CASE(GEAR_EINTERNAL);
    GEAR_STATUS_CASE(GEAR_ECORRUPT);
    default:
      return "unknown gear_status";
  }
#undef GEAR_STATUS_CASE
}

const char* gear_last_error(void) {
  return gear::client::last_error();
}

int gear_set_log(void (*log)(int level, const char* text, void* user), void* user) {
  return gear::client::guarded([&] {
    gear::set_log_sink(log, user);
    return gear::Status();
  });
}
