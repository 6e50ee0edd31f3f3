// SPDX-License-Identifier: Apache-2.0
// Layers that keep different amounts of a request's KV: the machine gives back what windows and states no longer need.
#include "sluice/engine/systems/fastserve.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/engine/systems/orbitflow_baselines.hpp"
#include "sluice/engine/systems/pie.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/policy/placement/all_resident.hpp"
#include "sluice/policy/placement/plan_trial.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"

#include "engine/restless.hpp"
#include "identity/eigen/real_run.hpp"
#include "support/stepped_clock.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::testing {

namespace {

/// Some of the layers that grow are on the host, others in each step and for each request.
struct ChaosGroups {
  using role = roles::Placement;
  static constexpr bool places_layers = true;
  static constexpr bool unequal_layers = true;
  template <class Transfer>
  struct State {
    Random random{4};
    PlanTrial<Transfer> trial;
  };
  [[nodiscard]] constexpr Holding least(int layers) const { return {all_tokens, LayerSet::all(layers)}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false;
    const LayerSet movable = task.view.geometry.movable();
    for (int tries = 0; tries < 12; ++tries) {
      const std::size_t joined = state.random.below(task.claims.size() - task.required + 1);
      if (task.required + joined == 0) continue;
      plan.requests.clear();
      for (const Claim& claim : task.claims.first(task.required + joined)) {
        Holding holding;
        movable.for_each([&](int layer) {
          if (tries >= 10 || state.random.below(2) == 0) holding.host.insert(layer);
        });
        plan.requests.push_back({claim.slot, holding});
      }
      if (state.trial.fits(task, plan)) return {true, joined, plan.binding};
    }
    return Verdict::infeasible(plan.binding);
  }
};

using Moving = Engine<ChaosGroups, EveryStep, ChaosRelief, ChaosRetention>;
using MovingWhole = Engine<ChaosGroups, EveryStep, ChaosRelief, ChaosSwap>;
using MovingAhead = With<Moving, OneStepAhead>;
using Keeping = Engine<AllResident, KeepUntilNeeded, EveryStep>;
using Copying = With<SuperInfer, Restless>;
using Impatient = With<FastServe, ShortQuanta>;

DecoderConfig with_windows(DecoderConfig config, Random& random) {
  for (int layer = 0; layer < config.shape.layers; ++layer)
    config.windows.push_back(layer % 3 == 1 ? 0 : 1 + static_cast<int>(random.below(layer % 3 == 0 ? 6 : 20)));
  return config;
}

/// Windows, states, or windows in the layers between states.
RealTrial draw_groups(Random& random, int round) {
  RealTrial trial = random_real_trial(random);
  DecoderConfig config = trial.weights.config;
  if (round % 3 > 0) config = with_states(config);
  if (round % 3 != 1) config = with_windows(config, random);
  if (round % 3 == 2) config.windows[2] = 0; // a layer that grows, and is not of the delta rule
  if (round % 3 == 0 && round % 2 == 0) config = with_latents(config);
  trial.weights = random_weights(config, random.below(1000));
  for (std::vector<std::int32_t>& prompt : trial.prompts)
    if (random.below(2) == 0) prompt.resize(prompt.size() + random.below(60), 7);
  trial.rows_to_rebuild = trial.room_for_hidden = false;
  return trial;
}

/// The same with requests that start together and take many tokens more than they start with.
RealTrial start_together(RealTrial trial, Random& random) {
  trial = at_once(std::move(trial));
  for (std::vector<std::int32_t>& prompt : trial.prompts) prompt.resize(4 + random.below(9), 7);
  trial.outputs.assign(trial.prompts.size(), 60);
  trial.limits.batch = static_cast<int>(trial.prompts.size());
  trial.limits.batch_tokens = Tokens{12 * trial.limits.batch};
  trial.slo = Seconds{10};
  return trial;
}

/// `share`: the device's memory for KV over what the largest request keeps. In the last three rounds, one of each kind
/// of model, it has room for all requests and 16 tokens more of each (a plan of Pie's lasts as long), and not for all
/// of their tokens: every system must move or preempt something.
void check_groups(const MakeReal& make, std::uint64_t seed, double share, RealExercise& moved) {
  Random random(seed);
  for (int round = 0; round < 9; ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    RealTrial trial = draw_groups(random, round);
    const bool outgrow = round >= 6;
    if (outgrow)
      trial = start_together(std::move(trial), random);
    else if (round % 2 == 1)
      trial = at_once(std::move(trial));
    const std::vector<RealOutput> expected = alone(trial); // it gives nothing back
    trial.gives_back = true;
    const KvBlocks kept = trial.kept_blocks();
    std::int64_t largest = 0, at_first = 0, at_last = 0;
    for (std::size_t i = 0; i < trial.prompts.size(); ++i) {
      const std::int64_t room = kept.room(trial.blocks(i));
      largest = std::max(largest, room);
      at_last += room;
      const Tokens first{static_cast<std::int64_t>(trial.prompts[i].size()) + 16};
      at_first += kept.room(blocks_for(first, trial.limits.block_tokens).count());
    }
    auto kv = std::max(largest, static_cast<std::int64_t>(share * static_cast<double>(largest)));
    if (outgrow) kv = std::max(largest, at_first);
    const RealResult result = run_trial(trial, kv, make);
    CHECK_MESSAGE(result.refused == 0, "a request that fits alone is served");
    check_identity(result, expected);
    moved.add(result);
    if (!outgrow) continue;
    CHECK(kv < at_last);
    CHECK(result.preempted + (result.moved.to_device.bytes + result.moved.to_host.bytes).count() > 0);
  }
}

MakeReal stepped_groups(MakeReal make) {
  return [make = std::move(make)](const RealConfig& common) {
    RealConfig config = common;
    run_stepped(config, Seconds{3e-4});
    return make(config);
  };
}

} // namespace

