// ctest: labels=unit timeout=60
//
// A conductor goes between any two steps of a sampler, and another adopts what it left.

#include "crash/sampler_scenario.h"

namespace gear::test {
namespace {

uint64_t instance_of_test(uint64_t number) { return uint64_t{0x7e57} << 40 | static_cast<uint64_t>(getpid()) << 8 | number; }

class SamplerAdoption : public ::testing::TestWithParam<bool> {
 protected:
  std::vector<ClientStep> steps() const { return GetParam() ? steps_of_a_group() : steps_of_single_draws(); }
  void check(SamplerRig& rig, const Given& given) { GetParam() ? check_group(rig, given) : check_single_draws(rig, given); }
};

TEST_P(SamplerAdoption, NothingIsLostNorDeliveredTwiceWithoutADeath) {
  Given given;
  SamplerRig rig(instance_of_test(1), GetParam(), &given);
  rig.create();
  rig.go_on(steps());
  check(rig, given);
  rig.remove();
}

TEST_P(SamplerAdoption, GoesOnAfterADeathBetweenAnyTwoSteps) {
  const std::vector<ClientStep> all = steps();
  for (size_t deaths = 0; deaths < all.size(); ++deaths) {
    SCOPED_TRACE(deaths);
    Given given;
    SamplerRig rig(instance_of_test(2), GetParam(), &given);
    rig.create();
    rig.go_on({all.begin(), all.begin() + static_cast<long>(deaths)});
    rig.die();
    rig.adopt();
    rig.go_on(all);
    check(rig, given);
    rig.remove();
    if (HasFailure()) return;
  }
}

TEST_P(SamplerAdoption, SurvivesADeathAfterEachStep) {
  const std::vector<ClientStep> all = steps();
  Given given;
  SamplerRig rig(instance_of_test(3), GetParam(), &given);
  rig.create();
  for (size_t done = 1; done <= all.size(); ++done) {
    rig.go_on({all.begin(), all.begin() + static_cast<long>(done)});
    rig.die();
    rig.adopt();
  }
  check(rig, given);
  rig.remove();
}

INSTANTIATE_TEST_SUITE_P(, SamplerAdoption, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "OfAGroup" : "OfItemsThatAreDrawnOnce"; });

}  // namespace
}  // namespace gear::test
