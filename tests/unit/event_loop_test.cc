// ctest: labels=tsan
#include "server/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "shm/descriptor.h"
#include "shm/liveness.h"
#include "support/child.h"

namespace gear {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kLong = 10'000 * kMs;

Result<std::unique_ptr<EventLoop>> make(const std::string& name) {
  return name == "io_uring" ? create_uring_loop() : create_epoll_loop();
}

void ring(int fd) {
  uint64_t one = 1;
  EXPECT_EQ(write(fd, &one, sizeof one), 8);
}
void drain(int fd) {
  uint64_t count;
  EXPECT_EQ(read(fd, &count, sizeof count), 8);
}
Descriptor bell() {
  return Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

struct Connection {
  Descriptor near;
  Descriptor far;
};
Connection connection() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

class Loop : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<EventLoop>> made = make(GetParam());
    if (made.status().code() == GEAR_EUNSUPPORTED) GTEST_SKIP() << made.status().text();
    ASSERT_TRUE(made.ok()) << made.status().text();
    loop_ = made.take();
    ASSERT_STREQ(loop_->name(), GetParam());
  }
  // Tokens told by one wait; a long one that is interrupted goes on.
  std::vector<uint64_t> wait(int64_t timeout_ns, size_t events_max = 64) {
    std::vector<LoopEvent> events(events_max);
    int64_t deadline = timeout_ns == kLong ? deadline_after(kLong) : 0;
    size_t count;
    do {
      count = loop_->wait(timeout_ns, events.data(), events_max);
    } while (count == 0 && left_until(deadline) > 0);
    EXPECT_LE(count, events_max);
    std::vector<uint64_t> tokens;
    for (size_t i = 0; i < count; ++i) tokens.push_back(events[i].token);
    last_ = count > 0 ? events[count - 1] : LoopEvent{};
    return tokens;
  }

  std::unique_ptr<EventLoop> loop_;
  LoopEvent last_{};
};

using Tokens = std::vector<uint64_t>;

INSTANTIATE_TEST_SUITE_P(By, Loop, testing::Values("io_uring", "epoll"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Loop, TellsWhichDescriptorIsReadable) {
  Descriptor first = bell(), second = bell();
  ASSERT_TRUE(loop_->add(first.get(), 11).ok());
  ASSERT_TRUE(loop_->add(second.get(), uint64_t{22} << 56).ok());
  EXPECT_EQ(wait(0), Tokens{});
  ring(second.get());
  EXPECT_EQ(wait(kLong), Tokens{uint64_t{22} << 56});
  EXPECT_FALSE(last_.hangup);
  drain(second.get());
  ring(first.get());
  EXPECT_EQ(wait(kLong), Tokens{11});
}

TEST_P(Loop, TellsAgainWhatWasLeftUnread) {
  Descriptor one = bell();
  ASSERT_TRUE(loop_->add(one.get(), 1).ok());
  ring(one.get());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(wait(kLong), Tokens{1}) << i;
    EXPECT_EQ(wait(0), Tokens{1}) << i;
  }
  drain(one.get());
  wait(0);  // may tell what it noticed before
  EXPECT_EQ(wait(0), Tokens{});
}

