// Two users and one server: who may connect, and what the mode of a table lets whom do.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "support/int_table.h"
#include "support/other_user.h"
#include "support/raw_client.h"
#include "support/server_process.h"

namespace gear::test {
namespace {

using layout::ControlOp;

// Nobody's, on any machine that these tests run on.
const User kOwner{61001, 61001};
const User kStranger{61002, 61002};
const User kMember{61003, 61003, {61009, 61001}};  // of the owner's group, by a supplementary one

void let_anyone_in(ServerOptions* options) { options->access = ConnectAccess::kAny; }

// The server runs as a user of its own, as a service does.
void run_as_a_service(ServerOptions* options) {
  options->access = ConnectAccess::kAny;
  std::string folder = options->socket_path.substr(0, options->socket_path.rfind('/'));
  if (chown(folder.c_str(), 61000, 61000) != 0 || !become({61000, 61000})) _exit(1);
}

class ServerAccess : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_be_others()) GTEST_SKIP() << "needs root, to be two users";
  }

  // Connects, and hands over client and table "t".
  using Use = std::function<std::string(gear_client*, gear_table*)>;
  static std::string use_table(const std::string& endpoint, const Use& use) {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    GEAR_OR_SAY(gear_connect(endpoint.c_str(), nullptr, &client));
    GEAR_OR_SAY(gear_table_open(client, "t", &table));
    std::string text = use(client, table);
    GEAR_OR_SAY(gear_close(client));
    return text;
  }

  // As the owner: makes "t" with steps 0 to 49, and returns its handle after "handle ".
  static std::string make_table(const std::string& endpoint, uint32_t mode) {
    return as_user(kOwner, [&]() -> std::string {
      gear_client* client = nullptr;
      gear_table* table = nullptr;
      char handle[GEAR_HANDLE_BYTES + 1];
      GEAR_OR_SAY(gear_connect(endpoint.c_str(), nullptr, &client));
      GEAR_OR_SAY(create_int_table(client, &table, mode));
      std::string text = append_ints(table, 0, 50);
      if (!text.empty()) return text;
      GEAR_OR_SAY(gear_table_handle(table, handle));
      GEAR_OR_SAY(gear_close(client));
      return std::string("handle ") + handle;
    });
  }

  static std::string read_everything(gear_client*, gear_table* table) {
    gear_table_stats stats = GEAR_TABLE_STATS_INIT;
    GEAR_OR_SAY(gear_table_get_stats(table, &stats));
    if (stats.items < 50) return "the counts are wrong";
    std::string text = draw_ints(table, GEAR_SAMPLE_DIRECT, 20, 0, 99);
    return text.empty() ? draw_ints(table, GEAR_SAMPLE_LEASED, 20, 0, 99) : text;
  }

  static std::string change_items(gear_client*, gear_table* table) {
    uint64_t key = 0;
    std::string text = draw_ints(table, GEAR_SAMPLE_DIRECT, 1, 0, 99, &key);
    if (!text.empty()) return text;
    double priority = 2;
    gear_rate_limiter limiter{};
    GEAR_OR_SAY(gear_rate_limiter_min_size(1, &limiter));
    gear_items_result result = GEAR_ITEMS_RESULT_INIT;
    GEAR_OR_SAY(gear_update_priorities(table, &key, &priority, 1, kCallNs, &result));
    if (result.updated != 1) return "the priority was not updated";
    GEAR_OR_SAY(gear_delete_items(table, &key, 1, kCallNs, &result));
    if (result.updated != 1) return "the item was not deleted";
    GEAR_OR_SAY(gear_table_retune(table, &limiter));
    return append_ints(table, 50, 50);
  }

  static std::string may_change_nothing(gear_client*, gear_table* table) {
    uint64_t key = 1;
    double priority = 2;
    gear_writer* writer = nullptr;
    gear_sampler* sampler = nullptr;
    gear_rate_limiter limiter{};
    GEAR_OR_SAY(gear_rate_limiter_min_size(1, &limiter));
    GEAR_MUST(GEAR_EPERM, gear_writer_open(table, nullptr, &writer));
    GEAR_MUST(GEAR_EPERM, gear_update_priorities(table, &key, &priority, 1, kCallNs, nullptr));
    GEAR_MUST(GEAR_EPERM, gear_delete_items(table, &key, 1, kCallNs, nullptr));
    GEAR_MUST(GEAR_EPERM, gear_table_retune(table, &limiter));
    GEAR_MUST(GEAR_EPERM, gear_table_set_version(table, 1));
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = GEAR_SAMPLE_LEASED;
    options.version_policy = GEAR_VERSION_DROP;
    int status = gear_sampler_open(table, &options, &sampler);
    // The table has no versions, which the client may see first.
    if (status != GEAR_EPERM && status != GEAR_EUNSUPPORTED) return told("a sampler that removes", status);
    return {};
  }

  static std::string may_end_nothing(gear_client* client, gear_table* table) {
    GEAR_MUST(GEAR_EPERM, gear_table_close(table));
    GEAR_MUST(GEAR_EPERM, gear_table_reset(table));
    GEAR_MUST(GEAR_EPERM, gear_table_drop(client, "t"));
    GEAR_MUST_SAY("61001");
    gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
    options.mode = GEAR_SAMPLE_LEASED;
    options.group = "g";
    gear_sampler* sampler = nullptr;
    GEAR_OR_SAY(gear_sampler_open(table, &options, &sampler));
    GEAR_MUST(GEAR_EPERM, gear_group_drop(table, "g"));
    return {};
  }

  static void count_names(const char*, void* count) { ++*static_cast<int*>(count); }
};

