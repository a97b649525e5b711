// Tests that need processes of several users; root alone can start them.
#pragma once

#include <grp.h>
#include <sys/prctl.h>

#include <vector>

#include "support/child.h"

namespace gear::test {

struct User {
  uid_t uid;
  gid_t gid;
  std::vector<gid_t> groups = {};
};

inline bool can_be_others() { return geteuid() == 0; }

// This process is that user's from here on.
inline bool become(const User& user) {
  if (setgroups(user.groups.size(), user.groups.data()) != 0 || setresgid(user.gid, user.gid, user.gid) != 0 ||
      setresuid(user.uid, user.uid, user.uid) != 0) {
    return false;
  }
  // The kernel hides /proc/self of a process that changed its user, as a program that a user starts is not.
  return prctl(PR_SET_DUMPABLE, 1) == 0;
}

// What body, run in a child of that user, returned.
inline std::string as_user(const User& user, const std::function<std::string()>& body) {
  return in_child([&] { return become(user) ? body() : "cannot become another user"; });
}

}  // namespace gear::test
