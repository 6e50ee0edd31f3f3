// SPDX-License-Identifier: Apache-2.0
// your_first_policy: a new answer to an old question, measured against published ones.
//
// The problem: four requests decode together, their KV outgrows the device, and some layers of some requests must live
// on the host and be fetched in every step. Which? Goals of this program: to write one's own answer in thirty lines; to
// have the compiler say what it lacks; and to see what it does to the users' SLOs, beside two published answers and the
// control row. docs/writing-a-policy.md walks through it.
#include "sluice/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace {

using namespace sluice;

/// Whoever holds most on the device gives up one layer more, until the batch fits. Long requests so pay for the room
/// that they take, short ones stay on the device, and what crosses the link is spread evenly over the layers.
struct LargestGives {
  using role = roles::Placement;
  static constexpr bool places_layers = true;

  template <class Transfer>
  struct State {
    PlanTrial<Transfer> trial;
  };

  [[nodiscard]] Holding least(int layers) const { return {.host = LayerSet::all(layers)}; }

  template <class Task, class S>
  Verdict solve(const Task& task, S& state, Plan& plan) const {
    plan.covers_unseen = false; // newcomers need a new plan
    return join_longest_prefix(task, plan, [&](std::size_t count) {
      plan.requests.clear();
      for (const Claim& claim : task.claims.first(count)) plan.requests.push_back({claim.slot, Holding{}});
      while (!state.trial.fits(task, plan))
        if (!give_one_layer(task, plan)) return false;
      return true;
    });
  }

 private:
  template <class Task>
  static bool give_one_layer(const Task& task, Plan& plan) {
    ++plan.effort; // what planning costs on the simulated clock
    const auto held = [&](const RequestPlan& request) {
      const Claim& claim = task.claims[static_cast<std::size_t>(&request - plan.requests.data())];
      return task.footprint_of(request.holding, task.blocks(claim)).device;
    };
    const auto less = [&](const RequestPlan& a, const RequestPlan& b) { return held(a) < held(b); };
    const auto largest = std::max_element(plan.requests.begin(), plan.requests.end(), less);
    if (largest == plan.requests.end() || held(*largest) == LayerBlocks{0}) return false;
    LayerSet& host = largest->holding.host;
    host = evenly_spaced_layers(task.layers(), host.count() + 1);
    return true;
  }
};

static_assert(explain<LargestGives>());

using MyEngine = Engine<LargestGives, FcfsPrefillFirst, OnBatchChange>;

/// One row: the same requests, the same machine, whatever the engine. All on one transfer rule and without a deposit,
/// so that the policies are compared and nothing else.
template <class E>
bool row(const char* name, const Server& server, Slo slo) {
  Shaped<Generator> requests{Generator{demo_workload(), /*seed=*/1}, {.slo = slo}};
  const Expected<Metrics> metrics = serve<With<E, DeadlinePool, Immediate>>(server, requests);
  if (!metrics) {
    fmt::print(stderr, "{}\n", metrics.error().line());
    return false;
  }
  fmt::print("{:<20} {:>8.1f} % {:>8.1f} % {:>8.1f} s {:>9.2f} s {:>8.1f} %\n", name, 100 * metrics->tbt_attainment,
             100 * metrics->per_token_attainment, metrics->mean_e2e_s, metrics->longest_gap_s,
             100 * metrics->stall_share);
  return true;
}

} // namespace

int main() {
  const Server server{.model = llama3_8b(),
                      .device = a5000(),
                      .kv_blocks = TokenBlocks{700},
                      .limits = {.batch = demo_batch, .batch_tokens = Tokens{32'768}}};
  const Slo slo{.ttft = Seconds{5}, .tbt = Seconds{0.06}};
  fmt::print("{} on {}, {} token blocks of KV, batch {}; {} generated requests, a token owed every {:.0f} ms\n\n",
             server.model.name, server.device.name, server.kv_blocks.count(), server.limits.batch,
             demo_workload().requests, 1e3 * slo.tbt.count());
  fmt::print("{:<20} {:>10} {:>10} {:>10} {:>11} {:>10}\n", "", "TBT", "per token", "mean E2E", "longest gap",
             "stalled");
  const bool served = row<MyEngine>("MyEngine", server, slo) &&                 //
                      row<DynamicHeuristic>("DynamicHeuristic", server, slo) && //
                      row<OrbitFlow>("OrbitFlow", server, slo) &&               //
                      row<OneAtATime>("OneAtATime", server, slo);
  if (std::fflush(stdout) != 0) return std::perror("your_first_policy: standard output"), 2;
  return served ? 0 : 2;
}