TEST_F(ServerAccess, LetsNoOtherUserConnectByDefault) {
  ServerProcess server;
  std::string handle = in_child([&]() -> std::string {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    char text[GEAR_HANDLE_BYTES + 1];
    GEAR_OR_SAY(gear_connect(server.endpoint().c_str(), nullptr, &client));
    GEAR_OR_SAY(create_int_table(client, &table, 0666));
    GEAR_OR_SAY(gear_table_handle(table, text));
    GEAR_OR_SAY(gear_close(client));
    return text;
  });
  ASSERT_EQ(handle.size(), size_t{GEAR_HANDLE_BYTES}) << handle;
  EXPECT_EQ(as_user(kStranger, [&]() -> std::string {
    gear_client* client = nullptr;
    GEAR_MUST(GEAR_EPERM, gear_connect(server.endpoint().c_str(), nullptr, &client));
    // The abstract socket has no mode of its own.
    GEAR_MUST(GEAR_EPERM, gear_connect(("handle:" + handle).c_str(), nullptr, &client));
    GEAR_MUST_SAY("not permitted to user 61002");
    GEAR_MUST_SAY("--access any");
    return {};
  }), "");
}

TEST_F(ServerAccess, NeedsTheModeToOpenAndTheSecretBesideItToAttach) {
  ServerProcess server(let_anyone_in);
  std::string made = make_table(server.endpoint(), 0);
  ASSERT_EQ(made.substr(0, 7), "handle ") << made;
  std::string handle = made.substr(7);
  EXPECT_EQ(as_user(kStranger, [&]() -> std::string {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    GEAR_OR_SAY(gear_connect(server.endpoint().c_str(), nullptr, &client));
    GEAR_MUST(GEAR_EPERM, gear_table_open(client, "t", &table));
    for (const char* part : {"user 61002", "user 61001's", "0600", "wider mode"}) {
      if (strstr(gear_last_error(), part) == nullptr) return std::string("no ") + part + " in " + gear_last_error();
    }
    GEAR_MUST(GEAR_EPERM, gear_table_attach(client, handle.c_str(), &table));
    GEAR_MUST_SAY("0600");
    GEAR_MUST(GEAR_EPERM, gear_table_drop(client, "t"));
    int tables = 0;
    GEAR_OR_SAY(gear_table_list(client, count_names, &tables));
    return tables == 0 ? "" : "a table that may not be read is listed";
  }), "");
  // Who guesses the table's number, and says nothing of its name.
  EXPECT_EQ(as_user(kOwner, [&]() -> std::string {
    RawClient client(server.endpoint());
    client.hello();
    uint64_t id = client.open_table("t");
    return id >= 1 && id < 4 && client.open_sampler(id).id != 0 ? "" : "the guesses below are wrong";
  }), "");
  EXPECT_EQ(as_user(kStranger, [&]() -> std::string {
    RawClient client(server.endpoint());
    if (client.hello().status != GEAR_OK) return "no hello";
    for (uint64_t id = 1; id < 4; ++id) {
      if (client.open_writer(id).id != 0 || client.open_sampler(id).id != 0 || client.open_items(id).id != 0) {
        return "a channel of a table that may not be read";
      }
    }
    return {};
  }), "");
  EXPECT_EQ(as_user(kOwner, [&] { return use_table(server.endpoint(), read_everything); }), "");
}

