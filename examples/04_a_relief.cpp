// SPDX-License-Identifier: Apache-2.0
// a_relief: who gives way when no plan fits, answered by oneself and shown against the published answers.
//
// The problem: requests decode together and the next token of one of them has no room. Somebody must stop. vLLM stops
// whoever joined last, OrbitFlow whoever holds most. But users read no faster than they were promised tokens, and an
// engine that is ahead of them has a deposit: so we say, stop whoever is furthest ahead of the promise. Goals of this
// program: a policy of another role than Placement (03_your_first_policy.cpp), what its second hook is for, and a look
// at what the choice is worth. All rows are one engine; the type of its Relief is all that differs.
#include "sluice/simulation.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <span>

namespace {

using namespace sluice;

/// The most slack gives way: who could be without the device for longest before a promise to its user is broken.
struct MostSlack {
  using role = roles::Relief;
  struct State {}; // it remembers nothing
  static constexpr Parting parting = Parting::preempt;

  /// The index of the victim. A claim names a slot; the row of that slot is all that is known of its request.
  std::size_t choose(const View& view, State&, std::span<const Claim> candidates) const {
    std::size_t most = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i) // of two alike the one that joined last
      if (slack(view, candidates[i]) >= slack(view, candidates[most])) most = i;
    return most;
  }

  /// Who may come back, as soon as there is room: anybody. (Owed by every Relief: it says yes when nobody runs.)
  bool may_return(const View&, const RequestRow&) const { return true; }

 private:
  /// Until its next token is owed: the first is owed a TTFT after arrival, every other a TBT after the one before.
  static Seconds slack(const View& view, const Claim& claim) {
    const RequestRow& row = view.row(claim.slot);
    const Slo& slo = row.spec.slo;
    return row.spec.arrival + slo.ttft + slo.tbt * static_cast<double>(row.generated.count()) - view.now;
  }
};

static_assert(explain<MostSlack>()); // misspell a hook, and this line says which

/// The same with OrbitFlow's gate: who was preempted waits until somebody has ended since. What comes back too soon is
/// the next victim, and was computed in vain; what waits for others to end waits for long.
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
  fmt::print("{} on {}, {} token blocks of KV, batch {}; {} generated requests, a token owed every {:.0f} ms\n\n",
             server.model.name, server.device.name, server.kv_blocks.count(), server.limits.batch,
             demo_workload().requests, 1e3 * slo.tbt.count());
  fmt::print("{:<18} {:<32} {:>9} {:>9} {:>11} {:>9} {:>11}\n", "relief", "who gives way", "preempted", "TBT met",
             "per token", "mean E2E", "longest gap");
  const bool served = row<PreemptNewest>("PreemptNewest", "who joined last (vLLM)") &&
                      row<PauseLargest>("PauseLargest", "who holds most (OrbitFlow)") &&
                      row<PauseRandom>("PauseRandom", "anybody") &&
                      row<MostSlack>("MostSlack", "who is furthest ahead") &&
                      row<MostSlackGated>("MostSlackGated", "the same, back when somebody ends");
  if (std::fflush(stdout) != 0) return std::perror("a_relief: standard output"), 2;
  return served ? 0 : 2;
}
