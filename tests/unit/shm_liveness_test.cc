#include "shm/liveness.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <string>

#include "base/clock.h"
#include "shm/message.h"
#include "support/child.h"

namespace gear {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Waits until condition holds, for ten seconds at the most.
template <typename Condition>
bool comes_true(Condition condition) {
  int64_t deadline = deadline_after(10 * kSecond);
  while (!condition()) {
    if (left_until(deadline) == 0) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 10'000) == 1 && (entry.revents & POLLIN) != 0;
}

// A child that connects, and lives until it is told to end.
class Client {
 public:
  explicit Client(const std::function<void()>& in_child = [] {}) {
    std::string name = "gear/liveness-" + std::to_string(getpid());
    Result<Descriptor> listener = listen_abstract(name);
    EXPECT_TRUE(listener.ok());
    pid_ = fork();
    if (pid_ == 0) {
      Result<Descriptor> socket = connect_abstract(name, deadline_after(kSecond));
      in_child();
      for (;;) pause();
    }
    pollfd entry{listener.value().get(), POLLIN, 0};
    EXPECT_EQ(poll(&entry, 1, 10'000), 1);
    socket_ = accept_unix(listener.value().get()).take();
  }
  ~Client() {
    kill();
    reap();
  }
  void kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }
  void reap() {
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }
  int socket() const { return socket_.get(); }

 private:
  pid_t pid_ = -1;
  Descriptor socket_;
};

const char* name_of(WatchWay way) {
  switch (way) {
    case WatchWay::kPeerPidfd:
      return "PeerPidfd";
    case WatchWay::kPidfd:
      return "Pidfd";
    case WatchWay::kStartTime:
      return "StartTime";
  }
  return "";
}

class Watch : public testing::TestWithParam<WatchWay> {};

INSTANTIATE_TEST_SUITE_P(Way, Watch,
                         testing::Values(WatchWay::kPeerPidfd, WatchWay::kPidfd,
                                         WatchWay::kStartTime),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Watch, TellsThatAKilledClientIsDeadThoughNobodyReapedIt) {
  Client client;
  Result<ProcessWatch> watch = ProcessWatch::of_peer(client.socket(), GetParam());
  ASSERT_TRUE(watch.ok()) << watch.status().text();
  EXPECT_GE(watch.value().way(), GetParam());
  EXPECT_EQ(watch.value().pid(), client.pid());
  EXPECT_FALSE(watch.value().dead());
  client.kill();
  if (watch.value().pollable()) {
    EXPECT_TRUE(readable(watch.value().fd()));
  }
  EXPECT_TRUE(comes_true([&] { return watch.value().dead(); }));
  // A zombie: a signal still finds it.
  EXPECT_EQ(::kill(client.pid(), 0), 0);
  client.reap();
  EXPECT_TRUE(watch.value().dead());
}

TEST_P(Watch, IsNotFooledByAStoppedClient) {
  Client client;
  Result<ProcessWatch> watch = ProcessWatch::of_peer(client.socket(), GetParam());
  ASSERT_TRUE(watch.ok());
  ::kill(client.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(client.pid(), &status, WUNTRACED), client.pid());
  EXPECT_FALSE(watch.value().dead());
}

TEST_P(Watch, TellsTheDeathOfAClientWhoseChildHoldsTheSocket) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  // Orphans come to this process, and are reaped below.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Client client([&ends] {
    if (fork() != 0) return;
    // Says that it is there, and ends with the test.
    close(ends[1]);
    char byte = 1;
    bool said = write(ends[0], &byte, 1) == 1;
    _exit(said && read(ends[0], &byte, 1) == 0 ? 0 : 1);
  });
  ASSERT_TRUE(readable(ends[1]));
  Result<ProcessWatch> watch = ProcessWatch::of_peer(client.socket(), GetParam());
  ASSERT_TRUE(watch.ok());
  client.kill();
  EXPECT_TRUE(comes_true([&] { return watch.value().dead(); }));
  pollfd socket{client.socket(), POLLIN | POLLRDHUP, 0};
  EXPECT_EQ(poll(&socket, 1, 0), 0) << "the socket hung up, the test proves nothing";
  close(ends[0]);
  close(ends[1]);
  client.reap();
  waitpid(-1, nullptr, 0);
}

