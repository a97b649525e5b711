// The conductor: owns the tables and the ports, and alone changes a table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/ledger.h"
#include "server/port.h"
#include "table/table.h"

namespace gear {

// One thread, throughout. Ports are polled in turn, a bounded number of records each, so none starves another.
class Conductor {
 public:
  explicit Conductor(Ledger& ledger) : ledger_(ledger) {}

  // Polls every port once. Returns how much was done; 0 means that all rings were empty, or wait for a table to change.
  size_t poll();

  // The moment tick is due next, or INT64_MAX. For before a sleep: O(ports) while none is due.
  int64_t tick_due();
  void tick(int64_t now_ns);

  void add_table(std::shared_ptr<Table> table);
  std::shared_ptr<Table> find_table(const std::string& name) const;
  std::shared_ptr<Table> find_table(uint64_t id) const;
  // In order of creation.
  const std::vector<std::shared_ptr<Table>>& tables() const { return tables_; }
  void close_table(Table& table);
  void drop_table(Table& table);

  Port* add_port(std::unique_ptr<Port> port);
  // Ports of the table whose clients closed them or are dead go now, as far as what they sent can be admitted.
  void finish_closing(const Table& table);
  // Before anyone is served, when the ports are those of a server that died: what was accepted has its effect.
  void drain();
  Port* find_port(uint32_t id) const;
  bool has_ports_of(uint64_t session) const;
  // All but those with these ids.
  void close_ports_of(uint64_t session, const std::vector<uint32_t>& but = {});
  // Ends the ports of tables that are closed; a server that died may have come to some of them only.
  void end_closed();
  // Samplers of the group answer `status` from here on.
  void end_ports_of(const ConsumerGroup& group, int status);
  size_t direct_samplers(const Table& table) const;
  size_t port_count(layout::ChannelKind kind) const;
  size_t port_count() const { return ports_.size(); }
  const std::vector<std::unique_ptr<Port>>& ports() const { return ports_; }

  // A session whose client broke the protocol since the last call, and how; or 0.
  struct Offender {
    uint64_t session = 0;
    const char* deed = "";
  };
  Offender next_offender();

  uint64_t records() const;

 private:
  void arm_tick(const Port& port);
  void retire(size_t index);
  // Whether the port had done something to tell of.
  bool accuse(Port& port);
  void end_ports_of(const Table& table, int status);

  Ledger& ledger_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::shared_ptr<Table>> tables_;
  std::vector<Offender> offenders_;
  int64_t tick_due_ = INT64_MAX;
  uint64_t records_retired_ = 0;
};

}  // namespace gear
