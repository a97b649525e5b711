// The processes of a chaos run. Each body is run in a forked child, which may be killed or stopped at any instruction, and
// returns the child's exit status.
#pragma once

#include <cstdint>
#include <string>

#include "chaos/board.h"

namespace gear::chaos {

struct Place {
  Board* board;
  std::string endpoint;
};

// "log": items drawn directly, nothing consumes them; "work": a consumer group takes them; "tales": tales.h. All keep all rows
// of a round.
int create_tables(const Place& place);

// Appends rows (id, 0), (id, 1), ... to log and work, and tells tales, and notes what flush acknowledged.
int run_writer(const Place& place, uint32_t id, bool survivor);
// Draws directly, and recomputes every cell.
int run_reader(const Place& place, bool survivor);
// Consumes from the group, and notes deliveries before it acknowledges them.
int run_consumer(const Place& place, bool survivor);
// Notes when the machine stands still.
int run_bystander(const Place& place);
// After the round: every acknowledged row is there once and was delivered, nothing is held any more; drops the tables.
int run_audit(const Place& place);

}  // namespace gear::chaos
