// SPDX-License-Identifier: Apache-2.0
// serve_a_workload: the latencies that a server's users would see, before the server exists.
//
// The problem: a model, a GPU and users whose requests arrive at some rate. At which rate are SLOs missed, and which
// one is missed first? Goals of this program: state a machine, a workload and an SLO; run an engine on the simulated
// clock, a day of serving in a second; and read the metrics that matter to users. docs/metrics.md defines every number.
#include "sluice/simulation.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace {

using namespace sluice;

/// A plain server: first come, first served, everything on the device. When memory runs out, the newest request is
/// preempted and recomputes its tokens later. This is vLLM's composition, and each part is the default of its role.
using Plain = Engine<>;

/// Generates short questions, with answers of some hundred tokens.
GeneratorSpec chats(double per_second) {
  return {.name = "chats",
          .arrivals = {ArrivalKind::poisson, per_second, 1.0},
          .prompt = LognormalLength{300.0, 1.0},
          .output = LognormalLength{250.0, 0.8},
          .requests = 1'000,
          .longest = Tokens{8'192}};
}

} // namespace

int main() {
  // The machine, which is the same for every system of a comparison.
  Server server{.model = llama3_8b(), .device = a5000(), .limits = {.batch = 64, .batch_tokens = Tokens{2'048}}};
  server.kv_blocks = kv_blocks_beside_weights(server.model, server.device, server.limits.block_tokens);
  // The SLO: the first token within two seconds, and then one every 60 ms.
  const Slo slo{.ttft = Seconds{2}, .tbt = Seconds{0.06}};

  fmt::print("{} on {}: {} token blocks of KV beside the weights, batch {}\n", server.model.name, server.device.name,
             server.kv_blocks.count(), server.limits.batch);
  fmt::print("{} requests per row; SLO: the first token in {:.0f} s, then one every {:.0f} ms\n\n", chats(1).requests,
             slo.ttft.count(), 1e3 * slo.tbt.count());
  fmt::print("{:>8} {:>9} {:>9} {:>10} {:>9} {:>10} {:>10} {:>8}\n", "requests", "TTFT", "TTFT", "TBT", "TBT", "tokens",
             "preempted", "KV used");
  fmt::print("{:>8} {:>9} {:>9} {:>10} {:>9} {:>10} {:>10} {:>8}\n", "a second", "met", "P99", "met", "P99", "a second",
             "", "peak");
  for (const double per_second : {0.5, 1.0, 2.0, 3.0, 4.0, 6.0}) {
    // A reader returns requests one by one. These are drawn from a seed; open_trace() reads recorded ones.
    Shaped<Generator> requests{Generator{chats(per_second), /*seed=*/1}, {.slo = slo}};
    const Expected<Metrics> seen = serve<Plain>(server, requests);
    if (!seen) {
      fmt::print(stderr, "serve_a_workload: {}\n", seen.error().line());
      return 2;
    }
    fmt::print("{:>8.1f} {:>7.1f} % {:>7.2f} s {:>8.1f} % {:>6.1f} ms {:>10.0f} {:>10} {:>6.0f} %\n", per_second,
               100 * seen->ttft_attainment, seen->p99_ttft_s, 100 * seen->tbt_attainment, 1e3 * seen->p99_tbt_s,
               seen->throughput_tokens_per_s, seen->times_preempted, 100 * seen->device_peak_share);
  }
  if (std::fflush(stdout) != 0) return std::perror("serve_a_workload: standard output"), 2;
  return 0;
}
