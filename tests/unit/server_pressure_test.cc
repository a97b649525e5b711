// Where memory or descriptors run out, in the server or in a client: the call that needs more answers so, has no effect,
// leaves nothing, and what is there already goes on.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include "support/other_user.h"
#include "support/watched_server.h"

namespace gear::test {
namespace {

void limit(int resource, rlim_t value) {
  rlimit both{value, value};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0) _exit(1);
}

size_t address_space() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages;
  return pages * 4096;
}

int create_big(gear_client* client, const char* name, uint64_t items, uint32_t lock = GEAR_WANT_NO) {
  gear_column_options column = int_column();
  column.rank = 1;
  column.shape[0] = 16;
  gear_table_options options = GEAR_TABLE_OPTIONS_INIT;
  options.name = name;
  options.columns = &column;
  options.column_count = 1;
  options.capacity_items = items;
  options.lanes_max = 4;
  options.lock = lock;
  gear_table* table = nullptr;
  return gear_table_create(client, &options, &table);
}

class ServerPressure : public ::testing::Test {
 protected:
  void start(const std::function<void(ServerOptions*)>& change) {
    server_ = std::make_unique<WatchedServer>(change);
    ASSERT_EQ(honest_.begin(server_->endpoint()), "");
  }
  // Beside the honest client; the body is a client of its own.
  std::string beside(const std::function<std::string(gear_client*)>& body) {
    return go_on_beside(*server_, honest_, [&]() -> std::string {
      gear_client* client = nullptr;
      GEAR_OR_SAY(gear_connect(server_->endpoint().c_str(), nullptr, &client));
      std::string text = body(client);
      GEAR_OR_SAY(gear_close(client));
      return text;
    });
  }
  size_t named_segments() const {
    std::string its_root = "/proc/" + std::to_string(server_->pid()) + "/root";
    return count_entries((its_root + "/dev/shm").c_str());
  }

  std::unique_ptr<WatchedServer> server_;
  HonestClient honest_;
};

// Does it until it answers something else than OK; then that must be `status`.
std::string until_it_ends(int status, int most, const std::function<int(int)>& attempt) {
  for (int i = 0; i < most; ++i) {
    int answer = attempt(i);
    if (answer == GEAR_OK) continue;
    if (answer != status) return told("not what was due", answer);
    return strchr(gear_last_error(), ';') != nullptr ? "" : std::string("no remedy: ") + gear_last_error();
  }
  return "it never ends";
}

TEST_F(ServerPressure, SaysThatDevShmIsFullAndGoesOnWithWhatIsThere) {
  if (!can_be_others()) GTEST_SKIP() << "needs root, to mount a small /dev/shm";
  start([](ServerOptions* options) {
    options->memory = GEAR_MEMORY_POSIX;
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=12m") != 0) {
      _exit(1);
    }
  });
  size_t segments = named_segments();
  EXPECT_GE(segments, 6u) << "the folder is not the one looked at";
  EXPECT_EQ(beside([](gear_client* client) -> std::string {
    GEAR_MUST(GEAR_ENOSPC, create_big(client, "one", 1'000'000));
    for (const char* part : {"/dev/shm", "free", "lower capacity"}) {
      if (strstr(gear_last_error(), part) == nullptr) return std::string("no ") + part + " in " + gear_last_error();
    }
    std::string text = until_it_ends(GEAR_ENOSPC, 1000, [&](int i) {
      return create_big(client, ("small" + std::to_string(i)).c_str(), 100);
    });
    if (!text.empty()) return text;
    gear_table* table = nullptr;
    GEAR_OR_SAY(gear_table_open(client, "t", &table));
    text = until_it_ends(GEAR_ENOSPC, 1000, [&](int) {
      gear_writer* writer = nullptr;
      return gear_writer_open(table, nullptr, &writer);
    });
    if (!text.empty()) return text;
    text = until_it_ends(GEAR_ENOSPC, 1000, [&](int) {
      gear_sampler* sampler = nullptr;
      return gear_sampler_open(table, nullptr, &sampler);
    });
    for (int i = 0; i < 1000; ++i) gear_table_drop(client, ("small" + std::to_string(i)).c_str());
    return text;
  }), "");
  EXPECT_EQ(named_segments(), segments);
  EXPECT_EQ(beside([](gear_client* client) -> std::string {
    GEAR_OR_SAY(create_big(client, "again", 100));
    GEAR_OR_SAY(gear_table_drop(client, "again"));
    return {};
  }), "");
}

