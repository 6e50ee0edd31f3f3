// SPDX-License-Identifier: Apache-2.0
// The flags of sluice-run.
#include "run/options.hpp"

#include "engines/program.hpp"
#include "run/job.hpp"
#include "run/tiers.hpp"
#include "shared/chat_format_flag.hpp"
#include "shared/link_flag.hpp"
#include "shared/set_flag.hpp"
#include "shared/shell_word.hpp"
#include "shared/slo_classes_flag.hpp"
#include "shared/trace_at.hpp"
#include "shared/trace_flags.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace running {

using sluice::Error;
using sluice::ErrorCode;
using sluice::Status;

Error flag_error(std::string flag, std::string what, std::string expected) {
  return {ErrorCode::bad_input, std::move(flag), std::move(what), std::move(expected)};
}

namespace {

/// Adds a flag for one of `choices`; `expected` lists their names.
template <class T>
void add_choice(Flags& flags, const std::string& flag, std::optional<T>& place,
                std::vector<std::pair<std::string_view, T>> choices, const std::string& expected,
                const std::string& help) {
  flags.read(flag, "TEXT", help, [&place, choices = std::move(choices), expected](std::string_view text) {
    for (const auto& [name, value] : choices)
      if (text == name) {
        place = value;
        return std::string{};
      }
    return expected;
  });
}

void add_requests(Flags& flags, Options& options) {
  CLI::App& app = flags.app();
  app.add_option("--model", options.model,
                 "a Hugging Face folder (config.json, *.safetensors, tokenizer.json), tiny: a small random Llama, "
                 "tiny-window: one with windows, tiny-mla: one with latent attention, tiny-mla-experts: with experts "
                 "too, tiny-delta: one with the "
                 "gated delta rule, or demo: a small trained Llama")
      ->capture_default_str();
  flags.whole(
      "--random-weights", options.random_weights, 0, std::numeric_limits<std::int64_t>::max(),
      "random weights from this seed; --model is then a name, such as llama3-8b, or a folder with a config.json");
  app.add_option("--prompt", options.prompts, "a prompt's text; may be given more than once")->allow_extra_args(false);
  app.add_option("--prompt-ids", options.prompt_ids, "a prompt's tokens, e.g. 1,2,3; may be given more than once")
      ->allow_extra_args(false);
  app.add_flag("--chat", options.chat, "prompts are a user's messages, in the model's chat format");
  add_chat_format(flags, options.chat_format);
  add_trace_flags(
      flags, options,
      "arrivals and lengths of a trace file instead of prompts; prompts are then random tokens from --seed");
  flags.whole("--limit", options.limit, 0, std::numeric_limits<std::int64_t>::max(), "serve the first N requests only");
  flags.number("--rate-scale", options.rate_scale, 0, false, "divide the arrival times by this (default: 1)");
  add_slo_classes(flags, options.slo_classes);
  app.add_flag("--no-wait", options.no_wait, "skip time in which nothing runs");
  flags.whole("--max-tokens", options.max_tokens, 1, 1 << 28,
              "tokens to generate (default: 32; for a trace its own lengths)");
  app.add_flag("--ignore-end", options.ignore_end,
               "generate that many tokens, even after an end token (always for a trace)");
  flags.number("--temperature", options.sampling.temperature, 0, true,
               "sampling temperature; 0 takes the likeliest token (default: 0)");
  flags.whole("--top-k", options.top_k, 0, 1 << 30, "sample among the N likeliest tokens; 0: among all (default: 0)");
  flags.number("--top-p", options.top_p, 0, false,
               "sample among the likeliest tokens whose probabilities sum to this (default: 1)");
  flags.whole("--seed", options.seed, 0, std::numeric_limits<std::int64_t>::max(),
              "seed of sampling and of a trace's prompts (default: 0)");
}

} // namespace

