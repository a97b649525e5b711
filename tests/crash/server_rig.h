// A server in a process of its own that dies where a test says, and is started again at once, until it is asked to stop. Who
// forks the server does nothing else; the client belongs to the test's own process.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/crash_point.h"
#include "base/log.h"
#include "server/server.h"
#include "shm/segment_names.h"
#include "support/shared_memory.h"

namespace gear::test {

// Where a process dies: at the visit-th store of the place. "": it lives.
struct Death {
  char place[80] = {};
  uint64_t visit = 0;
};

inline Death death_at(const std::string& place, uint64_t visit) {
  Death death;
  snprintf(death.place, sizeof death.place, "%s", place.c_str());
  death.visit = visit;
  return death;
}

// In memory that all processes of a rig share.
struct Visits {
  static constexpr size_t kMost = 512;
  uint32_t count = 0;
  Death at[kMost];

  // Those of this process since `before`.
  void save(const std::map<std::string, uint64_t>& before) {
    count = 0;
    for (const auto& [place, visits] : crash_points_visits()) {
      auto earlier = before.find(place);
      uint64_t own = visits - (earlier != before.end() ? earlier->second : 0);
      if (own > 0 && count < kMost) at[count++] = death_at(place, own);
    }
  }
};

struct RigMemory {
  static constexpr uint32_t kGenerations = 3;
  Death deaths[kGenerations];  // of the servers, one after the other
  std::atomic<uint32_t> ready{0};
  std::atomic<uint32_t> died{0};
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> killed{0};  // servers before this one die as soon as they serve, between two records
  std::atomic<uint64_t> instance{0};
  Visits made[kGenerations];   // by the servers that lived: until they could serve
  Visits all[kGenerations];
  // Of a client that dies.
  Visits client;
  std::atomic<uint64_t> acknowledged{0};
  std::atomic<bool> emptied{false};
};

class ServerRig {
 public:
  // `path` of the socket. Call it in a process without other threads.
  explicit ServerRig(std::string path) : path_(std::move(path)) {}
  ~ServerRig() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  RigMemory& memory() { return *memory_; }
  std::string endpoint() const { return "unix:" + path_; }

  // What becomes of the memory between the first server's death and the next one; set it before start.
  std::function<void()> spoil;

  void start() {
    fflush(nullptr);
    pid_ = fork();
    if (pid_ == 0) supervise();
  }

  // Ends the server; what went wrong.
  std::string stop() {
    memory_->stop = true;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    std::string text;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) text = "a server ended with " + std::to_string(status) + "; ";
    for (const SegmentName& name : list_segments(memory_->instance)) {
      text += "left behind: " + name.text() + "; ";
      remove_segment(name);
    }
    if (access(path_.c_str(), F_OK) == 0) text += "its socket is still there; ";
    return text;
  }

 private:
  [[noreturn]] void supervise() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t generation = 0;; ++generation) {
      pid_t pid = fork();
      if (pid == 0) serve(generation);
      int status = 0;
      waitpid(pid, &status, 0);
      bool crashed = WIFEXITED(status) && WEXITSTATUS(status) == kCrashStatus;
      if (crashed) ++memory_->died;
      if (crashed && generation == 0 && spoil) spoil();
      if (!crashed) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100);
    }
  }

  [[noreturn]] void serve(uint32_t generation) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    if (getenv("GEAR_CRASH_LOG") == nullptr) set_log_sink([](int, const char*, void*) {}, nullptr);
    std::map<std::string, uint64_t> before = crash_points_visits();
    bool dies = generation < RigMemory::kGenerations;
    if (dies) crash_points_arm_at(memory_->deaths[generation].place, memory_->deaths[generation].visit);
    ServerOptions options;
    options.socket_path = path_;
    options.memory = GEAR_MEMORY_POSIX;
    options.allow_io_uring = false;
    options.drowsy_ns = 1'000'000;
    Result<std::unique_ptr<Server>> server = Server::create(options);
    if (!server.ok()) {
      fprintf(stderr, "server %u: %s\n", generation, server.status().text().c_str());
      _exit(1);
    }
    if (dies) memory_->made[generation].save(before);
    memory_->instance = server.value()->instance_id();
    memory_->ready = generation + 1;
    server.value()->run([&] {
      if (generation < memory_->killed) _exit(kCrashStatus);
      if (memory_->stop) server.value()->stop();
    }, 1'000'000);
    server.value().reset();
    if (dies) memory_->all[generation].save(before);
    _exit(0);
  }

  std::string path_;
  SharedMemory<RigMemory> memory_;
  pid_t pid_ = -1;
};

}  // namespace gear::test
