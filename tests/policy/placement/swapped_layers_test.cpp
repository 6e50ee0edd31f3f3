// SPDX-License-Identifier: Apache-2.0
// SwappedLayers and Pie: bytes in both directions, predictions, what an idle link hides, and that no KV is lost.
#include "sluice/engine/systems/pie.hpp"
#include "sluice/policy/placement/swapped_layers.hpp"
#include "sluice/state/plan/space.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// A decode takes equally long for any context, so that a steady batch is steady.
struct EvenCost : SmallCost {
  [[nodiscard]] StepTime step(const Work& work) const {
    return {Seconds{0.001}, base * 0.1 + per_token * static_cast<double>(work.tokens().count()), Seconds{0.001}};
  }
  [[nodiscard]] const EvenCost& predictor(const State&) const { return *this; }
};

/// Counts again, using only the rows, the blocks that must have crossed the link in each direction. Keeps the tokens'
/// times, and the iterations' deviations from the current plan's predictions.
struct Crossings {
  using role = roles::Observer;
  using hears =
      Events<events::Refused, events::Preempted, events::Ended, events::Cancelled, events::Delivered, events::Iterated>;
  static constexpr bool wants_timeline = false;

  struct Before {
    LayerSet host;
    std::int64_t blocks = 0;
  };
  struct State {
    std::map<RequestId, Before> before;
    std::map<RequestId, std::vector<double>> tokens;
    std::int64_t both_ways = 0; ///< iterations in which KV was swapped out and in completely
    std::int64_t preempts = 0;
    std::int64_t refused = 0;
    Seconds stall{0};
    // The relation of an iteration to its plan, if it repeats the one before.
    std::int64_t plan_step = -1;
    std::int64_t alike = 0; ///< iterations of this plan so far; negative once a block was opened
    std::int64_t hidden = 0, waited = 0;
    double off_hidden = 0, off_waiting = 0;
  };

  void on(State& state, const events::Refused&) const { ++state.refused; }
  void on(State& state, const events::Preempted& event) const {
    ++state.preempts;
    CHECK(event.kept == Kept::nothing);
    state.before.erase(event.row.id);
  }
  void on(State& state, const events::Ended& event) const { state.before.erase(event.row.id); }
  void on(State& state, const events::Cancelled& event) const { state.before.erase(event.row.id); }
  void on(State& state, const events::Delivered& event) const {
    state.tokens[event.row.id].push_back(event.when.count());
  }

  void on(State& state, const events::Iterated& event) const {
    const IterationRecord& record = event.record;
    std::int64_t in = 0, out = 0, swapped = 0;
    bool repeats = record.decodes == static_cast<std::int64_t>(record.batch.size());
    for (const Claim& claim : record.batch) {
      const RequestRow& row = record.rows[index(claim.slot)];
      Before& before = state.before[row.id];
      const LayerSet host = row.holding.host;
      const std::int64_t blocks = row.blocks.count();
      repeats = repeats && blocks == before.blocks && host == before.host;
      if (claim.tokens.count() > 0) {
        in += before.blocks * before.host.count();
        out += blocks * host.count(); // swapped layers go back as a whole, others are evicted, new tokens are written
        swapped += before.blocks * (before.host & host).count();
      } else {
        in += before.blocks * (before.host - host).count();
        out += before.blocks * (host - before.host).count();
      }
      before = {host, blocks};
    }
    CHECK(record.to_device.count() == in);
    CHECK(record.to_host.count() == out);
    state.both_ways += swapped > 0 ? 1 : 0;
    state.stall += record.stall;
    if (record.plan->made_at_step != state.plan_step)
      state.alike = 0;
    else
      state.alike = repeats && state.alike >= 0 ? state.alike + 1 : -1;
    state.plan_step = record.plan->made_at_step;
    // The memory that an eviction still takes was not counted.
    if (state.alike < 5 || swapped == 0 || record.in_flight != record.device_capacity - record.device_used) return;
    const double off = std::abs(record.duration / record.plan->predicted_step - 1);
    if (record.stall.count() > 0) {
      ++state.waited;
      state.off_waiting = std::max(state.off_waiting, off);
    } else {
      ++state.hidden;
      state.off_hidden = std::max(state.off_hidden, off);
    }
  }
};
static_assert(Observer<Crossings>);

/// As few layers as possible are away, whatever the transfers cost.
struct Unbounded : SwappedLayers {
  Unbounded() { only_hidden = false; }
};

template <class System, class Cost = SmallCost>
using Watched = With<System, Cost, BasicSimulated<Cost>, Crossings, Audit>;

template <class E>
E serve_all(const Trial& trial, double rate, Lanes lanes) {
  typename E::cost_type cost;
  cost.rate = BytesPerSecond{rate};
  cost.lanes = lanes;
  E engine = *E::make({.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                       .geometry = {trial.layers, Bytes{4096}, Bytes{1 << 20}, Bytes{3000}},
                       .device_blocks = trial.device,
                       .host_blocks = trial.host,
                       .cost = cost,
                       .backend = BasicSimulated<typename E::cost_type>{cost}});
  serve_to_end(engine, trial);
  return engine;
}

} // namespace

