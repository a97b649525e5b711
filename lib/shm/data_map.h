// A table's data as a client maps them: one range of addresses, whether they are in one segment or in parts.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "layout/directory.h"
#include "shm/descriptor.h"
#include "shm/segment.h"

namespace gear {

// Unmaps when it goes. Never inherited by a forked child (MADV_DONTFORK).
//
// Parts lie at the places that their blocks and episode cells have in one segment (layout/directory.h), in a range that is
// reserved for all of them; what is not mapped of it can be neither read nor written.
class DataMap {
 public:
  DataMap() = default;
  explicit DataMap(Mapping whole) : whole_(std::move(whole)), data_(whole_.data()), size_(whole_.size()) {}
  DataMap(DataMap&& other) noexcept;
  DataMap& operator=(DataMap&& other) noexcept;
  ~DataMap();

  void* data() const { return data_; }
  size_t size() const { return size_; }

  // All parts, read-only. `header` was checked (gather/check_directory.h) and has parts; there are as many descriptors.
  // Nothing of a part is believed, for its writer can write all of it, and cut it short: what is not there is a SIGBUS for who
  // reads that writer's rows, and for nobody else. Errors: ENOMEM, ESYSTEM.
  static Result<DataMap> of_parts(const std::string& purpose, const layout::TableHeader& header,
                                  const Descriptor* descriptors);
  // One part, writable. Errors: EPROTOCOL (no such part, no memory, too small), ENOMEM, ESYSTEM.
  static Result<DataMap> of_part(const std::string& purpose, const layout::TableHeader& header, uint32_t part, int fd);

 private:
  static Result<DataMap> reserve(const std::string& purpose, size_t bytes);
  Status place(const std::string& purpose, const layout::TableHeader& header, uint32_t part, int fd, bool writable);
  Status keep_private(const std::string& purpose);

  Mapping whole_;  // not valid: the range is of parts
  void* data_ = nullptr;
  size_t size_ = 0;
  int owner_pid_ = 0;
};

}  // namespace gear
