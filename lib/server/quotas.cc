#include "server/quotas.h"

#include <set>

#include "server/access.h"
#include "server/sampler_port.h"
#include "server/writer_port.h"

namespace gear {
namespace {

using layout::ChannelKind;

// Without overflow; a limit of 0 is none.
bool fits(uint64_t used, uint64_t more, uint64_t limit) {
  return limit == 0 || (used <= limit && more <= limit - used);
}

Status over(uint32_t uid, const char* what, const char* of, uint64_t used, uint64_t more, uint64_t limit,
            const char* remedy) {
  return error(GEAR_ELIMIT, "%s: user %u uses %llu %s and asks for %llu more, the limit of a user is %llu; %s",
               what, uid, static_cast<unsigned long long>(used), of, static_cast<unsigned long long>(more),
               static_cast<unsigned long long>(limit), remedy);
}

uint64_t row_bytes(const Table& table) {
  return uint64_t{table.header().item_steps_max} * table.header().step_bytes;
}

uint64_t row_bytes_of(const Table& table, uint64_t rows) {
  uint64_t bytes = 0;
  return __builtin_mul_overflow(rows, row_bytes(table), &bytes) ? UINT64_MAX : bytes;
}

uint64_t lanes_of(const Port& port) {
  if (port.kind() != ChannelKind::kWriter) return 0;
  return static_cast<const WriterPort&>(port).lanes();
}

uint64_t leased_bytes_of(const Port& port) {
  if (port.kind() != ChannelKind::kSampler) return 0;
  return row_bytes_of(port.table(), static_cast<const SamplerPort&>(port).rows_leased_most());
}

uint64_t bytes_of(const Table& table) {
  return table.directory().size() + layout::data_memory_bytes(table.header());
}

}  // namespace

uint64_t Quotas::sum_over_ports(uint32_t uid, uint64_t (*of)(const Port&)) const {
  uint64_t sum = 0;
  for (const auto& port : conductor_.ports()) {
    if (port->uid() == uid) sum += of(*port);
  }
  return sum;
}

Status Quotas::check_client(const Peer& who, uint64_t clients) const {
  if (is_privileged(who) || fits(clients, 1, limits_.clients_max)) return {};
  return over(who.uid, "connect", "clients", clients, 1, limits_.clients_max,
              "close some, or raise user_clients_max");
}

Status Quotas::check_channel(const Peer& who) const {
  if (is_privileged(who) || limits_.channels_max == 0) return {};
  uint64_t used = sum_over_ports(who.uid, [](const Port&) { return uint64_t{1}; });
  if (fits(used, 1, limits_.channels_max)) return {};
  return over(who.uid, "open channel", "channels (writers, samplers)", used, 1, limits_.channels_max,
              "close some, or raise user_channels_max");
}

Status Quotas::check_lanes(const Peer& who, uint64_t lanes) const {
  if (is_privileged(who) || limits_.lanes_max == 0) return {};
  uint64_t used = sum_over_ports(who.uid, lanes_of);
  if (fits(used, lanes, limits_.lanes_max)) return {};
  return over(who.uid, "open writer", "lanes", used, lanes, limits_.lanes_max,
              "close writers, or raise user_lanes_max");
}

Status Quotas::check_leased(const Peer& who, const Table& table, uint64_t rows) const {
  if (is_privileged(who) || limits_.leased_bytes_max == 0) return {};
  uint64_t used = sum_over_ports(who.uid, leased_bytes_of);
  uint64_t more = row_bytes_of(table, rows);
  if (fits(used, more, limits_.leased_bytes_max)) return {};
  return over(who.uid, "open sampler", "bytes of rows that may be leased", used, more, limits_.leased_bytes_max,
              "lower prefetch, batches_max or batch_rows_max, close samplers, or raise user_leased_bytes_max");
}

Status Quotas::check_table(const Peer& who, const char* name, uint64_t bytes,
                           const std::map<std::string, TableInMaking>& making) const {
  if (is_privileged(who)) return {};
  std::set<const Table*> tables;
  for (const auto& table : conductor_.tables()) tables.insert(table.get());
  // Dropped ones keep their memory while someone has a channel of them.
  for (const auto& port : conductor_.ports()) tables.insert(&port->table());
  uint64_t count = 0;
  uint64_t used = 0;
  for (const Table* table : tables) {
    if (table->header().owner_uid != who.uid) continue;
    ++count;
    used += bytes_of(*table);
  }
  for (const auto& [_, one] : making) {
    if (one.owner_uid != who.uid) continue;
    ++count;
    used += one.bytes;
  }
  std::string what = format("create table \"%s\"", name);
  if (!fits(count, 1, limits_.tables_max)) {
    return over(who.uid, what.c_str(), "tables", count, 1, limits_.tables_max,
                "drop one, or raise user_tables_max");
  }
  if (fits(used, bytes, limits_.table_bytes_max)) return {};
  return over(who.uid, what.c_str(), "bytes of tables", used, bytes, limits_.table_bytes_max,
              "lower capacity, drop a table, or raise user_table_bytes_max");
}

}  // namespace gear
