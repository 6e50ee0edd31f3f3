// SPDX-License-Identifier: Apache-2.0
// The observers on real engines: their results must agree with the trace, with the engine and with each other.
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/report/observer/decision_log.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/releases.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/trace_json.hpp"
#include "sluice/world/simulated.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

using namespace sluice;
using namespace sluice::testing;
using doctest::Approx;

TEST_CASE_TEMPLATE("observers agree with the trace, the engine and each other", System, OrbitFlow, VllmSwap) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Summary, Series, Timeline, ChosenIteration, DecisionLog>;
  Random random(21);
  int preempted = 0, stalled = 0, owned = 0;
  for (int round = 0; round < 25; ++round) {
    CAPTURE(round);
    const Trial trial = random_trial(random);
    SmallCost world;
    world.rate = BytesPerSecond{2e5 + 3e6 * random.uniform()};
    auto made = E::make({.limits = {.batch = trial.batch, .batch_tokens = Tokens{64}, .max_context = Tokens{256}},
                         .geometry = {trial.layers, Bytes{4096}, Bytes{1 << 20}},
                         .device_blocks = trial.device,
                         .host_blocks = trial.host,
                         .cost = SmallCost{},
                         .backend = BasicSimulated<SmallCost>{world}});
    REQUIRE(made.has_value());
    E& engine = *made;
    serve_to_end(engine, trial);

    const auto& summary = engine.template observed<Summary>();
    const Metrics m = measure(summary, engine.now());
    CHECK(m.requests == static_cast<std::int64_t>(trial.requests.size()));
    CHECK(m.unfinished == 0);
    std::int64_t tokens = 0, gaps = 0;
    for (std::size_t r = 0; r < trial.requests.size(); ++r) {
      const RequestRecord& record = summary.requests[r];
      CHECK(record.arrival == trial.requests[r].arrival);
      CHECK((record.outcome == Outcome::refused) == (record.reason >= 0));
      if (record.outcome != Outcome::served) continue;
      CHECK(record.delivered == trial.requests[r].output);
      CHECK(record.first > record.arrival);
      tokens += record.delivered.count();
      gaps += record.delivered.count() - 1;
      CHECK(static_cast<double>(record.missed) <= (record.last - record.first) / record.slo_tbt + 1e-6);
    }
    CHECK(m.served + m.refused == m.requests);
    CHECK(m.iterations == engine.steps());
    if (m.iterations > 0) { // not all were refused
      CHECK(m.device_peak_share <= 1);
      CHECK(m.device_capacity_bytes == trial.device.count() * 4096);
    }
    CHECK(m.stall_s <= m.busy_s);
    if (m.refused == 0) {
      CHECK(m.tokens_delivered == tokens);
      CHECK(latencies(summary).tbt.count() == gaps);
      if (gaps > 0) CHECK(m.tbt_attainment <= m.per_token_attainment + 1e-12); // a late gap misses one or more
    }

    double seconds = 0, stall = 0;
    for (const SeriesBucket& bucket : engine.template observed<Series>().buckets) {
      seconds += bucket.seconds;
      stall += bucket.stall_s;
    }
    CHECK(seconds == Approx(m.busy_s));
    CHECK(stall == Approx(m.stall_s));

    const auto& timeline = engine.template observed<Timeline>();
    CHECK(timeline.iterations.size() == static_cast<std::size_t>(std::min<std::int64_t>(m.iterations, 5000)));
    const RecordedIteration* before = nullptr;
    for (const RecordedIteration& it : timeline.detailed) {
      const bool unchanged = before != nullptr && before->step + 1 == it.step &&
                             std::equal(before->placed.begin(), before->placed.end(), it.placed.begin(),
                                        it.placed.end(), [](const PlacedRequest& a, const PlacedRequest& b) {
                                          return a.id == b.id && a.host == b.host && a.nowhere == b.nowhere;
                                        });
      before = &it;
      for (const TransferSlice& transfer : it.transfers) {
        if (transfer.stream < 0) continue;
        const RequestId* owner = it.owner_of(transfer);
        REQUIRE(owner != nullptr);
        const auto placed = std::find_if(it.placed.begin(), it.placed.end(),
                                         [&](const PlacedRequest& request) { return request.id == *owner; });
        REQUIRE(placed != it.placed.end());
        // While a plan stays in force, the blocks fetched for a request are its offloaded blocks.
        if (unchanged) CHECK((placed->host | placed->nowhere).contains(transfer.layer % it.layers));
        owned += unchanged ? 1 : 0;
      }
      CHECK(it.layers == trial.layers);
      CHECK(it.placed.size() == static_cast<std::size_t>(it.batch));
      double waited = 0, end = 0;
      for (const LayerSlice& layer : it.layer_slices) {
        CHECK(layer.start_s - layer.stall_s >= end - 1e-9); // one layer at a time
        waited += layer.stall_s;
        end = layer.end_s;
      }
      // Prompts that write out more than they compute stall too, at no particular layer.
      CHECK(waited <= it.stall_s * (1 + 1e-6) + 1e-12);
      if (it.tokens == it.decodes) CHECK(waited == Approx(it.stall_s).epsilon(1e-6));
      CHECK(end <= it.duration_s + 1e-9);
    }
    for (const auto& slice : timeline.slices) CHECK(slice.start <= slice.end);
    if (round == 0) CHECK(nlohmann::json::accept(trace_json(timeline, "trial")));

    const auto& chosen = engine.template observed<ChosenIteration>().kept;
    if (m.iterations > 0) CHECK(chosen.layer_slices.size() == static_cast<std::size_t>(trial.layers));
    for (const auto& it : timeline.iterations) CHECK(it.stall.count() <= 1.02 * chosen.stall_s + 1e-12);
    std::int64_t logged = 0;
    for (const std::string& line : engine.template observed<DecisionLog>().lines)
      logged += line.find("  preempt ") != std::string::npos ? 1 : 0;
    CHECK(logged == m.times_preempted);
    preempted += static_cast<int>(m.times_preempted);
    stalled += m.stall_s > 0 ? 1 : 0;
  }
  CHECK(preempted > 0); // otherwise the checks above would be empty
  if constexpr (std::is_same_v<System, OrbitFlow>) {
    CHECK(stalled > 0);
    CHECK(owned > 0);
  }
}

namespace {

/// Counts the tokens that each request's user has received.
struct Counted {
  std::map<RequestId, Tokens> sent;
  void released(RequestId id, Tokens first, Tokens count, Seconds) {
    CHECK(first == sent[id]);
    CHECK(count > Tokens{0});
    sent[id] += count;
  }
};

} // namespace

TEST_CASE_TEMPLATE("a listener receives every released token once, in order", System, OrbitFlow, VllmSwap) {
  using E = With<System, SmallCost, BasicSimulated<SmallCost>, Releases<Counted>>;
  Random random(22);
  for (int round = 0; round < 5; ++round) {
    const Trial trial = random_trial(random);
    Counted counted;
    auto config = trial_config<E>(trial, SmallCost{});
    config.observers = std::tuple{Releases<Counted>{&counted}};
    auto engine = E::make(std::move(config));
    REQUIRE(engine.has_value());
    std::map<RequestId, Tokens> expected;
    for (const RequestSpec& spec : trial.requests)
      if (const Expected<RequestId> id = engine->submit(spec)) expected[*id] = spec.output;
    while (engine->step() == Stepped::ran)
      for (const Slot slot : engine->view().running) {
        const RequestRow& row = engine->view().row(slot);
        CHECK(counted.sent[row.id] == row.delivered);
      }
    for (const auto& one : counted.sent) CHECK(one.second == expected[one.first]);
  }
}
