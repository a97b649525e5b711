// The rules that a table's directory keeps, checked one by one: those of gather/check_directory.h too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gear {

enum class CheckForm {
  kOnline,   // the conductor may be at work: only what holds at any moment; what moves is read again
  kAdoption  // nobody writes, but a conductor may have died between any two stores
};

struct Findings {
  std::vector<std::string> texts;  // each with the values that contradict each other
  uint64_t left_out = 0;           // found beyond those
};

// Reads a mapped directory and never writes it; follows no offset or index before it is checked. Any thread and any process.
// O(blocks + items + words of the indexes); allocates.
Findings find_contradictions(const void* directory, uint64_t directory_bytes, uint64_t data_bytes, CheckForm form);

}  // namespace gear
