// ctest: labels=unit timeout=60
// What a dead server left in /dev/shm: found by name, adopted, refused, or removed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "base/shared_word.h"
#include "layout/fingerprint.h"
#include "layout/instance.h"
#include "shm/liveness.h"
#include "shm/segment.h"
#include "shm/segment_names.h"
#include "support/child.h"

namespace gear {
namespace {

using layout::SegmentKind;

constexpr size_t kBytes = 20'000;
const std::string kPurpose = "adopt what a dead server left";

uint64_t instance() { return 0x7e58000000000000u | static_cast<uint64_t>(getpid()); }

SegmentName name_of(SegmentKind kind, uint64_t object = 5) { return {geteuid(), instance(), kind, object}; }

Segment make(SegmentKind kind = SegmentKind::kDirectory, uint64_t object = 5, bool whole = true) {
  MemoryOptions options;
  options.memory = GEAR_MEMORY_POSIX;
  Result<Segment> made = Segment::create("create", kind, kBytes, instance(), object, options);
  EXPECT_TRUE(made.ok()) << made.status().text();
  if (whole) made.value().publish_magic();
  return made.take();
}

// As a server that is killed leaves it.
void leave(SegmentKind kind = SegmentKind::kDirectory, uint64_t object = 5, bool whole = true,
           const std::function<void(layout::SegmentHeader*)>& spoil = nullptr) {
  Segment segment = make(kind, object, whole);
  static_cast<char*>(segment.data())[4096] = 'x';
  if (spoil) spoil(static_cast<layout::SegmentHeader*>(segment.data()));
  segment.keep_name();
}

Result<Segment> adopt(SegmentKind kind = SegmentKind::kDirectory, uint64_t object = 5) {
  return Segment::adopt(kPurpose, kind, instance(), object);
}

bool says(const Status& status, const std::string& words) {
  return status.text().find(words) != std::string::npos;
}

class ShmAdopt : public testing::Test {
 protected:
  ~ShmAdopt() override { remove_segments_of(instance()); }
  bool there(SegmentKind kind = SegmentKind::kDirectory) {
    return bytes_of(name_of(kind)) > 0;
  }
};

TEST_F(ShmAdopt, GoesOnWithTheSameMemoryAndThenOwnsTheName) {
  leave();
  {
    Result<Segment> adopted = adopt();
    ASSERT_TRUE(adopted.ok()) << adopted.status().text();
    EXPECT_EQ(static_cast<const char*>(adopted.value().data())[4096], 'x');
    static_cast<char*>(adopted.value().data())[4097] = 'y';
    EXPECT_TRUE(map_segment("read", adopted.value().read_only_fd(), SegmentKind::kDirectory, false).ok());
    EXPECT_TRUE(there());
  }
  EXPECT_FALSE(there());
}

TEST_F(ShmAdopt, KeepsTheNameWhenToldAndWhereNamesAreKept) {
  leave();
  {
    Result<Segment> adopted = adopt();
    ASSERT_TRUE(adopted.ok());
    adopted.value().keep_name();
  }
  EXPECT_TRUE(there());
  {
    NamesKept kept;
    ASSERT_TRUE(adopt().ok());
  }
  EXPECT_TRUE(there());
}

TEST_F(ShmAdopt, RefusesAnotherBuildAndNamesBothAndWhatToDo) {
  leave(SegmentKind::kDirectory, 5, true, [](layout::SegmentHeader* header) {
    header->version = 77;
    header->fingerprint = 0xabcdef;
  });
  Status status = adopt().status();
  EXPECT_EQ(status.code(), GEAR_EVERSION);
  EXPECT_TRUE(says(status, "77")) << status.text();
  EXPECT_TRUE(says(status, "0000000000abcdef")) << status.text();
  EXPECT_TRUE(says(status, format("%016llx", static_cast<unsigned long long>(layout::kLayoutFingerprint))));
  EXPECT_TRUE(says(status, "--fresh")) << status.text();
  EXPECT_EQ(look_at_segment(name_of(SegmentKind::kDirectory)), SegmentLook::kForeign);
  EXPECT_TRUE(there());
}

TEST_F(ShmAdopt, RefusesAnotherFingerprintOfTheSameVersion) {
  leave(SegmentKind::kDirectory, 5, true, [](layout::SegmentHeader* header) { header->fingerprint ^= 1; });
  EXPECT_EQ(adopt().status().code(), GEAR_EVERSION);
}

TEST_F(ShmAdopt, RefusesAHalfMadeSegment) {
  leave(SegmentKind::kDirectory, 5, false);
  Status status = adopt().status();
  EXPECT_EQ(status.code(), GEAR_EPROTOCOL);
  EXPECT_TRUE(says(status, "half made")) << status.text();
  EXPECT_EQ(look_at_segment(name_of(SegmentKind::kDirectory)), SegmentLook::kHalfMade);
}

TEST_F(ShmAdopt, RefusesATruncatedSegment) {
  leave();
  std::string path = std::string(kSegmentFolder) + "/" + name_of(SegmentKind::kDirectory).text();
  ASSERT_EQ(truncate(path.c_str(), 4096), 0);
  EXPECT_EQ(adopt().status().code(), GEAR_EPROTOCOL);
  ASSERT_EQ(truncate(path.c_str(), 10), 0);
  EXPECT_EQ(adopt().status().code(), GEAR_EPROTOCOL);
  EXPECT_EQ(look_at_segment(name_of(SegmentKind::kDirectory)), SegmentLook::kHalfMade);
}

TEST_F(ShmAdopt, RefusesWhatIsNotWhatItsNameSays) {
  leave(SegmentKind::kDirectory, 5, true, [](layout::SegmentHeader* header) { header->object_id = 6; });
  EXPECT_EQ(adopt().status().code(), GEAR_EPROTOCOL);
  leave(SegmentKind::kDirectory, 7, true, [](layout::SegmentHeader* header) {
    header->kind = static_cast<uint32_t>(SegmentKind::kData);
  });
  EXPECT_EQ(adopt(SegmentKind::kDirectory, 7).status().code(), GEAR_EPROTOCOL);
}

TEST_F(ShmAdopt, RefusesAModeThatLetsOthersIn) {
  leave();
  std::string path = std::string(kSegmentFolder) + "/" + name_of(SegmentKind::kDirectory).text();
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  Status status = adopt().status();
  EXPECT_EQ(status.code(), GEAR_EPERM);
  EXPECT_TRUE(says(status, "644")) << status.text();
}

TEST_F(ShmAdopt, RefusesAnotherOwnersSegment) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give the file away";
  leave();
  std::string path = std::string(kSegmentFolder) + "/" + name_of(SegmentKind::kDirectory).text();
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(adopt().status().code(), GEAR_EPERM);
  EXPECT_EQ(look_at_segment(name_of(SegmentKind::kDirectory)), SegmentLook::kBad);
}

TEST_F(ShmAdopt, RefusesALink) {
  leave();
  std::string folder = std::string(kSegmentFolder) + "/";
  std::string link = folder + name_of(SegmentKind::kDirectory, 8).text();
  ASSERT_EQ(symlink((folder + name_of(SegmentKind::kDirectory).text()).c_str(), link.c_str()), 0);
  EXPECT_FALSE(adopt(SegmentKind::kDirectory, 8).ok());
}

TEST_F(ShmAdopt, SaysThatASegmentIsNotThere) {
  EXPECT_EQ(adopt().status().code(), GEAR_ENOTFOUND);
}

TEST(ShmNames, AreWrittenAndReadAlike) {
  SegmentName name{17, 0x123456789abcdef0, SegmentKind::kLeases, 0xfe};
  EXPECT_EQ(name.text(), "gear.17.123456789abcdef0.leases.fe");
  SegmentName read{};
  ASSERT_TRUE(parse_segment_name(name.text().c_str(), &read));
  EXPECT_EQ(read.text(), name.text());
  for (const char* other : {"gear.17.123456789abcdef0.leases.fe.x", "gear.17.123456789abcdef0.lease.fe",
                            "gear.17.123456789abcdef0.leases.", "gear.17.1.leases.fe",
                            "gear.17.123456789ABCDEF0.leases.fe", "sem.gear", ""}) {
    EXPECT_FALSE(parse_segment_name(other, &read)) << other;
  }
}

TEST_F(ShmAdopt, ListsTheSegmentsOfOneInstance) {
  leave(SegmentKind::kData);
  leave(SegmentKind::kDirectory);
  leave(SegmentKind::kChannel, 9);
  auto names = list_segments(instance());
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0].kind, SegmentKind::kDirectory);
  EXPECT_EQ(names[2].object_id, 9u);
  EXPECT_TRUE(remove_segment(names[2]));
  EXPECT_FALSE(remove_segment(names[2]));
  EXPECT_EQ(list_segments(instance()).size(), 2u);
}

