// Makes tables outside the conductor's thread: allocating and populating gigabytes takes seconds.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "shm/descriptor.h"
#include "shm/segment.h"
#include "table/table.h"

namespace gear {

struct TableJob {
  Geometry geometry;
  MemoryOptions memory;
  uint64_t instance_id;
  uint64_t table_id;
  uint64_t session;  // who asked, and in which request
  uint32_t request_id;
};

struct TableMade {
  TableJob job;
  Status status;
  std::shared_ptr<Table> table;  // when status is ok
};

// Used by the server's thread; one worker thread, started with the first job. Jobs are made in the order asked.
class TableMaker {
 public:
  TableMaker();
  ~TableMaker();  // waits for the job in progress

  int ready_fd() const { return ready_.get(); }  // readable when results wait
  void make(TableJob job);
  std::vector<TableMade> collect();

 private:
  void run();

  Descriptor ready_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<TableJob> jobs_;
  std::vector<TableMade> made_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gear
