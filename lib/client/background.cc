#include "client/background.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <system_error>

#include "client/fork_guard.h"
#include "client/text.h"

namespace gear::client {
namespace {

// The longest sleep before it looks whether the server lives.
constexpr int64_t kSleepNs = 100'000'000;

// The caller's signal handlers are not for this thread.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Background::Background(const TableView& table, const SamplerPlan& plan, RowSource& source,
                       BatchPool& pool, Channel& channel)
    : table_(table),
      plan_(plan),
      source_(source),
      pool_(pool),
      channel_(channel),
      forks_(fork_generation()) {
  ready_.reserve(plan.background);
}

Result<std::unique_ptr<Background>> Background::start(const TableView& table,
                                                      const SamplerPlan& plan, RowSource& source,
                                                      BatchPool& pool, Channel& channel) {
  std::unique_ptr<Background> background(new Background(table, plan, source, pool, channel));
  AllSignalsBlocked blocked;
  try {
    background->thread_ = std::thread([self = background.get()] { self->run(); });
  } catch (const std::system_error& failure) {
    return error(GEAR_ELIMIT, "no thread for background %u (%s); end other threads, or set it 0",
                 plan.background, failure.what());
  }
  return background;
}

Background::~Background() {
  if (!thread_.joinable()) return;
  if (forks_ != fork_generation()) {
    thread_.detach();  // a forked child has the object but not the thread
    return;
  }
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Background::Stamp Background::stamp() const {
  const layout::TableCounters& counters = table_.header->counters;
  bool any_version = plan_.version_policy == GEAR_VERSION_ANY;
  return {observe(counters.epoch), any_version ? 0 : peek(counters.version)};
}

bool Background::has_work() const {
  return error_.ok() && ready_.size() < plan_.background;
}

void Background::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || has_work(); });
    if (stop_) return;
    fill_one(lock);
    changed_.notify_all();
  }
}

// Draws and gathers without the mutex. Without items it waits in slices, to see that it shall stop.
void Background::fill_one(std::unique_lock<std::mutex>& lock) {
  Result<Batch*> borrowed = pool_.borrow();
  if (!borrowed.ok()) {
    error_ = borrowed.status();
    return;
  }
  Batch* batch = borrowed.value();
  filling_ = 1;
  lock.unlock();
  Stamp before = stamp();
  Status status = source_.fill(*batch, plan_.background_rows, kSliceNs);
  lock.lock();
  filling_ = 0;
  redrawn_ = source_.redrawn();
  if (status.ok()) {
    ready_.push_back({batch, before});
    return;
  }
  pool_.unborrow(batch);
  if (status.code() != GEAR_ETIMEDOUT) error_ = status;
}

bool Background::pop_ready(Batch** batch) {
  Stamp now = stamp();
  while (!ready_.empty()) {
    Ready oldest = ready_.front();
    ready_.erase(ready_.begin());
    if (oldest.drawn == now) {
      *batch = oldest.batch;
      return true;
    }
    pool_.unborrow(oldest.batch);
  }
  return false;
}

Status Background::take(int64_t timeout_ns, Batch** batch) {
  std::unique_lock lock(mutex_);
  if (pool_.busy() - ready_.size() - filling_ >= plan_.batches_max) {
    return error(GEAR_EBUSY,
                 "all %u batches of the sampler are held; release one, or raise batches_max",
                 plan_.batches_max);
  }
  int64_t deadline_ns = deadline_after(timeout_ns);
  for (;;) {
    GEAR_TRY(channel_.health());
    bool popped = pop_ready(batch);
    Status failed = popped ? Status() : std::move(error_);
    if (!failed.ok()) error_ = Status();
    changed_.notify_all();
    if (popped || !failed.ok()) return failed;
    int64_t left_ns = left_until(deadline_ns);
    if (left_ns <= 0) return timed_out(timeout_ns);
    changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left_ns, kSleepNs)));
  }
}

uint64_t Background::redrawn() const {
  std::lock_guard lock(mutex_);
  return redrawn_;
}

Status Background::timed_out(int64_t timeout_ns) const {
  return error(
      GEAR_ETIMEDOUT,
      "no batch was ready in %s, the table has %llu items; append and flush steps, or raise "
      "timeout_ns",
      duration_text(std::max<int64_t>(timeout_ns, 0)).c_str(),
      static_cast<unsigned long long>(observe(table_.header->counters.items)));
}

}  // namespace gear::client
