/* How to write a conformance test: what a user of gear.h may rely on, told by C11 and gear.h alone.
 *
 * A file tests/conform/NOUN.c becomes one executable; each of its tests is a ctest case of its own, called
 * Noun.SentenceName, run in a process of its own. Nothing else needs to be edited.
 *
 *     // ctest: labels=slow timeout=120
 *     #include "conform/conform.h"
 *
 *     GEAR_TEST(SamplingFromAnEmptyTableTimesOutAtOnce) {
 *       assert_int_equal(gear_sample(...), GEAR_ETIMEDOUT);
 *     }
 *
 * The line `ctest:` is optional and holds for the whole file: labels=a,b (beside "conform"), timeout=SECONDS
 * (60 otherwise), serial (runs while no other test does).
 *
 *     static int open_table(void **state) { *state = ...; return 0; }
 *     static int close_table(void **state) { ...; return 0; }
 *     GEAR_TEST_WITH(FlushOfNothingSucceeds, open_table, close_table) { struct fixture *f = *state; ... }
 *
 * `state` is cmocka's void **. skip() makes ctest report the case as skipped. Shared helpers go into
 * tests/support/NAME.{h,c}; every conformance test is linked with them.
 *
 * By hand:  NOUN --list    NOUN --run SentenceName    NOUN   (all)
 */
#ifndef GEAR_TESTS_CONFORM_CONFORM_H
#define GEAR_TESTS_CONFORM_CONFORM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs those above first. */
#include <cmocka.h>

#include "gear.h"

struct gear_conform_case {
  const char *name;
  CMUnitTestFunction run;
  CMFixtureFunction setup;
  CMFixtureFunction teardown;
  struct gear_conform_case *next;
};

/* Called before main(); keeps the order of the file. */
void gear_conform_register(struct gear_conform_case *test);

#define GEAR_TEST_WITH(test_name, setup_function, teardown_function)                            \
  static void test_name(void **state);                                                          \
  static struct gear_conform_case test_name##_case = {#test_name, test_name, setup_function,    \
                                                      teardown_function, NULL};                 \
  __attribute__((constructor)) static void test_name##_register(void) {                         \
    gear_conform_register(&test_name##_case);                                                   \
  }                                                                                             \
  static void test_name(__attribute__((unused)) void **state)

#define GEAR_TEST(test_name) GEAR_TEST_WITH(test_name, NULL, NULL)

#endif /* GEAR_TESTS_CONFORM_CONFORM_H */
