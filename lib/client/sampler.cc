#include "client/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "client/table.h"
#include "client/text.h"
#include "select/direct.h"

namespace gear::client {

Sampler::Sampler(Table& table, std::unique_ptr<SamplerPlan> plan, std::unique_ptr<Channel> channel)
    : Handle(kMagic),
      table_(table),
      plan_(std::move(plan)),
      channel_(std::move(channel)),
      source_(plan_->direct ? make_direct_source(table.view(), *plan_, *channel_)
                            : make_leased_source(table.view(), *plan_, *channel_)) {}

Sampler::~Sampler() = default;

Result<std::unique_ptr<Sampler>> Sampler::open(Table& table, const gear_sampler_options& options) {
  std::string purpose = format("open sampler on \"%s\"", table.name());
  Status state = table_health(table.header());
  if (!state.ok()) return within(purpose, state);
  Result<SamplerPlan> plan = plan_sampler(table.view(), options);
  if (!plan.ok()) return within(purpose, plan.status());
  const SamplerPlan& asked = plan.value();
  Result<BatchLayout> batches =
      lay_out_batch(table.view(), asked.windows, asked.names, asked.batch_rows_max);
  if (!batches.ok()) return within(purpose, batches.status());

  layout::SamplerOpenRequest request{table.id(),     asked.seed,           asked.direct ? 1u : 0u,
                                     asked.prefetch, asked.batch_rows_max, asked.batches_max,
                                     asked.index, asked.unique ? 1u : 0u, asked.version_policy,
                                     asked.group_from, asked.version_lag, {}};
  memcpy(request.group, asked.group.c_str(), asked.group.size());
  Result<std::unique_ptr<Channel>> channel = Channel::open(
      table.session(), layout::ControlOp::kSamplerOpen, request, purpose, &table.header());
  if (!channel.ok()) return channel.status();
  channel.value()->drop_descriptors();
  std::unique_ptr<Sampler> sampler(
      new Sampler(table, std::make_unique<SamplerPlan>(plan.take()), channel.take()));
  Result<std::shared_ptr<BatchPool>> pool =
      BatchPool::create(batches.take(), sampler->plan_->batches_max, sampler->source_->leases());
  if (!pool.ok()) {
    static_cast<void>(sampler->channel_->close());
    return within(purpose, pool.status());
  }
  sampler->pool_ = pool.take();
  return sampler;
}

Status Sampler::check_rows(uint32_t rows) const {
  if (rows >= 1 && rows <= plan_->batch_rows_max) return {};
  return error(GEAR_EINVAL, "sample \"%s\": %u rows; give 1 to batch_rows_max, which is %u",
               table_.name(), rows, plan_->batch_rows_max);
}

Status Sampler::sample(uint32_t rows, int64_t timeout_ns, gear_batch** batch) {
  GEAR_TRY(check_rows(rows));
  Result<Batch*> borrowed = pool_->borrow();
  if (!borrowed.ok()) return within(format("sample \"%s\"", table_.name()), borrowed.status());
  Batch& filled = *borrowed.value();
  Status status = source_->fill(filled, rows, timeout_ns);
  if (!status.ok()) {
    pool_->unborrow(&filled);
    return within(format("sample %u rows of \"%s\"", rows, table_.name()), status);
  }
  double least = plan_->normalise == GEAR_NORMALISE_TABLE ? least_probability() : 0.0;
  weigh_rows(filled, plan_->beta, plan_->normalise, least);
  ++batches_;
  rows_ += filled.rows;
  *batch = pool_->hand_out(&filled);
  return {};
}

// Of the table as it is now; draws of a changing table may have been made from an earlier one.
double Sampler::least_probability() const {
  const TableView& view = table_.view();
  return direct_least_probability(view.header->indexes[plan_->index], view.directory);
}

gear_sampler_stats Sampler::stats() const {
  gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
  stats.direct = plan_->direct ? 1 : 0;
  stats.batches = batches_;
  stats.rows = rows_;
  stats.redrawn = source_->redrawn();
  stats.bytes = rows_ * pool_->layout().row_bytes;
  return stats;
}

Status Sampler::close() {
  Status status = channel_->close();
  // A server that has gone holds nothing of ours any more.
  if (status.code() == GEAR_EDISCONNECTED) return {};
  return within(format("close sampler of \"%s\"", table_.name()), status);
}

void weigh_rows(Batch& batch, double beta, uint32_t normalise, double least_probability) {
  if (beta == 0.0) {
    std::fill_n(batch.weights, batch.rows, 1.0f);
    return;
  }
  auto population = static_cast<double>(std::max<uint64_t>(batch.population, 1));
  double largest = 0.0;
  for (uint32_t row = 0; row < batch.rows; ++row) {
    double weight = std::pow(population * batch.probabilities[row], -beta);
    largest = std::max(largest, weight);
    batch.weights[row] = static_cast<float>(weight);
  }
  if (normalise == GEAR_NORMALISE_TABLE && least_probability > 0) {
    // No row weighs more than the table's largest, though the table may have changed since.
    largest = std::max(largest, std::pow(population * least_probability, -beta));
  }
  if (normalise == GEAR_NORMALISE_NONE || !(largest > 0.0)) return;
  for (uint32_t row = 0; row < batch.rows; ++row) {
    batch.weights[row] = static_cast<float>(batch.weights[row] / largest);
  }
}

}  // namespace gear::client
