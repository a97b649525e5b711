#include <stdio.h>
#include <string.h>

#include "conform/conform.h"

static struct gear_conform_case* first_case;
static struct gear_conform_case** next_case = &first_case;

void gear_conform_register(struct gear_conform_case* test) {
  *next_case = test;
  next_case = &test->next;
}

static int run_case(const struct gear_conform_case* test) {
  const struct CMUnitTest one[] = {{test->name, test->run, test->setup, test->teardown, NULL}};
  return _cmocka_run_group_tests(test->name, one, 1, NULL, NULL);
}

static int run_all(void) {
  int failed_count = 0;
  for (const struct gear_conform_case* test = first_case; test != NULL; test = test->next)
    failed_count += run_case(test) != 0;
  return failed_count != 0;
}

static int run_named(const char* name) {
  for (const struct gear_conform_case* test = first_case; test != NULL; test = test->next)
    if (strcmp(test->name, name) == 0) return run_case(test) != 0;
  fprintf(stderr, "no test named \"%s\"; --list shows them\n", name);
  return 2;
}

int main(int argc, char** argv) {
  /* A test that crashes keeps what it printed. */
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (const struct gear_conform_case* test = first_case; test != NULL; test = test->next)
      puts(test->name);
    return 0;
  }
  if (argc == 3 && strcmp(argv[1], "--run") == 0) return run_named(argv[2]);
  if (argc == 1) return run_all();
  fprintf(stderr, "usage: %s [--list | --run NAME]\n", argv[0]);
  return 2;
}
