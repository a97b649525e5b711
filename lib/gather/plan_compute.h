// Planning of computed windows.
#pragma once

#include "base/status.h"
#include "gather/gather.h"

namespace gear {

// For texts: a window's name in the batch.
const char* shown_name(const gear_window& window);

// Of these gear_window.steps is asked.
constexpr bool needs_steps(uint32_t compute) {
  return compute >= GEAR_COMPUTE_NSTEP_RETURN && compute <= GEAR_COMPUTE_NSTEP_BOOTSTRAP;
}

// Whether compute, column, name, steps and discount go together. Errors: EINVAL.
Status check_compute(const gear_window& window, size_t place);

// A window without a column, but for what it shares with stored ones. It was checked.
WindowPlan plan_computed(const gear_window& window);

// The n-step return over the column that `plan` was made for. Errors: EINVAL, EDTYPE, ESHAPE.
Status plan_fold(const TableView& table, const gear_window& window, WindowPlan* plan);

// Of an n-step window whose reach was checked.
void set_powers(double discount, WindowPlan* plan);

}  // namespace gear
