// Where a server is: endpoints, the user's default socket, and table handles.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "layout/control.h"

namespace gear::client {

struct Endpoint {
  enum class Kind {
    kPath,      // target: path of a socket file
    kAbstract,  // target: name of an abstract socket
    kEmbedded   // target: name of the server within this process, may be empty
  };
  Kind kind;
  std::string target;
};

// "unix:/path", "embedded:[name]", "handle:XXXX"; nullptr is $GEAR_ENDPOINT, else the user's
// default socket. Errors: EINVAL, EHANDLE.
Result<Endpoint> parse_endpoint(const char* text);

// $XDG_RUNTIME_DIR/gear/geard.sock; /run/gear/geard.sock for root and where the variable is not
// set.
std::string default_socket_path();

// The 64 letters of a handle (base64url) and the 48 bytes behind them. encode fills the checksum
// in; decode checks it. EHANDLE.
std::string encode_handle(layout::HandleBytes bytes);
Result<layout::HandleBytes> decode_handle(const char* text);

// Of the socket that each server listens at for those who hold a handle of it.
std::string abstract_name_of(uint64_t instance_id);

}  // namespace gear::client
