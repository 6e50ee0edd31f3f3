// SPDX-License-Identifier: Apache-2.0
// The flags of sluice-run.
#include "run/options.hpp"

#include "shared/link_flag.hpp"
#include "shared/shell_word.hpp"
#include "shared/trace_at.hpp"
#include "shared/trace_flags.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace running {

using sluice::Error;
using sluice::ErrorCode;
using sluice::Status;

Error flag_error(std::string flag, std::string what, std::string expected) {
  return {ErrorCode::bad_input, std::move(flag), std::move(what), std::move(expected)};
}

namespace {

void add_requests(Flags& flags, Options& options) {
  CLI::App& app = flags.app();
  app.add_option(
         "--model", options.model,
         "a Hugging Face folder (config.json, *.safetensors, tokenizer.json), tiny: a small random Llama, or demo: "
         "a small Llama that speaks")
      ->capture_default_str();
  flags.whole("--random-weights", options.random_weights, 0, std::numeric_limits<std::int64_t>::max(),
              "draw the weights from this seed: --model is then a name, such as llama3-8b, or a folder's config.json");
  app.add_option("--prompt", options.prompts, "a prompt's text; may be given more than once")->allow_extra_args(false);
  app.add_option("--prompt-ids", options.prompt_ids, "a prompt's tokens, e.g. 1,2,3; may be given more than once")
      ->allow_extra_args(false);
  app.add_flag("--chat", options.chat, "prompts are a user's messages, in the model's chat format");
  add_trace_flags(flags, options,
                  "arrivals and lengths of a trace file instead of prompts; prompts are then random tokens of --seed");
  flags.whole("--limit", options.limit, 0, std::numeric_limits<std::int64_t>::max(), "serve the first N requests only");
  flags.number("--rate-scale", options.rate_scale, 0, false, "divide the arrival times by this (default: 1)");
  app.add_flag("--no-wait", options.no_wait, "time with nothing to run passes at once");
  flags.whole("--max-tokens", options.max_tokens, 1, 1 << 28,
              "tokens to generate (default: 32; of a trace: as many as it says)");
  app.add_flag("--ignore-end", options.ignore_end, "generate as many tokens, also after an end token (a trace's do)");
  flags.number("--temperature", options.sampling.temperature, 0, true,
               "of sampling; 0 takes the likeliest token (default: 0)");
  flags.whole("--top-k", options.top_k, 0, 1 << 30, "sample of the N likeliest tokens; 0: of all (default: 0)");
  flags.number("--top-p", options.top_p, 0, false,
               "sample of the likeliest tokens that have this probability together (default: 1)");
  flags.whole("--seed", options.seed, 0, std::numeric_limits<std::int64_t>::max(),
              "of sampling, and of a trace's prompts (default: 0)");
}

} // namespace

void add_machine(Flags& flags, Options& options) {
  CLI::App& app = flags.app();
  app.add_option("--system", options.system, "who decides what is where; --list names them")->capture_default_str();
  app.add_option("--backend", options.backend,
                 "what computes: cpu, or cuda: the first GPU, in a build with CUDA, where the memories are the GPU's "
                 "and pinned memory of the host")
      ->capture_default_str();
  flags.size("--device-memory", options.device_memory, 0,
             "the device's: weights (unless they stream), KV and buffers, e.g. 64MiB (default: what the largest batch "
             "needs)");
  flags.size("--kv-memory", options.kv_memory, 0, "the same, said by its part for KV: beside all weights and buffers");
  flags.size("--host-memory", options.host_memory, 0,
             "the host's memory for KV, e.g. 64GB (default: enough, at most half of this machine's)");
  add_link(flags, options.link);
  app.add_option("--lanes", options.lanes,
                 "of the link: each-way (a GPU's default), or one that both ways share (shared)")
      ->capture_default_str();
  app.add_option("--products", options.products,
                 "of a GPU, what multiplies: invariant, by which a token does not depend on the batch and every system "
                 "generates the same, or fast, which is cuBLASLt")
      ->capture_default_str();
  flags.size(
      "--gather-below", options.gather_below, 0,
      "of --backend cuda: copies of fewer bytes are made by a kernel, many in a launch; 0: none (default: measured "
      "at the start)");
  app.add_flag("--no-graphs", options.no_graphs,
               "of a GPU: launch every kernel by itself, where small iterations would be CUDA graphs (vLLM's "
               "--enforce-eager)");
  flags.whole("--threads", options.threads, 1, 1024, "that compute (default: 1)");
  flags.whole("--batch", options.batch, 1, 1'000'000, "requests that run at once (default: 16)");
  flags.whole("--max-batch-tokens", options.batch_tokens, 1, 1 << 20,
              "tokens computed in one iteration (default: 256)");
  app.add_option("--profile", options.profile,
                 "what planners believe of this machine: a folder that sluice-profile --measure wrote (default: a "
                 "roofline, measured at the start)");
  flags.number("--slo-tbt", options.slo_tbt, 0, false,
               "seconds per token that users are promised (default: no promise)");
  flags.number("--slo-ttft", options.slo_ttft, 0, false, "seconds to the first token (default: no promise)");
}

