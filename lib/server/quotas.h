// What one user may have in a server at one time, and what each has.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "server/conductor.h"
#include "server/server.h"
#include "shm/message.h"

namespace gear {

// A table that is being made.
struct TableInMaking {
  uint32_t owner_uid;
  uint64_t bytes;
};

// Server's thread only. Usage is counted anew from the ports and tables at each question, so it cannot drift; O(ports) each.
// Root and the server's own user have no quota.
class Quotas {
 public:
  Quotas(const UserQuotas& limits, const Conductor& conductor) : limits_(limits), conductor_(conductor) {}

  // Each answers OK, or ELIMIT with used, limit and the remedy. What is asked for counts beside what is used.
  Status check_client(const Peer& who, uint64_t clients) const;
  Status check_channel(const Peer& who) const;
  Status check_lanes(const Peer& who, uint64_t lanes) const;
  Status check_leased(const Peer& who, const Table& table, uint64_t rows) const;
  Status check_table(const Peer& who, const char* name, uint64_t bytes,
                     const std::map<std::string, TableInMaking>& making) const;

 private:
  uint64_t sum_over_ports(uint32_t uid, uint64_t (*of)(const Port&)) const;

  const UserQuotas& limits_;
  const Conductor& conductor_;
};

}  // namespace gear
