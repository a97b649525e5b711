// Client and table handles: who owns whom, and when they end.
#pragma once

#include <gear.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "array.h"
#include "status.h"

namespace gear_python {

namespace nb = nanobind;

// A connection. Tables, writers and samplers share it and keep it open until close(), which ends it
// for all of them at once. All members are touched with the GIL held.
class Client : public std::enable_shared_from_this<Client> {
 public:
  explicit Client(gear_client* raw) : raw_(raw) {}
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Raises unless the connection is open.
  gear_client* raw() const;
  // As raw(), without raising: whether handles made through it may still be given back.
  bool usable() const { return !closed_; }

  // Closes now, or, while arrays of Writer.reserve are alive, when the last of them goes.
  void close();
  bool closed() const { return closed_; }

  void enter_call() { ++calls_; }
  void leave_call() { --calls_; }
  void add_export() { ++exports_; }
  void drop_export();

 private:
  int finish();

  gear_client* raw_;
  int calls_ = 0;    // calls that run without the GIL
  int exports_ = 0;  // arrays over the connection's mappings
  bool closed_ = false;
};

// Counts a call that runs without the GIL, so that close() refuses to pull memory from under it.
class CallScope {
 public:
  explicit CallScope(Client& client) : client_(client) { client_.enter_call(); }
  ~CallScope() { client_.leave_call(); }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  Client& client_;
};

// Runs call() without the GIL and answers its status.
template <typename Call>
int call_unlocked(Client& client, Call&& call) {
  CallScope scope(client);
  nb::gil_scoped_release released;
  return call();
}

// A table handle and what does not change about the table. Writers and samplers share it.
class Table : public std::enable_shared_from_this<Table> {
 public:
  Table(std::shared_ptr<Client> client, gear_table* raw);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  gear_table* raw() const;
  Client& client() const { return *client_; }
  const std::shared_ptr<Client>& client_ptr() const { return client_; }
  const std::vector<Column>& columns() const { return columns_; }

  // The column of this name, or null. Interned names, which keyword arguments are, compare by
  // address.
  const Column* find(nb::handle name) const;

  void detach();
  void add_child() { ++children_; }
  void drop_child() { --children_; }

 private:
  void load_columns();

  std::shared_ptr<Client> client_;
  gear_table* raw_;
  std::vector<Column> columns_;
  int children_ = 0;  // open writers and samplers
};

void bind_client(nb::module_& module);
void bind_table(nb::module_& module);
void bind_writer(nb::module_& module);
void bind_sampler(nb::module_& module);
void bind_batch(nb::module_& module);

}  // namespace gear_python
