// SPDX-License-Identifier: Apache-2.0
// sluice-validate: replays a recorded vLLM run in simulation and compares its latencies with the measured ones.
//
// The problem: a simulator that compares policies is useful only if it predicts a real server. The run's requests
// arrive as recorded, vLLM's composition serves them with the settings in the run's meta.json, and an iteration takes
// the sum of its kernels' times as measured on that GPU. Nothing is fitted to the run. See docs/fidelity.md.
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/retention/keep_until_overwritten.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/observer/measure.hpp"
#include "sluice/report/observer/summary.hpp"
#include "sluice/workload/nlohmann/vllm_run.hpp"

#include "shared/flags.hpp"
#include "shared/whole_output.hpp"
#include "validate/known_datasets.hpp"
#include "validate/prompts.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace sluice;
using recorded::PromptKeys;

namespace {

// vLLM as recorded: with automatic prefix caching (its default), or without.
// -------------------------------------------

using Gpu = BasicSimulated<TableProfile>;
using VllmOnGpu = With<VllmRecompute, Gpu, TableProfile, Summary>;
using VllmCachingOnGpu = With<VllmPrefixCaching, Gpu, TableProfile, Summary>;

/// The server's settings in the run's meta.json.
struct Server {
  Limits limits;
  TokenBlocks kv_blocks{0}; ///< that requests can use; 0 if the recording has no number
  bool prefix_caching = true;
  std::string dataset;      ///< name of the file that the prompts came from; may be empty
  std::string dataset_hash; ///< its SHA-256; may be empty
};

Error unsupported(const std::string& where, std::string what, std::string expected) {
  return {ErrorCode::unsupported, where, std::move(what), std::move(expected)};
}

/// A section of meta.json, or an empty object where it is absent (older recordings lack some).
nlohmann::json section(const nlohmann::json& parent, const char* name) {
  const auto found = parent.find(name);
  return found != parent.end() && found->is_object() ? *found : nlohmann::json::object();
}

Status check_scheduler(const nlohmann::json& scheduler, const std::string& where) {
  const JsonFields fields(scheduler, where);
  if (fields.has("policy")) {
    const Expected<std::string> policy = fields.text("policy", "\"fcfs\"");
    if (!policy) return policy.error();
    if (*policy != "fcfs") return unsupported(where, "policy is '" + excerpt(*policy) + "'", "\"fcfs\"");
  }
  for (const char* required : {"enable_chunked_prefill", "scheduler_reserve_full_isl"}) {
    if (!fields.has(required)) continue;
    const Expected<bool> set = fields.flag(required);
    if (!set) return set.error();
    if (!*set) return unsupported(where, std::string{required} + " is false", "true, vLLM's default");
  }
  return {};
}

Expected<Server> read_server(const std::string& run, std::int64_t kv_blocks) {
  const std::string path = (std::filesystem::path(run) / "meta.json").string();
  const Expected<nlohmann::json> meta = read_json_object(path);
  if (!meta) return meta.error();
  Server server;

  const nlohmann::json arguments = section(*meta, "engine_kwargs");
  const JsonFields engine(arguments, path + ": engine_kwargs");
  const Expected<std::int64_t> width = engine.whole("max_num_seqs", 1, 1 << 20);
  if (!width) return width.error();
  const Expected<std::int64_t> budget = engine.whole("max_num_batched_tokens", 1, 1 << 24);
  if (!budget) return budget.error();
  server.limits.batch = static_cast<int>(*width);
  server.limits.batch_tokens = Tokens{*budget};
  for (const char* parallel : {"data_parallel_size", "tensor_parallel_size", "pipeline_parallel_size"}) {
    if (!engine.has(parallel)) continue;
    const Expected<std::int64_t> devices = engine.whole(parallel, 1, 1 << 16);
    if (!devices) return devices.error();
    if (*devices != 1) {
      return unsupported(engine.where(), parallel + (" is " + std::to_string(*devices)),
                         "1: no profile measures communication between devices");
    }
  }
  const nlohmann::json scheduler = section(section(*meta, "resolved_config"), "scheduler_config");
  if (Status status = check_scheduler(scheduler, path + ": scheduler_config"); !status) return status.error();

  const nlohmann::json cache = section(*meta, "kv_cache");
  const JsonFields kv(cache, path + ": kv_cache");
  if (kv.has("block_size")) {
    const Expected<std::int64_t> tokens = kv.whole("block_size", 1, 1 << 16);
    if (!tokens) return tokens.error();
    server.limits.block_tokens = Tokens{*tokens};
  }
  if (kv_blocks == 0 && kv.has("num_gpu_blocks")) {
    const Expected<std::int64_t> blocks = kv.whole("num_gpu_blocks", 2, std::int64_t{1} << 32);
    if (!blocks) return blocks.error();
    kv_blocks = *blocks;
  }
  // vLLM reserves block 0 as the null block.
  if (kv_blocks > 0) server.kv_blocks = TokenBlocks{kv_blocks - 1};
  if (kv.has("enable_prefix_caching")) {
    const Expected<bool> caching = kv.flag("enable_prefix_caching");
    if (!caching) return caching.error();
    server.prefix_caching = *caching;
  }
  const JsonFields top(*meta, path);
  if (top.has("dataset_path")) {
    const Expected<std::string> dataset = top.text("dataset_path", "a path");
    if (!dataset) return dataset.error();
    server.dataset = std::filesystem::path(*dataset).filename().string();
  }
  if (top.has("dataset_hash")) {
    Expected<std::string> hash = top.text("dataset_hash", "a SHA-256");
    if (!hash) return hash.error();
    server.dataset_hash = std::move(*hash);
  }
  return server;
}

// The replay
// ------------------------------------------------------------------------------------------------------------

template <class E>
Expected<LatencyDistributions> replay(const Server& server, const ModelShape& shape, const TableProfile& profile,
                                      const std::vector<VllmRunRecord>& records, const PromptKeys& prompts) {
  typename E::Config config{
      .limits = server.limits,
      .geometry = {shape.layers, shape.layer_block_bytes(server.limits.block_tokens), shape.layer_weight_bytes()},
      .device_blocks = across_layers(server.kv_blocks, shape.layers),
      .cost = profile,
      .backend = Gpu(profile)};
  Expected<E> engine = E::make(std::move(config));
  if (!engine) return engine.error();
  const Seconds start = records.front().queued;
  for (std::size_t next = 0;;) {
    for (; next < records.size() && records[next].queued - start <= engine->now(); ++next) {
      const RequestSpec spec{records[next].queued - start, records[next].prompt, records[next].output, {}};
      const std::span<const BlockKey> keys = prompts.empty() ? std::span<const BlockKey>{} : prompts[next];
      if (const Expected<RequestId> id = engine->submit(spec, keys); !id) return id.error();
    }
    const Stepped stepped = engine->step();
    if (stepped == Stepped::failed) return engine->status().error();
    if (stepped == Stepped::ran) continue;
    if (next == records.size()) break;
    engine->idle_until(records[next].queued - start);
  }
  return latencies(engine->template observed<Summary>());
}

LatencyDistributions measured(const std::vector<VllmRunRecord>& records) {
  std::vector<WeightedSample> ttft, tpot, e2e;
  for (const VllmRunRecord& record : records) {
    ttft.push_back({(record.first_token - record.queued).count()});
    e2e.push_back({(record.last_token - record.queued).count()});
    if (record.output > Tokens{1}) {
      const auto gaps = static_cast<double>(record.output.count() - 1);
      tpot.push_back({(record.last_token - record.first_token).count() / gaps});
    }
  }
  return {Distribution{std::move(ttft)}, Distribution{std::move(tpot)}, Distribution{std::move(e2e)}, {}};
}

// The comparison
// ----------------------------------------------------------------------------------------------------------

struct Figure {
  const char* name;
  double (*of)(const Distribution&);
};
constexpr std::array<Figure, 5> figures{{{"mean", [](const Distribution& d) { return d.mean(); }},
                                         {"median", [](const Distribution& d) { return d.quantile(0.5); }},
                                         {"p90", [](const Distribution& d) { return d.quantile(0.9); }},
                                         {"p95", [](const Distribution& d) { return d.quantile(0.95); }},
                                         {"p99", [](const Distribution& d) { return d.quantile(0.99); }}}};

struct Metric {
  const char* key;
  const char* label;
  Distribution LatencyDistributions::*of;
};
constexpr std::array<Metric, 3> metrics{{{"ttft", "TTFT", &LatencyDistributions::ttft},
                                         {"tpot", "TPOT", &LatencyDistributions::tpot},
                                         {"latency", "Latency", &LatencyDistributions::e2e}}};

void print_table(const LatencyDistributions& real, const LatencyDistributions& simulated) {
  fmt::print("{:<16}{:>14}{:>14}{:>9}\n", "seconds", "measured", "simulated", "diff");
  double worst = 0.0;
  for (const Metric& metric : metrics) {
    for (const Figure& figure : figures) {
      const double a = figure.of(real.*metric.of);
      const double b = figure.of(simulated.*metric.of);
      const double percent = (b / a - 1.0) * 100.0;
      worst = std::max(worst, std::abs(percent));
      fmt::print("{:<16}{:>14.5f}{:>14.5f}{:>+8.2f}%\n", fmt::format("{} {}", metric.label, figure.name), a, b,
                 percent);
    }
  }
  fmt::print("largest difference: {:.2f} %\n", worst);
}

/// `prompts`: how the shared beginnings of prompts were found, on which the figures depend.
void print_json(const LatencyDistributions& real, const LatencyDistributions& simulated, std::string_view prompts) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("made_by", made_by().line());
  for (const Metric& metric : metrics) {
    json.key(metric.key).begin_object();
    for (const Figure& figure : figures) {
      json.key(figure.name).begin_object();
      json.key("measured").value(figure.of(real.*metric.of));
      json.key("simulated").value(figure.of(simulated.*metric.of));
      json.end_object();
    }
    json.end_object();
  }
  json.key("prompts").value(prompts);
  json.end_object();
  fmt::print("{}\n", text);
}

