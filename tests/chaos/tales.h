// The third table of a chaos run: whole episodes with cells of their own, final observations, and an item that its writer asks
// for. What a commit of a row by itself does not have: records of which a repetition would show.
#pragma once

#include <cstdint>

#include "chaos/actors.h"
#include "gear.h"

namespace gear::chaos {

inline constexpr uint32_t kTales = 2'048;  // of one writer

int create_tales(gear_client* client);

// A writer of tales; one thread.
class Teller {
 public:
  Teller(const Place& place, uint32_t id, bool survivor) : place_(place), id_(id), survivor_(survivor) {}
  bool open(gear_table* table);
  // Tells the next one, and notes that it was acknowledged. False when the round ends, or on a failure that was told.
  bool tell();

 private:
  bool append(uint64_t seq);
  bool give_cells();
  bool make_item();
  bool end();

  const Place& place_;
  uint32_t id_;
  bool survivor_;
  gear_writer* writer_ = nullptr;
  uint64_t told_ = 0;
};

// Every acknowledged tale is one item, whole, and none is there twice.
void audit_tales(const Place& place, gear_table* table);

}  // namespace gear::chaos
