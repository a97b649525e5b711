// A table's data in parts, as a client maps them: one range of addresses, in which each part lies at the places that its blocks
// and episode cells have in one segment (layout/directory.h). What is not mapped of it can be neither read nor written.
#pragma once

#include <string>

#include "base/status.h"
#include "layout/directory.h"
#include "shm/descriptor.h"
#include "shm/mapping.h"

namespace gear {

// All parts, read-only. `header` was checked (gather/check_directory.h) and has parts; there are as many descriptors.
// Nothing of a part is believed, for its writer can write all of it, and cut it short: what is not there is a SIGBUS for who
// reads that writer's rows, and for nobody else. Errors: ENOMEM, ESYSTEM.
Result<Mapping> map_parts(const std::string& purpose, const layout::TableHeader& header, const Descriptor* descriptors);

// One part, writable. Errors: EPROTOCOL (no such part, no memory, too small), ENOMEM, ESYSTEM.
Result<Mapping> map_part(const std::string& purpose, const layout::TableHeader& header, uint32_t part, int fd);

}  // namespace gear
