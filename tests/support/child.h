// Tests that need a process of their own: one with other limits, another user, or fewer system
// calls.
#pragma once

#include <dirent.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace gear::test {

inline constexpr unsigned kChildSeconds = 30;

// Sanitizers need much address space, and make mlock a call that does nothing.
#if defined(__has_feature)
#define GEAR_TEST_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GEAR_TEST_SANITIZED 1
#else
#define GEAR_TEST_SANITIZED 0
#endif
inline constexpr bool kSanitized = GEAR_TEST_SANITIZED;

// Runs body in a forked child. Returns what it returned, or how the child died. Needs a process
// without other threads.
inline std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "pipe failed";
  pid_t pid = fork();
  if (pid < 0) return "fork failed";
  if (pid == 0) {
    close(ends[0]);
    alarm(kChildSeconds);
    signal(SIGSEGV, SIG_DFL);  // a sanitizer would tell of it, and exit
    std::string text = body();
    for (size_t at = 0; at < text.size();) {
      ssize_t written = write(ends[1], text.data() + at, text.size() - at);
      if (written <= 0) break;
      at += static_cast<size_t>(written);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[512];
  for (;;) {
    ssize_t length = read(ends[0], part, sizeof part);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) break;
    text.append(part, static_cast<size_t>(length));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return text + "killed by signal " + std::to_string(WTERMSIG(status));
  return text;
}

// What the body's process exited with; -1: it was killed.
inline int exit_of_child(const std::function<int()>& body) {
  fflush(nullptr);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(kChildSeconds);
    _exit(body());
  }
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// From here on these system calls of this process answer errno_value (or kill it, for -1), as a
// container's seccomp profile would have it. False where that cannot be arranged.
inline bool deny_calls(const std::vector<long>& numbers, int errno_value) {
  std::vector<sock_filter> program;
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  unsigned action = errno_value < 0 ? SECCOMP_RET_KILL_PROCESS
                                    : SECCOMP_RET_ERRNO | static_cast<unsigned>(errno_value);
  for (long number : numbers) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, action));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Entries of a folder whose names begin so; its own "." and ".." aside.
inline size_t count_entries(const char* folder, const std::string& begin = "") {
  DIR* open = opendir(folder);
  if (open == nullptr) return 0;
  size_t count = 0;
  while (const dirent* entry = readdir(open)) {
    std::string name = entry->d_name;
    if (name != "." && name != ".." && name.compare(0, begin.size(), begin) == 0) ++count;
  }
  closedir(open);
  return count;
}

inline size_t open_descriptors() {
  return count_entries("/proc/self/fd") - 1;
}

// Limits descriptors so that `more` can be made, given that numbers below the lowest free one are
// all taken.
inline void allow_descriptors(unsigned more) {
  int lowest = dup(0);
  close(lowest);
  rlimit limit{static_cast<rlim_t>(lowest) + more, static_cast<rlim_t>(lowest) + more};
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace gear::test
