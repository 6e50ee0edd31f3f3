// SPDX-License-Identifier: Apache-2.0
// Runs one fleet on all ranks, or in one process (`alone`), and prints its result: every rank must have the same.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/fleet/fleet.hpp"
#include "sluice/fleet/mpi/ranks.hpp"
#include "sluice/fleet/scorers.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/workload/session_generator.hpp"

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  using namespace sluice;
  MpiRanks mpi;
  Ranks* const ranks = argc > 1 && std::string{argv[1]} == "alone" ? nullptr : &mpi;
  using Precise = WeightedScorers<QueueScorer, KvScorer, FoundScorer>;
  using Pools = Fleet<Precise, VllmPrefixCaching, VllmRecompute>;
  const Server server{.model = llama3_8b(), .device = a100_80(), .kv_blocks = TokenBlocks{1500}};
  Pools::Config config;
  config.settings.handoff = {BytesPerSecond{10e9}, Seconds{0.001}};
  config.settings.failures.at = {{Seconds{5}, 1}, {Seconds{6}, 4}};
  std::get<0>(config.engines).assign(3, configure<Watched<VllmPrefixCaching>>(server));
  std::get<1>(config.engines).assign(4, configure<Watched<VllmRecompute>>(server));
  auto fleet = Pools::make(std::move(config), ranks);
  SessionGenerator chats{*parse_sessions("chat:sessions=60,rate=4,turns=4,first=800,growth=200,output=60,user=1"), 1};
  const Status status = fleet ? fleet->run(chats) : fleet.error();
  if (!status) return std::fprintf(stderr, "%s\n", status.error().line().c_str()), 1;
  const FleetSummary& of = fleet->summary();
  std::string line = of.digest.text() + " served " + std::to_string(of.served) + " interrupted " +
                     std::to_string(of.interrupted) + " TTFT " + std::to_string(of.ttft.sum()) + " age " +
                     std::to_string(of.age.sum());
  for (const EnginePart& part : of.engines)
    line += " " + std::to_string(part.routed) + "/" + std::to_string(part.steps);
  std::printf("%s\n", line.c_str());
  return 0;
}
