// A table as a client has it open: its mapped segments, and the writers and samplers opened on it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/handle.h"
#include "client/items.h"
#include "gather/table_view.h"
#include "gear.h"
#include "shm/mapping.h"

namespace gear::client {

class Sampler;
class Writer;

// Any thread, but for detaching. The mapped memory is read-only: the conductor alone writes it.
class Table final : public Handle {
 public:
  static constexpr uint64_t kMagic = 0x656c626174437247u;
  static constexpr const char* kNoun = "table";
  static constexpr bool kShared = true;  // calls of several threads at once

  // The three ways to a table. Errors: as the functions of gear.h.
  static Result<std::unique_ptr<Table>> create(Client& client, const gear_table_options& options);
  static Result<std::unique_ptr<Table>> open(Client& client, const char* name);
  static Result<std::unique_ptr<Table>> attach(Client& client, const char* handle);
  ~Table();

  std::string handle_text() const;
  Status close();
  Status reset();

  Client& client() const { return client_; }
  Session& session() const { return client_.session(); }
  const TableView& view() const { return view_; }
  const layout::TableHeader& header() const { return *view_.header; }
  // As mapped; of data in parts, their range of addresses.
  uint64_t directory_bytes() const { return directory_.size(); }
  uint64_t data_bytes() const { return data_.size(); }
  const char* name() const { return view_.header->name; }
  uint64_t id() const { return view_.header->table_id; }
  Items& items() { return items_; }

  // The column's index, or ENOCOLUMN.
  Result<uint32_t> column_index(const char* name) const;

  Writer* keep(std::unique_ptr<Writer> writer);
  Sampler* keep(std::unique_ptr<Sampler> sampler);
  void forget(Writer* writer);
  void forget(Sampler* sampler);
  // Before it is detached: calls under way are waited for, those on items end with ECLOSED. Errors: ESTATE while writers
  // or samplers are open; EINVAL, EBUSY as end_calls_on.
  Status end_calls();
  // For the end of its client: no further call on it or on its writers and samplers begins, waits end.
  void refuse_all_calls();
  // After that: the calls under way have returned. False at the deadline.
  bool await_all_calls(int64_t deadline_ns);

 private:
  Table(Client& client, Mapping directory, Mapping data, const layout::TableReply& reply);
  static Result<std::unique_ptr<Table>> map(Client& client, const std::string& purpose,
                                            Reply reply);
  Status check_unused();
  Status ask_about(layout::ControlOp op, const char* what) const;

  Client& client_;
  Mapping directory_;
  Mapping data_;
  TableView view_;
  layout::TableReply reply_;
  Items items_;

  std::mutex mutex_;  // guards the lists
  std::vector<std::unique_ptr<Writer>> writers_;
  std::vector<std::unique_ptr<Sampler>> samplers_;
};

}  // namespace gear::client
