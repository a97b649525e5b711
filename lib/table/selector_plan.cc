#include "table/selector_plan.h"

#include <cmath>
#include <cstring>

#include "base/utf8.h"
#include "select/selector.h"

namespace gear {
namespace {

// Below it the weights would be scaled every few hundred insertions, each time all of them.
constexpr double kHalfLifeLeast = 0.5;

using layout::IndexRecord;
using layout::kNone;
using layout::SelectorSpec;
using layout::TableCreateRequest;
using layout::TableHeader;

double alpha_asked(double given) {
  if (given == GEAR_ALPHA_ZERO) return 0.0;
  return given == 0.0 ? 0.6 : given;
}

Status check_parameters(const char* tried, const IndexRecord& record, double alpha_given) {
  if (!priority_valid(record.alpha) || !priority_valid(record.epsilon)) {
    return error(GEAR_EINVAL, "%s: priority_alpha %g, priority_epsilon %g; give finite numbers that are not negative",
                 tried, alpha_given, record.epsilon);
  }
  if (record.selector == GEAR_SELECT_RECENCY &&
      !(std::isfinite(record.half_life) && record.half_life >= kHalfLifeLeast)) {
    return error(GEAR_EINVAL, "%s: recency with half_life %g; give insertions, finite and at least 0.5", tried,
                 record.half_life);
  }
  if (record.selector == GEAR_SELECT_TOP_K && record.top_k < 1) {
    return error(GEAR_EINVAL, "%s: top_k with k 0; give top_k, at least 1", tried);
  }
  return {};
}

uint32_t add(TableHeader* header, const IndexRecord& record) {
  header->indexes[header->index_count] = record;
  return header->index_count++;
}

Status plan_sampler_and_remover(const TableCreateRequest& request, TableHeader* header) {
  uint32_t sampler =
      request.sampler == GEAR_SELECT_DEFAULT ? uint32_t{GEAR_SELECT_UNIFORM} : request.sampler;
  uint32_t remover =
      request.remover == GEAR_SELECT_DEFAULT ? uint32_t{GEAR_SELECT_FIFO} : request.remover;
  if (!selector_known(sampler)) {
    return error(GEAR_EINVAL, "create table \"%s\": sampler %u; give a gear_selector of this version", request.name,
                 sampler);
  }
  if (!selector_removes(remover)) {
    return error(GEAR_EINVAL, "create table \"%s\": remover %u; give uniform, prioritized, fifo, lifo, max_heap or min_heap",
                 request.name, remover);
  }
  IndexRecord record{sampler, request.top_k, 0, 0, alpha_asked(request.priority_alpha),
                     request.priority_epsilon, request.half_life, 0, {}};
  std::string tried = format("create table \"%s\"", request.name);
  GEAR_TRY(check_parameters(tried.c_str(), record, request.priority_alpha));
  header->sampler_index = add(header, record);
  if (remover != sampler) {
    record.selector = remover;
    add(header, record);
  }
  header->remover_index = header->index_count - 1;
  return {};
}

Status plan_named(const TableCreateRequest& request, const SelectorSpec& spec,
                  TableHeader* header) {
  size_t length = strnlen(spec.name, sizeof spec.name);
  if (length == 0 || length == sizeof spec.name || !valid_utf8(spec.name, length)) {
    return error(GEAR_ENAME, "create table \"%s\": a selector's name has %zu bytes; give 1 to %u of UTF-8",
                 request.name, length, layout::kSelectorNameBytesMax);
  }
  std::string tried = format("create table \"%s\": selector \"%s\"", request.name, spec.name);
  for (uint32_t i = 0; i < header->named_count; ++i) {
    if (strcmp(header->indexes[header->named_index + i].name, spec.name) == 0) {
      return error(GEAR_EDUPLICATE, "%s: another has that name; names are unique in a table", tried.c_str());
    }
  }
  if (!selector_known(spec.selector) || spec.selector == GEAR_SELECT_MIXTURE) {
    return error(GEAR_EINVAL, "%s: selector %u; give a gear_selector of this version, not mixture: that draws from the named ones",
                 tried.c_str(), spec.selector);
  }
  if (!std::isfinite(spec.proportion) || spec.proportion < 0) {
    return error(GEAR_EINVAL, "%s: proportion %g; give a finite number that is not negative", tried.c_str(),
                 spec.proportion);
  }
  IndexRecord record{spec.selector, spec.top_k, 0, 0, alpha_asked(spec.alpha),
                     spec.epsilon, spec.half_life, spec.proportion, {}};
  memcpy(record.name, spec.name, length);
  GEAR_TRY(check_parameters(tried.c_str(), record, spec.alpha));
  add(header, record);
  ++header->named_count;
  return {};
}

Status check_mixture(const TableCreateRequest& request, const TableHeader& header) {
  if (header.indexes[header.sampler_index].selector != GEAR_SELECT_MIXTURE) return {};
  double sum = 0;
  for (uint32_t i = 0; i < header.named_count; ++i) {
    sum += header.indexes[header.named_index + i].proportion;
  }
  if (std::isfinite(sum) && sum > 0) return {};
  return error(GEAR_EINVAL, "create table \"%s\": the sampler is a mixture of %u named selectors whose proportions sum to %g; give selectors, at least one with a proportion above 0",
               request.name, header.named_count, sum);
}

// The heaps that new_priority and table_weights need.
void plan_extremes(const TableCreateRequest& request, TableHeader* header) {
  bool prioritized = false;
  for (uint32_t i = 0; i < header->index_count; ++i) {
    bool draws = i != header->remover_index || i == header->sampler_index;
    prioritized |= draws && header->indexes[i].selector == GEAR_SELECT_PRIORITIZED;
  }
  if (request.new_priority == GEAR_NEW_PRIORITY_TABLE_MAX) {
    header->largest_index = add(header, {GEAR_SELECT_MAX_HEAP, 0, 0, 0, 0, 0, 0, 0, {}});
  }
  if (request.table_weights != 0 && prioritized) {
    header->smallest_index = add(header, {GEAR_SELECT_MIN_HEAP, 0, 0, 0, 0, 0, 0, 0, {}});
  }
}

}  // namespace

Status plan_selectors(const TableCreateRequest& request, const SelectorSpec* specs,
                      TableHeader* header) {
  if (request.new_priority > GEAR_NEW_PRIORITY_TABLE_MAX || request.table_weights > 1) {
    return error(GEAR_EINVAL, "create table \"%s\": new_priority %u, table_weights %u; give a gear_new_priority, and 0 or 1",
                 request.name, request.new_priority, request.table_weights);
  }
  if (request.selector_count > layout::kNamedSelectorsMax) {
    return error(GEAR_EINVAL, "create table \"%s\": %u named selectors; give at most %u", request.name,
                 request.selector_count, layout::kNamedSelectorsMax);
  }
  header->index_count = 0;
  header->named_count = 0;
  header->largest_index = kNone;
  header->smallest_index = kNone;
  header->new_priority = request.new_priority;
  header->table_weights = request.table_weights;
  GEAR_TRY(plan_sampler_and_remover(request, header));
  header->named_index = header->index_count;
  for (uint32_t i = 0; i < request.selector_count; ++i) {
    GEAR_TRY(plan_named(request, specs[i], header));
  }
  GEAR_TRY(check_mixture(request, *header));
  plan_extremes(request, header);
  return {};
}

bool same_index(const TableHeader& header, uint32_t a, uint32_t b) {
  const IndexRecord& one = header.indexes[a];
  const IndexRecord& other = header.indexes[b];
  if (one.selector != other.selector) return false;
  // It is without the items of weight 0.
  if ((a == header.smallest_index) != (b == header.smallest_index)) return false;
  switch (one.selector) {
    case GEAR_SELECT_PRIORITIZED:
      return one.alpha == other.alpha && one.epsilon == other.epsilon;
    case GEAR_SELECT_TOP_K: return one.top_k == other.top_k;
    case GEAR_SELECT_RECENCY: return one.half_life == other.half_life;
    case GEAR_SELECT_MIXTURE: return false;
    default: return true;
  }
}

}  // namespace gear
