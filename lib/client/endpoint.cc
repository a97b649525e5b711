#include "client/endpoint.h"

#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "client/text.h"

namespace gear::client {
namespace {

using layout::HandleBytes;

constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr size_t kHandleLetters = GEAR_HANDLE_BYTES;
constexpr size_t kEmbeddedNameBytesMax = 255;
static_assert(sizeof(HandleBytes) * 8 == kHandleLetters * 6);

// FNV-1a.
uint64_t checksum_of(const HandleBytes& handle) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&handle);
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < offsetof(HandleBytes, checksum); ++i) {
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  }
  return hash;
}

Status not_a_handle(const char* reason) {
  return error(GEAR_EHANDLE,
               "table handle %s; give the 64 letters that gear_table_handle wrote, unchanged",
               reason);
}

Result<Endpoint> parse_path(const std::string& path) {
  constexpr size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;
  if (path.empty()) {
    return error(GEAR_EINVAL, "endpoint \"unix:\" names no path; give unix:/path/of/geard.sock");
  }
  if (path.size() > kPathBytesMax) {
    return error(
        GEAR_EINVAL,
        "endpoint \"unix:%.40s...\": a path of %zu bytes, sockets allow %zu; give a shorter "
        "path",
        path.c_str(), path.size(), kPathBytesMax);
  }
  return Endpoint{Endpoint::Kind::kPath, path};
}

Result<Endpoint> parse_handle(const char* text) {
  Result<HandleBytes> handle = decode_handle(text);
  if (!handle.ok()) return handle.status();
  return Endpoint{Endpoint::Kind::kAbstract, abstract_name_of(handle.value().instance_id)};
}

Result<Endpoint> parse_embedded(const std::string& name) {
  if (name.size() > kEmbeddedNameBytesMax) {
    return error(GEAR_EINVAL,
                 "endpoint \"embedded:%.40s...\": a name of %zu bytes; give at most %zu",
                 name.c_str(), name.size(), kEmbeddedNameBytesMax);
  }
  return Endpoint{Endpoint::Kind::kEmbedded, name};
}

// The rest of the text after a scheme, or nullptr.
const char* after(const char* scheme, const char* text) {
  size_t length = strlen(scheme);
  return strncmp(text, scheme, length) == 0 ? text + length : nullptr;
}

const char* set_and_not_empty(const char* variable) {
  const char* value = getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

Result<Endpoint> parse_endpoint(const char* text) {
  if (text == nullptr) text = set_and_not_empty("GEAR_ENDPOINT");
  if (text == nullptr) return parse_path(default_socket_path());
  if (const char* path = after("unix:", text)) return parse_path(path);
  if (const char* name = after("embedded:", text)) return parse_embedded(name);
  if (const char* handle = after("handle:", text)) return parse_handle(handle);
  return error(
      GEAR_EINVAL,
      "endpoint \"%.200s\" is of no known kind; give unix:/path, embedded:, embedded:name or "
      "handle:XXXX",
      text);
}

std::string default_socket_path() {
  const char* runtime = geteuid() != 0 ? set_and_not_empty("XDG_RUNTIME_DIR") : nullptr;
  return std::string(runtime != nullptr ? runtime : "/run") + "/gear/geard.sock";
}

std::string encode_handle(HandleBytes handle) {
  handle.magic = layout::kHandleMagic;
  handle.version = layout::kControlVersion;
  handle.checksum = checksum_of(handle);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&handle);
  std::string text;
  for (size_t i = 0; i < sizeof handle; i += 3) {
    uint32_t group = uint32_t{bytes[i]} << 16 | uint32_t{bytes[i + 1]} << 8 | bytes[i + 2];
    for (int shift = 18; shift >= 0; shift -= 6) text += kLetters[group >> shift & 63];
  }
  return text;
}

Result<HandleBytes> decode_handle(const char* text) {
  size_t length = strnlen(text, kHandleLetters + 1);
  if (length != kHandleLetters) {
    return not_a_handle(length > kHandleLetters
                            ? "has more than 64 letters"
                            : format("has %zu letters, not 64", length).c_str());
  }
  HandleBytes handle;
  auto* bytes = reinterpret_cast<uint8_t*>(&handle);
  for (size_t i = 0; i < kHandleLetters; i += 4) {
    uint32_t group = 0;
    for (size_t k = i; k < i + 4; ++k) {
      const char* letter = strchr(kLetters, text[k]);
      if (letter == nullptr) return not_a_handle("has a letter outside A-Z a-z 0-9 - _");
      group = group << 6 | static_cast<uint32_t>(letter - kLetters);
    }
    *bytes++ = static_cast<uint8_t>(group >> 16);
    *bytes++ = static_cast<uint8_t>(group >> 8);
    *bytes++ = static_cast<uint8_t>(group);
  }
  if (handle.magic != layout::kHandleMagic || handle.checksum != checksum_of(handle)) {
    return not_a_handle("is damaged (its checksum is wrong)");
  }
  if (handle.version != layout::kControlVersion) {
    return not_a_handle(
        format("is of version %u, this library knows %u", handle.version, layout::kControlVersion)
            .c_str());
  }
  return handle;
}

std::string abstract_name_of(uint64_t instance_id) {
  return format("gear/%016llx", static_cast<unsigned long long>(instance_id));
}

}  // namespace gear::client
