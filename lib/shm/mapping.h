// Memory of a descriptor, mapped into this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace boost::interprocess {
class mapped_region;
}

namespace gear {

// A mapping of a whole segment, or a range of addresses with what is mapped into it; unmaps when it goes. Never inherited by a
// forked child (MADV_DONTFORK).
class Mapping {
 public:
  Mapping();
  Mapping(Mapping&&) noexcept;
  Mapping& operator=(Mapping&&) noexcept;
  ~Mapping();

  void* data() const { return data_; }
  size_t size() const { return size_; }
  bool valid() const { return data_ != nullptr; }

  // Maps `bytes` of fd from its begin. Errors: ENOMEM, ESYSTEM.
  static Result<Mapping> map(int fd, size_t bytes, bool writable);
  // Addresses that can be neither read nor written until something is placed there. Errors: ENOMEM, ESYSTEM.
  static Result<Mapping> reserve(size_t bytes);
  // `bytes` of fd from `offset` on, at data() + at. Errors: as map.
  Status place(size_t at, int fd, uint64_t offset, size_t bytes, bool writable);
  // After the last place: no forked child, no core dump has it.
  Status keep_private();

 private:
  std::unique_ptr<boost::interprocess::mapped_region> region_;  // nullptr: a range
  void* data_ = nullptr;
  size_t size_ = 0;
  int owner_pid_ = 0;  // a forked child has no mapping, and must not unmap what it put in its place
};

}  // namespace gear
