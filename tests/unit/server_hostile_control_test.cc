// Clients that break the control protocol: each is refused or cut off, with the reason in the log, while others go on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cmath>

#include "layout/fingerprint.h"
#include "support/watched_server.h"

namespace gear::test {
namespace {

using layout::ControlHeader;
using layout::ControlOp;

class HostileControl : public ::testing::Test {
 protected:
  void start(const std::function<void(ServerOptions*)>& change = nullptr) {
    server_ = std::make_unique<WatchedServer>(change);
    ASSERT_EQ(honest_.begin(server_->endpoint()), "");
  }
  std::string beside(const std::function<std::string()>& body) { return go_on_beside(*server_, honest_, body); }
  const std::string& endpoint() const { return server_->endpoint(); }

  // A well-formed header of a request without a body.
  static ControlHeader header(ControlOp op, uint32_t body_bytes = 0) {
    ControlHeader header{};
    header.magic = layout::kControlMagic;
    header.version = layout::kControlVersion;
    header.op = static_cast<uint16_t>(op);
    header.request_id = 7;
    header.body_bytes = body_bytes;
    return header;
  }

  // Greets, sends that message, and must then be cut off.
  std::string is_cut_off(const std::vector<char>& message, const std::vector<int>& descriptors = {}) {
    RawClient raw(endpoint());
    if (raw.hello().status != GEAR_OK) return "no hello";
    if (!raw.send_bytes(message.data(), message.size(), descriptors)) return "not sent";
    return raw.closed_by_server() ? "" : "not cut off";
  }
  static std::vector<char> bytes_of(const ControlHeader& header, size_t body_bytes = 0) {
    std::vector<char> message(sizeof header + body_bytes, 'B');
    memcpy(message.data(), &header, sizeof header);
    return message;
  }