TEST_F(ServerPressure, SaysThatItsDescriptorsAreUsedUpAndServesAgainOnceSomeAreClosed) {
  start([](ServerOptions*) { limit(RLIMIT_NOFILE, 60); });
  EXPECT_EQ(beside([&](gear_client* client) -> std::string {
    gear_table* table = nullptr;
    GEAR_OR_SAY(gear_table_open(client, "t", &table));
    std::vector<gear_sampler*> samplers;
    std::string text = until_it_ends(GEAR_EMFILE, 100, [&](int) {
      gear_sampler* sampler = nullptr;
      int status = gear_sampler_open(table, nullptr, &sampler);
      if (status == GEAR_OK) samplers.push_back(sampler);
      return status;
    });
    if (!text.empty()) return text;
    GEAR_MUST(GEAR_EMFILE, create_big(client, "more", 100));
    text = until_it_ends(GEAR_EMFILE, 100, [&](int) {
      gear_client* another = nullptr;
      return gear_connect(server_->endpoint().c_str(), nullptr, &another);
    });
    if (!text.empty()) return text;
    for (gear_sampler* sampler : samplers) GEAR_OR_SAY(gear_sampler_close(sampler));
    // Closing is not waited for.
    int status = GEAR_EMFILE;
    for (int64_t deadline = deadline_after(kPatienceNs); status == GEAR_EMFILE && left_until(deadline) > 0;) {
      status = create_big(client, "more", 100);
    }
    if (status != GEAR_OK) return told("after closing", status);
    GEAR_OR_SAY(gear_table_drop(client, "more"));
    return {};
  }), "");
}

TEST_F(ServerPressure, SaysThatItsAddressSpaceIsUsedUp) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need much address space";
  for (uint32_t memory : {GEAR_MEMORY_POSIX, GEAR_MEMORY_MEMFD}) {
    start([memory](ServerOptions* options) {
      options->memory = memory;
      limit(RLIMIT_AS, address_space() + (size_t{160} << 20));
    });
    EXPECT_EQ(beside([](gear_client* client) -> std::string {
      GEAR_MUST(GEAR_ENOMEM, create_big(client, "big", 2'000'000));
      std::string text = until_it_ends(GEAR_ENOMEM, 100, [&](int i) {
        return create_big(client, ("part" + std::to_string(i)).c_str(), 50'000);
      });
      for (int i = 0; i < 100; ++i) gear_table_drop(client, ("part" + std::to_string(i)).c_str());
      return text;
    }), "");
  }
}

TEST_F(ServerPressure, SaysThatItMayNotLockSoMuchMemory) {
  if (!can_be_others()) GTEST_SKIP() << "needs root, to be a user who may not lock";
  if (kSanitized) GTEST_SKIP() << "sanitizers make mlock do nothing";
  start([](ServerOptions* options) {
    options->access = ConnectAccess::kAny;
    std::string folder = options->socket_path.substr(0, options->socket_path.rfind('/'));
    limit(RLIMIT_MEMLOCK, 64 << 10);
    if (chown(folder.c_str(), 61000, 61000) != 0 || !become({61000, 61000})) _exit(1);
  });
  EXPECT_EQ(beside([](gear_client* client) -> std::string {
    GEAR_MUST(GEAR_EMEMLOCK, create_big(client, "locked", 1000, GEAR_WANT_REQUIRED));
    GEAR_MUST_SAY("RLIMIT_MEMLOCK");
    GEAR_OR_SAY(create_big(client, "locked", 1000, GEAR_WANT_TRY));
    GEAR_OR_SAY(gear_table_drop(client, "locked"));
    return {};
  }), "");
}

TEST_F(ServerPressure, AClientWithoutDescriptorsIsToldSoAndHoldsNothing) {
  start(nullptr);
  EXPECT_EQ(beside([](gear_client* client) -> std::string {
    gear_table* table = nullptr;
    unsigned refused = 0;
    for (unsigned room = 0; room < 20; ++room) {
      size_t before = open_descriptors();
      rlimit old{};
      getrlimit(RLIMIT_NOFILE, &old);
      int lowest = dup(0);
      close(lowest);
      rlimit low{static_cast<rlim_t>(lowest) + room, old.rlim_max};
      setrlimit(RLIMIT_NOFILE, &low);
      int opened = gear_table_open(client, "t", &table);
      std::string said = gear_last_error();
      setrlimit(RLIMIT_NOFILE, &old);
      if (open_descriptors() != before) return "descriptors are left";
      if (opened == GEAR_OK) return refused >= 2 ? "" : "two descriptors came where there was no room for two";
      if (opened != GEAR_EMFILE) return "not EMFILE: " + said;
      ++refused;
    }
    return "never opened";
  }), "");
}

TEST_F(ServerPressure, AClientWithoutAddressSpaceIsToldSoAndHoldsNothing) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need much address space";
  start(nullptr);
  ASSERT_EQ(create_big(honest_.client(), "big", 2'000'000), GEAR_OK) << gear_last_error();
  EXPECT_EQ(beside([](gear_client* client) -> std::string {
    gear_table* table = nullptr;
    size_t before = open_descriptors();
    limit(RLIMIT_AS, address_space() + (size_t{100} << 20));
    GEAR_MUST(GEAR_ENOMEM, gear_table_open(client, "big", &table));
    // Created by the server, and not to be mapped here: then it must not be there.
    GEAR_MUST(GEAR_ENOMEM, create_big(client, "mine", 2'000'000));
    GEAR_MUST(GEAR_ENOTFOUND, gear_table_open(client, "mine", &table));
    GEAR_OR_SAY(gear_table_open(client, "t", &table));
    if (open_descriptors() != before) return "descriptors are left";
    return draw_ints(table, GEAR_SAMPLE_LEASED, 4, 0, 1'000'000'000);
  }), "");
}

}  // namespace
}  // namespace gear::test
