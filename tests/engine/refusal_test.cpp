// SPDX-License-Identifier: Apache-2.0
// Requests that Admission refuses while they wait: each ends once, with the reason, and the others lose nothing.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/scorpio.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"

#include "engine/trials.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// First come, first served. Refuses every sixth request at once, and a third of the others after a while in the queue.
struct Choosy : Fcfs {
  static constexpr bool steady = false;
  static constexpr std::string_view reason = "it is not wanted";

  void propose(const View& view, State& state, Proposal& proposal) const {
    Fcfs::propose(view, state, proposal);
    for (const Slot slot : state.queue) {
      const RequestRow& row = view.row(slot);
      const auto id = index(row.id);
      if (id % 6 == 0 || (id % 3 == 0 && view.now - row.spec.arrival > Seconds{0.2}))
        proposal.refused.push_back({slot, reason});
    }
    std::erase_if(proposal.claims, [&](const Claim& claim) {
      return std::any_of(proposal.refused.begin(), proposal.refused.end(),
                         [&](const Refusal& one) { return one.slot == claim.slot; });
    });
  }
};

/// When each request was refused, and why.
struct RefusalLog {
  using role = roles::Observer;
  using hears = Events<events::Refused>;
  static constexpr bool wants_timeline = false;
  struct State {
    std::map<RequestId, std::pair<Seconds, std::string>> refused;
  };
  void on(State& state, const events::Refused& event) const {
    state.refused[event.id] = {event.now, std::string{event.reason}};
  }
};

/// Keeps hidden states of every layer on the device, whatever fits.
struct StatesOnly {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool keeps_states = true;
  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };
  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers)}; }
  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    Holding states;
    states.nowhere = states.hidden = LayerSet::all(task.layers());
    states.states_on_device = true;
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      hold_alike(task, count, states, plan);
      return state.trial.fits(task, plan);
    });
  }
};

/// A request with KV of 80 tokens leaves if another one waits.
struct LeavesAtTheBrim : Fcfs {
  static constexpr bool steady = false;
  void propose(const View& view, State& state, Proposal& proposal) const {
    const bool leaves =
        view.running.size() == 1 && !state.queue.empty() && view.row(view.running.front()).computed == Tokens{80};
    if (!leaves) return Fcfs::propose(view, state, proposal);
    proposal.leaving.push_back(view.running.front());
    const RequestRow& next = view.row(state.queue.front());
    proposal.claims.push_back({state.queue.front(), next.pending(), Tokens{0}, true});
  }
};

template <class System>
using Logged = With<System, SmallCost, BasicSimulated<SmallCost>, Audit, Summary, RefusalLog>;

/// Serves a trial to its end.
template <class E>
void serve_trial(E& engine, const Trial& trial) {
  serve_to_end(engine, trial);
  check_all_served(engine, trial.requests.size());
}

Seconds prompt_time(Tokens tokens, int layers) {
  const ChunkWork prompt{tokens, Tokens{0}};
  Work work;
  work.chunks = {&prompt, 1};
  work.samples = 1;
  return SmallCost{}.step(work).total(layers);
}

template <class System>
void refuse_in_trials() {
  using E = Logged<System>;
  Random random(5);
  std::size_t at_once = 0, later = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const Trial trial = random_trial(random);
    auto made = E::make(trial_config<E>(trial, {}));
    REQUIRE(made.has_value());
    serve_trial(*made, trial);
    const auto& log = made->template observed<RefusalLog>().refused;
    for (std::size_t i = 0; i < trial.requests.size(); i += 6)
      CHECK(log.contains(RequestId{static_cast<std::uint32_t>(i)}));
    for (const auto& one : log) {
      if (one.second.second != Choosy::reason) continue; // larger than the device, at submission
      CAPTURE(index(one.first));
      CHECK(index(one.first) % 3 == 0);
      ++(index(one.first) % 6 == 0 ? at_once : later);
    }
  }
  CHECK(at_once > 60);
  CHECK(later > 10);
}

} // namespace

TEST_CASE("requests that Admission refuses end once, with its reason, and nothing of them remains") {
  refuse_in_trials<With<VllmSwap, Choosy>>();
  refuse_in_trials<With<VllmSwap, Choosy, OneStepAhead>>();
}

