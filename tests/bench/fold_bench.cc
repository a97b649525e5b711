// n-step returns folded at gather time, with all checks, against a plain loop over the same rewards.

#include <algorithm>

#include "bench/conductor_table.h"
#include "select/direct.h"

namespace gear::bench {
namespace {

constexpr uint64_t kSteps = 1u << 20;
constexpr uint32_t kRows = 256;
constexpr uint32_t kN = 5;
constexpr double kDiscount = 0.99;

gear_window window_of(const char* name, uint32_t compute) {
  gear_window window = GEAR_WINDOW_INIT;
  window.name = name;
  window.column = compute == GEAR_COMPUTE_NSTEP_RETURN ? "row" : nullptr;
  window.compute = compute;
  window.length = 1;
  window.steps = kN;
  window.discount = kDiscount;
  return window;
}

class Folds {
 public:
  explicit Folds(const TableView& view) : view_(view), picks_(kRows), items_(kRows) {
    const gear_window windows[3] = {window_of("return", GEAR_COMPUTE_NSTEP_RETURN),
                                    window_of("steps", GEAR_COMPUTE_NSTEP_STEPS),
                                    window_of("bootstrap", GEAR_COMPUTE_NSTEP_BOOTSTRAP)};
    plan_ = plan_windows(view, windows, 3).take();
    for (WindowBuffer& buffer : buffers_) {
      size_t i = static_cast<size_t>(&buffer - buffers_);
      buffer = {reinterpret_cast<char*>(cells_[i]), masks_[i], lengths_[i], 4};
    }
  }

  void draw() {
    const layout::IndexRecord& index = view_.header->indexes[view_.header->sampler_index];
    if (direct_pick(index, view_.header, rng_, kRows, picks_.data()) != kRows) abort();
    for (uint32_t row = 0; row < kRows; ++row) {
      if (!read_item(view_, picks_[row].slot, &items_[row])) abort();
    }
  }

  void gather() {
    if (gather_rows(view_, plan_, items_.data(), anchors_, kRows, 0, buffers_, outcomes_) != 0) {
      abort();
    }
    keep(cells_[0][0]);
  }

  // Only the rewards that lie in the drawn step's block.
  void loop() {
    for (uint32_t row = 0; row < kRows; ++row) {
      const DrawnItem& item = items_[row];
      auto* rewards = reinterpret_cast<const float*>(view_.block_data(item.block)) + item.position;
      uint32_t steps = std::min(kN, view_.header->block_steps - item.position);
      double sum = 0;
      double power = 1;
      for (uint32_t k = 0; k < steps; ++k, power *= kDiscount) sum += power * rewards[k];
      plain_[row] = static_cast<float>(sum);
    }
    keep(plain_[0]);
  }

 private:
  const TableView view_;
  Rng rng_{17};
  std::vector<Pick> picks_;
  std::vector<DrawnItem> items_;
  std::vector<WindowPlan> plan_;
  uint32_t cells_[3][kRows];
  uint8_t masks_[3][kRows];
  uint32_t lengths_[3][kRows];
  WindowBuffer buffers_[3];
  uint32_t anchors_[kRows] = {};
  GatherOutcome outcomes_[kRows];
  float plain_[kRows];
};

}  // namespace

void bench_fold(Report* report) {
  std::unique_ptr<Table> table = full_table(GEAR_SELECT_UNIFORM, kSteps, 4, GEAR_F32);
  Folds folds(view_of(*table));
  int batches = quick() ? 500 : 4000;
  auto ns_per_row = [&](bool ours) {
    int64_t spent = 0;
    for (int i = 0; i < batches; ++i) {
      folds.draw();
      int64_t begin = now_ns();
      if (ours) {
        folds.gather();
      } else {
        folds.loop();
      }
      spent += now_ns() - begin;
    }
    return static_cast<double>(spent) / batches / kRows;
  };
  Row row{"gather n-step return, steps and bootstrap, n 5", "ns/row", "loop over the same rewards",
          Better::kLower, 0};
  measure(&row, [&] { return ns_per_row(true); }, [&] { return ns_per_row(false); });
  report->add(row);
}

}  // namespace gear::bench
