// SPDX-License-Identifier: Apache-2.0
// The flags of sluice-compare.
#include "compare/command_line.hpp"

#include "sluice/workload/seeds.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace compared {

CommandLine::CommandLine()
    : flags_("sluice-compare", "Serves one workload with many systems, simulated, and compares what their users get.") {
  CLI::App& app = flags_.app();
  constexpr std::int64_t many = 1'000'000'000;
  constexpr std::int64_t whole = std::numeric_limits<std::int64_t>::max();
  app.add_option("--preset", options.preset,
                 "a paper's experiment by name, e.g. mirage: a value for every flag that is not given; --list names "
                 "them");
  app.add_option("--trace", options.trace, "a trace file (default: a generated workload, \"demo\")");
  app.add_option("--format", options.format, "its format: azure, mooncake, orbitflow or vllm");
  app.add_option("--lengths", options.lengths,
                 "a generated workload whose lengths the trace's requests get instead of their own");
  app.add_option("--generate", options.generate,
                 "a generated workload instead, e.g. sharegpt:rate=2,requests=200; see docs/workloads.md");
  flags_.whole("--limit", options.limit, 0, whole, "serve the first N requests only");
  flags_.number("--rate-scale", options.rate_scale, 0, false, "divide the arrival times by this (default: 1)");
  app.add_option("--model", options.model,
                 "a model by name, or a folder or file of a Hugging Face config (default: the profile's, or " +
                     std::string{default_model} + ")");
  app.add_option("--device", options.device, "a device by name, or a JSON file")->capture_default_str();
  flags_.whole("--tp", options.tp, 1, 1024,
               "devices that serve the model together, each a part of every layer (default: 1)");
  flags_.whole("--gpus-per-link", options.gpus_per_link, 1, 1024,
               "devices of the group that share one link to the host (default: 1)");
  app.add_option("--all-reduce", options.all_reduce,
                 "measured all-reduces of the group: a CSV of bytes,time_us (default: by the device's figures)");
  app.add_option("--profile", options.profile,
                 "measured times: an OrbitFlow profile (.json) or a folder of kernel times (default: a roofline)");
  flags_.app()
      .add_option("--tenants", options.tenants,
                  "several models in one simulation, each with its share of the device's memory (weights and KV), "
                  "and as much of the host's beside the others': "
                  "opt-13b@0.35,llama2-13b@0.35,llama3-8b@0.2")
      ->delimiter(',');
  flags_.app().add_option(
      "--tenant-load", options.tenant_loads,
      "a generated workload for each tenant, in order, once for each (default: all requests are one "
      "stream, dealt at random)");
  flags_.app().add_option(
      "--sharing", options.sharing,
      "of tenants: in turns or together on one device, each on its part of it (parts), or on devices of "
      "their own (devices) (default: turns)");
  flags_.number("--quantum", options.quantum, 0, false, "seconds of a tenant's turn while others wait (default: 1)");
  flags_.number("--bus", options.bus, 0, false,
                "GB/s to the devices that the tenants share (default: one device's link)");
  flags_.app().add_option(
      "--remap-order", options.remap_order,
      "whose weights Mirage's controller lends first: of the tenant active last (mru) or longest ago (lru) "
      "(default: mru)");
  flags_.number("--link-rate", options.link_rate, 0, false, "GB/s of the link, each way (default: the device's)");
  flags_.number("--memory-share", options.memory_share, 0, false,
                "of the device's memory that is for weights and KV (default: 0.9)");
  flags_.number("--host-memory", options.host_memory, 0, true,
                "GB of the host for KV, of all tenants together (default: the device's host)");
  flags_.whole("--kv-blocks", options.kv_blocks, 1, many,
               "device memory for KV, in token blocks of 16 tokens (all layers; default: the trace's own, 600 for the "
               "demo, or what --memory-share leaves beside the weights)");
  flags_.whole("--batch", options.batch, 1, 1'000'000,
               "requests that run at once (default: the trace's own, 4 for the demo, or 256)");
  flags_.whole("--max-batch-tokens", options.batch_tokens, 1, many,
               "tokens computed in one iteration (default: the trace's own, 32764 for the demo, or 2048)");
  flags_.numbers("--slo-scale", options.slo_scales, 0, false, "of the base SLO; several with commas (default: 1.5)");
  flags_.number("--slo-tbt", options.slo_tbt, 0, false, "the base SLO, seconds per token (default: see --slo-base)");
  app.add_option("--slo-base", options.slo_base,
                 "without --slo-tbt, the base SLO is a decode step with nothing offloaded: budget, of one request that "
                 "fills the KV budget, or batch, of a full batch of the workload's mean lengths")
      ->capture_default_str();
  flags_.number("--slo-ttft", options.slo_ttft, 0, false, "seconds to the first token (default: 5)");
  app.add_option("--systems", options.systems, "names with commas, or all")->capture_default_str();
  app.add_option("--transfer", options.transfer,
                 "every system on this rule: own, next-layer, fair-share, earliest-deadline-first, deadline-pool")
      ->capture_default_str();
  app.add_option("--deposit", options.deposit, "both, on or off: token deposit for every system")
      ->capture_default_str();
  flags_.number("--alpha", options.alpha, 0, true,
                "misses a step that OrbitFlow's plans may take (default: 1, the paper's)");
  flags_.whole("--plan-nodes", options.plan_nodes, 1, many,
               "placements that OrbitFlow's planner evaluates before it takes the best found (default: 5000)");
  flags_.number("--max-pause", options.max_pause, 0, true,
                "seconds after which OrbitFlow's paused requests may return (default: never bounded)");
  flags_.whole("--rotation-blocks", options.rotation_blocks, 0, many,
               "token blocks that one decision of SuperInfer may move beyond the free memory (default: 2400)");
  flags_.number("--lag-alpha", options.lag_alpha, 0, true,
                "SuperInfer: weight of a rotated request's lag beside a waiting one's (default: 3)");
  flags_.number("--lag-first", options.lag_first, 0, true,
                "SuperInfer: share of the first token's SLO after which waiting counts as lag (default: 0.5)");
  flags_.number("--lag-next", options.lag_next, 0, true,
                "SuperInfer: share of the next token's SLO after which a rotated request lags (default: 0)");
  flags_.whole("--interval", options.interval, 1, 100'000,
               "DeepSpeedWeights: of every so many layers one is on the host (default: 1)");
  flags_.whole("--remap-layers", options.remapped, 0, 100'000,
               "the most layers whose memory Mirage lends to KV (default: what the computation hides)");
  app.add_option("--record", options.record,
                 "the performance record that SelectN looks up, made by sluice-profile (default: by its own cost "
                 "model)");
  app.add_option("--out", options.out,
                 "folder for report.html, report.json and the traces; a preset's cases in folders");
  add_seed_flags(flags_, options);
  app.add_option("--baseline", options.baseline,
                 "of several seeds: the system that the others are judged against (default: the best)");
  flags_.whole("--threads", options.threads, 1, 1024, "runs at once (default: one a processor)");
  app.add_option("--table", options.table, "full, or one table of --columns: md or csv")->capture_default_str();
  app.add_option("--columns", options.columns,
                 "of that table, with commas, from the names that --columns help lists; NAME@2 is at SLO scale 2");
  app.add_option("--data", options.data,
                 "folder of the public traces that some presets read (default: data in $SLUICE_SHARED, or in shared "
                 "here or beside)");
  app.add_flag("--list", options.list, "name the systems and the presets, and stop");
  app.add_flag("--dry-run", options.dry_run, "read everything, print what would be run, and stop");
  app.add_flag("--wall-times", options.wall_times,
               "measured planning times into report.json (they differ from run to run)");
  app.add_flag("--quiet", options.quiet, "no progress");
}

