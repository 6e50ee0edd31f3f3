// SPDX-License-Identifier: Apache-2.0
// your_first_policy: a new placement policy, compared with published ones.
//
// The problem: four requests decode together, and their KV exceeds the device. Some layers of some requests must be on
// the host and be fetched in every step. Which ones? Goals of this program: write a policy in thirty lines; let the
// compiler report missing hooks; and measure the users' SLOs, next to two published policies and the control row.
// docs/writing-a-policy.md walks through it.
#include "sluice/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace {

using namespace sluice;

/// The request with the most KV on the device offloads one more layer, until the batch fits. Long requests thus pay for
/// the memory that they use, short ones stay on the device, and transfers are spread evenly over the layers.
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
    ++plan.effort; // planning time on the simulated clock
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

/// Serves and prints one row: the same requests and the same machine for every engine. All use one transfer rule and no
/// deposit, so that only the policies differ.
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
  fmt::print("{} on {}, {} token blocks of KV, batch {}; {} generated requests, SLO: a token every {:.0f} ms\n\n",
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
