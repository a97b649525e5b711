// The smallest client in C++17; see c_client.c for what it is asked.
#include <gear.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr uint32_t kBatchRows = 64;
constexpr int kBatchesMax = 2000;
constexpr int64_t kTimeoutNs = 10'000'000'000;

void check(int status) {
  if (status == GEAR_OK) return;
  throw std::runtime_error(gear_status_string(status) + std::string(": ") + gear_last_error());
}

// A C handle that is closed by its own function.
template <auto Close>
struct Closer {
  template <typename T>
  void operator()(T* handle) const {
    Close(handle);
  }
};
using Client = std::unique_ptr<gear_client, Closer<gear_close>>;
using Table = std::unique_ptr<gear_table, Closer<gear_table_detach>>;
using Writer = std::unique_ptr<gear_writer, Closer<gear_writer_close>>;
using Sampler = std::unique_ptr<gear_sampler, Closer<gear_sampler_close>>;
using Batch = std::unique_ptr<gear_batch, Closer<gear_batch_release>>;

// Opens into a unique_ptr: make<Client>([](gear_client** out) { return gear_connect(..., out); })
template <typename Owner, typename Open>
Owner make(Open open) {
  typename Owner::element_type* raw = nullptr;
  check(open(&raw));
  return Owner(raw);
}

struct Step {
  uint32_t language;
  int64_t step;
  std::array<float, 4> values;
  std::array<uint8_t, 6> image;

  Step(uint32_t of_language, int64_t at_step) : language(of_language), step(at_step) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(1000 * language + 4 * step + static_cast<int64_t>(i)) + 0.5f;
    }
    for (size_t i = 0; i < image.size(); ++i) {
      image[i] = static_cast<uint8_t>(31 * language + 7 * step + static_cast<int64_t>(i));
    }
  }
};

gear_cell cell(uint32_t column, gear_dtype dtype, const void* data,
               const std::vector<int64_t>& shape) {
  gear_cell out{};
  out.column = column;
  out.dtype = static_cast<uint16_t>(dtype);
  out.rank = static_cast<uint16_t>(shape.size());
  out.data = data;
  out.shape = shape.data();
  return out;
}

void write_steps(gear_table* table, uint32_t language, int64_t steps) {
  const std::vector<int64_t> scalar, values_shape{4}, image_shape{2, 3};
  const auto writer =
      make<Writer>([&](gear_writer** out) { return gear_writer_open(table, nullptr, out); });
  for (int64_t i = 0; i < steps; ++i) {
    const Step step(language, i);
    const std::array<gear_cell, 4> cells = {cell(0, GEAR_U32, &step.language, scalar),
                                            cell(1, GEAR_I64, &step.step, scalar),
                                            cell(2, GEAR_F32, step.values.data(), values_shape),
                                            cell(3, GEAR_U8, step.image.data(), image_shape)};
    check(gear_writer_append(writer.get(), 0, cells.data(), cells.size(), kTimeoutNs));
  }
  check(gear_writer_flush(writer.get(), kTimeoutNs, nullptr));
}

template <typename T>
const T* data_of(const gear_batch* batch, uint32_t index) {
  gear_tensor tensor{};
  check(gear_batch_tensor(batch, index, &tensor));
  return static_cast<const T*>(tensor.data);
}

// Marks in `seen` the steps of `other`.
void check_batch(const gear_batch* batch, uint32_t other, std::vector<bool>* seen) {
  const auto* languages = data_of<uint32_t>(batch, 0);
  const auto* steps = data_of<int64_t>(batch, 1);
  const auto* values = data_of<float>(batch, 2);
  const auto* image = data_of<uint8_t>(batch, 3);
  for (uint32_t row = 0; row < gear_batch_rows(batch); ++row) {
    const Step wanted(languages[row], steps[row]);
    if (wanted.step < 0 || wanted.step >= static_cast<int64_t>(seen->size()) ||
        !std::equal(wanted.values.begin(), wanted.values.end(), values + 4 * row) ||
        !std::equal(wanted.image.begin(), wanted.image.end(), image + 6 * row)) {
      throw std::runtime_error("wrong cells in step " + std::to_string(wanted.step) +
                               " of language " + std::to_string(wanted.language));
    }
    if (wanted.language == other) (*seen)[static_cast<size_t>(wanted.step)] = true;
  }
}

void read_steps(gear_table* table, uint32_t other, int64_t steps) {
  gear_sampler_options options = GEAR_SAMPLER_OPTIONS_INIT;
  options.batch_rows_max = kBatchRows;
  const auto sampler =
      make<Sampler>([&](gear_sampler** out) { return gear_sampler_open(table, &options, out); });
  std::vector<bool> seen(static_cast<size_t>(steps));
  for (int i = 0; i < kBatchesMax; ++i) {
    const auto batch = make<Batch>(
        [&](gear_batch** out) { return gear_sample(sampler.get(), kBatchRows, kTimeoutNs, out); });
    check_batch(batch.get(), other, &seen);
    if (std::find(seen.begin(), seen.end(), false) == seen.end()) return;
  }
  throw std::runtime_error("steps of language " + std::to_string(other) + " were never drawn");
}

void run(const std::vector<std::string>& arguments) {
  const std::string& handle = arguments.at(1);
  const auto client = make<Client>(
      [&](gear_client** out) { return gear_connect(("handle:" + handle).c_str(), nullptr, out); });
  const auto table = make<Table>(
      [&](gear_table** out) { return gear_table_attach(client.get(), handle.c_str(), out); });
  const int64_t steps = std::stoll(arguments.at(3));
  write_steps(table.get(), static_cast<uint32_t>(std::stoul(arguments.at(2))), steps);
  if (arguments.at(0) == "read") {
    read_steps(table.get(), static_cast<uint32_t>(std::stoul(arguments.at(4))), steps);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& failure) {
    fprintf(stderr, "cpp: %s\n", failure.what());
    return 1;
  }
}
