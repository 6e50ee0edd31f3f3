// SPDX-License-Identifier: Apache-2.0
// plan_one_instance: the planner by hand, on one problem that fits on a page.
//
// The problem: three requests decode together, their KV does not fit the device, so in some layers it waits on the host
// and is fetched just before that layer computes. Which layers, of which request? Goals of this program: the planning
// problem as plain numbers, without an engine; the planner's answer with its proof; the same evaluator asked about a
// placement of one's own; and where exactly the step waits. sluice-plan does this for problems in files.
#include "sluice/simulation.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace sluice;

constexpr int layers = 12;

Instance three_requests(LayerBlocks device_blocks) {
  Instance instance;
  instance.layer_compute_s.assign(layers, 1.0e-3); // each layer computes for a millisecond
  instance.link_blocks_per_s = 60'000;             // and 60 blocks cross the link meanwhile
  instance.device_blocks = device_blocks;
  instance.requests = {{.blocks = LayerBlocks{90}}, {.blocks = LayerBlocks{50}}, {.blocks = LayerBlocks{20}}};
  return instance;
}

/// What the evaluator tells of one step: how long each layer waited, and for what.
struct Stalls {
  static constexpr bool enabled = true;
  std::string by_layer;
  int for_link = 0, for_room = 0;

  void layer(int /*layer*/, double /*start_s*/, double /*end_s*/, double stall_s, StallCause cause) {
    by_layer += fmt::format(" {:.2f}", 1e3 * stall_s);
    if (stall_s > 0) ++(cause == StallCause::link ? for_link : for_room);
  }
  void transfer(int /*stream*/, int /*layer*/, double /*start_s*/, double /*end_s*/) {}
};

/// A placement as a picture, and what it costs, by the evaluator that the planner has as its objective.
template <class Rule>
void show(const char* title, const Instance& instance, std::span<const LayerSet> offloaded) {
  PlacementEvaluator evaluator{transfer_rule_of<Rule>};
  Stalls stalls;
  const PlacementCost cost = evaluator.explain<Rule>(instance, offloaded, stalls);
  fmt::print("{}, for a device of {} blocks:\n", title, instance.device_blocks.count());
  for (std::size_t r = 0; r < offloaded.size(); ++r) {
    std::string picture;
    for (int layer = 0; layer < layers; ++layer) picture += offloaded[r].contains(layer) ? '.' : '#';
    fmt::print("  {} of {:>2} blocks a layer  {}\n", static_cast<char>('A' + r), instance.requests[r].blocks.count(),
               picture);
  }
  fmt::print("  memory: {:.0f} blocks resident and {:.0f} in flight, of {}: {}\n", cost.resident_blocks,
             cost.buffer_blocks, instance.device_blocks.count(), cost.fits ? "fits" : "does not fit");
  if (!std::isfinite(cost.step.step_s)) {
    fmt::print("  no step: what one layer fetches is more than the room there is\n\n");
    return;
  }
  fmt::print("  a step takes {:.2f} ms, of which {:.2f} ms are stalls\n", 1e3 * cost.step.step_s,
             1e3 * cost.step.stall_s);
  if (cost.step.stall_s > 0)
    fmt::print("  layers wait, in ms:{}\n  of them {} for the link, which was busy all along, and {} for room on the "
               "device\n",
               stalls.by_layer, stalls.for_link, stalls.for_room);
}

} // namespace

int main() {
  using Rule = DeadlinePool; // which transfer is next, and how much of the device's room all of them may use
  fmt::print("{} layers of 1 ms; # is on the device, . on the host\n\n", layers);

  // What comes to mind first: the longest request goes to the host, whole.
  const std::vector<LayerSet> longest{LayerSet::all(layers), {}, {}};
  show<Rule>("by hand, the longest away", three_requests(LayerBlocks{1'500}), longest);
  fmt::print("\n");

  // The space is OrbitFlow's: every k-th layer of a request, any k. One planner solves many instances.
  Planner planner{candidate_space_of<DistanceSpace>, search_rule_of<Rule>};
  for (const std::int64_t device_blocks : {1'500, 1'400, 1'200, 100}) {
    const Instance instance = three_requests(LayerBlocks{device_blocks});
    if (const Status status = check(instance); !status) {
      fmt::print(stderr, "plan_one_instance: {}\n", status.error().line());
      return 2;
    }
    const Solution& plan = planner.solve(instance);
    if (!plan.feasible) {
      fmt::print("no plan for {} blocks: what stands in the way is {}\n", device_blocks, name_of(plan.binding));
      continue;
    }
    show<Rule>("planned", instance, plan.offloaded);
    fmt::print("  no placement of the space is shorter than {:.2f} ms: {}, by {} nodes; a better one is kept away by: "
               "{}\n\n",
               1e3 * plan.lower_bound_s, plan.proven_optimal ? "proven" : "the search was stopped before the proof",
               plan.nodes, name_of(plan.binding));
  }
  if (std::fflush(stdout) != 0) return std::perror("plan_one_instance: standard output"), 2;
  return 0;
}
