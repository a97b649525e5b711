// Handles of tables and endpoints, as text that anybody may have written.
#include <cstdlib>
#include <string>

#include "client/endpoint.h"
#include "fuzz/input.h"

namespace {

void must(bool holds) {
  if (!holds) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gear::client;
  std::string text(reinterpret_cast<const char*>(data), size);
  auto handle = decode_handle(text.c_str());
  if (handle.ok()) {
    must(encode_handle(handle.value()) == std::string(text.c_str()).substr(0, GEAR_HANDLE_BYTES));
    must(!abstract_name_of(handle.value().instance_id).empty());
  } else {
    must(handle.status().code() == GEAR_EHANDLE && !handle.status().text().empty());
  }
  auto endpoint = parse_endpoint(text.c_str());
  must(endpoint.ok() || !endpoint.status().text().empty());
  // As the environment gives it.
  setenv("GEAR_ENDPOINT", text.c_str(), 1);
  auto given = parse_endpoint(nullptr);
  must(text.c_str()[0] == '\0' ? given.ok() : given.ok() == endpoint.ok());
  // A sound one of any content, but for what encode_handle itself sets.
  gear::test::Input input(data, size);
  auto bytes = input.take<gear::layout::HandleBytes>();
  std::string sound = encode_handle(bytes);
  auto decoded = decode_handle(sound.c_str());
  must(decoded.ok() && decoded.value().instance_id == bytes.instance_id);
  must(parse_endpoint(("handle:" + sound).c_str()).ok());
  uint8_t place = input.byte() % GEAR_HANDLE_BYTES;
  char letter = static_cast<char>(input.byte());
  if (letter != '\0' && letter != sound[place]) {
    sound[place] = letter;
    must(!decode_handle(sound.c_str()).ok());
  }
  return 0;
}
