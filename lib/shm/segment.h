// Shared-memory segments: made by the server, mapped by everyone.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "layout/segment.h"
#include "shm/descriptor.h"
#include "shm/mapping.h"

namespace gear {

struct MemoryOptions {
  uint32_t memory = GEAR_MEMORY_MEMFD;  // posix or memfd
  uint32_t huge_pages = GEAR_WANT_NO;
  uint32_t populate = GEAR_WANT_NO;
  uint32_t lock = GEAR_WANT_NO;
  int32_t numa_node = -1;
};

// A segment that this process made and owns. Its name, if it has one, goes with it; its memory when
// the last process unmaps it. Not thread safe.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // Makes a zero-filled segment of `bytes` (rounded up to whole pages), all of it allocated:
  // shortage is an error here and never a fault later. `purpose` is the begin of error texts
  // ("create table \"atari\""). Posix segments are named
  // "/gear.<uid>.<instance, 16 hex>.<kind>.<object, hex>", created exclusively, mode 0600; memfds
  // get F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL and mode 0600. The header is written but for its magic.
  // Errors: ENOSPC (asked and free bytes in the text), ENOMEM, EMFILE, EMEMLOCK, EUNSUPPORTED,
  // EEXISTS, ESYSTEM.
  static Result<Segment> create(const std::string& purpose, layout::SegmentKind kind, size_t bytes,
                                uint64_t instance_id, uint64_t object_id,
                                const MemoryOptions& options);

  // As create, but none of it is allocated beyond the header's page: allocate_range and release_range do that, on whole
  // pages. Neither huge pages nor a lock; the caller has checked that there is room.
  static Result<Segment> create_sparse(const std::string& purpose, layout::SegmentKind kind,
                                       size_t bytes, uint64_t instance_id, uint64_t object_id,
                                       const MemoryOptions& options);
  // After an error none of the range is allocated. Errors: ENOSPC, ENOMEM, ESYSTEM; with `populate` required
  // those of populate_pages.
  Status allocate_range(const std::string& purpose, uint64_t offset, uint64_t bytes,
                        uint32_t populate = GEAR_WANT_NO);
  // Its pages go; whoever reads there finds zeros. False when the system would not.
  bool release_range(uint64_t offset, uint64_t bytes);

  // Takes over the named segment that a dead server of this instance left: the same memory, which its clients still map. Its
  // name goes with it as if made here, unless keep_name. Only for the holder of the instance's lock.
  // Errors: ENOTFOUND; EVERSION (versions and fingerprints of both builds in the text); EPERM (another owner or mode);
  // EPROTOCOL (half made, truncated, or not what its name says; but of a segment that clients write nothing is believed: its
  // header is written anew, and its size is for the caller to judge); EADDRINUSE (another process holds it: a server, or one
  // that removes it); EMFILE, ENOMEM, ESYSTEM.
  static Result<Segment> adopt(const std::string& purpose, layout::SegmentKind kind,
                               uint64_t instance_id, uint64_t object_id);

  // Lets map_segment of other processes succeed; after the last initialising store.
  void publish_magic();

  void* data() const { return mapping_.data(); }
  size_t size() const { return mapping_.size(); }
  bool named() const { return !name_.empty(); }
  // The name stays when this goes.
  void keep_name() { name_.clear(); }
  int writable_fd() const { return writable_.get(); }
  int read_only_fd() const { return read_only_.get(); }

 private:
  Status open_named(const std::string& purpose, layout::SegmentKind kind, uint64_t instance_id,
                    uint64_t object_id);
  Status open_memfd(const std::string& purpose, layout::SegmentKind kind, bool huge, bool* named);
  static Result<Segment> make(const std::string& purpose, layout::SegmentKind kind, size_t size,
                              size_t allocated, uint64_t instance_id, uint64_t object_id,
                              const MemoryOptions& options);
  Status size_and_map(const std::string& purpose, size_t bytes, const MemoryOptions& options);
  Status allocate(const std::string& purpose, size_t bytes, const MemoryOptions& options,
                  bool named);
  Status replace_header(const std::string& what, layout::SegmentKind kind, uint64_t bytes, uint64_t instance_id,
                        uint64_t object_id);
  void remove_name();
  Status hold(const std::string& what, layout::SegmentKind kind) const;

  Descriptor writable_;
  Descriptor read_only_;
  Mapping mapping_;
  std::string name_;   // empty for memfd
  int owner_pid_ = 0;  // a forked child does not remove the name
};

// While one lives, segments that go in this thread keep their names: what is adopted in part stays whole when the rest cannot be.
class NamesKept {
 public:
  NamesKept() { ++kept_; }
  ~NamesKept() { --kept_; }
  NamesKept(const NamesKept&) = delete;
  NamesKept& operator=(const NamesKept&) = delete;
  static bool any() { return kept_ > 0; }

 private:
  static thread_local int kept_;
};

// Whether memory of that kind is there for so many bytes, a moment before it is allocated. Errors: ENOSPC, EUNSUPPORTED.
Status check_room(const std::string& purpose, uint64_t bytes, const MemoryOptions& options);

// Maps a segment received from a server and checks it: size of the file, magic, version,
// fingerprint, kind. `purpose` is as above. Errors: EVERSION (both versions, or both fingerprints,
// in the text), EPROTOCOL (half made, too small, another kind), ENOMEM.
Result<Mapping> map_segment(const std::string& purpose, int fd, layout::SegmentKind kind,
                            bool writable);

// Removes the named segments that a dead server of this instance left. Only for the holder of the
// instance's lock. Returns how many.
size_t remove_segments_of(uint64_t instance_id);

}  // namespace gear
