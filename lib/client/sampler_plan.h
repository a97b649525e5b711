// What a sampler was asked for, checked and resolved against its table.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "gather/gather.h"
#include "gear.h"

namespace gear::client {

// Constant once made.
struct SamplerPlan {
  bool direct;
  uint32_t batch_rows_max;
  uint32_t batches_max;
  uint32_t prefetch;
  uint32_t rows_min;  // 0: all that are asked for
  uint64_t seed;
  double beta;
  uint32_t normalise;  // gear_normalise
  uint32_t index;      // of the table's indexes: the selector to draw by
  bool unique;         // no item twice in a batch
  std::string group;   // empty: none
  uint32_t group_from;
  uint32_t version_policy;
  uint64_t version_lag;
  uint32_t background;       // batches filled ahead by a thread; 0: none
  uint32_t background_rows;  // of each
  bool epoch;  // order of epochs; rank and world say which share
  uint32_t rank;
  uint32_t world;

  std::vector<WindowPlan> windows;
  std::vector<std::string> names;  // of the windows
  uint32_t anchor;                 // resolved: not AUTO
  uint32_t window_length;          // K of GEAR_ANCHOR_RANDOM_START
};

// Options of this library's version. Errors: EINVAL, ENAME, ESTRUCT, ENOCOLUMN, EDUPLICATE,
// EWINDOW, ENOTFOUND (no such selector), EUNSUPPORTED.
Result<SamplerPlan> plan_sampler(const TableView& table, const gear_sampler_options& options);

// Of the options, those that the order of draws allows. Errors: EINVAL, EUNSUPPORTED.
Status check_order(const gear_sampler_options& options);

// A seed from the system.
uint64_t random_seed();

}  // namespace gear::client
