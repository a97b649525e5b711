// What one user may have in a server at one time: each limit refuses with what is used and the limit, has no effect when it
// does, gives room again when something is closed, and is neither another user's nor root's.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "support/int_table.h"
#include "support/limited_writer.h"
#include "support/other_user.h"
#include "support/raw_client.h"
#include "support/server_process.h"

namespace gear::test {
namespace {

const User kFirst{61001, 61001};
const User kSecond{61002, 61002};

// A child of a user that ran body, and keeps what it opened while this is there.
class Holder {
 public:
  Holder(const User& user, const std::function<std::string()>& body) {
    int out[2], hold[2];
    if (pipe(out) != 0 || pipe(hold) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      close(hold[1]);
      alarm(kChildSeconds);
      std::string text = become(user) ? body() : "cannot become another user";
      [[maybe_unused]] ssize_t ignored = write(out[1], text.c_str(), text.size() + 1);
      char byte;
      ignored = read(hold[0], &byte, 1);
      _exit(0);
    }
    close(out[1]);
    close(hold[0]);
    hold_ = hold[1];
    char byte = 'x';
    ssize_t got = 0;
    while ((got = read(out[0], &byte, 1)) == 1 && byte != '\0') text_ += byte;
    if (got != 1) text_ += "the child died";
    close(out[0]);
  }
  ~Holder() {
    close(hold_);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& text() const { return text_; }

 private:
  pid_t pid_ = -1;
  int hold_ = -1;
  std::string text_;
};

class ServerQuotas : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_be_others()) GTEST_SKIP() << "needs root, to be two users";
  }

  // Runs body as the first user, then as the second and as root, while what the first did still stands.
  static std::string as_three(const std::function<void(UserQuotas*)>& limit,
                              const std::function<std::string(gear_client*, gear_table*, bool limited)>& body) {
    ServerProcess server([&limit](ServerOptions* options) {
      options->access = ConnectAccess::kAny;
      limit(&options->user_quotas);
    });
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    auto use = [&](const char* name, bool limited) -> std::string {
      GEAR_OR_SAY(gear_connect(server.endpoint().c_str(), nullptr, &client));
      int status = gear_table_open(client, "t", &table);
      if (status == GEAR_ENOTFOUND) status = create_int_table(client, &table, 0666);
      if (status != GEAR_OK) return told("table t", status);
      std::string text = body(client, table, limited);
      return text.empty() ? text : std::string(name) + ": " + text;
    };
    // The table is root's.
    std::string text = in_child([&]() -> std::string {
      std::string made = use("maker", false);
      gear_close(client);
      return made;
    });
    if (!text.empty()) return text;
    // Each asks while those before it still have what they got.
    Holder first(kFirst, [&] { return use("first", true); });
    Holder second(kSecond, [&] { return use("second", true); });
    Holder root({0, 0}, [&] { return use("root", false); });
    return first.text() + second.text() + root.text();
  }

  static std::string must_be_refused(int status, bool limited, const char* used, const char* limit, const char* remedy) {
    if (!limited) return status == GEAR_OK ? "" : told("without limit", status);
    if (status != GEAR_ELIMIT) return told("not ELIMIT", status);
    for (const char* part : {used, limit, remedy}) {
      if (strstr(gear_last_error(), part) == nullptr) return std::string("no ") + part + " in: " + gear_last_error();
    }
    return {};
  }
};

// Waits until a closed thing is the server's no longer.
template <typename Try>
int until_there_is_room(const Try& attempt) {
  int64_t deadline = deadline_after(kPatienceNs);
  int status = GEAR_ELIMIT;
  while (status == GEAR_ELIMIT && left_until(deadline) > 0) {
    status = attempt();
    if (status == GEAR_ELIMIT) usleep(1000);
  }
  return status;
}

TEST_F(ServerQuotas, BoundTheClientsOfAUser) {
  ServerProcess server([](ServerOptions* options) {
    options->access = ConnectAccess::kAny;
    options->user_quotas.clients_max = 2;
  });
  const char* endpoint = server.endpoint().c_str();
  EXPECT_EQ(as_user(kFirst, [&]() -> std::string {
    gear_client* clients[3] = {};
    GEAR_OR_SAY(gear_connect(endpoint, nullptr, &clients[0]));
    GEAR_OR_SAY(gear_connect(endpoint, nullptr, &clients[1]));
    std::string text = must_be_refused(gear_connect(endpoint, nullptr, &clients[2]), true, "uses 2", "user is 2",
                                       "user_clients_max");
    if (!text.empty()) return text;
    GEAR_OR_SAY(gear_close(clients[1]));
    GEAR_OR_SAY(until_there_is_room([&] { return gear_connect(endpoint, nullptr, &clients[2]); }));
    return {};
  }), "");
  // Whole again: what the first had went with it, and the limit is each user's own.
  for (const User& user : {kFirst, kSecond}) {
    EXPECT_EQ(as_user(user, [&]() -> std::string {
      gear_client* clients[2] = {};
      GEAR_OR_SAY(until_there_is_room([&] { return gear_connect(endpoint, nullptr, &clients[0]); }));
      GEAR_OR_SAY(until_there_is_room([&] { return gear_connect(endpoint, nullptr, &clients[1]); }));
      return {};
    }), "");
  }
  EXPECT_EQ(in_child([&]() -> std::string {
    gear_client* client = nullptr;
    for (int i = 0; i < 5; ++i) GEAR_OR_SAY(gear_connect(endpoint, nullptr, &client));
    return {};
  }), "");
}

