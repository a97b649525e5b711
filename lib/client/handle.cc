#include "client/handle.h"

namespace gear::client {

Status unusable_handle(const char* noun, bool recognised) {
  if (recognised) {
    return error(
        GEAR_ESTATE,
        "this %s was opened before fork and belongs to the parent process; connect anew in "
        "the child, and attach by the table's handle",
        noun);
  }
  return error(GEAR_EINVAL,
               "%s is NULL, closed, or no %s of this library; give one that an open call returned",
               noun, noun);
}

}  // namespace gear::client