TEST_CASE("Pie moves exactly its plans' blocks, both ways in every iteration") {
  Random random(91);
  std::int64_t both_ways = 0;
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.device = LayerBlocks{trial.device.count() / 2 + trial.layers};
    const auto engine =
        serve_all<Watched<Pie>>(trial, 1e6 + 1e8 * random.uniform(), round % 2 == 0 ? Lanes::shared : Lanes::each_way);
    both_ways += engine.template observed<Crossings>().both_ways;
  }
  CHECK(both_ways > 500);
}

TEST_CASE("a step of Pie takes as long as its plan predicted, on one lane and on two") {
  Random random(92);
  std::int64_t hidden = 0, waited = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.device = LayerBlocks{trial.device.count() / 2 + trial.layers};
    const auto engine = serve_all<Watched<Pie, EvenCost>>(trial, 1e7 + 1e8 * random.uniform(),
                                                          round % 2 == 0 ? Lanes::shared : Lanes::each_way);
    const Crossings::State& seen = engine.template observed<Crossings>();
    CHECK(seen.off_hidden <= 1e-9);
    CHECK(seen.off_waiting <= 0.025); // if the link lags behind, longer and shorter steps alternate
    hidden += seen.hidden;
    waited += seen.waited;
  }
  CHECK(hidden > 100);
  CHECK(waited > 100);
}

TEST_CASE("with an infinite link, Pie in half the memory has the times of AllResident in all of it") {
  Random random(93);
  std::int64_t both_ways = 0;
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.layers += 4;
    trial.host = LayerBlocks{100'000};
    std::int64_t most = 0; // all requests at once, at their longest
    for (const RequestSpec& spec : trial.requests)
      most = std::max(most, blocks_for(spec.prompt + spec.output, Tokens{16}).count());
    trial.device = LayerBlocks{(most + 1) * trial.batch * trial.layers};
    const auto resident = serve_all<Watched<VllmRecompute>>(trial, 1e300, Lanes::shared);
    trial.device = LayerBlocks{trial.device.count() / 2};
    const auto swapped = serve_all<Watched<Pie>>(trial, 1e300, Lanes::shared);
    const Crossings::State& of_resident = resident.template observed<Crossings>();
    const Crossings::State& of_swapped = swapped.template observed<Crossings>();
    both_ways += of_swapped.both_ways;
    REQUIRE(of_swapped.tokens.size() == of_resident.tokens.size());
    for (const auto& [id, times] : of_resident.tokens) {
      const std::vector<double>& others = of_swapped.tokens.at(id);
      REQUIRE(others.size() == times.size());
      for (std::size_t i = 0; i < times.size(); ++i) CHECK(others[i] == doctest::Approx(times[i]).epsilon(0.01));
    }
  }
  CHECK(both_ways > 100);
}

TEST_CASE("a request larger than the device is served from the host, and no request joins if the link hides nothing") {
  Trial trial{8, 4, LayerBlocks{8 * 8}, LayerBlocks{100'000}, {{Seconds{0}, Tokens{120}, Tokens{100}, {}}}};
  CHECK(serve_all<Watched<VllmRecompute>>(trial, 1e6, Lanes::shared).template observed<Crossings>().refused == 1);
  const auto alone = serve_all<Watched<Pie>>(trial, 1e6, Lanes::shared);
  CHECK(alone.template observed<Crossings>().refused == 0);
  CHECK(alone.template observed<Crossings>().preempts == 0); // no token is recomputed
  CHECK(alone.template observed<Crossings>().both_ways > 50);
  CHECK(alone.template observed<Crossings>().stall.count() > 0);

  // Four requests that fit two by two.
  trial.requests.assign(4, {Seconds{0}, Tokens{40}, Tokens{20}, {}});
  const auto slow = serve_all<Watched<Pie>>(trial, 1e5, Lanes::shared);
  const auto without = serve_all<Watched<VllmRecompute>>(trial, 1e5, Lanes::shared);
  CHECK(slow.template observed<Crossings>().both_ways == 0);
  CHECK(slow.template observed<Crossings>().preempts == 0); // no request joins that would have to leave within a block
  const auto whatever = serve_all<Watched<With<Pie, Unbounded>>>(trial, 1e5, Lanes::shared);
  CHECK(whatever.template observed<Crossings>().both_ways > 0);
  CHECK(whatever.template observed<Crossings>().stall > slow.template observed<Crossings>().stall);
  const auto fast = serve_all<Watched<Pie>>(trial, 1e9, Lanes::shared);
  CHECK(fast.template observed<Crossings>().both_ways > 0);
  CHECK(fast.now() < without.now());
}
