// SPDX-License-Identifier: Apache-2.0
// sluice-compare: serves one workload with many systems, and shows which of them meets its users' SLOs, and why.
//
// The problem: the KV of a batch outgrows the device, and every system has another answer. Goals of this program: one
// command from a trace to a table that compares them alike; a report that one would rather look at than read; and to
// show how an engine is configured, fed and observed (compare/run_engine.hpp, forty lines).
#include "compare/comparison.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace {

using namespace sluice;
using compared::Comparison;
using compared::Options;

void list_systems() {
  for (const compared::System& system : compared::systems()) fmt::print("{:<22} {}\n", system.name, system.what);
}

int fail(const Error& error) {
  std::fprintf(stderr, "sluice-compare: %s\n", error.line().c_str());
  return 2;
}

int run(const Options& options, const std::string& command) {
  const Expected<Comparison> comparison = prepare(options, command);
  if (!comparison) return fail(comparison.error());
  if (!options.out.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(std::filesystem::path{options.out} / "traces", failed);
    if (failed)
      return fail(compared::flag_error("--out", "the folder " + options.out + " cannot be made",
                                       "a path that can be written to"));
  }
  const Expected<ComparisonReport> report = compare_all(options, *comparison);
  if (!report) return fail(report.error());
  if (Status published = publish(options, *report); !published) return fail(published.error());
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Serves one workload with many systems, simulated, and compares what their users get."};
  app.add_option("--trace", options.trace, "a trace file");
  app.add_option("--format", options.format, "its format: azure, mooncake, orbitflow or vllm");
  app.add_option("--generate", options.generate,
                 "a generated workload instead, e.g. sharegpt:rate=2,requests=200; see docs/workloads.md");
  app.add_option("--limit", options.limit, "serve the first N requests only");
  app.add_option("--rate-scale", options.rate_scale, "divide the arrival times by this");
  app.add_option("--model", options.model, "a model by name, or a folder or file of a Hugging Face config")
      ->capture_default_str();
  app.add_option("--device", options.device, "a device by name, or a JSON file")->capture_default_str();
  app.add_option("--profile", options.profile,
                 "measured times: an OrbitFlow profile (.json) or a folder of kernel times");
  app.add_option("--kv-blocks", options.kv_blocks, "device memory for KV, in token blocks of 16 tokens (all layers)");
  app.add_option("--batch", options.batch, "requests that run at once");
  app.add_option("--max-batch-tokens", options.batch_tokens, "tokens computed in one iteration");
  app.add_option("--slo-scale", options.slo_scales, "of the base SLO; several with commas")->delimiter(',');
  app.add_option("--slo-tbt", options.slo_tbt,
                 "the base SLO, seconds per token (default: a step that fills the budget)");
  app.add_option("--slo-ttft", options.slo_ttft, "seconds to the first token")->capture_default_str();
  app.add_option("--systems", options.systems, "names with commas, or all")->capture_default_str();
  app.add_option("--transfer", options.transfer,
                 "every system on this rule: own, next-layer, fair-share, earliest-deadline-first, deadline-pool")
      ->capture_default_str();
  app.add_option("--deposit", options.deposit, "both, on or off: token deposit for every system")
      ->capture_default_str();
  app.add_option("--alpha", options.alpha, "misses a step that OrbitFlow's plans may take (1 in the paper)")
      ->capture_default_str();
  app.add_option("--max-pause", options.max_pause,
                 "seconds after which OrbitFlow's paused requests may return (default: never bounded)");
  app.add_option("--rotation-blocks", options.rotation_blocks,
                 "token blocks that one decision of SuperInfer may move beyond the free memory (default: 2400)");
  app.add_option("--out", options.out, "folder for report.html, report.json and the traces");
  app.add_option("--seed", options.seed, "of the generator")->capture_default_str();
  app.add_flag("--list", options.list, "name the systems, and stop");
  app.add_flag("--wall-times", options.wall_times,
               "measured planning times into report.json (they differ from run to run)");
  app.add_flag("--quiet", options.quiet, "no progress");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "sluice-compare: %s; expected the flags of --help\n", error.what());
    return 2;
  }
  if (options.list) {
    list_systems();
    return 0;
  }
  if (options.slo_scales.empty()) options.slo_scales = {1.5};
  std::string command = "sluice-compare";
  for (int i = 1; i < argc; ++i) command += std::string{" "} + argv[i];
  return run(options, command);
}
