// ctest: labels=crash timeout=300
//
// The conductor of a sampler dies behind each of its stores; another adopts what it left, and the client goes on.

#include <sys/wait.h>

#include <functional>
#include <new>

#include "base/crash_point.h"
#include "crash/adoption_places.h"
#include "crash/sampler_scenario.h"
#include "support/child.h"
#include "support/shared_memory.h"

namespace gear::test {
namespace {

struct Shared {
  Given given;
  layout::ChannelRecord ledger{};
};

class SamplerCrash : public ::testing::TestWithParam<bool> {
 protected:
  std::vector<ClientStep> steps() const { return GetParam() ? steps_of_a_group() : steps_of_single_draws(); }

  // A conductor that dies at its store `at`, the next at `place` of its adoption if one is given; the third goes on. The
  // status of the first.
  int die_and_go_on(uint64_t at, const std::string& place) {
    SharedMemory<Shared> memory;
    Shared* shared = memory.get();
    int status = in_child(shared, [&](SamplerRig& rig) {
      rig.create();
      crash_points_arm(at);
      rig.go_on(steps());
      crash_points_arm(0);
    });
    EXPECT_TRUE(status == kCrashStatus || status == 0) << status;
    EXPECT_TRUE(shared->given.ready.load());
    if (!place.empty()) {
      int second = in_child(shared, [&](SamplerRig& rig) {
        crash_points_arm_at(place, 1);
        rig.adopt();
      });
      EXPECT_EQ(second, kCrashStatus);
    }
    SamplerRig rig(instance_, GetParam(), &shared->given);
    rig.set_ledger(&shared->ledger);
    places_.begin();
    rig.adopt();
    if (place.empty()) places_.end(at);
    if (!HasFailure()) rig.go_on(steps());
    if (!HasFailure()) GetParam() ? check_group(rig, shared->given) : check_single_draws(rig, shared->given);
    rig.remove();
    return status;
  }

  int in_child(Shared* shared, const std::function<void(SamplerRig&)>& body) const {
    return exit_of_child([&] {
      NamesKept kept;
      SamplerRig rig(instance_, GetParam(), &shared->given);
      rig.set_ledger(&shared->ledger);
      body(rig);
      return HasFailure() ? 1 : 0;
    });
  }

  uint64_t instance_ = uint64_t{0x7e58} << 40 | static_cast<uint64_t>(getpid());
  AdoptionPlaces places_;
};

TEST_P(SamplerCrash, NothingIsLostNorDeliveredTwiceWhereverItsConductorDies) {
  uint64_t deaths = 0;
  while (die_and_go_on(deaths + 1, "") == kCrashStatus) {
    ++deaths;
    ASSERT_FALSE(HasFailure()) << "after store " << deaths;
  }
  EXPECT_GT(deaths, 200u);
  for (const auto& [at, place] : places_.deaths()) {
    die_and_go_on(at, place);
    ASSERT_FALSE(HasFailure()) << "after store " << at << ", then at " << place;
  }
  printf("%llu deaths, %zu of adopters\n", static_cast<unsigned long long>(deaths), places_.deaths().size());
}

INSTANTIATE_TEST_SUITE_P(, SamplerCrash, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "OfAGroup" : "OfItemsThatAreDrawnOnce"; });

}  // namespace
}  // namespace gear::test