TEST_F(ShmAdopt, TellsADeadServersInstanceFromALivingOnes) {
  leave(SegmentKind::kInstance, 0);
  leave();
  {
    auto dead = DeadInstance::hold(list_segments(instance()));
    ASSERT_TRUE(dead.has_value());
    // Nobody adopts it meanwhile, nor does another remove it.
    Status status = adopt().status();
    EXPECT_EQ(status.code(), GEAR_EADDRINUSE) << status.text();
    EXPECT_FALSE(DeadInstance::hold(list_segments(instance())).has_value());
  }
  Result<Segment> adopted = adopt(SegmentKind::kInstance, 0);
  ASSERT_TRUE(adopted.ok()) << adopted.status().text();
  EXPECT_FALSE(DeadInstance::hold(list_segments(instance())).has_value());
}

TEST_F(ShmAdopt, TakesAnInstanceThatIsBeingMadeForALivingOne) {
  leave(SegmentKind::kInstance, 0, false);
  EXPECT_FALSE(DeadInstance::hold(list_segments(instance())).has_value());
}

TEST(ShmWatch, TellsAProcessFromALaterOneOfTheSamePid) {
  uint64_t started = process_start_ticks(getpid());
  ASSERT_GT(started, 0u);
  Result<ProcessWatch> same = ProcessWatch::of_process_started(getpid(), started);
  ASSERT_TRUE(same.ok()) << same.status().text();
  EXPECT_FALSE(same.value().dead());
  EXPECT_EQ(ProcessWatch::of_process_started(getpid(), started - 1).status().code(), GEAR_EDISCONNECTED);
  EXPECT_EQ(ProcessWatch::of_process_started(getpid(), started - 1, WatchWay::kStartTime).status().code(),
            GEAR_EDISCONNECTED);
}

}  // namespace
}  // namespace gear
