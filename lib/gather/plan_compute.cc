#include "gather/plan_compute.h"

namespace gear {

namespace {

Status check_fold(const gear_window& window, size_t place) {
  if (window.steps < 1) {
    return error(GEAR_EINVAL, "window %zu \"%s\": n-step over steps 0; give 1 or more", place,
                 shown_name(window));
  }
  if (!(window.discount >= 0 && window.discount <= 1)) {
    return error(GEAR_EINVAL, "window %zu \"%s\": discount %g; give 0 to 1", place,
                 shown_name(window), window.discount);
  }
  return {};
}

uint32_t dtype_of(uint32_t compute) {
  switch (compute) {
    case GEAR_COMPUTE_STEP:
    case GEAR_COMPUTE_NSTEP_STEPS:
      return GEAR_U32;
    case GEAR_COMPUTE_NSTEP_BOOTSTRAP:
      return GEAR_F32;
    default:
      return GEAR_BOOL;
  }
}

}  // namespace

const char* shown_name(const gear_window& window) {
  if (window.name != nullptr) return window.name;
  return window.column != nullptr ? window.column : "";
}

Status check_compute(const gear_window& window, size_t place) {
  if (window.compute > GEAR_COMPUTE_NSTEP_BOOTSTRAP) {
    return error(GEAR_EINVAL, "window %zu: compute %u is no gear_compute; give 0 to %d", place,
                 window.compute, GEAR_COMPUTE_NSTEP_BOOTSTRAP);
  }
  if (!needs_steps(window.compute) && (window.steps != 0 || window.discount != 0)) {
    return error(GEAR_EINVAL,
                 "window %zu \"%s\": steps %u and discount %g are for n-step windows; leave them 0, or "
                 "set compute",
                 place, shown_name(window), window.steps, window.discount);
  }
  if (window.compute == GEAR_COMPUTE_NONE) return {};
  if (needs_steps(window.compute)) GEAR_TRY(check_fold(window, place));
  bool wants_column = window.compute == GEAR_COMPUTE_NSTEP_RETURN;
  if (wants_column != (window.column != nullptr)) {
    return error(GEAR_EINVAL, "window %zu \"%s\": compute %u %s; %s", place, shown_name(window),
                 window.compute, wants_column ? "sums rewards, column is NULL" : "shows no column",
                 wants_column ? "give the column of the rewards" : "leave column NULL");
  }
  if (!wants_column && window.name == nullptr) {
    return error(GEAR_EINVAL, "window %zu: compute %u has no column to be named after; give a name",
                 place, window.compute);
  }
  return {};
}

WindowPlan plan_computed(const gear_window& window) {
  WindowPlan plan{};
  plan.column = layout::kNone;
  plan.length = 1;
  plan.compute = window.compute;
  plan.dtype = dtype_of(window.compute);
  plan.cell_bytes = plan.dtype == GEAR_BOOL ? 1 : 4;
  plan.steps = needs_steps(window.compute) ? window.steps : 0;
  return plan;
}

Status plan_fold(const TableView& table, const gear_window& window, WindowPlan* plan) {
  const layout::ColumnRecord& column = table.columns[plan->column];
  if (plan->per_episode) {
    return error(GEAR_EINVAL, "window \"%s\": column \"%s\" is per episode; give one of rewards, per "
                 "step", shown_name(window), column.name);
  }
  if (column.dtype != GEAR_F32 && column.dtype != GEAR_F64) {
    return error(GEAR_EDTYPE,
                 "window \"%s\": column \"%s\" of gear_dtype %u is summed; give one of f32 or f64",
                 shown_name(window), column.name, column.dtype);
  }
  if (column.rank != 0) {
    return error(GEAR_ESHAPE, "window \"%s\": column \"%s\" of rank %u is summed; give one of rank 0",
                 shown_name(window), column.name, column.rank);
  }
  plan->compute = window.compute;
  plan->steps = window.steps;
  return {};
}

void set_powers(double discount, WindowPlan* plan) {
  plan->powers.resize(size_t{plan->steps} + 1);
  double power = 1;
  for (double& each : plan->powers) {
    each = power;
    power *= discount;
  }
}

}  // namespace gear
