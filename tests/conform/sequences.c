/* The priority of a sequence from the errors of its steps. */
#include <math.h>

#include "conform/conform.h"
#include "support/conform_table.h"

static double priority_of(const float* errors, size_t length, double eta) {
  double priority = -1;
  assert_ok(gear_sequence_priorities(errors, 1, length, NULL, eta, &priority));
  return priority;
}

/* SEMANTICS 30 */
GEAR_TEST(PriorityOfASequenceMixesLargestAndMeanError) {
  const float errors[3] = {1, -3, 2};
  assert_true(priority_of(errors, 3, .5) == 2.5);
  assert_true(fabs(priority_of(errors, 3, .9) - 2.9) < 1e-15);
  assert_true(priority_of(errors, 3, 0) == 2);
  assert_true(priority_of(errors, 3, 1) == 3);
}

/* SEMANTICS 30 */
GEAR_TEST(EveryRowHasItsOwnLength) {
  const float errors[6] = {1, -3, 100, 4, 100, 100};
  const uint32_t lengths[2] = {2, 1};
  double priorities[2];
  assert_ok(gear_sequence_priorities(errors, 2, 3, lengths, .5, priorities));
  assert_true(priorities[0] == 2.5);
  assert_true(priorities[1] == 4);
}

GEAR_TEST(RowWithoutStepsHasPriorityZero) {
  const float errors[2] = {5, 5};
  const uint32_t lengths[1] = {0};
  double priority = -1;
  assert_ok(gear_sequence_priorities(errors, 1, 2, lengths, .5, &priority));
  assert_true(priority == 0);
  priority = -1;
  assert_ok(gear_sequence_priorities(NULL, 1, 0, NULL, .5, &priority));
  assert_true(priority == 0);
  assert_ok(gear_sequence_priorities(NULL, 0, 4, NULL, .5, NULL));
}

GEAR_TEST(ErrorThatIsNoNumberGivesAPriorityThatIsRefusedLater) {
  const float errors[2] = {NAN, 1};
  assert_true(isnan(priority_of(errors, 2, .5)));
  assert_true(isnan(priority_of(errors, 2, 1)));
}

GEAR_TEST(EtaOutsideZeroToOneIsRefused) {
  const float errors[1] = {1};
  const double etas[3] = {-.1, 1.1, NAN};
  for (int i = 0; i < 3; ++i) {
    double priority = 7;
    assert_status(gear_sequence_priorities(errors, 1, 1, NULL, etas[i], &priority), GEAR_EINVAL);
    assert_explained("eta");
    assert_true(priority == 7);
  }
}

GEAR_TEST(LengthBeyondTheRowIsRefusedAndNothingWritten) {
  const float errors[4] = {1, 2, 3, 4};
  const uint32_t lengths[2] = {2, 3};
  double priorities[2] = {7, 7};
  assert_status(gear_sequence_priorities(errors, 2, 2, lengths, .5, priorities), GEAR_EINVAL);
  assert_explained("lengths[1]", "3", "2");
  assert_true(priorities[0] == 7);
  assert_status(gear_sequence_priorities(errors, 2, 2, NULL, .5, NULL), GEAR_EINVAL);
  assert_status(gear_sequence_priorities(NULL, 2, 2, NULL, .5, priorities), GEAR_EINVAL);
}