void conclude_machine(Flags& flags, Options& options) {
  const bool stated = flags.app().count("--lanes") > 0;
  if (options.backend == "cuda" && !stated) options.lanes = "each-way"; // as every GPU's link is
}

std::optional<int> parse_options(int argc, char** argv, Options& options) {
  Flags flags("sluice-run", "Generates text on this machine under a system's policies: real tokens, and real bytes "
                            "between two memories.");
  CLI::App& app = flags.app();
  add_requests(flags, options);
  add_machine(flags, options);
  app.add_option("--calibrate", options.calibrate,
                 "on: planners learn from what layers take in this run; off: they believe what was measured before it "
                 "(default: on, but off with --profile)");
  app.add_option("--logits", options.logits, "write the logits of every token generated: float32, NumPy's .npy");
  app.add_option("--timeline", options.timeline, "write a trace of the run for ui.perfetto.dev");
  add_trace_at(flags, options.trace_at);
  app.add_option("--decisions", options.decisions, "write a line for each decision");
  app.add_option("--record-clock", options.record_clock,
                 "write what the engine was told of time: --replay-clock tells it again. With --profile");
  app.add_option("--replay-clock", options.replay_clock,
                 "compute nothing: decide as the run of this record did, in its times");
  app.add_option("--out", options.out,
                 "folder for report.json and tables as CSV: requests, iterations, memory and queue over time");
  app.add_flag("--json", options.json, "what came of it as JSON, and nothing else");
  app.add_flag("--list", options.list, "name the systems, say what tiny is, and stop");
  app.add_flag("--verbose", options.verbose, "what was measured and how memory is divided, on standard error");
  if (const std::optional<int> status = flags.parse(argc, argv)) return status;
  options.command = "sluice-run";
  for (int i = 1; i < argc; ++i) options.command += " " + shell_word(argv[i]);
  conclude_machine(flags, options);
  options.sampling.top_k = options.top_k.value_or(options.sampling.top_k);
  options.sampling.top_p = options.top_p.value_or(options.sampling.top_p);
  options.sampling.seed = options.seed.value_or(options.sampling.seed);
  return std::nullopt;
}

namespace {

/// A flag that would change nothing is a misunderstanding: it is refused, not ignored.
Status check_heeded(const Options& options) {
  if (!options.from_trace())
    for (const auto& [flag, given] : {std::pair{"--format", !options.format.empty()},
                                      {"--trace-columns", !options.trace_columns.empty()},
                                      {"--limit", options.limit.has_value()},
                                      {"--rate-scale", options.rate_scale.has_value()},
                                      {"--no-wait", options.no_wait}})
      if (given) return flag_error(flag, "no trace is given", "--trace as well");
  if (options.sampling.temperature == 0)
    for (const auto& [flag, given] : {std::pair{"--top-k", options.top_k.has_value()},
                                      {"--top-p", options.top_p.has_value()},
                                      {"--seed", options.seed.has_value() && !options.from_trace()}})
      if (given)
        return flag_error(flag, "at temperature 0 the likeliest token is taken, and nothing is drawn",
                          "--temperature above 0 as well");
  return {};
}

Status check_backend(const Options& options) {
  if (options.backend == "cpu") {
    if (options.gather_below)
      return flag_error("--gather-below", "a processor copies by itself", "--backend cuda as well");
    return {};
  }
  if (options.backend != "cuda")
    return flag_error("--backend", "it is '" + sluice::excerpt(options.backend) + "'", "cpu or cuda");
  for (const auto& [flag, given, why] : {std::tuple{"--link", options.link > 0, "a GPU's link is as fast as it is"},
                                         {"--threads", options.threads != 1, "a GPU computes"}})
    if (given) return flag_error(flag, std::string{"with --backend cuda "} + why, "one of the two");
  return {};
}

} // namespace

