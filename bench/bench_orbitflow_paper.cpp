// SPDX-License-Identifier: Apache-2.0
// OrbitFlow's Fig. 15: the loss from restricting placements to distances. Runs OrbitFlow on its artifact's traces and
// solves a sample of the planner's inputs again, over all even placements and over any placements. Prints a table of
// docs/reproductions.md.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/orbitflow.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"
#include "sluice/policy/cost/nlohmann/orbitflow_profile.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "shared/flag_errors.hpp"
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace sluice;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// One planner's answers, compared with those of the pruned space.
struct Beside {
  std::int64_t identical = 0, as_long = 0, shorter = 0, longer = 0;
  std::int64_t between = 0; ///< shorter plans in which some request has a number of layers that no distance gives
  std::int64_t proven = 0;
  double seconds = 0;
  std::vector<double> gains; ///< of the shorter plans, relative
};

/// The inputs that were solved again. Global, because the engine constructs its planners itself.
struct Sample {
  std::int64_t every = 1, most = 0, nodes = 0; ///< inputs per sampled one; limits of inputs and of nodes per search
  std::int64_t inputs = 0, fit = 0, asked = 0, taken = 0; ///< inputs with a plan; of these, those with nothing
                                                          ///< offloaded; the others
  double seconds = 0;                                     ///< spent in the pruned space
  Beside even{}, any{};
};
Sample sample;

constexpr double same = 1e-4; // relative: plans that differ by less count as equally long

template <class Space, class Rule>
void solve_beside(const Instance& instance, const Solution& pruned, ExactSearch<Space, Rule>& planner, Beside& out) {
  const double begin = cpu_seconds();
  const Solution& other = planner.solve(instance);
  out.seconds += cpu_seconds() - begin;
  out.proven += other.proven_optimal;
  if (!other.feasible || other.step_s > pruned.step_s * (1 + same)) {
    ++out.longer;
  } else if (other.step_s < pruned.step_s * (1 - same)) {
    ++out.shorter;
    out.gains.push_back(pruned.step_s / other.step_s - 1);
    std::vector<LayerSet> distances;
    DistanceSpace::candidates(instance.movable(), distances);
    const auto by_distance = [&](const LayerSet& set) {
      return std::any_of(distances.begin(), distances.end(),
                         [&](const LayerSet& one) { return one.count() == set.count(); });
    };
    out.between += !std::all_of(other.offloaded.begin(), other.offloaded.end(), by_distance);
  } else if (other.offloaded == pruned.offloaded) {
    ++out.identical;
  } else {
    ++out.as_long;
  }
}

/// OrbitFlow's planner; it passes a sample of its inputs to the other planners.
template <class Space, class Rule>
struct Sampling {
  const Solution& solve(const Instance& instance, const Hint& hint) {
    const double begin = cpu_seconds();
    const Solution& solution = pruned.solve(instance, hint);
    const double took = cpu_seconds() - begin;
    // If everything fits, only one plan makes sense.
    const bool chosen = solution.feasible && std::any_of(solution.offloaded.begin(), solution.offloaded.end(),
                                                         [](const LayerSet& set) { return set.count() > 0; });
    sample.inputs += solution.feasible;
    sample.fit += solution.feasible && !chosen;
    if (chosen && sample.taken < sample.most && ++sample.asked % sample.every == 0) {
      ++sample.taken;
      sample.seconds += took;
      again = instance;
      again.node_limit = sample.nodes;
      solve_beside(again, solution, even, sample.even);
      solve_beside(again, solution, any, sample.any);
    }
    return solution;
  }
  ExactSearch<Space, Rule> pruned;
  ExactSearch<EvenSpace, Rule> even;
  ExactSearch<FreeSpace, Rule> any;
  Instance again;
};

using Sampled = With<OrbitFlow, BasicDistancePlacement<DistanceSpace, SloBound::enforced, Sampling>, LinearProfile,
                     BasicSimulated<LinearProfile>>;

Status run(const std::string& trace, const LinearProfile& cost, const ModelShape& model, const Device& device) {
  const Expected<OrbitFlowHeader> header = read_orbitflow_header(trace);
  if (!header) return header.error();
  const Server server{model,
                      device,
                      header->budget,
                      {.batch = static_cast<int>(header->batch_size), .batch_tokens = header->max_model_len}};
  Work full;
  full.decodes = full.samples = 1;
  full.decode_context = Tokens{header->budget.count() * server.limits.block_tokens.count()};
  const Seconds step = cost.step(full).total(model.layers);
  Expected<Trace> requests =
      open_trace(trace, TraceFormat::orbitflow, {.slo = {.ttft = Seconds{5}, .tbt = step * 1.5}}, step);
  if (!requests) return requests.error();
  Expected<Sampled> engine = Sampled::make(configure<Sampled>(server, cost));
  if (!engine) return engine.error();
  return simulate(*engine, *requests);
}

void print(const char* name, const Beside& of) {
  const auto share = [](std::int64_t count) {
    return 100.0 * static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(sample.taken, 1));
  };
  std::vector<double> gains = of.gains;
  std::sort(gains.begin(), gains.end());
  fmt::print("| {} | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {} | {:.0f} % | {:.1f} % | {:.1f} |\n", name,
             share(of.identical), share(of.as_long), share(of.shorter), share(of.longer),
             gains.empty() ? std::string{"-"} : fmt::format("{:.2f} %", 100 * gains[gains.size() / 2]),
             gains.empty() ? 0.0 : 100.0 * static_cast<double>(of.between) / static_cast<double>(gains.size()),
             share(of.proven), of.seconds / sample.seconds);
}

} // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const char* shared = std::getenv("SLUICE_SHARED");
  std::string data = shared != nullptr && *shared != '\0' ? (fs::path{shared} / "data").string() : "shared/data";
  sample.every = 1;
  sample.most = 1000;
  sample.nodes = 20'000;
  CLI::App app{"OrbitFlow's Fig. 15: compares placements by distance with any placements, on the planner's own inputs"};
  app.add_option("--data", data, "folder of the public traces and profiles");
  app.add_option("--every", sample.every, "solve every N-th input again");
  app.add_option("--most", sample.most, "at most N inputs of each trace");
  app.add_option("--nodes", sample.nodes, "end each search after N nodes");
  if (const std::optional<int> status = parse_or_say(app, argc, argv)) return *status;

  const ModelShape model = llama3_8b();
  const Device device = a5000();
  const Expected<LinearProfile> cost =
      read_orbitflow_profile((fs::path{data} / "profiles/orbitflow/profiled_results_A5000.json").string(), model,
                             device.compute_rate(RooflineEfficiency{}.compute));
  const auto failed = [](const Error& error) {
    fmt::print(stderr, "bench_orbitflow_paper: {}\n", error.line());
    return 2;
  };
  if (!cost) return failed(cost.error());
  const std::int64_t each = sample.most;
  for (const char* trace : {"32k_lambda1.0x_cv1.json", "32k_lambda2.0x_cv1.json"}) {
    sample.most = sample.taken + each;
    const Status ran = run((fs::path{data} / "traces/orbitflow" / trace).string(), *cost, model, device);
    if (!ran) return failed(ran.error());
  }
  fmt::print("Fig. 15: {} of the planner's inputs in which something is offloaded, at SLO x1.5 ({} of {} need nothing "
             "offloaded); searches of {} nodes at most\n\n",
             sample.taken, sample.fit, sample.inputs, sample.nodes);
  fmt::print("| beside distances | the same plan | as long | shorter | longer | by, median | of these with a count "
             "between | proven | time |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  print("even placements", sample.even);
  print("any placement", sample.any);
  return 0;
}