void add_machine(Flags& flags, Options& options) {
  CLI::App& app = flags.app();
  app.add_option("--system", options.system, "the system whose policies to run; --list names them")
      ->capture_default_str();
  add_set_flag(app, options.set);
  app.add_option("--backend", options.backend,
                 "cpu, or cuda: the first GPU, in a build with CUDA; the two memories are then the GPU's "
                 "and pinned memory of the host")
      ->capture_default_str();
  flags.size(
      "--device-memory", options.device_memory, 0,
      "the device's memory: weights (unless they stream), KV and buffers, e.g. 64MiB (default: what the largest batch "
      "needs)");
  flags.size("--kv-memory", options.kv_memory, 0,
             "the device's memory given as its part for KV, without weights and buffers");
  flags.size("--host-memory", options.host_memory, 0,
             "the host's memory for KV, e.g. 64GB (default: enough, at most half of this machine's)");
  flags.size("--host-cache", options.host_cache, 1,
             "host memory, besides --host-memory, that keeps KV of ended requests for later ones with the same "
             "beginning, e.g. 8GB (default: none is kept)");
  using engines::HostReuse;
  using engines::HostWrite;
  using sluice::Replacement;
  add_choice(flags, "--host-reuse", options.host_reuse,
             {{"all", HostReuse::all}, {"if-faster", HostReuse::if_faster}, {"within-slos", HostReuse::within_slos}},
             "all, if-faster or within-slos",
             "what requests load of a beginning that --host-cache has: all; if-faster: all, if computing it would take "
             "longer; or within-slos: what misses SLOs the least (default: if-faster)");
  add_choice(flags, "--host-write", options.host_write,
             {{"computed", HostWrite::computed},
              {"prompts", HostWrite::prompts},
              {"ended", HostWrite::ended},
              {"never", HostWrite::never}},
             "computed, prompts, ended or never",
             "which KV --host-cache gets: computed: all, as it is computed, while the link is idle; prompts: the same "
             "without answers; ended: all, when its request ends; or never (default: ended)");
  add_choice(flags, "--host-evict", options.host_evict,
             {{"lru", Replacement::least_recent}, {"lfu", Replacement::least_frequent}, {"arc", Replacement::adaptive}},
             "lru, lfu or arc",
             "which block leaves a full --host-cache: lru: the least recently used one; lfu: the least often used one; "
             "or arc (default: lru)");
  flags.number(
      "--host-pin", options.host_pin, 0, true,
      "for how many seconds KV of a session stays in --host-cache after each answer, as long as there is other KV "
      "to evict (default: 0); a client's ttl (kv_hints) counts instead");
  flags.whole("--host-pin-share", options.host_pin_share, 1, 100,
              "the part of --host-cache, in percent, that the sessions of one API key pin at most, also by ttl: then "
              "their pins that "
              "would end the soonest end early (default: 50 with API keys, 100 without)");
  flags.read("--disk-cache", "DIR:SIZE",
             "a folder that has the same KV after a restart and beyond --host-cache, e.g. /var/cache/kv:100GB",
             [&options](std::string_view text) -> std::string {
               const std::size_t colon = text.rfind(':');
               const std::optional<double> bytes =
                   colon == std::string_view::npos ? std::nullopt : read_bytes(text.substr(colon + 1));
               if (!bytes || *bytes < 1 || colon == 0) return "DIR:SIZE, such as /var/cache/kv:100GB";
               options.disk_cache = DiskCache{std::string{text.substr(0, colon)}, static_cast<std::int64_t>(*bytes)};
               return {};
             });
  app.add_option("--kv-transfer-config", options.kv_transfer,
                 "other servers' settings instead of --host-cache, --host-reuse, --host-write, --host-evict and "
                 "--disk-cache: vLLM's flag of that name, as JSON or a file; LMCache's file; or SGLang's --hicache-... "
                 "flags or file");
  add_link(flags, options.link);
  app.add_option("--lanes", options.lanes,
                 "the link's lanes: each-way (a GPU's default), or one shared by both directions (shared)")
      ->capture_default_str();
  app.add_option("--products", options.products,
                 "a GPU's matrix products: invariant, so that a token does not depend on the batch and every system "
                 "generates the same tokens, or fast (cuBLASLt)")
      ->capture_default_str();
  flags.size("--gather-below", options.gather_below, 0,
             "with --backend cuda: a kernel makes copies of fewer bytes, many per launch; 0: none (default: measured "
             "at the start)");
  app.add_flag("--no-graphs", options.no_graphs,
               "on a GPU: launch every kernel separately instead of using CUDA graphs for small iterations (vLLM's "
               "--enforce-eager)");
  flags.whole("--threads", options.threads, 1, 1024, "threads that compute (default: 1)");
  flags.whole("--batch", options.batch, 1, 1'000'000, "most requests in a batch (default: 16)");
  flags.whole("--max-batch-tokens", options.batch_tokens, 1, 1 << 20,
              "most tokens computed in one iteration (default: 256)");
  app.add_option("--profile", options.profile,
                 "the planners' cost model of this machine: a folder that sluice-profile --measure wrote (default: a "
                 "roofline, measured at the start)");
  flags.number("--slo-tbt", options.slo_tbt, 0, false, "TBT SLO, seconds per token (default: none)");
  flags.number("--slo-ttft", options.slo_ttft, 0, false, "TTFT SLO, seconds to the first token (default: none)");
}

void conclude_machine(Flags& flags, Options& options) {
  const bool stated = flags.app().count("--lanes") > 0;
  if (options.backend == "cuda" && !stated) options.lanes = "each-way"; // as with every GPU's link
}