  std::unique_ptr<WatchedServer> server_;
  HonestClient honest_;
};

TEST_F(HostileControl, CutsOffWhoSendsWhatIsNoMessage) {
  start();
  ControlHeader wrong_magic = header(ControlOp::kServerInfo);
  wrong_magic.magic ^= 1;
  ControlHeader wrong_version = header(ControlOp::kServerInfo);
  wrong_version.version += 1;
  ControlHeader claims_descriptors = header(ControlOp::kServerInfo);
  claims_descriptors.descriptor_count = 3;
  struct Case {
    const char* what;
    std::vector<char> message;
    const char* logged;
  };
  const Case cases[] = {
      {"one byte", {'x'}, "1 bytes"},
      {"less than a header", std::vector<char>(sizeof(ControlHeader) - 1, 'x'), "23 bytes"},
      {"wrong magic", bytes_of(wrong_magic), "magic"},
      {"wrong version", bytes_of(wrong_version), "version"},
      {"less body than told", bytes_of(header(ControlOp::kTableOpen, 256), 255), "255"},
      {"more body than told", bytes_of(header(ControlOp::kTableOpen, 256), 257), "257"},
      {"the largest number of bytes told", bytes_of(header(ControlOp::kTableOpen, UINT32_MAX), 8), "expelled"},
      {"more than any message has", bytes_of(header(ControlOp::kTableOpen, layout::kControlBytesMax + 1),
                                             layout::kControlBytesMax + 1), "expelled"},
      {"descriptors told and not sent", bytes_of(claims_descriptors), "0 descriptors came"}};
  for (const Case& one : cases) {
    EXPECT_EQ(beside([&] { return is_cut_off(one.message); }), "") << one.what;
    EXPECT_NE(server_->log().find(one.logged), std::string::npos) << one.what << ": " << server_->log();
  }
}

TEST_F(HostileControl, CutsOffWhoSendsDescriptorsAndKeepsNone) {
  start();
  ControlHeader one = header(ControlOp::kServerInfo);
  one.descriptor_count = 1;
  ControlHeader four = header(ControlOp::kServerInfo);
  four.descriptor_count = 4;
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(beside([&] { return is_cut_off(bytes_of(one), {fd}); }), "");
  EXPECT_EQ(beside([&] { return is_cut_off(bytes_of(four), {fd, fd, fd, fd}); }), "");
  EXPECT_EQ(beside([&] { return is_cut_off(bytes_of(header(ControlOp::kServerInfo)), {fd, fd}); }), "");
  EXPECT_EQ(beside([&] { return is_cut_off(bytes_of(four), std::vector<int>(200, fd)); }), "");
  EXPECT_NE(server_->log().find("sent descriptors, which no request has"), std::string::npos) << server_->log();
  close(fd);
}

TEST_F(HostileControl, AnswersRequestsOfAWrongSizeAndDoesNothing) {
  start();
  EXPECT_EQ(beside([&]() -> std::string {
    RawClient raw(endpoint());
    if (raw.ask(ControlOp::kServerInfo, nullptr, 0).status != GEAR_EPROTOCOL) return "served before hello";
    std::vector<char> body(layout::kControlBytesMax, 'A');
    if (raw.hello().status != GEAR_OK) return "no hello";
    for (uint16_t op = 0; op < 40; ++op) {
      auto which = static_cast<ControlOp>(op);
      // These have no body, or end the session.
      if (which == ControlOp::kTableList || which == ControlOp::kServerInfo || which == ControlOp::kGoodbye) continue;
      for (size_t bytes : {size_t{0}, size_t{1}, size_t{3000}, body.size()}) {
        RawReply reply = raw.ask(which, body.data(), bytes);
        if (reply.status != GEAR_EPROTOCOL) {
          return format("request %u of %zu bytes: %d %s", op, bytes, reply.status, reply.text.c_str());
        }
      }
    }
    return raw.ask(ControlOp::kServerInfo, nullptr, 0).status == GEAR_OK ? "" : "no longer served";
  }), "");
}

TEST_F(HostileControl, EndsNamesThatDoNotEnd) {
  start();
  EXPECT_EQ(beside([&]() -> std::string {
    RawClient raw(endpoint());
    layout::HelloRequest hello{};
    memset(&hello, 'N', sizeof hello);
    hello.layout_version = layout::kLayoutVersion;
    hello.fingerprint = layout::kLayoutFingerprint;
    hello.session = hello.channels = 0;
    if (raw.ask(ControlOp::kHello, hello).status != GEAR_OK) return "no hello";
    layout::TableNameRequest name{};
    memset(&name, 'N', sizeof name);
    RawReply reply = raw.ask(ControlOp::kTableOpen, name);
    if (reply.status != GEAR_ENOTFOUND || reply.text.size() > layout::kControlTextMax) return "open: " + reply.text;
    layout::GroupRequest group{};
    memset(&group, 'N', sizeof group);
    group.table_id = raw.open_table("t");
    reply = raw.ask(ControlOp::kGroupStats, group);
    if (reply.status != GEAR_ENOTFOUND) return "group: " + reply.text;
    return {};
  }), "");
}

TEST_F(HostileControl, RefusesTablesOfWildNumbers) {
  start();
  auto create = [&](const std::function<void(layout::TableCreateRequest*, layout::ColumnSpec*)>& spoil) -> int {
    RawClient raw(endpoint());
    raw.hello();
    std::vector<char> body(sizeof(layout::TableCreateRequest) + sizeof(layout::ColumnSpec));
    auto* request = reinterpret_cast<layout::TableCreateRequest*>(body.data());
    auto* column = reinterpret_cast<layout::ColumnSpec*>(request + 1);
    strcpy(request->name, "wild");
    request->capacity_items = 10;
    request->column_count = 1;
    request->numa_node = -1;
    strcpy(column->name, "x");
    column->dtype = GEAR_I64;
    spoil(request, column);
    return raw.ask(ControlOp::kTableCreate, body.data(), body.size()).status;
  };
  using Request = layout::TableCreateRequest;
  const std::vector<std::function<void(Request*, layout::ColumnSpec*)>> spoilers = {
      [](Request* r, layout::ColumnSpec*) { r->column_count = UINT32_MAX; },
      [](Request* r, layout::ColumnSpec*) { r->selector_count = UINT32_MAX; },
      [](Request* r, layout::ColumnSpec*) { r->capacity_items = UINT64_MAX; },
      [](Request* r, layout::ColumnSpec*) { r->capacity_steps = UINT64_MAX; },
      // 2^60 + 100 blocks, times 16 parts.
      [](Request* r, layout::ColumnSpec*) {
        r->capacity_steps = 1'117'984'489'315'730'485;
        r->block_steps = r->lanes_max = 1;
        r->payload_isolation = GEAR_ISOLATION_PER_WRITER;
        r->writers_max = 16;
      },
      [](Request* r, layout::ColumnSpec*) { r->lanes_max = UINT32_MAX; },
      [](Request* r, layout::ColumnSpec*) { r->sampler = 77; },
      [](Request* r, layout::ColumnSpec*) { r->item_policy = 77; },
      [](Request* r, layout::ColumnSpec*) { r->memory = 77; },
      [](Request* r, layout::ColumnSpec*) { r->mode = 01000; },
      [](Request* r, layout::ColumnSpec*) { r->window_before_max = UINT32_MAX - 1; },
      [](Request* r, layout::ColumnSpec*) { r->limiter.samples_per_insert = NAN; },
      [](Request* r, layout::ColumnSpec*) { r->priority_alpha = NAN; },
      [](Request*, layout::ColumnSpec* c) { memset(c->name, 0, sizeof c->name); },
      [](Request*, layout::ColumnSpec* c) { c->dtype = 77; },
      [](Request*, layout::ColumnSpec* c) { c->rank = UINT32_MAX; },
      [](Request*, layout::ColumnSpec* c) { c->rank = 8, std::fill(c->shape, c->shape + 8, INT64_MAX); },
      [](Request*, layout::ColumnSpec* c) { c->rank = 1, c->shape[0] = -5; },
      [](Request*, layout::ColumnSpec* c) { c->flags = UINT32_MAX; }};
  for (size_t i = 0; i < spoilers.size(); ++i) {
    EXPECT_EQ(beside([&] { return create(spoilers[i]) == GEAR_OK ? "created" : ""; }), "") << "case " << i;
  }
  // The request is right but for what was spoilt.
  EXPECT_EQ(beside([&]() -> std::string {
    int status = create([](Request*, layout::ColumnSpec*) {});
    RawClient raw(endpoint());
    raw.hello();
    layout::TableNameRequest name{};
    strcpy(name.name, "wild");
    raw.ask(ControlOp::kTableDrop, name);
    return status == GEAR_OK ? "" : "not created";
  }), "");
}

TEST_F(HostileControl, ClosesNoChannelOfAnother) {
  start();
  EXPECT_EQ(beside([&]() -> std::string {
    RawClient raw(endpoint());
    raw.hello();
    for (uint32_t id = 0; id < 100; ++id) {
      if (raw.ask(ControlOp::kChannelClose, layout::ChannelIdRequest{id, 0}).status != GEAR_ENOTFOUND) return "closed";
    }
    return {};
  }), "");
}

TEST_F(HostileControl, ClosesConnectionsThatSayNoHelloAndServesOthersThen) {
  start([](ServerOptions* options) {
    options->hello_timeout_ns = 300'000'000;
    options->clients_max = 6;
  });
  EXPECT_EQ(beside([&]() -> std::string {
    std::vector<std::unique_ptr<RawClient>> silent;
    for (int i = 0; i < 5; ++i) silent.push_back(std::make_unique<RawClient>(endpoint()));
    // Says something, but no hello.
    silent[0]->send(static_cast<uint16_t>(ControlOp::kServerInfo), nullptr, 0);
    for (int64_t deadline = deadline_after(kPatienceNs); left_until(deadline) > 0; usleep(2000)) {
      RawClient late(endpoint());
      if (late.hello().status != GEAR_OK) continue;
      for (auto& one : silent) {
        if (!one->closed_by_server()) return "a silent one is still there";
      }
      return {};
    }
    return "silent connections keep everyone out";
  }), "");
  EXPECT_NE(server_->log().find("said no hello in time"), std::string::npos);
}

// A client that returns has its place already: the limit is of those who are new.
TEST_F(HostileControl, LetsAClientReturnToAFullServer) {
  start([](ServerOptions* options) { options->clients_max = 3; });
  EXPECT_EQ(beside([&]() -> std::string {
    RawClient first(endpoint()), second(endpoint());
    RawReply hello = first.hello();
    if (hello.status != GEAR_OK || second.hello().status != GEAR_OK) return "no place for three";
    if (first.open_writer(first.open_table("t")).id == 0) return "no channel";
    first.disconnect();
    RawReply third = RawClient(endpoint()).hello();
    if (third.status != GEAR_ELIMIT) return "one too many: " + std::to_string(third.status) + third.text;
    auto was = hello.as<layout::HelloReply>();
    RawReply back = RawClient(endpoint()).hello("raw", was.session, was.token);
    return back.status == GEAR_OK ? "" : "could not return: " + back.text;
  }), "");
}

TEST_F(HostileControl, BoundsTheConnectionsThatHaveNotGreeted) {
  start([](ServerOptions* options) { options->hello_timeout_ns = kPatienceNs; });
  EXPECT_EQ(beside([&]() -> std::string {
    std::vector<std::unique_ptr<RawClient>> silent;
    for (int i = 0; i < 256; ++i) silent.push_back(std::make_unique<RawClient>(endpoint()));
    // The answer is lost where the connection is closed before the hello is read.
    RawReply late = RawClient(endpoint()).hello();
    if (late.status != GEAR_ELIMIT && late.status != GEAR_EDISCONNECTED) return "one too many: " + late.text;
    silent.clear();
    for (int64_t deadline = deadline_after(kPatienceNs); left_until(deadline) > 0; usleep(2000)) {
      if (RawClient(endpoint()).hello().status == GEAR_OK) return {};
    }
    return "no place after they went";
  }), "");
  EXPECT_NE(server_->log().find("have not greeted"), std::string::npos) << server_->log();
}

TEST_F(HostileControl, KeepsNothingOfConnectionsThatComeAndGo) {
  start();
  EXPECT_EQ(beside([&]() -> std::string {
    // More than the places, one after the other, half of them after hello and none with a goodbye.
    for (int i = 0; i < 1500; ++i) {
      RawClient raw(endpoint());
      if (!raw.connected()) return "could not connect";
      if (i % 2 == 0 && raw.hello().status != GEAR_OK) return "no place after " + std::to_string(i);
    }
    return {};
  }), "");
}

TEST_F(HostileControl, GoesOnBesideAFloodOfRequests) {
  start();
  EXPECT_EQ(beside([&]() -> std::string {
    std::vector<std::unique_ptr<RawClient>> many;
    for (int i = 0; i < 8; ++i) {
      many.push_back(std::make_unique<RawClient>(endpoint()));
      if (many.back()->hello().status != GEAR_OK) return "no hello";
    }
    // Bounded by the replies, which it reads late but reads.
    for (int round = 0; round < 300; ++round) {
      for (auto& one : many) {
        for (int i = 0; i < 4; ++i) one->send(static_cast<uint16_t>(ControlOp::kTableList), nullptr, 0);
      }
      for (auto& one : many) {
        for (int i = 0; i < 4; ++i) {
          if (one->receive().status != GEAR_OK) return "cut off, though it reads its replies";
        }
      }
    }
    return {};
  }), "");
}

TEST_F(HostileControl, CutsOffWhoReadsNoReplies) {
  start();
  EXPECT_EQ(beside([&]() -> std::string {
    RawClient raw(endpoint());
    if (raw.hello().status != GEAR_OK) return "no hello";
    layout::TableNameRequest name{};
    strcpy(name.name, "t");
    // Each reply would hold two descriptors of the server's user under way.
    for (int i = 0; i < 100'000; ++i) {
      if (!raw.send(static_cast<uint16_t>(ControlOp::kTableOpen), &name, sizeof name)) {
        return raw.closed_by_server() ? "" : "not closed";
      }
    }
    return "never cut off";
  }), "");
  EXPECT_NE(server_->log().find("does not read its replies"), std::string::npos) << server_->log();
}

// As many descriptors are under way as of few replies without parts.
TEST_F(HostileControl, CutsOffWhoLeavesManyDescriptorsUnread) {
  start();
  gear_client* client = nullptr;
  gear_table* table = nullptr;
  ASSERT_EQ(gear_connect(endpoint().c_str(), nullptr, &client), GEAR_OK);
  auto parted = [](gear_table_options* options) {
    options->payload_isolation = GEAR_ISOLATION_PER_WRITER;
    options->writers_max = 32;
  };
  ASSERT_EQ(create_int_table_with(client, "parts", &table, parted), GEAR_OK) << gear_last_error();
  RawClient raw(endpoint());
  ASSERT_EQ(raw.hello().status, GEAR_OK);
  layout::TableNameRequest name{};
  strcpy(name.name, "parts");
  // Fewer than replies that may be unread.
  for (int i = 0; i < 16 && raw.send(static_cast<uint16_t>(ControlOp::kTableOpen), &name, sizeof name); ++i) {
  }
  EXPECT_TRUE(raw.closed_by_server());
  EXPECT_NE(server_->log().find("does not read its replies"), std::string::npos) << server_->log();
  EXPECT_EQ(gear_close(client), GEAR_OK);
}

TEST_F(HostileControl, WritesNoMoreLinesThanABoundAboutClients) {
  start();
  int64_t begun = now_ns();
  EXPECT_EQ(beside([&]() -> std::string {
    for (int i = 0; i < 500; ++i) {
      RawClient raw(endpoint());
      raw.send_bytes("x", 1);
      raw.closed_by_server();
    }
    return {};
  }), "");
  std::string text = server_->log();
  auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  auto seconds = static_cast<size_t>((now_ns() - begun) / 1'000'000'000) + 2;
  EXPECT_GE(lines, 1u);
  EXPECT_LE(lines, seconds * 21);
}

}  // namespace
}  // namespace gear::test
