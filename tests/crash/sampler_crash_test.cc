// ctest: labels=crash timeout=300
//
// The conductor of a sampler dies behind each of its stores; another adopts what it left, and the client goes on.

#include <sys/wait.h>

#include <new>

#include "base/crash_point.h"
#include "crash/sampler_scenario.h"

namespace gear::test {
namespace {

struct Shared {
  Given given;
  layout::ChannelRecord ledger{};
};

class SamplerCrash : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    memory_ = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory_, MAP_FAILED);
  }
  void TearDown() override { munmap(memory_, sizeof(Shared)); }
  std::vector<ClientStep> steps() const { return GetParam() ? steps_of_a_group() : steps_of_single_draws(); }

  // The exit status of a child whose store number `at` is its last; the ledger and what was given are in `shared`.
  int run_until(uint64_t instance, uint64_t at, Shared* shared) const {
    fflush(nullptr);
    pid_t pid = fork();
    if (pid == 0) {
      SamplerRig rig(instance, GetParam(), &shared->given);
      rig.set_ledger(&shared->ledger);
      rig.create();
      crash_points_arm(at);
      rig.go_on(steps());
      crash_points_arm(0);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  void* memory_ = nullptr;
};

TEST_P(SamplerCrash, NothingIsLostNorDeliveredTwiceWhereverItsConductorDies) {
  uint64_t instance = uint64_t{0x7e58} << 40 | static_cast<uint64_t>(getpid());
  uint64_t deaths = 0;
  for (int status = kCrashStatus; status == kCrashStatus;) {
    SCOPED_TRACE(deaths + 1);
    auto* shared = new (memory_) Shared();
    status = run_until(instance, deaths + 1, shared);
    ASSERT_TRUE(status == kCrashStatus || status == 0) << status;
    ASSERT_TRUE(shared->given.ready.load());
    SamplerRig rig(instance, GetParam(), &shared->given);
    rig.set_ledger(&shared->ledger);
    rig.adopt();
    if (!HasFailure()) rig.go_on(steps());
    if (!HasFailure()) GetParam() ? check_group(rig, shared->given) : check_single_draws(rig, shared->given);
    rig.remove();
    if (HasFailure()) return;
    if (status == kCrashStatus) ++deaths;
  }
  EXPECT_GT(deaths, 200u);
  RecordProperty("deaths", static_cast<int>(deaths));
  printf("%llu deaths\n", static_cast<unsigned long long>(deaths));
}

INSTANTIATE_TEST_SUITE_P(, SamplerCrash, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "OfAGroup" : "OfItemsThatAreDrawnOnce"; });

}  // namespace
}  // namespace gear::test
