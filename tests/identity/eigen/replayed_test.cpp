// SPDX-License-Identifier: Apache-2.0
// A real run's clock replayed: the same engine on the same requests repeats its decisions without computing a token.
#include "sluice/engine/systems/confluence.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/report/observer/decision_log.hpp"
#include "sluice/world/read_clock_record.hpp"
#include "sluice/world/real/world_of.hpp"
#include "sluice/world/recorded.hpp"
#include "sluice/world/replayed.hpp"

#include "identity/eigen/real_run.hpp"

#include <sstream>
#include <string>

namespace sluice::testing {

namespace {

/// The decisions, with their times and without.
struct Decided {
  std::string log;
  std::int64_t steps = 0;
  std::int64_t moved = 0;

  [[nodiscard]] std::vector<std::string> decisions() const {
    std::vector<std::string> all;
    std::istringstream lines{log};
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find("  "), end = line.find(", predicted");
      all.push_back(line.substr(at, end == std::string::npos ? end : end - at));
    }
    return all;
  }
};

/// Runs a trial's requests, in the order of arrival, through an engine on `backend`; `enter(id, i)` tells a machine
/// what request i contains. Cancellations follow the trial, or the replayed record.
template <class System, class Backend, class Enter>
Decided decide(const RealTrial& trial, LayerBlocks device, Bytes block, Backend backend, Enter&& enter,
               const Replay* replay = nullptr) {
  using E = With<System, Backend, SmallCost, DecisionLog>;
  const ModelShape& shape = trial.weights.config.shape;
  SmallCost cost;
  cost.base = Seconds{1e-3};
  if (trial.link.to_device_bytes_per_s > 0) cost.rate = BytesPerSecond{trial.link.to_device_bytes_per_s};
  Expected<E> engine = E::make({.limits = trial.limits,
                                .geometry = {shape.layers, block, trial.weights.layout.bytes,
                                             shape.layer_hidden_bytes(trial.limits.block_tokens)},
                                .device_blocks = device,
                                .host_blocks = LayerBlocks{trial.host_blocks},
                                .cost = cost,
                                .backend = std::move(backend)});
  REQUIRE(engine);
  std::vector<std::size_t> order(trial.prompts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return trial.arrivals[a] < trial.arrivals[b]; });
  Random users(trial.leaving);
  for (std::size_t next = 0; engine->steps() < 5000;) {
    if (replay != nullptr) {
      if (replay->repeat(*engine, static_cast<std::int64_t>(next))) continue;
    } else if (trial.leaving > 0) {
      for (const RequestId id : leaving_of(engine->view(), users, trial.leaving)) REQUIRE(engine->cancel(id).ok());
    }
    if (next < order.size() && trial.arrivals[order[next]] <= engine->now().count()) {
      const std::size_t i = order[next++];
      RequestSpec spec;
      spec.arrival = Seconds{trial.arrivals[i]};
      spec.prompt = Tokens{static_cast<std::int64_t>(trial.prompts[i].size())};
      spec.output = Tokens{trial.outputs[i]};
      spec.slo = {trial.ttft, trial.slo};
      if (const Expected<RequestId> id = engine->submit(spec)) enter(*id, i);
      continue;
    }
    const Stepped stepped = engine->step();
    if (stepped == Stepped::failed) FAIL(engine->status().error().line());
    if (stepped == Stepped::idle) {
      if (next == order.size()) break;
      engine->idle_until(Seconds{trial.arrivals[order[next]]});
    }
  }
  CHECK(engine->alive() == 0);
  return {engine->template observed<DecisionLog>().text(), engine->steps()};
}

/// A backend behind `Cpu`, as programs choose one at run time, or as it is: a part of the engine's type.
template <bool hidden, class Backend>
auto hidden_behind_cpu(Backend backend) {
  if constexpr (hidden)
    return Cpu{world_of(std::move(backend))};
  else
    return backend;
}

/// The same on a machine, which computes and moves: its clock goes into `record`.
template <class System, bool hidden>
Decided decide_really(const RealTrial& trial, std::int64_t kv_blocks, ClockRecord& record) {
  std::unique_ptr<Decoder> decoder = decoder_of(trial.weights, trial.limits.block_tokens, trial.threads);
  const MachineSetup setup = trial.setup(*decoder, kv_blocks);
  const std::int64_t block = kv_block_floats(trial.weights.config.shape, trial.limits.block_tokens) * 4;
  Expected<std::shared_ptr<CpuMachine>> machine = make_cpu_machine(trial.weights, std::move(decoder), setup);
  REQUIRE(machine);
  Decided decided =
      decide<System>(trial, LayerBlocks{kv_blocks}, Bytes{block},
                     hidden_behind_cpu<hidden>(Recorded<Cpu>{Cpu{*machine}, record}), [&](RequestId id, std::size_t i) {
                       TokenRequest request;
                       request.tokens = trial.prompts[i];
                       request.sequence = i;
                       (*machine)->enter(id, std::move(request));
                     });
  const CopyTotals moved = (*machine)->moved();
  decided.moved = (moved.to_device.bytes + moved.to_host.bytes).count();
  return decided;
}

