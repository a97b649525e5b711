#include "client/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace gear::client {
namespace {

// Held across fork, so that the child finds the list whole.
std::mutex list_mutex;

// Never destroyed: a fork may come while the process exits.
std::vector<int>& private_descriptors() {
  static auto* list = new std::vector<int>();
  return *list;
}

void before_fork() {
  list_mutex.lock();
}

void after_fork_in_parent() {
  list_mutex.unlock();
}

void after_fork_in_child() {
  detail::forks.fetch_add(1, std::memory_order_relaxed);
  for (int fd : private_descriptors()) close(fd);
  private_descriptors().clear();
  list_mutex.unlock();
}

}  // namespace

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    private_descriptors();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  });
}

void close_in_child(int fd) {
  std::lock_guard lock(list_mutex);
  private_descriptors().push_back(fd);
}

void keep_in_child(int fd) {
  std::lock_guard lock(list_mutex);
  auto& list = private_descriptors();
  auto found = std::find(list.begin(), list.end(), fd);
  if (found != list.end()) list.erase(found);
}

}  // namespace gear::client
