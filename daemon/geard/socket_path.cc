#include "geard/socket_path.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "client/endpoint.h"

namespace gear::daemon {

Result<std::string> prepare_socket_path(const std::string& wanted, mode_t mode) {
  std::error_code failure;
  const std::filesystem::path path =
      std::filesystem::absolute(wanted.empty() ? client::default_socket_path() : wanted, failure);
  if (failure) return error(GEAR_ESYSTEM, "the current directory: %s", failure.message().c_str());
  const std::string directory = path.parent_path();
  const char* remedy = wanted.empty()
                           ? "set XDG_RUNTIME_DIR to a directory of yours, or give --socket PATH"
                           : "make the directory, or give another --socket PATH";
  if (mkdir(directory.c_str(), mode) != 0 && errno != EEXIST) {
    const int reason = errno;
    return error(reason == EACCES || reason == EPERM ? GEAR_EPERM : GEAR_ECONFIG,
                 "make the directory \"%s\" for the socket: %s; %s", directory.c_str(),
                 strerror(reason), remedy);
  }
  return path.string();
}

}  // namespace gear::daemon
