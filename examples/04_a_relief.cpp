// SPDX-License-Identifier: Apache-2.0
// a_relief: a policy for preempting when no plan fits, compared with published ones.
//
// The problem: requests decode together, and there is no room for the next token of one of them. One request must stop.
// vLLM preempts the newest, OrbitFlow the one with the most KV. But users read no faster than the SLO's rate, and an
// engine that is ahead of them has a deposit. So this policy preempts the request that is furthest ahead of its SLO.
// Goals of this program: a policy of another role than Placement (03_your_first_policy.cpp), the use of its second
// hook, and the effect of the choice. All rows have the same engine except for the type of its Relief.
#include "sluice/simulation.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <span>

namespace {

using namespace sluice;

/// Preempts the request with the most slack: the one that can stay off the device longest before it misses its SLO.
struct MostSlack {
  using role = roles::Relief;
  struct State {}; // no state
  static constexpr Parting parting = Parting::preempt;

  /// Returns the index of the victim. A claim names a slot; that slot's row contains everything known about its
  /// request.
  std::size_t choose(const View& view, State&, std::span<const Claim> candidates) const {
    std::size_t most = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i) // of two equal ones, prefers the newer
      if (slack(view, candidates[i]) >= slack(view, candidates[most])) most = i;
    return most;
  }

  /// Returns whether a preempted request may return as soon as there is room: always. (Every Relief must return true
  /// when nothing runs.)
  bool may_return(const View&, const RequestRow&) const { return true; }

 private:
  /// Returns the time until the next token is due: the first token a TTFT after arrival, every other token a TBT after
  /// the previous one.
  static Seconds slack(const View& view, const Claim& claim) {
    const RequestRow& row = view.row(claim.slot);
    const Slo& slo = row.spec.slo;
    return row.spec.arrival + slo.ttft + slo.tbt * static_cast<double>(row.generated.count()) - view.now;
  }
};

static_assert(explain<MostSlack>()); // if a hook is misspelt, this line reports which one

/// The same with OrbitFlow's gate: a preempted request waits until another one has ended. A request that returns too
/// soon becomes the next victim and loses its work; waiting for others to end takes long.
struct MostSlackGated : MostSlack {
  bool may_return(const View& view, const RequestRow& row) const {
    return view.running.empty() || view.last_finish_step >= row.preempted_at_step;
  }
};

const Server server{.model = llama3_8b(),
                    .device = a5000(),
                    .kv_blocks = TokenBlocks{600},
                    .limits = {.batch = 6, .batch_tokens = Tokens{2'048}}};
const Slo slo{.ttft = Seconds{10}, .tbt = Seconds{0.06}};

template <class Relief>
bool row(const char* name, const char* who) {
  Shaped<Generator> requests{Generator{demo_workload(), /*seed=*/1}, {.slo = slo}};
  const Expected<Metrics> seen = serve<With<VllmRecompute, TokenDeposit, Relief>>(server, requests);
  if (!seen) {
    fmt::print(stderr, "a_relief: {}\n", seen.error().line());
    return false;
  }
  fmt::print("{:<18} {:<32} {:>9} {:>7.1f} % {:>9.1f} % {:>7.1f} s {:>9.1f} s\n", name, who, seen->times_preempted,
             100 * seen->tbt_attainment, 100 * seen->per_token_attainment, seen->mean_e2e_s, seen->longest_gap_s);
  return true;
}

} // namespace

int main() {
  fmt::print("{} on {}, {} token blocks of KV, batch {}; {} generated requests, SLO: a token every {:.0f} ms\n\n",
             server.model.name, server.device.name, server.kv_blocks.count(), server.limits.batch,
             demo_workload().requests, 1e3 * slo.tbt.count());
  fmt::print("{:<18} {:<32} {:>9} {:>9} {:>11} {:>9} {:>11}\n", "relief", "preempts", "preempted", "TBT met",
             "per token", "mean E2E", "longest gap");
  const bool served = row<PreemptNewest>("PreemptNewest", "the newest (vLLM)") &&
                      row<PauseLargest>("PauseLargest", "the largest (OrbitFlow)") &&
                      row<PauseRandom>("PauseRandom", "a random one") &&
                      row<MostSlack>("MostSlack", "the one furthest ahead") &&
                      row<MostSlackGated>("MostSlackGated", "the same, back when another ends");
  if (std::fflush(stdout) != 0) return std::perror("a_relief: standard output"), 2;
  return served ? 0 : 2;
}