TEST_F(ServerQuotas, LetAClientReturnWhoseUserIsAtItsLimit) {
  ServerProcess server([](ServerOptions* options) {
    options->access = ConnectAccess::kAny;
    options->user_quotas.clients_max = 1;
  });
  EXPECT_EQ(as_user(kFirst, [&]() -> std::string {
    RawClient raw(server.endpoint());
    RawReply hello = raw.hello();
    if (hello.status != GEAR_OK) return hello.text;
    layout::HelloReply was = hello.as<layout::HelloReply>();
    RawReply other = RawClient(server.endpoint()).hello();
    if (other.status != GEAR_ELIMIT) return "no limit: " + other.text;
    RawReply back = RawClient(server.endpoint()).hello("raw", was.session, was.token);
    return back.status == GEAR_OK ? "" : "could not return: " + back.text;
  }), "");
}

TEST_F(ServerQuotas, BoundTheLanesOfAUser) {
  EXPECT_EQ(as_three([](UserQuotas* quotas) { quotas->lanes_max = 10; },
                     [](gear_client*, gear_table* table, bool limited) -> std::string {
    gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
    gear_writer* writers[3] = {};
    options.lanes = 7;
    GEAR_OR_SAY(gear_writer_open(table, &options, &writers[0]));
    options.lanes = 4;
    std::string text = must_be_refused(gear_writer_open(table, &options, &writers[1]), limited,
                                       "uses 7 lanes and asks for 4 more", "user is 10", "user_lanes_max");
    if (!text.empty()) return text;
    options.lanes = 3;
    GEAR_OR_SAY(gear_writer_open(table, &options, &writers[2]));
    GEAR_OR_SAY(append_int(writers[2], 1));
    GEAR_OR_SAY(gear_writer_close(writers[0]));
    options.lanes = 4;
    GEAR_OR_SAY(until_there_is_room([&] { return gear_writer_open(table, &options, &writers[0]); }));
    return {};
  }), "");
}

TEST_F(ServerQuotas, BoundTheChannelsOfAUser) {
  EXPECT_EQ(as_three([](UserQuotas* quotas) { quotas->channels_max = 2; },
                     [](gear_client*, gear_table* table, bool limited) -> std::string {
    gear_writer* writer = nullptr;
    gear_sampler* samplers[2] = {};
    GEAR_OR_SAY(gear_writer_open(table, nullptr, &writer));
    GEAR_OR_SAY(gear_sampler_open(table, nullptr, &samplers[0]));
    std::string text = must_be_refused(gear_sampler_open(table, nullptr, &samplers[1]), limited,
                                       "uses 2 channels", "user is 2", "user_channels_max");
    if (!text.empty()) return text;
    GEAR_OR_SAY(gear_writer_close(writer));
    GEAR_OR_SAY(until_there_is_room([&] { return gear_sampler_open(table, nullptr, &samplers[1]); }));
    return {};
  }), "");
}

// A channel whose records wait for the limiter outlives its session; it is its user's still.
TEST_F(ServerQuotas, CountChannelsThatOutliveTheirSessions) {
  ServerProcess server([](ServerOptions* options) {
    options->access = ConnectAccess::kAny;
    options->user_quotas.channels_max = 1;
    options->user_quotas.lanes_max = 1;
  });
  EXPECT_EQ(as_user(kFirst, [&]() -> std::string {
    gear_client* client = nullptr;
    GEAR_OR_SAY(gear_connect(server.endpoint().c_str(), nullptr, &client));
    GEAR_OR_SAY(create_limited_table(client, "limited"));
    RawClient raw(server.endpoint());
    raw.hello();
    RawChannel channel;
    open_named_writer(raw, raw.open_table("limited"), 7, &channel);
    if (channel.id == 0) return "no channel";
    std::string text = commit_more_than_the_limit(raw, channel);
    if (!text.empty()) return text;
    if (raw.ask(layout::ControlOp::kGoodbye, nullptr, 0).status != GEAR_OK) return "no goodbye";
    raw.disconnect();
    for (int i = 0; i < 3; ++i) {
      RawClient again(server.endpoint());
      again.hello();
      RawChannel none;
      RawReply reply = open_named_writer(again, again.open_table("limited"), 8, &none);
      if (reply.status != GEAR_ELIMIT || reply.text.find("user_channels_max") == std::string::npos) {
        return "no limit: " + std::to_string(reply.status) + reply.text;
      }
    }
    return {};
  }), "");
}

