#include "shm/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <filesystem>
#include <fstream>

#include "support/child.h"

namespace gear {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A tree that stands in for /proc and /sys.
class Room : public testing::Test {
 protected:
  Room() {
    char name[] = "/tmp/gear-room-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~Room() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void put_machine(uint64_t total_gib, uint64_t available_gib) {
    put("/proc/meminfo", "MemTotal: " + std::to_string(total_gib << 20) + " kB\nMemFree: 1 kB\n" +
                             "MemAvailable: " + std::to_string(available_gib << 20) + " kB\n");
  }

  std::string root_;
};

TEST_F(Room, IsWhatTheMachineHasAvailableLessAReserve) {
  put_machine(100, 40);
  MemoryRoom room = memory_room(root_);
  EXPECT_EQ(room.free_bytes, 35 * kGiB);
  EXPECT_EQ(room.reserve_bytes, 5 * kGiB);
  EXPECT_EQ(room.where, "memory");
}

TEST_F(Room, IsNothingWhenLessThanTheReserveIsAvailable) {
  put_machine(100, 4);
  EXPECT_EQ(memory_room(root_).free_bytes, 0u);
}

TEST_F(Room, IsBoundedByTheControlGroupOfVersionTwo) {
  put_machine(100, 90);
  put("/proc/self/cgroup", "0::/job\n");
  put("/sys/fs/cgroup/job/memory.max", std::to_string(20 * kGiB) + "\n");
  put("/sys/fs/cgroup/job/memory.current", std::to_string(10 * kGiB) + "\n");
  put("/sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file " + std::to_string(2 * kGiB) + "\n");
  MemoryRoom room = memory_room(root_);
  EXPECT_EQ(room.free_bytes, 11 * kGiB);
  EXPECT_EQ(room.where, "the memory limit of control group /job");
}

TEST_F(Room, IsBoundedByTheControlGroupAboveToo) {
  put_machine(100, 90);
  put("/proc/self/cgroup", "0::/pod/job\n");
  put("/sys/fs/cgroup/pod/memory.max", std::to_string(20 * kGiB));
  put("/sys/fs/cgroup/pod/memory.current", std::to_string(18 * kGiB));
  put("/sys/fs/cgroup/pod/job/memory.max", "max\n");
  put("/sys/fs/cgroup/pod/job/memory.current", "0\n");
  EXPECT_EQ(memory_room(root_).free_bytes, kGiB);
}

TEST_F(Room, IsBoundedByTheMountWhenTheContainersPathIsTheHosts) {
  put_machine(100, 90);
  put("/proc/self/cgroup", "4:cpu,memory:/docker/0123\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(20 * kGiB));
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(4 * kGiB));
  EXPECT_EQ(memory_room(root_).free_bytes, 15 * kGiB);
}

TEST_F(Room, IsNotBoundedByAGroupWithoutALimit) {
  put_machine(100, 40);
  put("/proc/self/cgroup", "4:memory:/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(memory_room(root_).where, "memory");
}

TEST_F(Room, IsUnboundedWhereNothingCanBeRead) {
  EXPECT_EQ(memory_room(root_).free_bytes, UINT64_MAX);
}

TEST_F(Room, CountsHugePagesThatNobodyWasPromised) {
  put("/proc/meminfo", "HugePages_Free:    10\nHugePages_Rsvd:     3\nHugepagesize:     2048 kB\n");
  HugePagePool pool = huge_page_pool(root_);
  EXPECT_EQ(pool.free_pages, 7u);
  EXPECT_EQ(pool.page_bytes, uint64_t{2} << 20);
}

TEST(HumanBytes, AreShortAndKeepTheirUnit) {
  EXPECT_EQ(human_bytes(12), "12 bytes");
  EXPECT_EQ(human_bytes(64 * kGiB), "64.0 GiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(Populate, SaysThatPagesAreMissingInsteadOfFaulting) {
  // Pages beyond the end of the file: a store there is a SIGBUS.
  int fd = memfd_create("gear.test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  void* data = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  Status populated = populate_pages("create table \"t\"", data, 8192);
  EXPECT_TRUE(populated.code() == GEAR_ENOSPC || populated.code() == GEAR_EUNSUPPORTED)
      << populated.text();
  munmap(data, 8192);
  close(fd);
}

TEST(Bind, RefusesANodeThatTheMachineDoesNotHave) {
  Status bound = bind_pages("create table \"t\"", nullptr, 4096, 4000);
  if (bound.code() == GEAR_EUNSUPPORTED) GTEST_SKIP() << bound.text();
  EXPECT_EQ(bound.code(), GEAR_EINVAL);
  EXPECT_NE(bound.text().find("4000"), std::string::npos) << bound.text();
}

}  // namespace
}  // namespace gear
