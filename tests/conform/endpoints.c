/* Places to connect to where nobody can be met, and the words that explain it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "conform/conform.h"
#include "support/conform_table.h"

typedef struct Place {
  char directory[64];
  char path[100];
  char endpoint[110];
} Place;

/* A path "gear.sock", not made yet, in a directory of its own. */
static void make_place(Place* place) {
  strcpy(place->directory, "/tmp/gear-conform-XXXXXX");
  assert_non_null(mkdtemp(place->directory));
  snprintf(place->path, sizeof place->path, "%s/gear.sock", place->directory);
  snprintf(place->endpoint, sizeof place->endpoint, "unix:%s", place->path);
}

static void assert_connect_refused(const char* endpoint, int status, const char* word) {
  gear_client* client = NULL;
  assert_status(gear_connect(endpoint, NULL, &client), status);
  assert_explained(word);
  assert_null(client);
}

static void remove_place(const Place* place) {
  unlink(place->path);
  assert_int_equal(rmdir(place->directory), 0);
}

GEAR_TEST(PathWhereNothingIsSaysThatNoServerListens) {
  Place place;
  make_place(&place);
  assert_connect_refused(place.endpoint, GEAR_ENOSERVER, place.path);
  remove_place(&place);
}

GEAR_TEST(PathInADirectoryThatDoesNotExistSaysThatNoServerListens) {
  assert_connect_refused("unix:/nonexistent/gear/geard.sock", GEAR_ENOSERVER,
                         "/nonexistent/gear/geard.sock");
}

GEAR_TEST(PathOfARegularFileSaysThatItIsNoSocketAndLeavesIt) {
  Place place;
  make_place(&place);
  FILE* file = fopen(place.path, "w");
  assert_non_null(file);
  fclose(file);
  assert_connect_refused(place.endpoint, GEAR_ENOTSOCKET, place.path);
  assert_int_equal(access(place.path, F_OK), 0);
  remove_place(&place);
}

GEAR_TEST(PathOfADirectorySaysThatItIsNoSocket) {
  Place place;
  make_place(&place);
  char endpoint[80];
  snprintf(endpoint, sizeof endpoint, "unix:%s", place.directory);
  assert_connect_refused(endpoint, GEAR_ENOTSOCKET, place.directory);
  remove_place(&place);
}

GEAR_TEST(SocketOfAServerThatHasGoneSaysSoAndLeavesIt) {
  Place place;
  make_place(&place);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  assert_true(listener >= 0);
  struct sockaddr_un address;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, place.path, strlen(place.path));
  assert_int_equal(bind(listener, (const struct sockaddr*)&address, sizeof address), 0);
  assert_int_equal(listen(listener, 1), 0);
  close(listener);
  assert_connect_refused(place.endpoint, GEAR_ESTALESOCKET, place.path);
  assert_int_equal(access(place.path, F_OK), 0);
  remove_place(&place);
}

GEAR_TEST(EndpointOfAnUnknownSchemeIsRefused) {
  assert_connect_refused("carrier-pigeon:coop", GEAR_EINVAL, "carrier-pigeon:coop");
}

GEAR_TEST(EmptyEndpointIsRefused) {
  assert_connect_refused("", GEAR_EINVAL, "endpoint");
}

GEAR_TEST(EndpointWithoutAPathIsRefused) {
  assert_connect_refused("unix:", GEAR_EINVAL, "unix:");
}

GEAR_TEST(EndpointWithAPathLongerThanSocketsAllowIsRefused) {
  char endpoint[300];
  memset(endpoint, 'p', sizeof endpoint);
  memcpy(endpoint, "unix:/", 6);
  endpoint[sizeof endpoint - 1] = '\0';
  assert_connect_refused(endpoint, GEAR_EINVAL, "107");
}

GEAR_TEST(EndpointOfAHandleThatIsNoneIsRefused) {
  assert_connect_refused("handle:abc", GEAR_EHANDLE, "handle");
}

GEAR_TEST(EnvironmentNamesTheEndpointWhereNoneIsGiven) {
  Place place;
  make_place(&place);
  assert_int_equal(setenv("GEAR_ENDPOINT", place.endpoint, 1), 0);
  assert_connect_refused(NULL, GEAR_ENOSERVER, place.path);
  assert_int_equal(setenv("GEAR_ENDPOINT", "embedded:", 1), 0);
  gear_client* client = NULL;
  assert_ok(gear_connect(NULL, NULL, &client));
  assert_ok(gear_close(client));
  remove_place(&place);
}

GEAR_TEST(UserSocketIsTriedWhereNoEndpointIsNamed) {
  Place place;
  make_place(&place);
  assert_int_equal(unsetenv("GEAR_ENDPOINT"), 0);
  assert_int_equal(setenv("XDG_RUNTIME_DIR", place.directory, 1), 0);
  const char* wanted = geteuid() == 0 ? "/run/gear/geard.sock" : "/gear/geard.sock";
  if (access("/run/gear/geard.sock", F_OK) == 0) skip();
  assert_connect_refused(NULL, GEAR_ENOSERVER, wanted);
  remove_place(&place);
}

GEAR_TEST(ConnectOptionsOfAnotherStructSizeAreRefused) {
  gear_connect_options options = GEAR_CONNECT_OPTIONS_INIT;
  options.struct_size = 3;
  gear_client* client = NULL;
  assert_status(gear_connect("embedded:", &options, &client), GEAR_ESTRUCT);
  assert_explained("3");
  assert_null(client);
}

GEAR_TEST(ConnectWithoutAPlaceForTheClientIsRefused) {
  assert_status(gear_connect("embedded:", NULL, NULL), GEAR_EINVAL);
}

GEAR_TEST(FirstErrorTextIsEmpty) {
  assert_string_equal(gear_last_error(), "");
}

GEAR_TEST(ErrorTextStaysThroughCallsThatSucceed) {
  assert_connect_refused("carrier-pigeon:coop", GEAR_EINVAL, "carrier-pigeon:coop");
  gear_client* client = NULL;
  assert_ok(gear_connect("embedded:", NULL, &client));
  assert_explained("carrier-pigeon:coop");
  assert_ok(gear_close(client));
}

GEAR_TEST(StatusesAreNamedAsInTheHeader) {
  assert_string_equal(gear_status_string(GEAR_OK), "GEAR_OK");
  assert_string_equal(gear_status_string(GEAR_ETIMEDOUT), "GEAR_ETIMEDOUT");
  assert_string_equal(gear_status_string(GEAR_ESTALESOCKET), "GEAR_ESTALESOCKET");
  assert_non_null(gear_status_string(-12345));
}

GEAR_TEST(LibraryIsOfTheVersionOfItsHeader) {
  assert_int_equal(gear_version(),
                   GEAR_VERSION_MAJOR << 16 | GEAR_VERSION_MINOR << 8 | GEAR_VERSION_PATCH);
  assert_string_equal(gear_version_string(), "0.1.0");
}
