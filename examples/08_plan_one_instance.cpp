// SPDX-License-Identifier: Apache-2.0
// plan_one_instance: the planner used directly, on one problem that fits on a page.
//
// The problem: three requests decode together and their KV does not fit the device, so in some layers it stays on the
// host and is fetched just before that layer computes. Which layers of which request? Goals of this program: state the
// planning problem as plain numbers, without an engine; print the planner's answer with its proof; evaluate a placement
// of your own with the same evaluator; and show where exactly the step waits. sluice-plan does this for problems in
// files.
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
  instance.link_blocks_per_s = 60'000;             // and 60 blocks cross the link in that time
  instance.device_blocks = device_blocks;
  instance.requests = {{.blocks = LayerBlocks{90}}, {.blocks = LayerBlocks{50}}, {.blocks = LayerBlocks{20}}};
  return instance;
}

/// The evaluator's account of one step: how long each layer waited, and why.
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

/// Prints a placement as a picture, with its cost from the evaluator that defines the planner's objective.
template <class Rule>
void show(const char* title, const Instance& instance, std::span<const LayerSet> offloaded) {
  PlacementEvaluator evaluator{transfer_rule_of<Rule>};
  Stalls stalls;
  const PlacementCost cost = evaluator.explain<Rule>(instance, offloaded, stalls);
  fmt::print("{}, for a device of {} blocks:\n", title, instance.device_blocks.count());
  for (std::size_t r = 0; r < offloaded.size(); ++r) {
    std::string picture;
    for (int layer = 0; layer < layers; ++layer) picture += offloaded[r].contains(layer) ? '.' : '#';
    fmt::print("  {} of {:>2} blocks per layer  {}\n", static_cast<char>('A' + r), instance.requests[r].blocks.count(),
               picture);
  }
  fmt::print("  memory: {:.0f} blocks resident and {:.0f} in flight, of {}: {}\n", cost.resident_blocks,
             cost.buffer_blocks, instance.device_blocks.count(), cost.fits ? "fits" : "does not fit");
  if (!std::isfinite(cost.step.step_s)) {
    fmt::print("  no step: one layer fetches more than the free memory\n\n");
    return;
  }
  fmt::print("  a step takes {:.2f} ms, of which {:.2f} ms are stalls\n", 1e3 * cost.step.step_s,
             1e3 * cost.step.stall_s);
  if (cost.step.stall_s > 0)
    fmt::print(
        "  layers wait, in ms:{}\n  of them {} for the link, which was busy the whole time, and {} for room on the "
        "device\n",
        stalls.by_layer, stalls.for_link, stalls.for_room);
}

} // namespace

int main() {
  using Rule = DeadlinePool; // the order of transfers, and how much device memory all of them may use
  fmt::print("{} layers of 1 ms; # is on the device, . on the host\n\n", layers);

  // The obvious placement: offload the longest request completely.
  const std::vector<LayerSet> longest{LayerSet::all(layers), {}, {}};
  show<Rule>("by hand, the longest offloaded", three_requests(LayerBlocks{1'500}), longest);
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
      fmt::print("no plan for {} blocks: the limit is {}\n", device_blocks, name_of(plan.binding));
      continue;
    }
    show<Rule>("planned", instance, plan.offloaded);
    fmt::print("  no placement of the space is shorter than {:.2f} ms: {}, by {} nodes; the limit is: "
               "{}\n\n",
               1e3 * plan.lower_bound_s, plan.proven_optimal ? "proven" : "the search stopped before the proof",
               plan.nodes, name_of(plan.binding));
  }
  if (std::fflush(stdout) != 0) return std::perror("plan_one_instance: standard output"), 2;
  return 0;
}