int fail(const Error& error) {
  fmt::print(stderr, "sluice-validate: {}\n", error.line());
  return 2;
}

struct Options {
  std::string run;
  std::string profile;
  std::string prompts;
  std::string list_shared;
  std::int64_t kv_blocks = 0;
  bool json = false;
};

/// The keys of each record's prompt: from the dataset, from a known dataset's shared beginnings, or none.
Expected<PromptKeys> find_prompts(const Options& options, const Server& server,
                                  const std::vector<VllmRunRecord>& records, std::string_view& source) {
  std::string path = options.prompts;
  if (path.empty() && !server.dataset.empty()) {
    const std::filesystem::path beside = std::filesystem::path(options.run) / server.dataset;
    std::error_code ignored;
    if (std::filesystem::exists(beside, ignored)) path = beside.string();
  }
  if (!path.empty()) {
    const Expected<recorded::PromptTokens> prompts = recorded::read_prompts(path);
    if (!prompts) return prompts.error();
    source = "given";
    return recorded::keys_of(*prompts, path, records, server.limits.block_tokens);
  }
  source = "not shared";
  if (!server.prefix_caching) return PromptKeys{};
  const recorded::KnownDataset* known = recorded::find_known(server.dataset_hash, server.dataset, records);
  if (known != nullptr && server.limits.block_tokens >= recorded::shortest_known_beginning) {
    fmt::print(stderr,
               "sluice-validate: the recording does not say which prompts begin alike; the known facts of its dataset, "
               "{}, are used "
               "(SHA-256 {}...)\n",
               known->names.front(), known->sha256.substr(0, 8));
    source = "known dataset";
    return recorded::keys_of(*known, records, server.limits.block_tokens);
  }
  fmt::print(
      stderr,
      "sluice-validate: the run used prefix caching, but its prompts are not known: no two prompts are assumed to "
      "begin alike (--prompts FILE{})\n",
      server.dataset.empty() ? "" : ", the run's was " + server.dataset);
  source = "unknown";
  return PromptKeys{};
}