TEST_CASE("windows and states give blocks back, and no token and no logit changes, whatever the system moves") {
  RealExercise all;
  const auto check = [&all](const MakeReal& make, std::uint64_t seed, double share) {
    check_groups(stepped_groups(make), seed, share, all);
  };
  check(&real<Moving>, 201, 1.0);
  check(&real<Moving>, 202, 1.6);
  check(&real<MovingWhole>, 203, 1.3);
  check(&real<MovingAhead>, 204, 1.2);
  check(&real<VllmSwap>, 205, 1.2);
  check(&real<VllmRecompute>, 206, 1.2);
  check(&real<Keeping>, 207, 1.2);
  check(&real<Copying>, 208, 1.4);
  check(&real<Impatient>, 209, 1.4);
  check(&real<OrbitFlow>, 210, 1.1);
  check(&real<FlexGen>, 211, 1.1);
  check(&real<Pie>, 212, 1.1);
  CHECK(all.bytes > 0);
  CHECK(all.preempted > 0);
}

TEST_CASE("a long request runs in the memory of its windows, states and growing layers, and moves nothing") {
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    Random random(static_cast<std::uint64_t>(300 + round));
    RealTrial trial = draw_groups(random, round);
    trial.prompts.assign(1, std::vector<std::int32_t>(200, 3));
    for (std::size_t i = 0; i < 200; ++i) trial.prompts[0][i] = static_cast<std::int32_t>(i * i % 61);
    trial.outputs.assign(1, 20);
    trial.arrivals.assign(1, 0);
    const std::vector<RealOutput> expected = alone(trial);
    trial.gives_back = true;
    const std::int64_t kept = trial.kept_blocks().room(trial.blocks(0));
    CHECK(kept < trial.all() * 2 / 3);
    const RealResult result = run_real<Engine<>>(trial, kept);
    check_identity(result, expected);
    CHECK(result.refused + result.preempted == 0);
    CHECK(result.moved.to_device.bytes + result.moved.to_host.bytes == Bytes{0});
    trial.gives_back = false;
    CHECK(run_real<Engine<>>(trial, kept).outputs[0].refused);
  }
}

} // namespace sluice::testing
