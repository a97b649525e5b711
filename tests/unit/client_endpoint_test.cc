// Endpoints and table handles: what is understood, and how the rest is refused.
#include "client/endpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace gear::client {
namespace {

void expect_refused(const char* text, int code, const char* word) {
  Result<Endpoint> endpoint = parse_endpoint(text);
  ASSERT_FALSE(endpoint.ok()) << text;
  EXPECT_EQ(endpoint.status().code(), code) << endpoint.status().text();
  EXPECT_NE(endpoint.status().text().find(word), std::string::npos) << endpoint.status().text();
  EXPECT_NE(endpoint.status().text().find("; "), std::string::npos) << endpoint.status().text();
}

void expect_endpoint(const char* text, Endpoint::Kind kind, const std::string& target) {
  Result<Endpoint> endpoint = parse_endpoint(text);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status().text();
  EXPECT_EQ(endpoint.value().kind, kind);
  EXPECT_EQ(endpoint.value().target, target);
}

layout::HandleBytes some_handle() {
  layout::HandleBytes handle{};
  handle.instance_id = 0x0123456789abcdefu;
  handle.table_id = 42;
  for (uint8_t i = 0; i < sizeof handle.secret; ++i)
    handle.secret[i] = static_cast<uint8_t>(251 - i);
  return handle;
}

TEST(Endpoint, OfAPathIsThePath) {
  expect_endpoint("unix:/run/x.sock", Endpoint::Kind::kPath, "/run/x.sock");
}

TEST(Endpoint, OfAnEmbeddedServerIsItsNameWhichMayBeEmpty) {
  expect_endpoint("embedded:", Endpoint::Kind::kEmbedded, "");
  expect_endpoint("embedded:two words", Endpoint::Kind::kEmbedded, "two words");
}

TEST(Endpoint, OfAHandleIsTheSocketOfItsServer) {
  std::string text = "handle:" + encode_handle(some_handle());
  expect_endpoint(text.c_str(), Endpoint::Kind::kAbstract, "gear/0123456789abcdef");
}

TEST(Endpoint, WithoutTextIsThatOfTheEnvironment) {
  setenv("GEAR_ENDPOINT", "embedded:named", 1);
  expect_endpoint(nullptr, Endpoint::Kind::kEmbedded, "named");
  unsetenv("GEAR_ENDPOINT");
}

TEST(Endpoint, WithoutTextAndEnvironmentIsTheUsersSocket) {
  setenv("GEAR_ENDPOINT", "", 1);
  setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  const char* wanted = geteuid() == 0 ? "/run/gear/geard.sock" : "/run/user/7/gear/geard.sock";
  expect_endpoint(nullptr, Endpoint::Kind::kPath, wanted);
  unsetenv("XDG_RUNTIME_DIR");
  expect_endpoint(nullptr, Endpoint::Kind::kPath, "/run/gear/geard.sock");
}

TEST(Endpoint, OfNoKnownKindIsRefusedByItsText) {
  expect_refused("", GEAR_EINVAL, "endpoint");
  expect_refused("tcp:host:1", GEAR_EINVAL, "tcp:host:1");
  expect_refused("unix", GEAR_EINVAL, "unix");
  expect_refused("unix:", GEAR_EINVAL, "unix:");
}

TEST(Endpoint, OfAPathThatNoSocketCanHaveIsRefusedWithBothLengths) {
  expect_endpoint(("unix:" + std::string(107, 'p')).c_str(), Endpoint::Kind::kPath,
                  std::string(107, 'p'));
  expect_refused(("unix:" + std::string(108, 'p')).c_str(), GEAR_EINVAL, "108");
}

TEST(Endpoint, OfAnEmbeddedNameOfMoreThan255BytesIsRefused) {
  expect_refused(("embedded:" + std::string(256, 'n')).c_str(), GEAR_EINVAL, "256");
}

TEST(TableHandle, ComesBackAsItWas) {
  layout::HandleBytes given = some_handle();
  std::string text = encode_handle(given);
  EXPECT_EQ(text.size(), size_t{GEAR_HANDLE_BYTES});
  Result<layout::HandleBytes> found = decode_handle(text.c_str());
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found.value().instance_id, given.instance_id);
  EXPECT_EQ(found.value().table_id, given.table_id);
  EXPECT_EQ(memcmp(found.value().secret, given.secret, sizeof given.secret), 0);
}

TEST(TableHandle, WithAnyLetterChangedIsNone) {
  std::string right = encode_handle(some_handle());
  for (size_t at = 0; at < right.size(); ++at) {
    for (char letter : {'A', '_', '=', '\x80'}) {
      std::string wrong = right;
      if (wrong[at] == letter) continue;
      wrong[at] = letter;
      EXPECT_EQ(decode_handle(wrong.c_str()).status().code(), GEAR_EHANDLE) << at << letter;
    }
  }
}

TEST(TableHandle, OfAnotherLengthIsNone) {
  std::string right = encode_handle(some_handle());
  EXPECT_EQ(decode_handle("").status().code(), GEAR_EHANDLE);
  EXPECT_EQ(decode_handle(right.substr(1).c_str()).status().code(), GEAR_EHANDLE);
  EXPECT_EQ(decode_handle((right + "A").c_str()).status().code(), GEAR_EHANDLE);
}

}  // namespace
}  // namespace gear::client