/// If the recording does not say how much KV the server had: the most that its requests ever hold.
TokenBlocks enough_kv(const std::vector<VllmRunRecord>& records, Tokens block_tokens) {
  TokenBlocks blocks{0};
  for (const VllmRunRecord& record : records) blocks += blocks_for(record.prompt + record.output, block_tokens);
  fmt::print(stderr, "sluice-validate: the recording does not say how much KV its server had: assumed to be enough for "
                     "every request (--kv-blocks N)\n");
  return blocks;
}

/// Prints a dataset's facts in the format of validate/known_datasets.hpp.
int list_shared(const std::string& path) {
  const Expected<recorded::PromptTokens> prompts = recorded::read_prompts(path);
  if (!prompts) return fail(prompts.error());
  std::size_t tokens = 0;
  for (const auto& prompt : *prompts) tokens += prompt.size();
  fmt::print("// {} prompts, {} tokens\n", prompts->size(), tokens);
  for (const SharedBeginning& row : find_shared_beginnings(*prompts, recorded::shortest_known_beginning)) {
    fmt::print("{{{}, {}, {}}},\n", row.prompt, row.earlier, row.tokens);
  }
  return 0;
}

int validate(const Options& options) {
  Expected<Server> server = read_server(options.run, options.kv_blocks);
  if (!server) return fail(server.error());
  const Expected<ModelShape> shape = read_hf_config(options.profile);
  if (!shape) return fail(shape.error());
  const Expected<TableProfile> profile = read_table_profile(options.profile, LinkCost{});
  if (!profile) return fail(profile.error());
  const Expected<std::vector<VllmRunRecord>> records =
      read_vllm_run((std::filesystem::path(options.run) / "requests.jsonl").string());
  if (!records) return fail(records.error());
  if (server->kv_blocks == TokenBlocks{0}) server->kv_blocks = enough_kv(*records, server->limits.block_tokens);
  std::string_view source;
  const Expected<PromptKeys> prompts = find_prompts(options, *server, *records, source);
  if (!prompts) return fail(prompts.error());

  const Expected<LatencyDistributions> simulated =
      server->prefix_caching ? replay<VllmCachingOnGpu>(*server, *shape, *profile, *records, *prompts)
                             : replay<VllmOnGpu>(*server, *shape, *profile, *records, {});
  if (!simulated) return fail(simulated.error());
  const LatencyDistributions real = measured(*records);
  options.json ? print_json(real, *simulated, source) : print_table(real, *simulated);
  return 0;
}