TEST_F(ServerAccess, AttachesNobodyByAWrongSecret) {
  ServerProcess server(let_anyone_in);
  ASSERT_EQ(make_table(server.endpoint(), 0666).substr(0, 7), "handle ");
  EXPECT_EQ(as_user(kStranger, [&]() -> std::string {
    RawClient client(server.endpoint());
    client.hello();
    uint64_t id = client.open_table("t");
    layout::TableAttachRequest request{id, {}};
    RawReply reply = client.ask(ControlOp::kTableAttach, request);
    if (reply.status != GEAR_EPERM || !reply.descriptors.empty()) return "attached by a secret of zeros";
    return {};
  }), "");
}

TEST_F(ServerAccess, LetsThoseReadWhomTheModeLetsReadAndNothingElse) {
  ServerProcess server(let_anyone_in);
  std::string made = make_table(server.endpoint(), 0644);
  ASSERT_EQ(made.substr(0, 7), "handle ") << made;
  EXPECT_EQ(as_user(kStranger, [&] { return use_table(server.endpoint(), read_everything); }), "");
  EXPECT_EQ(as_user(kStranger, [&] { return use_table(server.endpoint(), may_change_nothing); }), "");
  EXPECT_EQ(as_user(kStranger, [&] { return use_table(server.endpoint(), may_end_nothing); }), "");
  EXPECT_EQ(as_user(kStranger, [&]() -> std::string {
    gear_client* client = nullptr;
    gear_table* table = nullptr;
    GEAR_OR_SAY(gear_connect(("handle:" + made.substr(7)).c_str(), nullptr, &client));
    GEAR_OR_SAY(gear_table_attach(client, made.substr(7).c_str(), &table));
    gear_table_info info = GEAR_TABLE_INFO_INIT;
    GEAR_OR_SAY(gear_table_describe(table, &info));
    return info.owner_uid == 61001 && info.owner_gid == 61001 && info.mode == 0644 ? "" : "wrong owner or mode";
  }), "");
}

TEST_F(ServerAccess, KnowsTheGroupsOfAClient) {
  ServerProcess server(let_anyone_in);
  std::string made = make_table(server.endpoint(), 0640);
  ASSERT_EQ(made.substr(0, 7), "handle ") << made;
  EXPECT_EQ(as_user(kMember, [&] { return use_table(server.endpoint(), read_everything); }), "");
  EXPECT_EQ(as_user(kMember, [&] { return use_table(server.endpoint(), may_change_nothing); }), "");
  EXPECT_EQ(as_user({61004, 61001}, [&] { return use_table(server.endpoint(), read_everything); }), "");
  std::string refused = as_user(kStranger, [&] { return use_table(server.endpoint(), read_everything); });
  EXPECT_NE(refused.find("GEAR_EPERM"), std::string::npos) << refused;
}

TEST_F(ServerAccess, LetsThoseWriteWhomTheModeLetsWriteButEndNothing) {
  ServerProcess server(let_anyone_in);
  std::string made = make_table(server.endpoint(), 0666);
  ASSERT_EQ(made.substr(0, 7), "handle ") << made;
  EXPECT_EQ(as_user(kStranger, [&] { return use_table(server.endpoint(), change_items); }), "");
  EXPECT_EQ(as_user(kStranger, [&] { return use_table(server.endpoint(), may_end_nothing); }), "");
  EXPECT_EQ(as_user(kOwner, [&] { return use_table(server.endpoint(), read_everything); }), "");
}

// As of a file: the owner's bits are the owner's even where the others have more.
TEST_F(ServerAccess, AppliesTheBitsOfOneClassOnly) {
  ServerProcess server(let_anyone_in);
  std::string made = make_table(server.endpoint(), 0406);
  ASSERT_NE(made.substr(0, 7), "handle ") << "a table that its owner may not write was written by its owner";
  EXPECT_NE(made.find("GEAR_EPERM"), std::string::npos) << made;
  std::string member = as_user(kMember, [&] { return use_table(server.endpoint(), read_everything); });
  EXPECT_NE(member.find("GEAR_EPERM"), std::string::npos) << member;
  EXPECT_EQ(as_user(kStranger, [&] {
    return use_table(server.endpoint(), [](gear_client*, gear_table* table) { return append_ints(table, 0, 50); });
  }), "");
}

