// Appending, against handing the same bytes over in process.

#include <array>
#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstring>
#include <memory>
#include <thread>

#include "bench/bench_table.h"
#include "bench/harness.h"

namespace gear::bench {
namespace {

constexpr size_t kSmall = 200;
using Step = std::array<uint8_t, kSmall>;

// A queue with a consumer that pops all the time, as the conductor takes records all the time.
class ConsumedQueue {
 public:
  ConsumedQueue()
      : consumer_([this] {
          Step step;
          uint64_t sum = 0;
          while (!done_.load(std::memory_order_acquire)) {
            while (queue_->pop(step)) sum += step[0];
          }
          keep(sum);
        }) {}
  ~ConsumedQueue() {
    done_.store(true, std::memory_order_release);
    consumer_.join();
  }
  void push(const Step& step) {
    while (!queue_->push(step)) {
    }
  }
  void drain() const {
    while (queue_->read_available() > 0) {
    }
  }

 private:
  using Queue = boost::lockfree::spsc_queue<Step, boost::lockfree::capacity<4096>>;
  std::unique_ptr<Queue> queue_ = std::make_unique<Queue>();
  std::atomic<bool> done_{false};
  std::thread consumer_;
};

// What a step costs its actor (`wait_timed` false: bursts that fit the ring, the wait for the other side not timed), and what
// it costs when an actor does nothing but append, so that the other side sets the pace (true).
void append_small(Report* report, const char* name, bool wait_timed, double goal) {
  BenchTable bench(kSmall, 100'000, [](gear_table_options*) {});
  gear_writer* writer = nullptr;
  must(gear_writer_open(bench.table, nullptr, &writer), "open writer");
  const int64_t burst = wait_timed ? 100'000 : 1'024;
  const int64_t steps = (quick() ? 200'000 : 1'000'000) / burst * burst;

  auto ours = [&] {
    int64_t spent = 0;
    for (int64_t step = 0; step < steps;) {
      int64_t begin = now_ns();
      for (int64_t end = step + burst; step < end; ++step) {
        memcpy(bench.row.data(), &step, sizeof step);
        must(gear_writer_append(writer, 0, &bench.cell, 1, kLongTimeout), "append");
      }
      int64_t appended = now_ns();
      must(gear_writer_flush(writer, kLongTimeout, nullptr), "flush");
      spent += (wait_timed ? now_ns() : appended) - begin;
    }
    return static_cast<double>(spent) / static_cast<double>(steps);
  };
  auto baseline = [&] {
    ConsumedQueue queue;
    Step source{};
    int64_t spent = 0;
    for (int64_t step = 0; step < steps;) {
      int64_t begin = now_ns();
      for (int64_t end = step + burst; step < end; ++step) {
        memcpy(source.data(), &step, sizeof step);
        queue.push(source);
      }
      int64_t pushed = now_ns();
      queue.drain();
      spent += (wait_timed ? now_ns() : pushed) - begin;
    }
    return static_cast<double>(spent) / static_cast<double>(steps);
  };
  Row row{name, "ns/step", "boost spsc_queue push", Better::kLower, goal};
  measure(&row, ours, baseline);
  report->add(row);
  must(gear_writer_close(writer), "close writer");
}

void append_frame(Report* report) {
  constexpr size_t kBytes = 28 * 1024;
  constexpr int64_t kFrames = 4096;
  BenchTable bench(kBytes, kFrames, [](gear_table_options*) {});
  bench.fill(kFrames);  // every page of the table is mapped before timing
  gear_writer* writer = nullptr;
  must(gear_writer_open(bench.table, nullptr, &writer), "open writer");
  std::vector<uint8_t> frame(kBytes, 3);
  std::vector<uint8_t> target(kBytes * kFrames, 1);
  int64_t frames = quick() ? 4096 : 16384;

  auto ours = [&] {
    int64_t begin = now_ns();
    for (int64_t i = 0; i < frames; ++i) {
      void* place = nullptr;
      must(gear_writer_reserve(writer, 0, kLongTimeout, &place, 1), "reserve");
      memcpy(place, frame.data(), kBytes);
      must(gear_writer_advance(writer, 0, kLongTimeout), "advance");
    }
    must(gear_writer_flush(writer, kLongTimeout, nullptr), "flush");
    return static_cast<double>(kBytes) * static_cast<double>(frames) /
           static_cast<double>(now_ns() - begin);
  };
  auto baseline = [&] {
    int64_t begin = now_ns();
    for (int64_t i = 0; i < frames; ++i) {
      memcpy(&target[static_cast<size_t>(i % kFrames) * kBytes], frame.data(), kBytes);
      keep(target[0]);
    }
    return static_cast<double>(kBytes) * static_cast<double>(frames) /
           static_cast<double>(now_ns() - begin);
  };
  Row row{"append 28 KiB frame, reserve/advance", "GB/s", "memcpy of the frame", Better::kHigher, 0.9};
  measure(&row, ours, baseline);
  report->add(row);
  must(gear_writer_close(writer), "close writer");
}

// One step of every lane by one call, against one call a lane; what the actor pays, as in append_small.
void append_vector(Report* report, const char* name, uint32_t lanes) {
  BenchTable bench(kSmall, 200'000, [&](gear_table_options* options) { options->lanes_max = 2 * lanes; });
  bench.fill(200'000);
  gear_writer_options options = GEAR_WRITER_OPTIONS_INIT;
  options.lanes = lanes;
  gear_writer* together = nullptr;
  gear_writer* singly = nullptr;
  must(gear_writer_open(bench.table, &options, &together), "open writer");
  must(gear_writer_open(bench.table, &options, &singly), "open writer");
  std::vector<uint8_t> rows(size_t{lanes} * kSmall, 5);
  gear_cell cell = bench.cell;
  cell.data = rows.data();
  gear_vector_step vector = GEAR_VECTOR_STEP_INIT;
  vector.cells = &cell;
  vector.cell_count = 1;
  const int64_t burst = 2'048 / lanes;  // calls
  const int64_t calls = (quick() ? 200'000 : 1'000'000) / lanes / burst * burst;

  auto timed = [&](gear_writer* writer, auto append) {
    int64_t spent = 0;
    for (int64_t call = 0; call < calls;) {
      int64_t begin = now_ns();
      for (int64_t end = call + burst; call < end; ++call) append();
      spent += now_ns() - begin;
      must(gear_writer_flush(writer, kLongTimeout, nullptr), "flush");
    }
    return static_cast<double>(spent) / static_cast<double>(calls * lanes);
  };
  auto ours = [&] {
    return timed(together, [&] {
      must(gear_writer_append_vector(together, &vector, kLongTimeout, nullptr), "append vector");
    });
  };
  auto baseline = [&] {
    return timed(singly, [&] {
      gear_cell one = cell;
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        one.data = &rows[size_t{lane} * kSmall];
        must(gear_writer_append(singly, lane, &one, 1, kLongTimeout), "append");
      }
    });
  };
  Row row{name, "ns/step", "an append a lane", Better::kLower, 0};
  measure(&row, ours, baseline);
  report->add(row);
}

// Total steps/s of `count` writers, each a thread with its own lane.
double steps_per_second(const BenchTable& bench, int count, int64_t steps_each) {
  std::vector<std::thread> threads;
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      gear_writer* writer = nullptr;
      must(gear_writer_open(bench.table, nullptr, &writer), "open writer");
      ready.fetch_add(1);
      while (!go.load()) std::this_thread::yield();
      for (int64_t step = 0; step < steps_each; ++step) {
        must(gear_writer_append(writer, 0, &bench.cell, 1, kLongTimeout), "append");
      }
      must(gear_writer_flush(writer, kLongTimeout, nullptr), "flush");
      must(gear_writer_close(writer), "close writer");
    });
  }
  while (ready.load() < count) std::this_thread::yield();
  int64_t begin = now_ns();
  go.store(true);
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(steps_each) * count * 1e9 / static_cast<double>(now_ns() - begin);
}

}  // namespace

void bench_append(Report* report) {
  append_small(report, "append 200 B step, commit each", false, 3.0);
  append_small(report, "append and admit 200 B steps, sustained", true, 0);
  append_frame(report);
  append_vector(report, "append vector step, 64 lanes of 200 B", 64);
  append_vector(report, "append vector step, 1024 lanes of 200 B", 1024);
}

void bench_writers(Report* report) {
  BenchTable bench(200, 100'000, [](gear_table_options*) {});
  int64_t steps = quick() ? 200'000 : 800'000;
  Row row{"8 writers, 200 B steps", "steps/s", "1 writer", Better::kHigher, 0.9};
  measure(&row, [&] { return steps_per_second(bench, 8, steps / 8); },
          [&] { return steps_per_second(bench, 1, steps); });
  report->add(row);
}

}  // namespace gear::bench