int program(int argc, char** argv) {
  Options options;
  Flags flags{"sluice-validate",
              "Replays a recorded vLLM run in simulation and compares its latencies with the measured ones."};
  CLI::App& app = flags.app();
  CLI::Option* run = app.add_option("--run", options.run, "folder with requests.jsonl and meta.json");
  CLI::Option* profile =
      app.add_option("--profile", options.profile, "folder with the GPU's kernel times and the model's config");
  app.add_option("--prompts", options.prompts,
                 "the run's dataset, one JSON object per line with input_tok_ids (default: the file of its name in the "
                 "run's folder)");
  flags.whole("--kv-blocks", options.kv_blocks, 2, std::int64_t{1} << 32,
              "device memory for KV, in token blocks, for a run whose meta.json has no num_gpu_blocks");
  app.add_flag("--json", options.json, "print JSON instead of a table");
  app.add_option("--list-shared", options.list_shared,
                 "instead: print which prompts of this dataset begin alike (number, earlier number, tokens)")
      ->excludes(run, profile);
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  if (!options.list_shared.empty()) return list_shared(options.list_shared);
  for (const CLI::Option* needed : {run, profile}) {
    if (needed->count() == 0) return fail({ErrorCode::bad_input, needed->get_name(), "is missing", "a folder"});
  }
  return validate(options);
}

} // namespace

int main(int argc, char** argv) {
  return with_whole_output("sluice-validate", [&] { return program(argc, argv); });
}
