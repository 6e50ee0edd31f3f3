// SPDX-License-Identifier: Apache-2.0
// WithinSlos: its cut against every cut, by the same evaluator.
#include "sluice/core/random.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/caching/within_slos.hpp"
#include "sluice/policy/caching/write_through.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::testing::within_slos {

namespace {

/// A batch that decodes, a request that would join it, and the planner's estimate of both.
struct Batch {
  ModelShape shape = llama3_8b();
  Device device = a100_80();
  Geometry geometry{shape.layers, shape.layer_block_bytes(Tokens{16}), shape.layer_weight_bytes()};
  Limits limits{.batch_tokens = Tokens{1024}};
  std::vector<RequestRow> rows;
  std::vector<Slot> running;
  Plan plan;
  Ledger ledger;
  RequestRow joins;
  FoundPrefix found;

  [[nodiscard]] View view() const {
    View view;
    view.limits = limits;
    view.geometry = geometry;
    view.rows = rows;
    view.running = running;
    view.ledger = &ledger;
    view.plan = &plan;
    view.now = Seconds{10};
    return view;
  }
  void run(Tokens context, Seconds tbt, LayerSet host = {}) {
    RequestRow row;
    row.spec.prompt = context - Tokens{1};
    row.spec.slo.tbt = tbt;
    row.generated = row.delivered = Tokens{1};
    row.computed = context - Tokens{1};
    row.blocks = blocks_for(row.computed, limits.block_tokens);
    row.holding.host = host;
    running.push_back(Slot{static_cast<std::uint32_t>(rows.size())});
    rows.push_back(row);
  }
  /// Calls `visit(cost, estimate)`.
  template <class Visit>
  auto with_estimate(Visit&& visit) const {
    static const EstimateTable table{
        [](const void* self, const Work& work) { return static_cast<const Roofline*>(self)->step(work); },
        [](const void* self) { return static_cast<const Roofline*>(self)->link(); },
        &evaluate_after_repeats<DeadlinePool>};
    const Roofline cost(shape, device);
    return visit(cost, Estimate{table, &cost, geometry});
  }
  [[nodiscard]] Reuse chosen() const {
    return with_estimate([this](const Roofline& cost, const Estimate& estimate) {
      return WithinSlos<WriteThrough>{}.reuse(view(), joins, found, cost, estimate);
    });
  }
  [[nodiscard]] JoinCost cost_of(const Reuse& reuse, Seconds before = Seconds{0}) const {
    return with_estimate([&](const Roofline&, const Estimate& estimate) {
      const View now = view();
      return JoinForecast(now, joins, found, estimate).of(reuse, before);
    });
  }
  /// The least cost of all cuts, in each way that the backend has.
  [[nodiscard]] JoinCost least() const {
    return with_estimate([this](const Roofline&, const Estimate& estimate) {
      const View now = view();
      JoinForecast forecast(now, joins, found, estimate);
      JoinCost least{std::numeric_limits<double>::infinity(), Seconds{0}};
      for (Tokens cut{0}; cut <= found.below; cut += limits.block_tokens) {
        least = std::min(least, forecast.of({cut, LoadMode::layerwise}));
        if (!found.only_layerwise) least = std::min(least, forecast.of({found.below - cut, LoadMode::beside, cut}));
      }
      return least;
    });
  }
};

LayerSet every(int distance, int layers) {
  LayerSet set;
  for (int layer = 0; layer < layers; layer += distance) set.insert(layer);
  return set;
}

/// A request with `blocks` blocks of its prompt on the host, and a batch around it.
Batch random_batch(Random& random, std::int64_t blocks) {
  Batch batch;
  const double rate = 1e8 * std::pow(1000, random.uniform());
  batch.device.host_to_device = batch.device.device_to_host = BytesPerSecond{rate};
  batch.limits.batch_tokens = Tokens{static_cast<std::int64_t>(128 << random.below(5))};
  const auto decodes = random.below(40);
  const bool offloads = random.below(3) == 0;
  for (std::uint64_t i = 0; i < decodes; ++i) {
    const double tbt = 0.01 * std::pow(30, random.uniform());
    const auto context = static_cast<std::int64_t>(20 + random.below(3000));
    const LayerSet host = offloads && random.below(2) == 0 ? every(8, batch.geometry.layers) : LayerSet{};
    batch.run(Tokens{context}, random.below(5) == 0 ? Slo{}.tbt : Seconds{tbt}, host);
    batch.rows.back().delivered = Tokens{random.below(4) == 0 ? 0 : 1}; // a deposit of one token
  }
  batch.ledger = Ledger{LayerBlocks{100000}, LayerBlocks{0}};
  batch.found.device = Tokens{16 * static_cast<std::int64_t>(random.below(20))};
  batch.found.below = Tokens{16 * blocks};
  batch.joins.spec.arrival = Seconds{10 * random.uniform()};
  batch.joins.spec.prompt = batch.found.device + batch.found.below + Tokens{1 + static_cast<int>(random.below(600))};
  batch.joins.spec.slo.ttft = Seconds{0.1 * std::pow(100, random.uniform())};
  batch.joins.computed = batch.found.device;
  return batch;
}

} // namespace