TEST_P(Loop, TellsTheSecondOfTwoMessagesWhenOneWasRead) {
  Connection pair = connection();
  ASSERT_TRUE(loop_->add(pair.near.get(), 1).ok());
  EXPECT_EQ(wait(0), Tokens{});
  ASSERT_EQ(send(pair.far.get(), "a", 1, 0), 1);
  ASSERT_EQ(send(pair.far.get(), "b", 1, 0), 1);
  char byte;
  EXPECT_EQ(wait(kLong), Tokens{1});
  ASSERT_EQ(recv(pair.near.get(), &byte, 1, 0), 1);
  EXPECT_EQ(wait(kLong), Tokens{1});
  ASSERT_EQ(recv(pair.near.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'b');
}

TEST_P(Loop, TellsAHangUpBesideTheDataBeforeIt) {
  Connection pair = connection();
  ASSERT_TRUE(loop_->add(pair.near.get(), 1).ok());
  EXPECT_EQ(wait(0), Tokens{});
  ASSERT_EQ(send(pair.far.get(), "last", 4, 0), 4);
  pair.far.reset();
  EXPECT_EQ(wait(kLong), Tokens{1});
  EXPECT_TRUE(last_.hangup || wait(kLong) == Tokens{1});
  EXPECT_EQ(wait(kLong), Tokens{1});
  EXPECT_TRUE(last_.hangup);
  char text[8];
  EXPECT_EQ(recv(pair.near.get(), text, sizeof text, 0), 4);
}

TEST_P(Loop, SleepsAsLongAsAskedAndNotMuchLonger) {
  Descriptor one = bell();
  ASSERT_TRUE(loop_->add(one.get(), 1).ok());
  for (int64_t timeout : {200'000l, 30 * kMs}) {
    int64_t begin = now_ns();
    int whole = 0;
    for (int i = 0; i < 10; ++i) {
      int64_t slept = now_ns();
      EXPECT_EQ(wait(timeout), Tokens{});
      whole += now_ns() - slept >= timeout ? 1 : 0;
    }
    // The end of an earlier ring interrupts its thread now and then.
    EXPECT_GE(whole, 8);
    EXPECT_LT(now_ns() - begin, 10 * timeout + 1000 * kMs);
  }
}

TEST_P(Loop, LooksOnlyWhenTheTimeIsNought) {
  Descriptor one = bell();
  ASSERT_TRUE(loop_->add(one.get(), 1).ok());
  int64_t begin = now_ns();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(wait(0), Tokens{});
  EXPECT_LT(now_ns() - begin, 1000 * kMs);
}

TEST_P(Loop, IsWokenFromASleepWithoutLimitByAnotherThread) {
  Descriptor one = bell();
  ASSERT_TRUE(loop_->add(one.get(), 1).ok());
  std::thread waker([&one] {
    poll(nullptr, 0, 5);
    ring(one.get());
  });
  Tokens told;
  // An interruption ends a sleep early.
  for (int i = 0; i < 5 && told.empty(); ++i) told = wait(-1);
  EXPECT_EQ(told, Tokens{1});
  waker.join();
}

TEST_P(Loop, SeesABellRungByAnotherThreadWhileItOnlyLooks) {
  Descriptor one = bell();
  ASSERT_TRUE(loop_->add(one.get(), 1).ok());
  EXPECT_EQ(wait(0), Tokens{});
  std::thread waker([&one] { ring(one.get()); });
  int64_t deadline = deadline_after(kLong);
  Tokens told;
  while (told.empty() && left_until(deadline) > 0) told = wait(0);
  EXPECT_EQ(told, Tokens{1});
  waker.join();
}

TEST_P(Loop, SaysNothingOfARemovedDescriptor) {
  Descriptor one = bell(), two = bell();
  ASSERT_TRUE(loop_->add(one.get(), 1).ok());
  ASSERT_TRUE(loop_->add(two.get(), 2).ok());
  EXPECT_EQ(wait(0), Tokens{});
  ring(one.get());
  ring(two.get());
  loop_->remove(one.get());
  EXPECT_EQ(wait(kLong), Tokens{2});
  EXPECT_EQ(wait(kLong), Tokens{2});
  loop_->remove(one.get());  // no effect
  loop_->remove(-1);
  loop_->remove(two.get());
  EXPECT_EQ(wait(5 * kMs), Tokens{});
}

TEST_P(Loop, GivesAReusedDescriptorItsNewTokenOnly) {
  for (uint64_t turn = 0; turn < 50; ++turn) {
    Descriptor one = bell();
    ASSERT_TRUE(loop_->add(one.get(), turn).ok());
    wait(0);
    ring(one.get());
    if (turn % 2 == 0) {
      EXPECT_EQ(wait(kLong), Tokens{turn});
    }
    loop_->remove(one.get());
  }
}

TEST_P(Loop, LetsGoOfTheFileOfARemovedDescriptor) {
  Connection pair = connection();
  ASSERT_TRUE(loop_->add(pair.near.get(), 1).ok());
  EXPECT_EQ(wait(0), Tokens{});
  loop_->remove(pair.near.get());
  pair.near.reset();
  pollfd far{pair.far.get(), POLLIN, 0};
  EXPECT_EQ(poll(&far, 1, 1000), 1) << "the peer sees no hang-up";
}

TEST_P(Loop, LetsGoOfAllFilesWhenItEnds) {
  Connection pair = connection();
  ASSERT_TRUE(loop_->add(pair.near.get(), 1).ok());
  EXPECT_EQ(wait(0), Tokens{});
  loop_.reset();
  pair.near.reset();
  pollfd far{pair.far.get(), POLLIN, 0};
  EXPECT_EQ(poll(&far, 1, 1000), 1) << "the peer sees no hang-up";
}

TEST_P(Loop, TellsEachOfManyThoughFewAreAskedForAtOnce) {
  constexpr size_t kMany = 1000;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < kMany + 100) GTEST_SKIP() << "too few descriptors";
  std::vector<Descriptor> bells;
  for (size_t i = 0; i < kMany; ++i) {
    bells.push_back(bell());
    ASSERT_TRUE(loop_->add(bells.back().get(), i).ok());
  }
  EXPECT_EQ(wait(0), Tokens{});
  for (const Descriptor& one : bells) ring(one.get());
  std::set<uint64_t> told;
  for (int i = 0; i < 1000 && told.size() < kMany; ++i) {
    for (uint64_t token : wait(1000 * kMs, 7)) {
      if (told.insert(token).second) drain(bells[token].get());
    }
  }
  EXPECT_EQ(told.size(), kMany);
  for (const Descriptor& one : bells) loop_->remove(one.get());
  EXPECT_EQ(wait(0), Tokens{});
}

TEST_P(Loop, StarvesNoneBesideOneThatIsAlwaysReadable) {
  Descriptor busy = bell(), other = bell();
  ASSERT_TRUE(loop_->add(busy.get(), 1).ok());
  ASSERT_TRUE(loop_->add(other.get(), 2).ok());
  ring(busy.get());
  EXPECT_EQ(wait(kLong), Tokens{1});
  ring(other.get());
  bool told = false;
  for (int i = 0; i < 100 && !told; ++i) told = wait(kLong, 1) == Tokens{2};
  EXPECT_TRUE(told);
}

TEST_P(Loop, WorksInAThreadOtherThanItsMakers) {
  std::unique_ptr<EventLoop> made;
  Descriptor one = bell(), stop = bell();
  std::thread maker([&] {
    made = make(GetParam()).take();
    EXPECT_TRUE(made->add(one.get(), 1).ok());
    EXPECT_TRUE(made->add(stop.get(), 2).ok());
  });
  maker.join();
  std::atomic<int> rung{0};
  std::thread server([&] {
    LoopEvent event;
    for (;;) {
      if (made->wait(kLong, &event, 1) == 0) continue;
      if (event.token == 2) break;
      drain(one.get());
      rung.fetch_add(1);
    }
  });
  for (int i = 1; i <= 20; ++i) {
    ring(one.get());
    int64_t deadline = deadline_after(kLong);
    while (rung.load() < i && left_until(deadline) > 0) poll(nullptr, 0, 1);
    ASSERT_EQ(rung.load(), i);
  }
  ring(stop.get());
  server.join();
  made.reset();
}

TEST_P(Loop, TellsTheDeathOfAProcess) {
  pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  Result<ProcessWatch> watch = ProcessWatch::of_process(pid);
  ASSERT_TRUE(watch.ok());
  if (watch.value().pollable()) {
    ASSERT_TRUE(loop_->add(watch.value().fd(), 5).ok());
    EXPECT_EQ(wait(0), Tokens{});
    kill(pid, SIGKILL);
    EXPECT_EQ(wait(kLong), Tokens{5});
    EXPECT_TRUE(watch.value().dead());
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_P(Loop, RefusesWhatCannotBeWatched) {
  Descriptor one = bell();
  ASSERT_TRUE(loop_->add(one.get(), 1).ok());
  EXPECT_EQ(loop_->add(one.get(), 2).code(), GEAR_EINVAL);
  EXPECT_EQ(loop_->add(-1, 3).code(), GEAR_EINVAL);
  EXPECT_EQ(loop_->add(999'999, 3).code(), GEAR_EINVAL);
  ring(one.get());
  EXPECT_EQ(wait(kLong), Tokens{1});
}

TEST_P(Loop, ReturnsFromASleepAtASignal) {
  Descriptor one = bell();
  ASSERT_TRUE(loop_->add(one.get(), 1).ok());
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction old;
  sigaction(SIGUSR1, &action, &old);
  pthread_t self = pthread_self();
  std::atomic<bool> woke{false};
  std::thread sender([&] {
    while (!woke.load()) {
      pthread_kill(self, SIGUSR1);
      poll(nullptr, 0, 1);
    }
  });
  EXPECT_EQ(wait(-1), Tokens{});
  woke.store(true);
  sender.join();
  sigaction(SIGUSR1, &old, nullptr);
}

void count_line(int, const char*, void* user) {
  ++*static_cast<int*>(user);
}

TEST(LoopChoice, IsEpollWhereIoUringIsNotAllowedByTheUser) {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::create(false);
  ASSERT_TRUE(loop.ok());
  EXPECT_STREQ(loop.value()->name(), "epoll");
}

TEST(LoopChoice, IsEpollWithOneLineInTheLogWhereTheContainerForbidsIoUring) {
  for (int errno_value : {EPERM, ENOSYS, ENOMEM}) {
    std::string end = test::in_child([errno_value] {
      int lines = 0;
      set_log_sink(count_line, &lines);
      if (!test::deny_calls({SYS_io_uring_setup}, errno_value)) return std::string("skip");
      for (int i = 0; i < 2; ++i) {
        Result<std::unique_ptr<EventLoop>> loop = EventLoop::create(true);
        if (!loop.ok()) return loop.status().text();
        if (strcmp(loop.value()->name(), "epoll") != 0) return std::string("not epoll");
      }
      return std::string(lines == 1 ? "" : "not one line in the log");
    });
    if (end == "skip") GTEST_SKIP() << "no seccomp filter";
    EXPECT_EQ(end, "");
  }
}

TEST(LoopChoice, SaysThatDescriptorsRanOut) {
  std::string end = test::in_child([] {
    test::allow_descriptors(0);
    for (bool allow_io_uring : {false, true}) {
      Status status = EventLoop::create(allow_io_uring).status();
      if (status.code() != GEAR_EMFILE) return status.text() + "?";
    }
    return std::string();
  });
  EXPECT_EQ(end, "");
}

TEST(EpollLoop, SleepsBelowAMillisecondOnKernelsWithoutEpollPwait2) {
  std::string end = test::in_child([] {
    if (!test::deny_calls({SYS_epoll_pwait2}, ENOSYS)) return std::string("skip");
    std::unique_ptr<EventLoop> loop = create_epoll_loop().take();
    Descriptor one = bell();
    if (!loop->add(one.get(), 1).ok()) return std::string("not added");
    LoopEvent event{};
    int64_t begin = now_ns();
    for (int i = 0; i < 20; ++i) {
      if (loop->wait(200'000, &event, 1) != 0) return std::string("told something");
    }
    int64_t took = now_ns() - begin;
    if (took < 20 * 200'000) return std::string("too short");
    ring(one.get());
    if (loop->wait(kLong, &event, 1) != 1 || event.token != 1) return std::string("not told");
    return std::string();
  });
  if (end == "skip") GTEST_SKIP() << "no seccomp filter";
  EXPECT_EQ(end, "");
}

TEST(UringLoop, LooksWithoutASystemCall) {
  std::string end = test::in_child([] {
    Result<std::unique_ptr<EventLoop>> loop = create_uring_loop();
    if (!loop.ok()) return std::string("skip");
    Descriptor one = bell();
    LoopEvent event{};
    if (!loop.value()->add(one.get(), 1).ok()) return std::string("not added");
    if (loop.value()->wait(0, &event, 1) != 0) return std::string("told something");
    if (!test::deny_calls({SYS_io_uring_enter}, -1)) return std::string("skip");
    for (int i = 0; i < 1000; ++i) {
      if (loop.value()->wait(0, &event, 1) != 0) return std::string("told something");
    }
    ring(one.get());
    // The kernel completes the poll by itself.
    int64_t deadline = deadline_after(kLong);
    while (loop.value()->wait(0, &event, 1) == 0) {
      if (left_until(deadline) == 0) return std::string("not told");
    }
    _exit(0);  // the end of the loop does make calls
  });
  if (end == "skip") GTEST_SKIP() << "no io_uring, or no seccomp filter";
  EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace gear