std::optional<int> parse_options(int argc, char** argv, Options& options) {
  Flags flags(engines::program_name(),
              "Generates text on this machine under a system's policies: real tokens, and real bytes "
              "between two memories.");
  CLI::App& app = flags.app();
  add_requests(flags, options);
  add_machine(flags, options);
  app.add_option("--calibrate", options.calibrate,
                 "on: planners learn from layers' times in this run; off: they use the times measured before it "
                 "(default: on, but off with --profile)");
  app.add_option("--logits", options.logits, "write the logits of every token generated: float32, NumPy's .npy");
  app.add_option("--timeline", options.timeline, "write a trace of the run for ui.perfetto.dev");
  add_trace_at(flags, options.trace_at);
  app.add_option("--decisions", options.decisions, "write a line for each decision");
  app.add_option("--record-clock", options.record_clock,
                 "write the times that the engine received, for --replay-clock; needs --profile");
  app.add_option("--replay-clock", options.replay_clock,
                 "compute nothing: repeat the decisions of the recorded run, with its times");
  flags.folder("--out", options.out,
               "folder for report.json and tables as CSV: requests, iterations, memory and queue over time");
  app.add_flag("--json", options.json, "print the results as JSON, and nothing else");
  app.add_flag("--runs", options.runs,
               "run after run: each line of standard input is a JSON array of this program's flags, answered by a line "
               "as from --json, or by one with an error; the weights stay in memory for runs with the same model");
  app.add_flag("--list", options.list, "name the systems, describe the models that need no folder, and stop");
  app.add_flag("--verbose", options.verbose, "print measurements and how memory is divided to standard error");
  if (const std::optional<int> status = flags.parse(argc, argv)) return status;
  options.command = engines::program_name();
  for (int i = 1; i < argc; ++i) options.command += " " + shell_word(argv[i]);
  conclude_machine(flags, options);
  options.sampling.top_k = options.top_k.value_or(options.sampling.top_k);
  options.sampling.top_p = options.top_p.value_or(options.sampling.top_p);
  options.sampling.seed = options.seed.value_or(options.sampling.seed);
  return std::nullopt;
}

namespace {

/// A flag without effect is probably a mistake, so it is refused and not ignored.
Status check_heeded(const Options& options) {
  if (const char* flag = options.read_without_trace()) return flag_error(flag, "no trace is given", "--trace as well");
  if (!options.from_trace())
    for (const auto& [flag, given] : {std::pair{"--limit", options.limit.has_value()},
                                      {"--rate-scale", options.rate_scale.has_value()},
                                      {"--slo-classes", !options.slo_classes.empty()},
                                      {"--no-wait", options.no_wait}})
      if (given) return flag_error(flag, "no trace is given", "--trace as well");
  for (const auto& [flag, slo] : {std::pair{"--slo-ttft", options.slo_ttft}, {"--slo-tbt", options.slo_tbt}})
    if (!options.slo_classes.empty() && !std::isinf(slo))
      return flag_error(flag, "every request has the SLO of its class", "this flag or --slo-classes, not both");
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
      return flag_error("--gather-below", "a processor makes its own copies", "--backend cuda as well");
    return {};
  }
  if (options.backend != "cuda")
    return flag_error("--backend", "it is '" + sluice::excerpt(options.backend) + "'", "cpu or cuda");
  for (const auto& [flag, given, why] : {std::tuple{"--link", options.link > 0, "the GPU's own link is used"},
                                         {"--threads", options.threads != 1, "a GPU computes"}})
    if (given) return flag_error(flag, std::string{"with --backend cuda "} + why, "one of the two");
  return {};
}

} // namespace

sluice::Products products_of(const Options& options) {
  return options.products == "fast" ? sluice::Products::fast : sluice::Products::invariant;
}

Status check_machine(Options& options) {
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
                      "one of the two: KV gets the rest of device memory after weights and buffers");
  if (Status status = take_kv_transfer(options); !status) return status;
  if (Status status = check_tiers(options); !status) return status;
  return check_backend(options);
}

Status check_repeatable(const Options& options, const std::string& flag) {
  if (options.host_cache > 0)
    return flag_error(flag, "the record does not have what earlier requests left in --host-cache", "one of the two");
  if (options.profile.empty())
    return flag_error(flag, "without a profile every run measures new times for planners", "--profile as well");
  if (options.backend == "cuda" && !options.device_memory && !options.kv_memory)
    return flag_error(flag, "the free memory of a GPU differs between runs", "--kv-memory or --device-memory as well");
  return {};
}

Status check_options(Options& options) {
  const int kinds =
      (options.prompts.empty() ? 0 : 1) + (options.prompt_ids.empty() ? 0 : 1) + (options.from_trace() ? 1 : 0);
  if (kinds != 1)
    return flag_error(kinds == 0             ? "command line"
                      : options.from_trace() ? "--trace"
                                             : "--prompt-ids",
                      kinds == 0 ? "there is nothing to generate from" : "another kind of prompt is given as well",
                      "one of --prompt, --prompt-ids and --trace");
  if (Status status = check_heeded(options); !status) return status;
  if (options.chat_format && !options.chat) return flag_error("--chat-format", "there is no --chat", "--chat as well");
  if (options.chat && options.prompts.empty())
    return flag_error("--chat", "there is no text", "--prompt with a user's message");
  if (Status status = check_machine(options); !status) return status;
  if (!options.calibrate.empty() && options.calibrate != "on" && options.calibrate != "off")
    return flag_error("--calibrate", "it is '" + sluice::excerpt(options.calibrate) + "'", "on or off");
  if (options.calibrate == "on")
    for (const auto& [flag, value] :
         {std::pair{"--record-clock", &options.record_clock}, {"--replay-clock", &options.replay_clock}})
      if (!value->empty())
        return flag_error(flag, "a record has no layer times, from which --calibrate on would learn", "one of the two");
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
