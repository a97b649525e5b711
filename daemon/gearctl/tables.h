// gearctl table: documents about tables.
#pragma once

#include <string>

#include "common/table_spec.h"
#include "gearctl/command_line.h"
#include "gearctl/output.h"
#include "gearctl/session.h"

namespace gear::daemon {

// Everything gear_table_describe, _column and _get_stats say.
Json describe_table(const gear_table* table);

// One line of a list: {name, state, items, capacity_items, ...}.
Json summarise_table(const gear_table* table);

// {"tables": [...]}. A table dropped meanwhile is left out.
Json list_tables(gear_client* client);

Json create_table(gear_client* client, const TableSpec& spec);

// Retunes the table, and raises its version. Where the version is refused, neither is done.
void change_table(gear_table* table, const TableChange& change);

std::string render_table(const Json& description);
std::string render_tables(const Json& list);

}  // namespace gear::daemon
