// SPDX-License-Identifier: Apache-2.0
// prepare_seeds: prepares one comparison with several workloads.
#include "sluice/core/text.hpp"

#include "compare/comparison.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

/// Returns the flags of the same comparison of the trace as recorded: without --seeds, --windows and --resample. With
/// --limit it serves the first requests alone, as a user would have without those flags. Rejected: the whole trace, of
/// which a limit of 300 is a sixtieth.
Options as_recorded(Options options) {
  WorkloadOptions& workload = options.workload;
  workload.seed = workload.seeds.front(); // draws SLO classes and lengths
  workload.seeds.clear();
  workload.seed_stated = false;
  workload.resample.reset();
  workload.windows = 0;
  return options;
}

} // namespace

Expected<Comparison> prepare_seeds(const Options& options, const std::string& command) {
  Options one = options;
  if (!options.workload.seeds.empty()) one.workload.seed = options.workload.seeds.front();
  Expected<Comparison> first = prepare(one, command);
  if (!first) return first;
  std::vector<std::string_view> names;
  for (const System* system : first->systems) names.push_back(system->name);
  if (!options.baseline.empty() && std::find(names.begin(), names.end(), options.baseline) == names.end())
    return flag_error("--baseline",
                      fmt::format("'{}' is not among the systems{}", excerpt(options.baseline),
                                  did_you_mean(options.baseline, names)),
                      "the name of a system that is compared");
  if (!options.baseline.empty() && options.workload.seeds.size() < 2)
    return flag_error("--baseline", "one seed gives no intervals to compare systems by",
                      "--seeds as well, such as 1..8");
  if (options.workload.seeds.size() < 2) return first;
  Comparison all = *std::move(first);
  all.workload.seeds = options.workload.seeds;
  for (auto& [label, text] : all.workload.notes)
    if (label == "Requests") text = fmt::format("seed {}: {}", options.workload.seeds.front(), text);
  all.redrawn.push_back(all.setup);
  for (std::size_t i = 1; i < options.workload.seeds.size(); ++i) {
    one.workload.seed = options.workload.seeds[i];
    Expected<Comparison> next = prepare(one, command);
    if (!next) return next;
    all.redrawn.push_back(std::move(next->setup));
    all.redrawn.back().slo_classes = all.setup.slo_classes;
  }
  if (all.workload.redrawn.empty()) return all;
  const Expected<Comparison> recorded = prepare(as_recorded(options), command);
  if (!recorded) { // such as --warmup beyond them
    all.workload.notes.emplace_back("As recorded", "did not run: " + recorded.error().what);
    return all;
  }
  const std::int64_t served = recorded->workload.requests, from = options.workload.offset;
  all.as_recorded = {recorded->setup,
                     fmt::format("the trace's {} requests{}",
                                 options.workload.limit ? fmt::format("first {}", served) : fmt::format("{}", served),
                                 from > 0 ? fmt::format(" from number {}", from + 1) : "")};
  all.as_recorded->setup.slo_classes = all.setup.slo_classes;
  return all;
}

} // namespace compared
