// SPDX-License-Identifier: Apache-2.0
// compare_two_systems: two published systems, on the same users and the same machine.
//
// The problem: the KV of the running requests does not fit the device. vLLM swaps whole requests to the host and brings
// them back later. OrbitFlow keeps all requests running, but some layers of some requests are on the host and are
// fetched in every step. Which system is better, and with how much memory? Goals of this program: show that a system is
// a type and that a comparison calls one function with two types; and avoid ranking by one number, because each system
// is bad where the other is good.
#include "sluice/simulation.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>

namespace {

using namespace sluice;

const Slo slo{.ttft = Seconds{5}, .tbt = Seconds{0.06}};

Server server_with(TokenBlocks kv_blocks) {
  return {.model = llama3_8b(),
          .device = a5000(),
          .kv_blocks = kv_blocks,
          .limits = {.batch = demo_batch, .batch_tokens = Tokens{32'768}}};
}

/// Serves and prints one row. Two calls differ only in the engine's type.
template <class System>
bool row(const char* name, const Server& server) {
  Shaped<Generator> requests{Generator{demo_workload(), /*seed=*/1}, {.slo = slo}};
  const Expected<Metrics> seen = serve<System>(server, requests);
  if (!seen) {
    fmt::print(stderr, "compare_two_systems: {}\n", seen.error().line());
    return false;
  }
  fmt::print("{:>6} {:<10} {:>7.1f} % {:>7.1f} % {:>7.1f} s {:>9.1f} s {:>7.1f} % {:>9} {:>7.0f} GB\n",
             server.kv_blocks.count(), name, 100 * seen->tbt_attainment, 100 * seen->ttft_attainment, seen->mean_e2e_s,
             seen->longest_gap_s, 100 * seen->stall_share, seen->times_preempted,
             static_cast<double>(seen->bytes_moved) / 1e9);
  return true;
}

} // namespace

int main() {
  fmt::print("{} generated requests, at most {} at once; SLO: a token every {:.0f} ms\n\n", demo_workload().requests,
             demo_batch, 1e3 * slo.tbt.count());
  fmt::print("{:>6} {:<10} {:>9} {:>9} {:>9} {:>11} {:>9} {:>9} {:>10}\n", "blocks", "", "TBT met", "TTFT met",
             "mean E2E", "longest gap", "stalled", "preempted", "moved");
  for (const std::int64_t blocks : {1'400, 1'000, 700, 500}) {
    const Server server = server_with(TokenBlocks{blocks});
    if (!row<VllmSwap>("VllmSwap", server) || !row<OrbitFlow>("OrbitFlow", server)) return 2;
  }
  fmt::print("\n`stalled` is the share of all iterations' time in which the device waited for the link, `longest gap` "
             "the longest\nwait of one user for a token. Read the columns together: a swapped-out request stalls no "
             "other, but waits.\n");
  if (std::fflush(stdout) != 0) return std::perror("compare_two_systems: standard output"), 2;
  return 0;
}
