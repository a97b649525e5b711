#include "shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstring>
#include <fstream>

#include "base/log.h"
#include "layout/fingerprint.h"
#include "support/child.h"

namespace gear {
namespace {

using layout::SegmentKind;
using test::in_child;

constexpr size_t kBytes = 100'000;
const std::string kPurpose = "create table \"atari\"";

// No other test process has this one.
uint64_t instance() {
  return 0x7e57000000000000u | static_cast<uint64_t>(getpid());
}

std::string prefix(uint64_t id) {
  return format("gear.%u.%016llx.", geteuid(), static_cast<unsigned long long>(id));
}
size_t names_of(uint64_t id) {
  return test::count_entries("/dev/shm", prefix(id));
}
std::string path_of(uint64_t id, const char* rest) {
  return "/dev/shm/" + prefix(id) + rest;
}

Result<Segment> make(uint32_t memory, size_t bytes = kBytes, MemoryOptions options = {},
                     uint64_t object = 5) {
  options.memory = memory;
  return Segment::create(kPurpose, SegmentKind::kData, bytes, instance(), object, options);
}

layout::SegmentHeader* header_of(Segment& segment) {
  return static_cast<layout::SegmentHeader*>(segment.data());
}

bool says(const Status& status, const std::string& words) {
  return status.text().find(words) != std::string::npos;
}

void count_line(int, const char*, void* user) {
  ++*static_cast<int*>(user);
}

// Cases that hold for named and for anonymous segments.
class EitherSegment : public testing::TestWithParam<uint32_t> {};

INSTANTIATE_TEST_SUITE_P(Memory, EitherSegment,
                         testing::Values(GEAR_MEMORY_POSIX, GEAR_MEMORY_MEMFD),
                         [](const auto& info) {
                           return info.param == GEAR_MEMORY_POSIX ? "Posix" : "Memfd";
                         });

TEST_P(EitherSegment, IsZeroButForItsHeaderAndHasNoMagicYet) {
  Result<Segment> made = make(GetParam());
  ASSERT_TRUE(made.ok()) << made.status().text();
  Segment& segment = made.value();
  EXPECT_EQ(segment.size(), layout::align_up(kBytes, 4096));
  const layout::SegmentHeader& header = *header_of(segment);
  EXPECT_EQ(header.magic, 0u);
  EXPECT_EQ(header.version, layout::kLayoutVersion);
  EXPECT_EQ(header.fingerprint, layout::kLayoutFingerprint);
  EXPECT_EQ(header.kind, static_cast<uint32_t>(SegmentKind::kData));
  EXPECT_EQ(header.size_bytes, segment.size());
  EXPECT_EQ(header.instance_id, instance());
  EXPECT_EQ(header.object_id, 5u);
  const char* bytes = static_cast<const char*>(segment.data());
  for (size_t i = sizeof header; i < segment.size(); ++i) ASSERT_EQ(bytes[i], 0) << i;
}

TEST_P(EitherSegment, HasAllItsPagesAllocatedAtCreation) {
  Result<Segment> made = make(GetParam(), size_t{8} << 20);
  ASSERT_TRUE(made.ok());
  struct stat file;
  ASSERT_EQ(fstat(made.value().writable_fd(), &file), 0);
  EXPECT_GE(static_cast<size_t>(file.st_blocks) * 512, made.value().size());
}

TEST_P(EitherSegment, HasMode0600AndDescriptorsThatCloseOnExec) {
  mode_t old_mask = umask(0);
  Result<Segment> made = make(GetParam());
  umask(old_mask);
  ASSERT_TRUE(made.ok());
  for (int fd : {made.value().writable_fd(), made.value().read_only_fd()}) {
    struct stat file;
    ASSERT_EQ(fstat(fd, &file), 0);
    EXPECT_EQ(file.st_mode & 07777, 0600u);
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
}

TEST_P(EitherSegment, IsRefusedBeforeItsMagicAndMappedAfterIt) {
  Result<Segment> made = make(GetParam());
  ASSERT_TRUE(made.ok());
  Segment& segment = made.value();
  Result<Mapping> early = map_segment("open", segment.read_only_fd(), SegmentKind::kData, false);
  EXPECT_EQ(early.status().code(), GEAR_EPROTOCOL);
  EXPECT_TRUE(says(early.status(), "half made")) << early.status().text();

  static_cast<char*>(segment.data())[kBytes - 1] = 7;
  segment.publish_magic();
  Result<Mapping> mapped = map_segment("open", segment.read_only_fd(), SegmentKind::kData, false);
  ASSERT_TRUE(mapped.ok()) << mapped.status().text();
  EXPECT_EQ(mapped.value().size(), segment.size());
  EXPECT_EQ(static_cast<const char*>(mapped.value().data())[kBytes - 1], 7);
}

TEST_P(EitherSegment, BeyondMemoryIsNoSpaceAndLeavesNothingBehind) {
  size_t descriptors = test::open_descriptors();
  for (size_t bytes : {size_t{1} << 50, SIZE_MAX, SIZE_MAX - 4095, size_t{1} << 63}) {
    Result<Segment> made = make(GetParam(), bytes);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), GEAR_ENOSPC) << made.status().text();
    EXPECT_TRUE(says(made.status(), "create table \"atari\": ")) << made.status().text();
    EXPECT_TRUE(says(made.status(), "iB asked, ")) << made.status().text();
    EXPECT_TRUE(says(made.status(), "GiB free in ")) << made.status().text();
  }
  EXPECT_EQ(names_of(instance()), 0u);
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

TEST_P(EitherSegment, SaysMagicVersionFingerprintKindAndSizeThatDoNotFit) {
  Result<Segment> made = make(GetParam());
  ASSERT_TRUE(made.ok());
  Segment& segment = made.value();
  segment.publish_magic();
  layout::SegmentHeader& header = *header_of(segment);
  const layout::SegmentHeader good = header;
  auto refused = [&] {
    Status status = map_segment("open", segment.read_only_fd(), SegmentKind::kData, false).status();
    header = good;
    return status;
  };

  header.magic = 0x1122334455667788u;
  Status status = refused();
  EXPECT_EQ(status.code(), GEAR_EPROTOCOL);
  EXPECT_TRUE(says(status, "1122334455667788") && says(status, "3130474553524147"))
      << status.text();

  header.version = 77;
  status = refused();
  EXPECT_EQ(status.code(), GEAR_EVERSION);
  EXPECT_TRUE(says(status, "version is 77,") && says(status, format("are %u,", layout::kLayoutVersion)))
      << status.text();

  header.fingerprint = 0xabcdef;
  status = refused();
  EXPECT_EQ(status.code(), GEAR_EVERSION);
  EXPECT_TRUE(
      says(status, "0000000000abcdef") &&
      says(status, format("%016llx", static_cast<unsigned long long>(layout::kLayoutFingerprint))))
      << status.text();

  header.kind = static_cast<uint32_t>(SegmentKind::kChannel);
  status = refused();
  EXPECT_EQ(status.code(), GEAR_EPROTOCOL);
  EXPECT_TRUE(says(status, "a channel segment (kind 4)") && says(status, "a data segment (kind 3)"))
      << status.text();

  header.size_bytes = 4096;
  status = refused();
  EXPECT_EQ(status.code(), GEAR_EPROTOCOL);
  EXPECT_TRUE(says(status, format("%zu bytes", segment.size())) && says(status, "4096"))
      << status.text();

  EXPECT_TRUE(map_segment("open", segment.read_only_fd(), SegmentKind::kData, false).ok());
}

TEST_P(EitherSegment, CannotBeMappedWritableThroughItsReadOnlyDescriptor) {
  Result<Segment> made = make(GetParam());
  ASSERT_TRUE(made.ok());
  made.value().publish_magic();
  int fd = made.value().read_only_fd();
  Result<Mapping> mapped = map_segment("open", fd, SegmentKind::kData, true);
  EXPECT_EQ(mapped.status().code(), GEAR_EPERM) << mapped.status().text();
  EXPECT_EQ(mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(write(fd, "x", 1), -1);
}

TEST_P(EitherSegment, MappedReadOnlyFaultsOnAStore) {
  Result<Segment> made = make(GetParam());
  ASSERT_TRUE(made.ok());
  made.value().publish_magic();
  int fd = made.value().read_only_fd();
  std::string end = in_child([fd] {
    Result<Mapping> mapped = map_segment("open", fd, SegmentKind::kData, false);
    if (!mapped.ok()) return mapped.status().text();
    *static_cast<volatile char*>(mapped.value().data()) = 1;
    return std::string("stored");
  });
  EXPECT_EQ(end, "killed by signal 11");
}

TEST_P(EitherSegment, IsNotMappedInAForkedChild) {
  Result<Segment> made = make(GetParam());
  ASSERT_TRUE(made.ok());
  void* data = made.value().data();
  EXPECT_EQ(in_child([data] {
              unsigned char resident;
              bool gone = mincore(data, 4096, &resident) != 0 && errno == ENOMEM;
              return std::string(gone ? "" : "the child has the mapping");
            }),
            "");
}

TEST_P(EitherSegment, StaysWhenAForkedChildDestroysItsCopy) {
  Result<Segment> made = make(GetParam());
  ASSERT_TRUE(made.ok());
  size_t names = names_of(instance());
  Segment& segment = made.value();
  EXPECT_EQ(in_child([&segment] {
              // Something else of the child's, where the mapping was.
              void* other = mmap(segment.data(), 4096, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
              *static_cast<char*>(other) = 3;
              { Segment copy = std::move(segment); }
              unsigned char resident;
              bool there = mincore(other, 4096, &resident) == 0;
              return std::string(there ? "" : "the child's own mapping was unmapped");
            }),
            "");
  EXPECT_EQ(names_of(instance()), names);
  *static_cast<volatile char*>(segment.data()) = 1;
}

TEST_P(EitherSegment, FailsCleanlyWhereverDescriptorsRunOut) {
  std::string end = in_child([] {
    uint32_t memory = GetParam();
    for (unsigned more = 0; more < 6; ++more) {
      rlimit before{};
      getrlimit(RLIMIT_NOFILE, &before);
      int lowest = dup(0);
      close(lowest);
      rlimit tight{static_cast<rlim_t>(lowest) + more, before.rlim_max};
      setrlimit(RLIMIT_NOFILE, &tight);
      bool ok;
      {
        Result<Segment> made = make(memory, kBytes, {}, 900 + more);
        ok = made.ok();
        if (!ok && made.status().code() != GEAR_EMFILE) return made.status().text();
        if (!ok && !says(made.status(), "ulimit -n")) return made.status().text();
      }
      setrlimit(RLIMIT_NOFILE, &before);
      if (more == 0 && ok) return std::string("made without a descriptor");
      if (more == 5 && !ok) return std::string("not made with five descriptors");
      if (names_of(instance()) != 0) return std::string("a name was left");
      int after = dup(0);
      close(after);
      if (after != lowest) return std::string("a descriptor was left");
    }
    return std::string();
  });
  EXPECT_EQ(end, "");
}

TEST_P(EitherSegment, BeyondTheFileSizeLimitIsAnErrorAndNoSignal) {
  std::string end = in_child([] {
    rlimit limit{65536, 65536};
    setrlimit(RLIMIT_FSIZE, &limit);
    Result<Segment> made = make(GetParam());
    if (made.ok()) return std::string("made");
    if (made.status().code() != GEAR_ENOSPC || !says(made.status(), "RLIMIT_FSIZE")) {
      return made.status().text();
    }
    return std::string();
  });
  EXPECT_EQ(end, "");
}

TEST_P(EitherSegment, ThatIsPopulatedFaultsNoMore) {
  for (bool populate : {false, true}) {
    MemoryOptions options;
    options.populate = populate ? GEAR_WANT_REQUIRED : GEAR_WANT_NO;
    Result<Segment> made = make(GetParam(), size_t{4} << 20, options);
    ASSERT_TRUE(made.ok()) << made.status().text();
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    auto* bytes = static_cast<volatile char*>(made.value().data());
    for (size_t i = 0; i < made.value().size(); i += 4096) bytes[i] = 1;
    getrusage(RUSAGE_SELF, &after);
    long faults = after.ru_minflt - before.ru_minflt;
    if (populate) {
      EXPECT_LT(faults, 16);
    } else {
      EXPECT_GT(faults, 16) << "the test cannot tell";
    }
  }
}

TEST_P(EitherSegment, ThatIsLockedCountsAsLocked) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer disables mlock";
  MemoryOptions options;
  options.lock = GEAR_WANT_REQUIRED;
  Result<Segment> made = make(GetParam(), size_t{1} << 20, options);
  if (made.status().code() == GEAR_EMEMLOCK) GTEST_SKIP() << made.status().text();
  ASSERT_TRUE(made.ok()) << made.status().text();
  std::ifstream status("/proc/self/status");
  long locked_kib = -1;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmLck:", 0) == 0) locked_kib = atol(line.c_str() + 6);
  }
  EXPECT_GE(locked_kib, 1024);
}

TEST_P(EitherSegment, ThatCannotBeLockedIsRefusedOrSaysSoOnce) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer disables mlock";
  std::string end = in_child([] {
    int lines = 0;
    set_log_sink(count_line, &lines);
    rlimit limit{65536, 65536};
    setrlimit(RLIMIT_MEMLOCK, &limit);
    // Root is not bound by the limit.
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return std::string();
    MemoryOptions options;
    options.lock = GEAR_WANT_REQUIRED;
    Result<Segment> made = make(GetParam(), kBytes, options);
    if (made.status().code() != GEAR_EMEMLOCK) return "required: " + made.status().text();
    if (!says(made.status(), "RLIMIT_MEMLOCK is 64.0 KiB")) return made.status().text();
    if (names_of(instance()) != 0) return std::string("a name was left");
    options.lock = GEAR_WANT_TRY;
    for (uint64_t object : {1, 2}) {
      Result<Segment> tried = make(GetParam(), kBytes, options, object);
      if (!tried.ok()) return "try: " + tried.status().text();
    }
    return std::string(lines == 1 ? "" : "not one line in the log");
  });
  EXPECT_EQ(end, "");
}

TEST_P(EitherSegment, ThatTriesHugePagesIsMadeWithOrWithoutThem) {
  MemoryOptions options;
  options.huge_pages = GEAR_WANT_TRY;
  int lines = 0;
  set_log_sink(count_line, &lines);
  for (uint64_t object : {1, 2}) {
    Result<Segment> made = make(GetParam(), size_t{4} << 20, options, object);
    EXPECT_TRUE(made.ok()) << made.status().text();
  }
  set_log_sink(nullptr, nullptr);
  EXPECT_LE(lines, 1);
}

TEST_P(EitherSegment, IsBoundToANodeOrRefused) {
  MemoryOptions options;
  options.numa_node = 0;
  Result<Segment> made = make(GetParam(), kBytes, options);
  EXPECT_TRUE(made.ok() || made.status().code() == GEAR_EUNSUPPORTED) << made.status().text();
  options.numa_node = 4000;
  made = make(GetParam(), kBytes, options, 6);
  EXPECT_TRUE(made.status().code() == GEAR_EINVAL || made.status().code() == GEAR_EUNSUPPORTED);
  EXPECT_LE(names_of(instance()), 1u);
}

TEST_P(EitherSegment, MovesWithoutLosingItsMemory) {
  Result<Segment> first = make(GetParam(), kBytes, {}, 1);
  Result<Segment> second = make(GetParam(), kBytes, {}, 2);
  ASSERT_TRUE(first.ok() && second.ok());
  size_t descriptors = test::open_descriptors();
  void* data = second.value().data();
  first.value() = second.take();
  EXPECT_EQ(first.value().data(), data);
  EXPECT_EQ(header_of(first.value())->object_id, 2u);
  EXPECT_EQ(names_of(instance()), GetParam() == GEAR_MEMORY_POSIX ? 1u : 0u);
  EXPECT_EQ(test::open_descriptors(), descriptors - 2);
}

TEST(NamedSegment, IsCreatedExclusivelyUnderItsFullName) {
  Result<Segment> made = make(GEAR_MEMORY_POSIX);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(access(path_of(instance(), "data.5").c_str(), F_OK), 0);
  Result<Segment> again = make(GEAR_MEMORY_POSIX);
  EXPECT_EQ(again.status().code(), GEAR_EEXISTS);
  EXPECT_TRUE(says(again.status(), "data.5")) << again.status().text();
  // The refusal did not take the first one's name.
  EXPECT_EQ(names_of(instance()), 1u);
}

TEST(NamedSegment, GoesWithItsOwner) {
  {
    Result<Segment> made = make(GEAR_MEMORY_POSIX);
    ASSERT_TRUE(made.ok());
    ASSERT_EQ(names_of(instance()), 1u);
  }
  EXPECT_EQ(names_of(instance()), 0u);
}

TEST(NamedSegment, OfADeadServerIsRemovedAndNoOther) {
  uint64_t dead = instance() + (uint64_t{1} << 40);
  for (const char* rest : {"data.1", "directory.1", "channel.ff"}) {
    std::ofstream(path_of(dead, rest)) << "left";
  }
  Result<Segment> alive = make(GEAR_MEMORY_POSIX);
  ASSERT_TRUE(alive.ok());
  EXPECT_EQ(remove_segments_of(dead), 3u);
  EXPECT_EQ(names_of(dead), 0u);
  EXPECT_EQ(names_of(instance()), 1u);
  EXPECT_EQ(remove_segments_of(dead), 0u);
}

TEST(NamedSegment, BeyondASmallFolderNamesWhatIsFreeThere) {
  std::string end = in_child([] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
      return std::string("skip");
    }
    Result<Segment> made = make(GEAR_MEMORY_POSIX, size_t{8} << 20);
    if (made.ok()) return std::string("made");
    std::string text = made.status().text();
    if (made.status().code() != GEAR_ENOSPC) return text;
    if (text.find("8.0 MiB asked, 1.0 MiB free in /dev/shm (ENOSPC)") == std::string::npos)
      return text;
    if (text.find("memory = memfd") == std::string::npos) return text;
    if (names_of(instance()) != 0) return std::string("a name was left");
    Result<Segment> elsewhere = make(GEAR_MEMORY_MEMFD, size_t{8} << 20);
    return elsewhere.ok() ? std::string() : elsewhere.status().text();
  });
  if (end == "skip") GTEST_SKIP() << "no mount namespace of one's own";
  EXPECT_EQ(end, "");
}

