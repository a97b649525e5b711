#include "client/destinations.h"

#include <algorithm>

#include "base/copy_bytes.h"
#include "client/options.h"

namespace gear::client {
namespace {

__extension__ typedef __int128 Wide;

// Whether `rows` rows of `length` cells keep apart, be it row after row or step after step.
bool keeps_apart(const TensorLayout& tensor, uint32_t rows, int64_t row_stride,
                 int64_t step_stride) {
  auto cell = static_cast<Wide>(tensor.cell_bytes);
  Wide row_span = Wide{tensor.length - 1} * step_stride + cell;
  Wide column_span = Wide{rows - 1} * row_stride + cell;
  bool rows_apart = rows == 1 || row_stride >= row_span;
  bool steps_apart = row_stride >= cell && step_stride >= column_span;
  return (tensor.length == 1 || step_stride >= cell) && (rows_apart || steps_apart);
}

}  // namespace

Destinations::Destinations(const BatchLayout& layout)
    : layout_(layout), places_(layout.tensors.size()) {}

Status Destinations::set(const gear_destination* given, size_t count, uint32_t rows) {
  any_ = false;
  if (given == nullptr) return {};
  if (count != places_.size()) {
    return error(GEAR_ECOUNT,
                 "%zu destinations, the sampler has %zu windows; give one for each, in their order",
                 count, places_.size());
  }
  for (uint32_t i = 0; i < count; ++i) {
    gear_destination known;
    GEAR_TRY(read_struct("gear_destination", struct_at(given, i), &known));
    GEAR_TRY(read(known, i, rows));
  }
  any_ = std::any_of(places_.begin(), places_.end(),
                     [](const Place& place) { return place.data != nullptr; });
  return {};
}

Status Destinations::read(const gear_destination& given, uint32_t index, uint32_t rows) {
  const TensorLayout& tensor = layout_.tensors[index];
  if (given.data == nullptr && (given.row_stride != 0 || given.step_stride != 0)) {
    return error(GEAR_EINVAL,
                 "destination %u of window \"%s\": data is NULL, with strides; give data, or leave "
                 "the strides 0",
                 index, tensor.name.c_str());
  }
  auto cell = static_cast<int64_t>(tensor.cell_bytes);
  int64_t step_stride = given.step_stride != 0 ? given.step_stride : cell;
  int64_t row_stride = given.row_stride;
  bool overflows = row_stride == 0 && __builtin_mul_overflow(step_stride, int64_t{tensor.length},
                                                             &row_stride);
  if (overflows || step_stride < 0 || row_stride < 0 ||
      !keeps_apart(tensor, rows, row_stride, step_stride)) {
    return error(GEAR_EINVAL,
                 "destination %u of window \"%s\": step_stride %lld and row_stride %lld make %u rows "
                 "of %u cells of %lld bytes overlap; give larger ones, or 0 for contiguous",
                 index, tensor.name.c_str(), static_cast<long long>(given.step_stride),
                 static_cast<long long>(given.row_stride), rows, tensor.length,
                 static_cast<long long>(cell));
  }
  places_[index] = {static_cast<char*>(given.data), static_cast<uint64_t>(row_stride),
                    static_cast<uint64_t>(step_stride)};
  return {};
}

bool Destinations::step_by_step(uint32_t index) const {
  const TensorLayout& tensor = layout_.tensors[index];
  return tensor.length > 1 && places_[index].step_stride != tensor.cell_bytes;
}

void Destinations::place(Batch& batch) const {
  if (!any_) return;
  for (uint32_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.data == nullptr || step_by_step(i)) continue;
    batch.place_tensor(i, place.data, place.row_stride, place.step_stride);
  }
}

void Destinations::copy_out(Batch& batch) const {
  if (!any_) return;
  for (uint32_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const WindowBuffer& from = batch.windows[i];
    if (place.data == nullptr || place.data == from.data) continue;
    const TensorLayout& tensor = layout_.tensors[i];
    uint32_t runs = step_by_step(i) ? tensor.length : 1;
    uint64_t run_bytes = tensor.row_bytes / runs;
    for (uint32_t row = 0; row < batch.rows; ++row) {
      const char* cells = from.data + row * from.row_stride;
      char* to = place.data + row * place.row_stride;
      for (uint32_t run = 0; run < runs; ++run, cells += run_bytes, to += place.step_stride) {
        copy_bytes(to, cells, run_bytes);
      }
    }
    batch.place_tensor(i, place.data, place.row_stride, place.step_stride);
  }
}

}  // namespace gear::client
