#include "client/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "client/table.h"
#include "client/text.h"
#include "select/direct.h"

namespace gear::client {
namespace {

std::unique_ptr<RowSource> make_source(const TableView& table, const SamplerPlan& plan,
                                       Channel& channel) {
  if (plan.epoch) return make_epoch_source(table, plan, channel);
  return plan.direct ? make_direct_source(table, plan, channel)
                     : make_leased_source(table, plan, channel);
}

}  // namespace

Sampler::Sampler(Table& table, std::unique_ptr<SamplerPlan> plan, std::unique_ptr<Channel> channel)
    : Handle(kMagic),
      table_(table),
      plan_(std::move(plan)),
      channel_(std::move(channel)),
      source_(make_source(table.view(), *plan_, *channel_)) {}

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
  Status made = sampler->make_batches(batches.take());
  if (!made.ok()) {
    static_cast<void>(sampler->close());
    return within(purpose, made);
  }
  return sampler;
}

// Those that are filled ahead come on top of those that the caller may hold.
Status Sampler::make_batches(BatchLayout layout) {
  Result<std::shared_ptr<BatchPool>> pool = BatchPool::create(
      std::move(layout), plan_->batches_max + plan_->background, source_->leases());
  if (!pool.ok()) return pool.status();
  pool_ = pool.take();
  destinations_ = std::make_unique<Destinations>(pool_->layout());
  if (plan_->background == 0) return {};
  Result<std::unique_ptr<Background>> background =
      Background::start(table_.view(), *plan_, *source_, *pool_, *channel_);
  if (!background.ok()) return background.status();
  background_ = background.take();
  return {};
}

Status Sampler::check_rows(uint32_t rows) const {
  if (plan_->background > 0 && rows != plan_->background_rows) {
    return error(GEAR_EINVAL,
                 "sample \"%s\": %u rows, the background thread fills batches of %u; ask for that many",
                 table_.name(), rows, plan_->background_rows);
  }
  if (rows >= 1 && rows <= plan_->batch_rows_max) return {};
  return error(GEAR_EINVAL, "sample \"%s\": %u rows; give 1 to batch_rows_max, which is %u",
               table_.name(), rows, plan_->batch_rows_max);
}

// A borrowed batch with its rows; after an error there is none.
Status Sampler::draw(uint32_t rows, int64_t timeout_ns, Batch** batch) {
  if (background_ != nullptr) return background_->take(timeout_ns, batch);
  Result<Batch*> borrowed = pool_->borrow();
  if (!borrowed.ok()) return borrowed.status();
  *batch = borrowed.value();
  destinations_->place(**batch);
  Status status = source_->fill(**batch, rows, timeout_ns);
  if (!status.ok()) pool_->unborrow(*batch);
  return status;
}

Status Sampler::sample_into(uint32_t rows, int64_t timeout_ns, const gear_destination* destinations,
                            size_t count, gear_batch** batch) {
  GEAR_TRY(check_rows(rows));
  Status placed = destinations_->set(destinations, count, rows);
  if (!placed.ok()) return within(format("sample \"%s\"", table_.name()), placed);
  Batch* filled = nullptr;
  Status status = draw(rows, timeout_ns, &filled);
  if (!status.ok()) {
    return within(format("sample %u rows of \"%s\"", rows, table_.name()), status);
  }
  destinations_->copy_out(*filled);
  filled->set_loss_masks();
  double least = plan_->normalise == GEAR_NORMALISE_TABLE ? least_probability() : 0.0;
  weigh_rows(*filled, plan_->beta, plan_->normalise, least);
  ++batches_;
  rows_ += filled->rows;
  *batch = pool_->hand_out(filled);
  return {};
}

// Of the table as it is now; draws of a changing table may have been made from an earlier one.
double Sampler::least_probability() const {
  const TableView& view = table_.view();
  return direct_least_probability(view.header->indexes[plan_->index], view.directory);
}

Status Sampler::begin_epoch(uint64_t epoch, uint64_t* rows) {
  Status status = source_->begin_epoch(epoch, rows);
  if (status.ok()) return {};
  return within(format("begin epoch %llu of \"%s\"", static_cast<unsigned long long>(epoch),
                       table_.name()),
                status);
}

gear_sampler_stats Sampler::stats() const {
  gear_sampler_stats stats = GEAR_SAMPLER_STATS_INIT;
  stats.direct = plan_->direct ? 1 : 0;
  stats.batches = batches_;
  stats.rows = rows_;
  stats.redrawn = background_ != nullptr ? background_->redrawn() : source_->redrawn();
  stats.bytes = rows_ * pool_->layout().row_bytes;
  return stats;
}

Status Sampler::close() {
  background_.reset();
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
