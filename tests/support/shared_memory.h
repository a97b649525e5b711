// Memory that a test and the processes it forks have in common.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

namespace gear::test {

// One T, made before the first fork; it goes with the process that made it, which alone unmaps it.
template <typename T>
class SharedMemory {
 public:
  SharedMemory() {
    void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      perror("shared memory of a test");
      abort();
    }
    value_ = new (memory) T{};
  }
  ~SharedMemory() { munmap(static_cast<void*>(value_), sizeof(T)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  T* get() const { return value_; }
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

}  // namespace gear::test