TEST_P(Watch, OfAClientThatHasGoneIsADisconnectionOrDead) {
  Client client;
  client.kill();
  client.reap();
  Result<ProcessWatch> watch = ProcessWatch::of_peer(client.socket(), GetParam());
  EXPECT_TRUE(watch.ok() ? watch.value().dead() : watch.status().code() == GEAR_EDISCONNECTED)
      << watch.status().text();
}

TEST_P(Watch, OutlivesTheSocketItCameFrom) {
  Client client;
  Result<ProcessWatch> watch = ProcessWatch::of_peer(client.socket(), GetParam());
  ASSERT_TRUE(watch.ok());
  ProcessWatch moved = watch.take();
  EXPECT_FALSE(moved.dead());
  client.kill();
  EXPECT_TRUE(comes_true([&] { return moved.dead(); }));
}

TEST(WatchWays, FallBackWhereTheKernelDoesNotGrantPidfds) {
  for (int errno_value : {EPERM, ENOSYS}) {
    std::string end = test::in_child([errno_value] {
      if (!test::deny_calls({SYS_pidfd_open}, errno_value)) return std::string("skip");
      pid_t other = fork();
      if (other == 0) {
        for (;;) pause();
      }
      Result<ProcessWatch> watch = ProcessWatch::of_process(other);
      if (!watch.ok()) return watch.status().text();
      if (watch.value().way() != WatchWay::kStartTime || watch.value().pollable() ||
          watch.value().fd() != -1) {
        return std::string("not the start time");
      }
      if (watch.value().dead()) return std::string("dead");
      ::kill(other, SIGKILL);
      if (!comes_true([&] { return watch.value().dead(); })) return std::string("alive");
      waitpid(other, nullptr, 0);
      return std::string(watch.value().dead() ? "" : "alive again");
    });
    if (end == "skip") GTEST_SKIP() << "no seccomp filter";
    EXPECT_EQ(end, "");
  }
}

TEST(WatchWays, TakeNoDescriptorExhaustionForADeath) {
  Client client;
  Result<ProcessWatch> by_time = ProcessWatch::of_process(client.pid(), WatchWay::kStartTime);
  ASSERT_TRUE(by_time.ok());
  std::string end = test::in_child([&] {
    test::allow_descriptors(0);
    if (by_time.value().dead()) return std::string("dead");
    for (WatchWay way : {WatchWay::kPeerPidfd, WatchWay::kPidfd}) {
      Status status = ProcessWatch::of_peer(client.socket(), way).status();
      if (status.code() != GEAR_EMFILE) return status.text() + "?";
    }
    return std::string();
  });
  EXPECT_EQ(end, "");
}

TEST(WatchWays, TellAProcessFromALaterOneWithItsPid) {
  std::string end = test::in_child([]() -> std::string {
    ProcessWatch first;
    for (int turn = 0; turn < 2; ++turn) {
      pid_t pid = fork();
      if (pid == 0) {
        for (;;) pause();
      }
      if (turn == 0) {
        first = ProcessWatch::of_process(pid, WatchWay::kStartTime).take();
        ::kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        // Start times count ticks of 10 ms.
        poll(nullptr, 0, 30);
        std::string last = std::to_string(pid - 1);
        FILE* file = fopen("/proc/sys/kernel/ns_last_pid", "w");
        if (file == nullptr) return "skip";
        bool written = fputs(last.c_str(), file) >= 0;
        if (fclose(file) != 0 || !written) return "skip";
      } else {
        bool same_pid = pid == first.pid();
        bool told = first.dead();
        ::kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        if (!same_pid) return "skip";
        return told ? "" : "the later process passes for the first";
      }
    }
    return "";
  });
  if (end == "skip") GTEST_SKIP() << "a pid cannot be chosen here";
  EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace gear