TEST_F(ServerQuotas, BoundTheBytesThatAUserMayHoldLeased) {
  // 8 bytes a step, so 1000 rows are 8000 bytes.
  EXPECT_EQ(as_three([](UserQuotas* quotas) { quotas->leased_bytes_max = 8000; },
                     [](gear_client*, gear_table* table, bool limited) -> std::string {
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = GEAR_SAMPLE_LEASED;
    options.batch_rows_max = 100;
    options.batches_max = 6;
    options.prefetch = 200;
    gear_sampler* samplers[3] = {};
    GEAR_OR_SAY(gear_sampler_open(table, &options, &samplers[0]));
    options.batches_max = 1;
    options.prefetch = 101;
    std::string text = must_be_refused(gear_sampler_open(table, &options, &samplers[1]), limited,
                                       "uses 6400 bytes", "user is 8000", "user_leased_bytes_max");
    if (!text.empty()) return text;
    options.prefetch = 100;
    GEAR_OR_SAY(gear_sampler_open(table, &options, &samplers[1]));
    // Direct samplers hold nothing.
    options.mode = GEAR_SAMPLE_DIRECT;
    options.prefetch = 0;
    GEAR_OR_SAY(gear_sampler_open(table, &options, &samplers[2]));
    return {};
  }), "");
}

TEST_F(ServerQuotas, RefuseALeaseOfMoreRowsThanFitAnyNumber) {
  ServerProcess server([](ServerOptions* options) {
    options->access = ConnectAccess::kAny;
    options->user_quotas.leased_bytes_max = 8000;
  });
  EXPECT_EQ(as_user(kFirst, [&]() -> std::string {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    GEAR_OR_SAY(gear_connect(server.endpoint().c_str(), nullptr, &client));
    GEAR_OR_SAY(create_int_table(client, &table));
    RawClient raw(server.endpoint());
    raw.hello();
    layout::SamplerOpenRequest request{};
    request.table_id = raw.open_table("t");
    request.batch_rows_max = request.batches_max = request.prefetch = UINT32_MAX;
    RawReply reply = raw.ask(layout::ControlOp::kSamplerOpen, request);
    return reply.status == GEAR_ELIMIT ? "" : "not ELIMIT: " + reply.text;
  }), "");
}

TEST_F(ServerQuotas, BoundTheTablesOfAUser) {
  EXPECT_EQ(as_three([](UserQuotas* quotas) { quotas->tables_max = 2; },
                     [](gear_client* client, gear_table*, bool limited) -> std::string {
    gear_table* tables[3] = {};
    std::string base = "u" + std::to_string(getuid()) + "." + std::to_string(getpid()) + ".";
    GEAR_OR_SAY(create_int_table(client, &tables[0], 0, (base + "a").c_str()));
    GEAR_OR_SAY(create_int_table(client, &tables[1], 0, (base + "b").c_str()));
    std::string text = must_be_refused(create_int_table(client, &tables[2], 0, (base + "c").c_str()), limited,
                                       "uses 2 tables", "user is 2", "user_tables_max");
    if (!text.empty()) return text;
    gear_table* none = nullptr;
    if (limited) GEAR_MUST(GEAR_ENOTFOUND, gear_table_open(client, (base + "c").c_str(), &none));
    GEAR_OR_SAY(gear_table_drop(client, (base + "a").c_str()));
    if (limited) GEAR_OR_SAY(create_int_table(client, &tables[2], 0, (base + "c").c_str()));
    return {};
  }), "");
}

TEST_F(ServerQuotas, BoundTheBytesOfAUsersTables) {
  EXPECT_EQ(as_three([](UserQuotas* quotas) { quotas->table_bytes_max = 32 << 20; },
                     [](gear_client* client, gear_table*, bool limited) -> std::string {
    gear_table* tables[3] = {};
    std::string base = "u" + std::to_string(getuid()) + "." + std::to_string(getpid()) + ".";
    constexpr uint64_t kItems = 200'000;
    GEAR_OR_SAY(create_int_table(client, &tables[0], 0, (base + "a").c_str(), kItems));
    gear_table_info info = GEAR_TABLE_INFO_INIT;
    GEAR_OR_SAY(gear_table_describe(tables[0], &info));
    uint64_t bytes = info.directory_bytes + info.data_bytes;
    if (bytes > 32 << 20 || bytes * 2 <= 32 << 20) return "choose another size than " + std::to_string(bytes);
    std::string used = "uses " + std::to_string(bytes) + " bytes of tables";
    // A dropped table counts while someone has a channel of it.
    gear_writer* writer = nullptr;
    GEAR_OR_SAY(gear_writer_open(tables[0], nullptr, &writer));
    GEAR_OR_SAY(gear_table_drop(client, (base + "a").c_str()));
    std::string text = must_be_refused(create_int_table(client, &tables[1], 0, (base + "b").c_str(), kItems), limited,
                                       used.c_str(), "user is 33554432", "user_table_bytes_max");
    if (!text.empty()) return text;
    GEAR_OR_SAY(gear_writer_close(writer));
    if (!limited) return {};
    GEAR_OR_SAY(until_there_is_room(
        [&] { return create_int_table(client, &tables[1], 0, (base + "b").c_str(), kItems); }));
    return {};
  }), "");
}

}  // namespace
}  // namespace gear::test