void add_seed_flags(Flags& flags, Options& options) {
  flags.whole("--seed", options.seed, 0, std::numeric_limits<std::int64_t>::max(), "of the generator (default: 1)");
  flags
      .other("--seeds",
             "several, such as 1..20 or 1,2,5: a workload each, means with 95 % intervals, differences judged in pairs",
             [&options](const std::string& text) -> std::string {
               sluice::Expected<std::vector<std::uint64_t>> seeds = sluice::parse_seeds(text);
               if (!seeds) return seeds.error().expected;
               options.seeds = *std::move(seeds);
               return {};
             })
      ->excludes("--seed");
  flags.app().add_option(
      "--resample", options.resample,
      "how a seed draws a trace again: blocks of consecutive requests (blocks, or blocks:N of N), or "
      "the arrivals alone (arrivals) (default: blocks with --seeds, else as recorded)");
}

std::optional<int> CommandLine::parse(const std::vector<std::string>& words) {
  std::vector<std::string> all{"sluice-compare"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  if (const std::optional<int> status = flags_.parse(static_cast<int>(pointers.size()), pointers.data())) return status;
  if (options.slo_scales.empty()) options.slo_scales = {1.5};
  return std::nullopt;
}

namespace {

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

} // namespace

std::string shell_line(const std::vector<std::string>& words) {
  std::string line = "sluice-compare";
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

} // namespace compared