sluice::Products products_of(const Options& options) {
  return options.products == "fast" ? sluice::Products::fast : sluice::Products::invariant;
}

Status check_machine(const Options& options) {
  if (options.lanes != "shared" && options.lanes != "each-way")
    return flag_error("--lanes", "it is '" + sluice::excerpt(options.lanes) + "'", "each-way or shared");
  if (options.products != "invariant" && options.products != "fast")
    return flag_error("--products", "it is '" + sluice::excerpt(options.products) + "'", "invariant or fast");
  if (options.products == "fast" && options.backend == "cpu")
    return flag_error("--products", "a processor has only the invariant products", "--backend cuda as well");
  if (options.no_graphs && options.backend == "cpu")
    return flag_error("--no-graphs", "a processor launches no kernels", "--backend cuda as well");
  if (options.device_memory && options.kv_memory)
    return flag_error("--kv-memory", "--device-memory is given as well",
                      "one of the two: KV is what it leaves beside weights and buffers");
  return check_backend(options);
}

Status check_repeatable(const Options& options, const std::string& flag) {
  if (options.profile.empty())
    return flag_error(flag, "what planners believe is measured anew in every run", "--profile as well");
  if (options.backend == "cuda" && !options.device_memory && !options.kv_memory)
    return flag_error(flag, "how much of a GPU's memory is free is another in every run",
                      "--kv-memory or --device-memory as well");
  return {};
}

Status check_options(const Options& options) {
  const int kinds =
      (options.prompts.empty() ? 0 : 1) + (options.prompt_ids.empty() ? 0 : 1) + (options.from_trace() ? 1 : 0);
  if (kinds != 1)
    return flag_error(kinds == 0             ? "command line"
                      : options.from_trace() ? "--trace"
                                             : "--prompt-ids",
                      kinds == 0 ? "there is nothing to generate from" : "another kind of prompt is given as well",
                      "one of --prompt, --prompt-ids and --trace");
  if (Status status = check_heeded(options); !status) return status;
  if (options.chat && options.prompts.empty())
    return flag_error("--chat", "there is no text", "--prompt with a user's message");
  if (Status status = check_machine(options); !status) return status;
  if (!options.calibrate.empty() && options.calibrate != "on" && options.calibrate != "off")
    return flag_error("--calibrate", "it is '" + sluice::excerpt(options.calibrate) + "'", "on or off");
  if (options.calibrate == "on")
    for (const auto& [flag, value] :
         {std::pair{"--record-clock", &options.record_clock}, {"--replay-clock", &options.replay_clock}})
      if (!value->empty())
        return flag_error(flag, "a record does not say what layers took, from which --calibrate on would learn",
                          "one of the two");
  for (const auto& [flag, value] :
       {std::pair{"--record-clock", &options.record_clock}, {"--replay-clock", &options.replay_clock}})
    if (!value->empty())
      if (Status status = check_repeatable(options, flag); !status) return status;
  if (!options.replay_clock.empty())
    for (const auto& [flag, value] : {std::pair{"--logits", &options.logits},
                                      {"--timeline", &options.timeline},
                                      {"--record-clock", &options.record_clock}})
      if (!value->empty()) return flag_error(flag, "with --replay-clock nothing is computed", "one of the two");
  return check(options.sampling);
}

} // namespace running