TEST_CASE("SCORPIO refuses only requests whose first token would be late, and nobody if it is told so") {
  using E = Logged<Scorpio>;
  Random random(13);
  std::size_t refused = 0, late_first = 0, late_if_served = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    Trial trial = random_trial(random);
    trial.device = LayerBlocks{trial.layers * 64}; // any request fits
    for (RequestSpec& spec : trial.requests) {
      spec.arrival = spec.arrival * 0.3;
      spec.slo.ttft = Seconds{0.02 + 0.3 * random.uniform()};
    }
    for (const bool rejects : {true, false}) {
      typename E::Config config = trial_config<E>(trial, {});
      config.admission.rejects = rejects;
      auto made = E::make(std::move(config));
      REQUIRE(made.has_value());
      serve_trial(*made, trial);
      for (const RequestRecord& record : made->template observed<Summary>().requests)
        if (record.started() && record.ttft() > record.slo_ttft) ++(rejects ? late_first : late_if_served);
      const auto& log = made->template observed<RefusalLog>().refused;
      if (!rejects) CHECK(log.empty());
      for (const auto& one : log) {
        const RequestSpec& spec = trial.requests[index(one.first)];
        CHECK(one.second.second == "its first token would come after its deadline");
        // Its prompt would be late behind those of at most a batch.
        const Seconds ends = one.second.first + prompt_time(spec.prompt, trial.layers) +
                             prompt_time(Tokens{120}, trial.layers) * static_cast<double>(trial.batch - 1);
        CHECK(ends >= spec.arrival + spec.slo.ttft);
        ++refused;
      }
    }
  }
  CHECK(refused > 60);
  CHECK(late_first < late_if_served);
}

TEST_CASE(
    "a request in the way of its own hidden states loses them, and is refused if it fits without them no better") {
  using E = With<Engine<Fcfs, StatesOnly, EveryStep>, SmallCost, BasicSimulated<SmallCost>, Audit, Summary, RefusalLog>;
  // A block has the states of 21 tokens, so those of 64 tokens take 4 blocks in each of 4 layers, and their K and V 4
  // blocks of one layer while it computes: 20 of 20. Those of 65 tokens take 16 beside 5.
  for (const std::int64_t output : {5, 6}) {
    CAPTURE(output);
    Trial trial{4, 2, LayerBlocks{20}, LayerBlocks{1000}, {}};
    trial.requests.resize(1);
    trial.requests[0].prompt = Tokens{60};
    trial.requests[0].output = Tokens{output};
    auto made = E::make(trial_config<E>(trial, {}));
    REQUIRE(made.has_value());
    serve_trial(*made, trial);
    const auto& log = made->template observed<RefusalLog>().refused;
    const RequestRecord& record = made->template observed<Summary>().requests[0];
    REQUIRE(log.size() == (output > 5 ? 1 : 0));
    CHECK(record.times_preempted == (output > 5 ? 1 : 0));
    if (output > 5) CHECK(log.at(RequestId{0}).second == "it cannot be placed even alone");
  }
}

TEST_CASE("observers hear once of a preemption whose hidden states are in the way when the request returns") {
  using E = With<Engine<LeavesAtTheBrim, StatesOnly, EveryStep, KeepUntilNeeded>, SmallCost, BasicSimulated<SmallCost>,
                 Audit, Summary, RefusalLog>;
  // The states of 80 tokens take 16 of 25 blocks, which leaves room for a second request. To return, the first one
  // needs 20 for its states beside 6 for K and V.
  Trial trial{4, 1, LayerBlocks{25}, LayerBlocks{1000}, {}};
  trial.requests.resize(2);
  trial.requests[0].prompt = Tokens{76};
  trial.requests[0].output = Tokens{6};
  trial.requests[1].prompt = Tokens{4};
  trial.requests[1].output = Tokens{2};
  auto made = E::make(trial_config<E>(trial, {}));
  REQUIRE(made.has_value());
  serve_trial(*made, trial); // the audit checks that no preempted request is preempted again
  const auto& records = made->template observed<Summary>().requests;
  CHECK(made->template observed<Audit>().preempts == 1);
  CHECK(records[0].times_preempted == 1);
  CHECK(records[0].outcome == Outcome::refused);
  CHECK(records[1].outcome == Outcome::served);
}

TEST_CASE("SCORPIO serves a prompt that it finds on the device, although its first token would be late if computed") {
  using E = With<Scorpio, KeepUntilOverwritten, Summary, RefusalLog>;
  const Server server{llama3_8b(), a5000(), TokenBlocks{1000}, {.batch = 8, .batch_tokens = Tokens{8192}}};
  Expected<E> made = E::make(configure<E>(server));
  REQUIRE(made);
  E& engine = *made;
  const auto serve = [&](std::uint64_t topic, Seconds ttft) {
    RequestSpec spec;
    spec.arrival = engine.now();
    spec.prompt = Tokens{4000};
    spec.output = Tokens{4};
    spec.slo.ttft = ttft;
    std::vector<BlockKey> keys{next_key(BlockKey{}, topic)};
    while (keys.size() < 250) keys.push_back(next_key(keys.back(), topic));
    const Expected<RequestId> entered = engine.submit(spec, keys);
    REQUIRE(entered);
    while (engine.alive() > 0) REQUIRE(engine.step() != Stepped::failed);
    return !engine.template observed<RefusalLog>().refused.contains(*entered);
  };
  CHECK(serve(1, Seconds{10}));
  CHECK(serve(1, Seconds{0.2}));
  CHECK(serve(1, Seconds{0.2}));
  CHECK_FALSE(serve(2, Seconds{0.2})); // another prompt: no block of it is cached, and it takes too long
  for (const RequestRecord& record : engine.template observed<Summary>().requests)
    if (record.started()) CHECK(record.ttft() <= record.slo_ttft);
}
