// Direct sampling of rows, whole gear_sample calls, against a plain memcpy of as many rows of a plain array of the same
// kind of memory, in the same random order.

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/rng.h"
#include "bench/bench_table.h"
#include "bench/harness.h"

namespace gear::bench {
namespace {

// A shared anonymous-file mapping, populated, as a table's data segment is.
struct PlainArray {
  char* data;
  size_t bytes;
  explicit PlainArray(size_t bytes_) : bytes(bytes_) {
    int fd = memfd_create("bench", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) must(GEAR_ESYSTEM, "memfd");
    data = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    if (data == MAP_FAILED) must(GEAR_ESYSTEM, "mmap");
    memset(data, 1, bytes);
  }
  ~PlainArray() { munmap(data, bytes); }
};

void gather_row_size(Report* report, uint64_t row_bytes, uint64_t rows_total, uint32_t batch,
                     const char* label, double goal) {
  BenchTable bench(row_bytes, rows_total, [](gear_table_options* options) { options->lanes_max = 1; });
  bench.fill(rows_total);
  gear_sampler* sampler = bench.sampler(GEAR_SAMPLE_DIRECT, batch, 0);
  PlainArray plain(row_bytes * rows_total);
  std::vector<char> target(row_bytes * batch, 0);
  Rng rng(11);
  std::vector<uint64_t> order(batch);
  uint64_t bytes_wanted = quick() ? 256u << 20 : 1024u << 20;
  auto batches = static_cast<int>(std::max<uint64_t>(4, bytes_wanted / (row_bytes * batch) / 8));

  // The first touch of a page by this mapping is a fault; the plain array had its own.
  for (uint64_t rows = 0; rows < rows_total * 5; rows += batch) {
    gear_batch* drawn = nullptr;
    must(gear_sample(sampler, batch, kLongTimeout, &drawn), "sample");
    must(gear_batch_release(drawn), "release");
  }

  auto ours = [&] {
    int64_t spent = 0;
    for (int i = 0; i < batches; ++i) {
      gear_batch* drawn = nullptr;
      int64_t begin = now_ns();
      must(gear_sample(sampler, batch, kLongTimeout, &drawn), "sample");
      spent += now_ns() - begin;
      must(gear_batch_release(drawn), "release");
    }
    return static_cast<double>(row_bytes) * batch * batches / static_cast<double>(spent);
  };
  auto baseline = [&] {
    int64_t spent = 0;
    for (int i = 0; i < batches; ++i) {
      for (uint64_t& row : order) row = rng.below(rows_total);
      int64_t begin = now_ns();
      for (uint32_t row = 0; row < batch; ++row) {
        memcpy(&target[row * row_bytes], plain.data + order[row] * row_bytes, row_bytes);
      }
      spent += now_ns() - begin;
      keep(target[0]);
    }
    return static_cast<double>(row_bytes) * batch * batches / static_cast<double>(spent);
  };
  Row row{std::string("gather direct, rows of ") + label, "GB/s", "memcpy of the rows", Better::kHigher,
          goal};
  measure(&row, ours, baseline);
  report->add(row);
  must(gear_sampler_close(sampler), "close sampler");
}

}  // namespace

void bench_gather(Report* report) {
  gather_row_size(report, 256, 1u << 20, 256, "256 B", 0.60);
  gather_row_size(report, 4096, 1u << 16, 256, "4 KiB", 0.85);
  gather_row_size(report, 65536, 1u << 12, 64, "64 KiB", 0.95);
  gather_row_size(report, 1u << 20, 1u << 9, 16, "1 MiB", 0.95);
}

}  // namespace gear::bench