TEST_F(ServerAccess, RefusesAModeOfMoreThanPermissionBits) {
  ServerProcess server(let_anyone_in);
  std::string made = make_table(server.endpoint(), 04755);
  EXPECT_NE(made.find("GEAR_EINVAL"), std::string::npos) << made;
}

TEST_F(ServerAccess, LetsRootAndItsOwnUserDoEverything) {
  ServerProcess server(run_as_a_service);
  for (const User& user : {User{0, 0}, User{61000, 61000}}) {
    std::string made = make_table(server.endpoint(), 0600);
    ASSERT_EQ(made.substr(0, 7), "handle ") << made;
    EXPECT_EQ(as_user(user, [&] { return use_table(server.endpoint(), change_items); }), "") << user.uid;
    EXPECT_EQ(as_user(user, [&] {
      return use_table(server.endpoint(), [](gear_client* client, gear_table*) -> std::string {
        GEAR_OR_SAY(gear_table_drop(client, "t"));
        return {};
      });
    }), "") << user.uid;
  }
}

// A descriptor of a read-only file can be opened anew through /proc when the file's own mode lets one.
TEST_F(ServerAccess, HandsAReaderNothingThatItCouldMakeWritable) {
  for (uint32_t memory : {GEAR_MEMORY_POSIX, GEAR_MEMORY_MEMFD}) {
    ServerProcess server([memory](ServerOptions* options) {
      options->memory = memory;
      run_as_a_service(options);
    });
    ASSERT_EQ(make_table(server.endpoint(), 0666).substr(0, 7), "handle ");
    EXPECT_EQ(as_user(kStranger, [&]() -> std::string {
      int own = memfd_create("control", MFD_CLOEXEC);
      int again = open(format("/proc/self/fd/%d", own).c_str(), O_RDWR | O_CLOEXEC);
      if (again < 0) return "cannot reopen anything here, so the test shows nothing";
      RawClient client(server.endpoint());
      RawReply hello = client.hello();
      if (hello.status != GEAR_OK) return "no hello: " + hello.text;
      layout::TableNameRequest name{};
      strcpy(name.name, "t");
      RawReply table = client.ask(ControlOp::kTableOpen, name);
      if (table.descriptors.size() != 2) return "no table: " + table.text;
      std::vector<int> descriptors = {hello.descriptors[0].get(), table.descriptors[0].get(),
                                      table.descriptors[1].get()};
      for (int fd : descriptors) {
        if (mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) return "cannot be read";
        if (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) return "mapped writable";
        if (write(fd, "x", 1) >= 0 || ftruncate(fd, 0) == 0) return "written";
        if (fchmod(fd, 0666) == 0) return "its mode was changed";
        if (open(format("/proc/self/fd/%d", fd).c_str(), O_RDWR | O_CLOEXEC) >= 0) return "reopened writable";
      }
      return {};
    }), "") << memory;
  }
}

TEST_F(ServerAccess, GivesASessionToNobodyElse) {
  ServerProcess server(let_anyone_in);
  ASSERT_EQ(make_table(server.endpoint(), 0666).substr(0, 7), "handle ");
  RawClient victim(server.endpoint());
  layout::HelloReply victims = victim.hello("victim").as<layout::HelloReply>();
  RawChannel channel = victim.open_writer(victim.open_table("t"));
  ASSERT_NE(channel.id, 0u);
  for (bool knows_token : {false, true}) {
    EXPECT_EQ(as_user(kStranger, [&]() -> std::string {
      RawClient thief(server.endpoint());
      uint8_t token[16] = {1, 2, 3};
      RawReply reply = thief.hello("thief", victims.session, knows_token ? victims.token : token);
      if (reply.status == GEAR_OK && reply.as<layout::HelloReply>().session == victims.session) return "took the session";
      if (reply.status != GEAR_OK) return {};
      layout::ChannelIdRequest close{channel.id, 0};
      return thief.ask(ControlOp::kChannelClose, close).status == GEAR_ENOTFOUND ? "" : "closed another's channel";
    }), "") << "knows the token: " << knows_token;
  }
  EXPECT_EQ(victim.ask(ControlOp::kServerInfo, nullptr, 0).status, GEAR_OK);
}

}  // namespace
}  // namespace gear::test
