// SPDX-License-Identifier: Apache-2.0
// sluice-compare: serves one workload with many systems, and shows which of them meets its users' SLOs, and why.
//
// The problem: the KV of a batch outgrows the device, and every system has another answer. Goals of this program: one
// command from a trace to a table that compares them alike; a report that one would rather look at than read; and to
// show how an engine is configured, fed and observed (compare/run_engine.hpp, forty lines).
#include "compare/comparison.hpp"
#include "flags.hpp"
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace {

using namespace sluice;
using compared::Comparison;
using compared::Options;

void list_systems() {
  for (const compared::System& system : compared::systems()) fmt::print("{:<22} {}\n", system.name, system.what);
}

/// An argument as a shell takes it back.
std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char character : text)
    if (character == '\'')
      quoted += "'\\''";
    else
      quoted += character;
  return quoted + "'";
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
  Flags flags{"sluice-compare", "Serves one workload with many systems, simulated, and compares what their users get."};
  CLI::App& app = flags.app();
  constexpr std::int64_t many = 1'000'000'000;
  app.add_option("--trace", options.trace, "a trace file (default: a generated workload, \"demo\")");
  app.add_option("--format", options.format, "its format: azure, mooncake, orbitflow or vllm");
  app.add_option("--generate", options.generate,
                 "a generated workload instead, e.g. sharegpt:rate=2,requests=200; see docs/workloads.md");
  flags.whole("--limit", options.limit, 0, std::numeric_limits<std::int64_t>::max(), "serve the first N requests only");
  flags.number("--rate-scale", options.rate_scale, 0, false, "divide the arrival times by this (default: 1)");
  app.add_option("--model", options.model,
                 "a model by name, or a folder or file of a Hugging Face config (default: the profile's, or " +
                     std::string{compared::default_model} + ")");
  app.add_option("--device", options.device, "a device by name, or a JSON file")->capture_default_str();
  flags.whole("--tp", options.tp, 1, 1024,
              "devices that serve the model together, each a part of every layer (default: 1)");
  flags.whole("--gpus-per-link", options.gpus_per_link, 1, 1024,
              "devices of the group that share one link to the host (default: 1)");
  app.add_option("--all-reduce", options.all_reduce,
                 "measured all-reduces of the group: a CSV of bytes,time_us (default: by the device's figures)");
  app.add_option("--profile", options.profile,
                 "measured times: an OrbitFlow profile (.json) or a folder of kernel times (default: a roofline)");
  flags.whole("--kv-blocks", options.kv_blocks, 1, many,
              "device memory for KV, in token blocks of 16 tokens (all layers; default: the trace's own, 600 for the "
              "demo, or what 0.9 of the device holds beside the weights)");
  flags.whole("--batch", options.batch, 1, 1'000'000,
              "requests that run at once (default: the trace's own, 4 for the demo, or 256)");
  flags.whole("--max-batch-tokens", options.batch_tokens, 1, many,
              "tokens computed in one iteration (default: the trace's own, 32764 for the demo, or 2048)");
  flags.numbers("--slo-scale", options.slo_scales, 0, false, "of the base SLO; several with commas (default: 1.5)");
  flags.number("--slo-tbt", options.slo_tbt, 0, false,
               "the base SLO, seconds per token (default: a step that fills the budget)");
  flags.number("--slo-ttft", options.slo_ttft, 0, false, "seconds to the first token (default: 5)");
  app.add_option("--systems", options.systems, "names with commas, or all")->capture_default_str();
  app.add_option("--transfer", options.transfer,
                 "every system on this rule: own, next-layer, fair-share, earliest-deadline-first, deadline-pool")
      ->capture_default_str();
  app.add_option("--deposit", options.deposit, "both, on or off: token deposit for every system")
      ->capture_default_str();
  flags.number("--alpha", options.alpha, 0, true,
               "misses a step that OrbitFlow's plans may take (default: 1, the paper's)");
  flags.number("--max-pause", options.max_pause, 0, true,
               "seconds after which OrbitFlow's paused requests may return (default: never bounded)");
  flags.whole("--rotation-blocks", options.rotation_blocks, 0, many,
              "token blocks that one decision of SuperInfer may move beyond the free memory (default: 2400)");
  app.add_option(
      "--record", options.record,
      "the performance record that SelectN looks up, made by sluice-profile (default: by its own cost model)");
  app.add_option("--out", options.out, "folder for report.html, report.json and the traces");
  flags.whole("--seed", options.seed, 0, std::numeric_limits<std::int64_t>::max(), "of the generator (default: 1)");
  app.add_flag("--list", options.list, "name the systems, and stop");
  app.add_flag("--wall-times", options.wall_times,
               "measured planning times into report.json (they differ from run to run)");
  app.add_flag("--quiet", options.quiet, "no progress");
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  if (options.list) {
    list_systems();
    return 0;
  }
  if (options.slo_scales.empty()) options.slo_scales = {1.5};
  std::string command = "sluice-compare";
  for (int i = 1; i < argc; ++i) command += " " + shell_word(argv[i]);
  return run(options, command);
}
