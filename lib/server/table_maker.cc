#include "server/table_maker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace gear {

TableMaker::TableMaker() : ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

TableMaker::~TableMaker() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TableMaker::make(TableJob job) {
  std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  wanted_.notify_one();
}

std::vector<TableMade> TableMaker::collect() {
  uint64_t count;
  [[maybe_unused]] ssize_t ignored = read(ready_.get(), &count, sizeof count);
  std::lock_guard lock(mutex_);
  return std::exchange(made_, {});
}

void TableMaker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    TableJob job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Result<std::unique_ptr<Table>> table =
        Table::create(job.geometry, job.instance_id, job.table_id, job.memory);
    TableMade made{std::move(job), table.status(), nullptr};
    if (table.ok()) made.table = table.take();
    lock.lock();
    made_.push_back(std::move(made));
    uint64_t one = 1;
    [[maybe_unused]] ssize_t ignored = write(ready_.get(), &one, sizeof one);
  }
}

}  // namespace gear