TEST_CASE("WithinSlos: no cut of a short prefix, in either way, is predicted to be less late or sooner") {
  Random random(1);
  int layerwise = 0, beside = 0, part = 0, nothing = 0, late = 0;
  for (int trial = 0; trial < 400; ++trial) {
    CAPTURE(trial);
    const Batch batch = random_batch(random, static_cast<std::int64_t>(1 + random.below(16)));
    const Reuse reuse = batch.chosen();
    const JoinCost cost = batch.cost_of(reuse);
    CHECK(cost == batch.least());
    CHECK(reuse.tokens + reuse.skipped <= batch.found.below);
    (reuse.mode == LoadMode::beside ? beside : layerwise) += reuse.tokens.count() > 0 ? 1 : 0;
    nothing += reuse.tokens.count() == 0 ? 1 : 0;
    part += reuse.tokens.count() > 0 && reuse.tokens < batch.found.below ? 1 : 0;
    late += cost.late > 0 ? 1 : 0;
    Batch on_machine = batch; // a real backend loads layer by layer only
    on_machine.found.only_layerwise = true;
    CHECK(on_machine.chosen().mode == LoadMode::layerwise);
    CHECK(on_machine.cost_of(on_machine.chosen()) == on_machine.least());
  }
  for (const int count : {layerwise, beside, part, nothing, late}) CHECK(count > 10); // each choice was made
}

TEST_CASE("WithinSlos: of a long prefix the cut is about as good as the best of all, and no worse than all or none") {
  Random random(2);
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    const Batch batch = random_batch(random, static_cast<std::int64_t>(100 + random.below(900)));
    const JoinCost cost = batch.cost_of(batch.chosen()), least = batch.least();
    CHECK(cost.late <= least.late * 1.02 + 1e-9);
    if (least.late == 0) CHECK(cost.first <= least.first * 1.02);
    CHECK(cost <= batch.cost_of({batch.found.below, LoadMode::layerwise}));
    CHECK(cost <= batch.cost_of({batch.found.below, LoadMode::beside}));
    CHECK(cost <= batch.cost_of({}));
  }
}

TEST_CASE("WithinSlos: a long load waits beside a batch with a tight TBT, and goes into the iteration otherwise") {
  Batch batch;
  batch.ledger = Ledger{LayerBlocks{100000}, LayerBlocks{0}};
  batch.found.below = Tokens{16000}; // 2.1 GB: 84 ms at 25 GB/s
  batch.joins.spec.arrival = Seconds{10};
  batch.joins.spec.prompt = Tokens{16100};
  batch.joins.spec.slo.ttft = Seconds{1};
  batch.run(Tokens{1000}, Seconds{1});
  CHECK(batch.chosen().mode == LoadMode::layerwise);
  batch.rows.front().spec.slo.tbt = Seconds{0.03};
  const Reuse reuse = batch.chosen();
  CHECK(reuse.mode == LoadMode::beside);
  CHECK(batch.cost_of(reuse).late == 0);
  CHECK(batch.cost_of({batch.found.below, LoadMode::layerwise}).late > 0);
  CHECK(batch.cost_of({}).late > 0);
  batch.rows.front().generated = Tokens{40}; // its deposit covers the iteration
  batch.rows.front().spec.prompt = Tokens{960};
  CHECK(batch.chosen().mode == LoadMode::layerwise);
}

TEST_CASE("WithinSlos: what a lower tier has is waited for only as long as that is sooner than to compute it") {
  Batch batch;
  batch.ledger = Ledger{LayerBlocks{100000}, LayerBlocks{0}};
  batch.found.lower = Tokens{4096};
  batch.joins.spec.arrival = Seconds{10};
  batch.joins.spec.prompt = Tokens{4200};
  const auto fetched = [&](double seconds) {
    batch.found.lower_time = Seconds{seconds};
    return batch.chosen().fetched;
  };
  const double computed_s = batch.cost_of({}).first.count();
  CHECK(fetched(0.5 * computed_s) == Tokens{4096});
  CHECK(fetched(1.5 * computed_s) == Tokens{0});
  batch.joins.has_fetched = true;
  CHECK(fetched(0.5 * computed_s) == Tokens{0});
}

} // namespace sluice::testing::within_slos