template <class System, bool hidden = true>
void check_replays(std::uint64_t seed, int rounds, double share) {
  Random random(seed);
  std::int64_t moved = 0, planned_async = 0, cancelled = 0;
  int otherwise = 0;
  // Durations depend on this machine: on a slow or busy one a few rounds may move nothing, or lead to the same
  // decisions from other times. So rounds are added until some move and some decide differently.
  const auto seen = [&] {
    return cancelled > 0 && moved > 0 && otherwise > 0 && (planned_async > 0 || !System::lookahead_type::ahead);
  };
  for (int round = 0; round < rounds || (!seen() && round < 100); ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = random_real_trial(random);
    if (round % 3 == 2) {
      trial.faults.seed = random();
      trial.faults.failing = 0.1; // now and then twice: requests fail
      trial.faults.most_delay = Seconds{0.0002};
    }
    if (round % 2 == 1) trial.leaving = 30;
    trial.ttft = trial.slo * 20;
    const auto kv = static_cast<std::int64_t>(share * static_cast<double>(trial.largest())) + 2 * trial.layers() + 8;
    const Bytes block{kv_block_floats(trial.weights.config.shape, trial.limits.block_tokens) * 4};
    ClockRecord record;
    const Decided real = decide_really<System, hidden>(trial, kv, record);
    REQUIRE(real.steps > 0);
    moved += real.moved;
    for (const ClockEvent& event : record.events)
      planned_async += event.kind == ClockEvent::Kind::ready || event.kind == ClockEvent::Kind::late;
    for (const ClockEvent& event : record.events) cancelled += event.kind == ClockEvent::Kind::cancel;

    const Expected<ClockRecord> read =
        read_clock_record(LineReader{std::make_unique<std::istringstream>(record.text()), "clock.csv"});
    REQUIRE_MESSAGE(read.has_value(), read.error().line());
    const auto replayed = [&](Replay& replay) {
      return decide<System>(
          trial, LayerBlocks{kv}, block, hidden_behind_cpu<hidden>(Replayed<Cpu, SmallCost>{replay, SmallCost{}}),
          [](RequestId, std::size_t) {}, &replay);
    };
    Replay replay{*read};
    const Decided again = replayed(replay);
    CHECK_MESSAGE(replay.status().ok(), replay.status().error().line());
    CHECK(again.log == real.log);
    CHECK(again.steps == real.steps);

    // Other times give other decisions; otherwise the comparison above would show nothing.
    ClockRecord disturbed = *read;
    for (ClockEvent& event : disturbed.events) {
      event.now = event.now * 4;
      event.cost.duration = event.cost.duration * 4;
      if (event.kind == ClockEvent::Kind::ready) event.kind = ClockEvent::Kind::late;
    }
    Replay elsewhen{disturbed};
    otherwise += replayed(elsewhen).decisions() != real.decisions() || !elsewhen.status().ok();
  }
  CHECK(cancelled > 0);
  CHECK(moved > 0);
  CHECK(otherwise > 0);
  CHECK((planned_async > 0) == System::lookahead_type::ahead);
}

} // namespace

TEST_CASE("an engine that gets a real run's times repeats its decisions") {
  SUBCASE("chaos") { check_replays<Chaos>(11, 4, 0.9); }
  SUBCASE("chaos, planned beside the iteration") { check_replays<With<Chaos, OneStepAhead>>(12, 6, 0.9); }
  SUBCASE("the same, with the backend in its type") { check_replays<With<Chaos, OneStepAhead>, false>(12, 6, 0.9); }
  SUBCASE("OrbitFlow, planned beside the iteration") { check_replays<OrbitFlow>(13, 5, 0.6); }
  SUBCASE("SuperInfer, whose rotations read the time") { check_replays<SuperInfer>(14, 6, 1.1); }
  SUBCASE("Confluence, whose order and chunks read the time") { check_replays<Confluence>(15, 6, 0.8); }
}

} // namespace sluice::testing
