#include "server/conductor.h"

#include <algorithm>

#include "base/clock.h"
#include "server/sampler_port.h"

namespace gear {

namespace {
constexpr int64_t kTickNs = 100'000'000;
}

size_t Conductor::poll() {
  size_t done = 0;
  for (size_t i = 0; i < ports_.size();) {
    Port& port = *ports_[i];
    size_t worked = port.work();
    done += worked;
    if (worked > 0) arm_tick(port);
    if (accuse(port)) ++done;
    if (port.finished()) {
      retire(i);
      ++done;
    } else {
      ++i;
    }
  }
  return done;
}

// A port may wait for a tick though it did nothing: an idle poll does not ask for that.
int64_t Conductor::tick_due() {
  for (const auto& port : ports_) arm_tick(*port);
  return tick_due_;
}

void Conductor::arm_tick(const Port& port) {
  if (tick_due_ == INT64_MAX && port.wants_tick()) tick_due_ = now_ns() + kTickNs;
}

void Conductor::finish_closing(const Table& table) {
  for (size_t i = 0; i < ports_.size();) {
    Port& port = *ports_[i];
    bool ends = &port.table() == &table && port.closing();
    if (ends) port.drain();
    if (ends) accuse(port);
    if (ends && port.finished()) {
      retire(i);
    } else {
      ++i;
    }
  }
}

void Conductor::drain() {
  for (const auto& port : ports_) {
    port->drain();
    arm_tick(*port);
    accuse(*port);
  }
}

void Conductor::tick(int64_t now_ns) {
  if (now_ns < tick_due_) return;
  tick_due_ = INT64_MAX;
  for (const auto& port : ports_) {
    port->tick(now_ns);
    if (port->wants_tick()) tick_due_ = now_ns + kTickNs;
  }
}

void Conductor::retire(size_t index) {
  records_retired_ += ports_[index]->records_taken();
  ports_[index]->give_up();
  if (layout::ChannelRecord* record = ports_[index]->kept_in()) ledger_.remove(record);
  ports_[index] = std::move(ports_.back());
  ports_.pop_back();
}

void Conductor::add_table(std::shared_ptr<Table> table) { tables_.push_back(std::move(table)); }

std::shared_ptr<Table> Conductor::find_table(const std::string& name) const {
  for (const auto& table : tables_) {
    if (name == table->name()) return table;
  }
  return nullptr;
}

std::shared_ptr<Table> Conductor::find_table(uint64_t id) const {
  for (const auto& table : tables_) {
    if (id == table->id()) return table;
  }
  return nullptr;
}

void Conductor::end_ports_of(const Table& table, int status) {
  for (const auto& port : ports_) {
    if (&port->table() == &table) port->end(status);
  }
}

void Conductor::close_table(Table& table) {
  if (table.state() != layout::TableState::kOpen) return;
  table.set_state(layout::TableState::kClosed);
  end_ports_of(table, GEAR_ECLOSED);
}

void Conductor::drop_table(Table& table) {
  table.set_state(layout::TableState::kDropped);
  end_ports_of(table, GEAR_EDROPPED);
  // Ports keep the table until their clients close them.
  std::erase_if(tables_, [&table](const auto& one) { return one.get() == &table; });
}

Port* Conductor::add_port(std::unique_ptr<Port> port) {
  ports_.push_back(std::move(port));
  arm_tick(*ports_.back());
  return ports_.back().get();
}

Port* Conductor::find_port(uint32_t id) const {
  for (const auto& port : ports_) {
    if (port->id() == id) return port.get();
  }
  return nullptr;
}

bool Conductor::has_ports_of(uint64_t session) const {
  return std::any_of(ports_.begin(), ports_.end(), [session](const auto& port) { return port->session() == session; });
}

void Conductor::close_ports_of(uint64_t session, const std::vector<uint32_t>& but) {
  for (const auto& port : ports_) {
    if (port->session() != session) continue;
    if (std::find(but.begin(), but.end(), port->id()) == but.end()) port->begin_close();
  }
}

void Conductor::end_closed() {
  for (const auto& table : tables_) {
    if (table->state() == layout::TableState::kClosed) end_ports_of(*table, GEAR_ECLOSED);
  }
}

void Conductor::end_ports_of(const ConsumerGroup& group, int status) {
  for (const auto& port : ports_) {
    if (port->kind() != layout::ChannelKind::kSampler) continue;
    if (static_cast<const SamplerPort&>(*port).group() == &group) port->end(status);
  }
}

size_t Conductor::direct_samplers(const Table& table) const {
  size_t count = 0;
  for (const auto& port : ports_) {
    if (&port->table() != &table || port->kind() != layout::ChannelKind::kSampler) continue;
    if (static_cast<const SamplerPort&>(*port).direct()) ++count;
  }
  return count;
}

size_t Conductor::port_count(layout::ChannelKind kind) const {
  return static_cast<size_t>(std::count_if(ports_.begin(), ports_.end(), [kind](const auto& port) {
    return port->kind() == kind;
  }));
}

bool Conductor::accuse(Port& port) {
  if (!port.take_offence()) return false;
  offenders_.push_back({port.session(), port.cut_short() ? "cut its channel short" : "broke the ring protocol"});
  return true;
}

Conductor::Offender Conductor::next_offender() {
  if (offenders_.empty()) return {};
  Offender offender = offenders_.back();
  offenders_.pop_back();
  return offender;
}

uint64_t Conductor::records() const {
  uint64_t records = records_retired_;
  for (const auto& port : ports_) records += port->records_taken();
  return records;
}

}  // namespace gear