TEST(NamedSegment, CannotHaveRequiredHugePages) {
  MemoryOptions options;
  options.huge_pages = GEAR_WANT_REQUIRED;
  Result<Segment> made = make(GEAR_MEMORY_POSIX, kBytes, options);
  EXPECT_EQ(made.status().code(), GEAR_EUNSUPPORTED);
  EXPECT_TRUE(says(made.status(), "memory = memfd"));
}

TEST(MemfdSegment, CanNeitherShrinkNorGrow) {
  Result<Segment> made = make(GEAR_MEMORY_MEMFD);
  ASSERT_TRUE(made.ok());
  int fd = made.value().writable_fd();
  EXPECT_EQ(ftruncate(fd, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(made.value().size() * 2)), -1);
}

TEST(MemfdSegment, BeyondTheHugePagePoolIsNoSpace) {
  MemoryOptions options;
  options.huge_pages = GEAR_WANT_REQUIRED;
  size_t descriptors = test::open_descriptors();
  Result<Segment> made = make(GEAR_MEMORY_MEMFD, size_t{1} << 50, options);
  EXPECT_TRUE(made.status().code() == GEAR_ENOSPC || made.status().code() == GEAR_EUNSUPPORTED);
  if (made.status().code() == GEAR_ENOSPC) {
    EXPECT_TRUE(says(made.status(), "vm.nr_hugepages")) << made.status().text();
  }
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

TEST(MemfdSegment, BecomesANamedOneWhereMemfdIsForbiddenAndSaysSoOnce) {
  for (int errno_value : {EPERM, ENOSYS}) {
    std::string end = in_child([errno_value] {
      int lines = 0;
      set_log_sink(count_line, &lines);
      if (!test::deny_calls({SYS_memfd_create}, errno_value)) return std::string("skip");
      Result<Segment> first = make(GEAR_MEMORY_MEMFD, kBytes, {}, 1);
      Result<Segment> second = make(GEAR_MEMORY_MEMFD, kBytes, {}, 2);
      if (!first.ok() || !second.ok()) return first.status().text() + second.status().text();
      if (names_of(instance()) != 2) return std::string("not two names");
      return std::string(lines == 1 ? "" : "not one line in the log");
    });
    if (end == "skip") GTEST_SKIP() << "no seccomp filter";
    EXPECT_EQ(end, "");
  }
}

TEST(ReceivedSegment, ThatIsNoMemoryOrTooSmallIsRefused) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(map_segment("open", ends[0], SegmentKind::kData, false).status().code(),
            GEAR_EPROTOCOL);
  close(ends[0]);
  close(ends[1]);
  int fd = memfd_create("gear.test", MFD_CLOEXEC);
  EXPECT_EQ(map_segment("open", fd, SegmentKind::kData, false).status().code(), GEAR_EPROTOCOL);
  ASSERT_EQ(ftruncate(fd, 63), 0);
  EXPECT_EQ(map_segment("open", fd, SegmentKind::kData, false).status().code(), GEAR_EPROTOCOL);
  close(fd);
  EXPECT_EQ(map_segment("open", -1, SegmentKind::kData, false).status().code(), GEAR_ESYSTEM);
}

TEST(ReceivedSegment, BeyondTheAddressSpaceIsNoMemory) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs the address space";
  Result<Segment> made = make(GEAR_MEMORY_MEMFD, size_t{64} << 20);
  ASSERT_TRUE(made.ok());
  made.value().publish_magic();
  int fd = made.value().read_only_fd();
  std::string end = in_child([fd] {
    rlimit limit{size_t{1} << 20, size_t{1} << 20};
    setrlimit(RLIMIT_AS, &limit);
    Result<Mapping> mapped = map_segment("open", fd, SegmentKind::kData, false);
    return std::string(mapped.status().code() == GEAR_ENOMEM ? "" : "not ENOMEM");
  });
  EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace gear
