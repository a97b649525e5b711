#include <gear.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  char header[32];
  snprintf(header, sizeof header, "%d.%d.%d", GEAR_VERSION_MAJOR, GEAR_VERSION_MINOR,
           GEAR_VERSION_PATCH);
  printf("header %s, library %s\n", header, gear_version_string());
  return strncmp(gear_version_string(), header, strlen(header)) != 0;
}
