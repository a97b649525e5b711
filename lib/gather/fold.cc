// The n-step reward fold. Sutton and Barto, Reinforcement Learning, 2018, section 7.1.

#include <cstring>

#include "gather/compute.h"
#include "gather/copy_payload.h"
#include "gather/visit.h"

namespace gear {

namespace {

// Returns are summed, and rewards copied out, this many at a time: both lie on the stack.
constexpr int64_t kRowsAtOnce = 64;

// Rewards of steps [begin, begin + count) that lie in one block; 0 where the cell is absent.
template <typename T>
struct Rewards {
  int64_t begin;
  int64_t count;
  T values[kRowsAtOnce];
};

// As many of rows [begin, end) as one block has, from `begin` on. False when a block changed hands.
template <typename T>
bool copy_rewards(const TableView& table, const WindowPlan& window, int64_t begin, int64_t end,
                  Visit* visit, Rewards<T>* rewards) {
  if (!go_to(table, begin, visit) || begin >= visit->rows_end()) return false;
  rewards->begin = begin;
  rewards->count = std::min({end, visit->rows_end(), begin + kRowsAtOnce}) - begin;
  const char* cells = table.block_data(visit->place.block) + window.column_offset +
                      static_cast<uint64_t>(begin - visit->base) * sizeof(T);
  copy_payload(rewards->values, cells, static_cast<size_t>(rewards->count) * sizeof(T));
  if (!window.optional) return true;
  for (int64_t i = 0; i < rewards->count; ++i) {
    if (!present(table, *visit, begin + i, window.column)) rewards->values[i] = 0;
  }
  return true;
}

// Adds the rewards to the sums of rows [begin, end) that they are within n steps of. Each sum gets
// its rewards in the order of the steps, whatever pieces they come in.
template <typename T>
void add_rewards(const WindowPlan& window, const Rewards<T>& rewards, int64_t begin, int64_t end,
                 double* sums) {
  for (int64_t i = 0; i < rewards.count; ++i) {
    int64_t step = rewards.begin + i;
    auto reward = static_cast<double>(rewards.values[i]);
    int64_t first = std::max(begin, step - window.steps + 1);
    int64_t last = std::min(end - 1, step);
    for (int64_t row = first; row <= last; ++row) {
      sums[row - begin] += window.powers[static_cast<size_t>(step - row)] * reward;
    }
  }
}

template <typename T>
bool fold(const TableView& table, const WindowPlan& window, const AnchorRow& at, int64_t begin,
          int64_t end, char* to) {
  Visit visit = visit_anchor(at);
  Rewards<T> rewards;
  for (; begin < end; begin += kRowsAtOnce) {
    double sums[kRowsAtOnce] = {};
    int64_t rows_end = std::min(end, begin + kRowsAtOnce);
    int64_t rewards_end = std::min(rows_end - 1 + window.steps, at.steps_end);
    for (int64_t step = begin; step < rewards_end; step += rewards.count) {
      if (!copy_rewards(table, window, step, rewards_end, &visit, &rewards)) return false;
      add_rewards(window, rewards, begin, rows_end, sums);
    }
    for (int64_t row = begin; row < rows_end; ++row, to += sizeof(T)) {
      T sum = static_cast<T>(sums[row - begin]);
      memcpy(to, &sum, sizeof sum);
    }
  }
  return unchanged(table, visit.place);
}

}  // namespace

bool fold_returns(const TableView& table, const WindowPlan& window, const AnchorRow& at,
                  int64_t begin, int64_t end, char* to) {
  return window.dtype == GEAR_F64 ? fold<double>(table, window, at, begin, end, to)
                                  : fold<float>(table, window, at, begin, end, to);
}

}  // namespace gear
