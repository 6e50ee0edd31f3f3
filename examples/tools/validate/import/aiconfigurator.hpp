// SPDX-License-Identifier: Apache-2.0
// import_aiconfigurator: a bundle of kernel times from the tables of ai-dynamo/aiconfigurator (Apache-2.0).
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"

#include "validate/import/bundle_files.hpp"
#include "validate/import/peak.hpp"
#include "validate/import/perf_table.hpp"
#include "validate/import/products.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace imported {

struct AiconfiguratorOptions {
  std::string tables; ///< folder of gemm_perf.csv, context_attention_perf.csv, generation_attention_perf.csv and, for
                      ///< several devices, custom_allreduce_perf.csv
  std::string system; ///< the system's YAML file
  std::string config; ///< the model's config.json
  int devices = 1;    ///< that share the model
  std::string base;   ///< a bundle of which `kernels` alone are replaced; empty: a new bundle
  std::vector<std::string> kernels;
};

namespace detail {

inline constexpr int element = 2; ///< bytes of bfloat16

/// What the system's file states of its GPU.
struct System {
  double flops = 0;      ///< of bfloat16, per second
  double rate = 0;       ///< of its memory, as reached: bytes per second
  double constant_s = 0; ///< of each kernel
};

inline sluice::Expected<System> read_system(const std::string& path) {
  using namespace sluice;
  const Expected<std::string> text = read_bytes_of(path);
  if (!text) return text.error();
  const auto number = [&](std::string_view name, double& value) -> Status {
    for (std::size_t line = 0; line < text->size();) {
      const std::size_t end = std::min(text->find('\n', line), text->size());
      std::string_view rest = std::string_view(*text).substr(line, end - line);
      line = end + 1;
      rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
      if (!rest.starts_with(name) || !rest.substr(name.size()).starts_with(": ")) continue;
      rest.remove_prefix(name.size() + 2);
      if (std::from_chars(rest.data(), rest.data() + rest.size(), value).ec == std::errc{} && value > 0) return {};
    }
    return Error{ErrorCode::bad_input, path, "there is no " + std::string{name} + " above 0",
                 "a system of aiconfigurator, such as h100_sxm.yaml"};
  };
  System system;
  double share = 0;
  for (const auto& [name, value] : {std::pair<std::string_view, double*>{"bfloat16_tc_flops", &system.flops},
                                    {"mem_bw", &system.rate},
                                    {"mem_bw_empirical_scaling_factor", &share},
                                    {"mem_empirical_constant_latency", &system.constant_s}})
    if (Status status = number(name, *value); !status) return status.error();
  system.rate *= share;
  return system;
}

/// Bytes of a token that the kernels move which have no table: each reads its input and writes its result.
inline std::map<std::string_view, std::int64_t> moved_bytes(const sluice::ModelShape& shard, bool has_qk_norm) {
  const std::int64_t hidden = shard.hidden, rotated = (shard.heads + std::int64_t{shard.kv_heads}) * shard.head_dim;
  std::map<std::string_view, std::int64_t> elements{{"act_fn", 3 * std::int64_t{shard.mlp}},
                                                    {"embedding", 2 * hidden},
                                                    {"final_layernorm", 4 * hidden},
                                                    {"layernorm", 4 * hidden},
                                                    {"rotary_emb", 2 * rotated}};
  if (has_qk_norm) elements["qk_norm"] = rotated; // one of two kernels: half of reading and writing both
  for (auto& [name, count] : elements) count *= element;
  return elements;
}

inline std::vector<Wanted> attention_of(const sluice::ModelShape& shard) {
  return {{"num_heads", std::to_string(shard.heads)},
          {"num_key_value_heads", std::to_string(shard.kv_heads)},
          {"head_dim", std::to_string(shard.head_dim)},
          {"attn_dtype", "bfloat16"},
          {"kv_cache_dtype", "bfloat16"},
          {"window_size", "0"}};
}

/// attention.csv: decodes as measured, and chunks alone. The tables have no chunk beside decodes; the reader adds both
/// (AttentionGrid::chunk).
inline sluice::Expected<std::string> attention_csv(PerfTable& context, PerfTable& generation, Peak& peak,
                                                   const sluice::ModelShape& shard) {
  using namespace sluice;
  Means prompts;
  for (;;) {
    const Expected<bool> row = context.next();
    if (!row) return row.error();
    if (!*row) break;
    const auto tokens = static_cast<double>(context.number(0));
    // Q K^T and the product with V, each 2 FLOP per element and half of the square.
    const double flops = 2.0 * tokens * tokens * shard.heads * shard.head_dim;
    if (peak.holds(flops, context.microseconds())) prompts.add(context.number(0), context.microseconds());
  }
  std::map<std::int64_t, Means> decodes;
  for (;;) {
    const Expected<bool> row = generation.next();
    if (!row) return row.error();
    if (!*row) break;
    const std::int64_t before = generation.number(1) + generation.number(2) - 1; // tokens before the fresh one
    if (before < 0 || generation.number(0) < 1) return generation.wrong("the batch is empty", "a decode");
    decodes[generation.number(0)].add(before, generation.microseconds());
  }
  for (const auto& [table, rows] : {std::pair{&context, context.rows()}, {&generation, generation.rows()}})
    if (rows == 0)
      return table->lacks(fmt::format("no attention of {} heads and {} KV heads of {} is measured", shard.heads,
                                      shard.kv_heads, shard.head_dim),
                          "rows of this model's heads with bfloat16 and a window_size of 0");
  if (Status status = peak.status(context.source()); !status) return status.error();
  std::string text = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  for (const auto& [count, means] : decodes)
    for (const auto& [tokens, time] : means.line()) text += fmt::format("0,0,{},{},{:.4f}\n", count, tokens, time);
  const Microseconds alone = prompts.line();
  const double floor = alone.begin()->second;
  constexpr std::array chunks{1, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
  constexpr std::array pasts{0, 256, 512, 1024, 2048, 4096, 8192};
  for (const int chunk : chunks)
    for (const int past : pasts) {
      // A chunk behind `past` tokens: the whole prompt less its beginning, each beyond an empty kernel.
      const double own = at(alone, chunk);
      const double time = past == 0 ? own : std::max(own, at(alone, chunk + past) - at(alone, past) + floor);
      text += fmt::format("{},{},0,0,{:.4f}\n", chunk, past, time);
    }
  return text;
}

/// all_reduce.csv: the framework's own kernel, within a graph. `message_size` counts elements of two bytes
/// (collect_all_reduce.py).
inline sluice::Expected<std::string> all_reduce_csv(PerfTable& table, int devices) {
  using namespace sluice;
  Means means;
  for (;;) {
    const Expected<bool> row = table.next();
    if (!row) return row.error();
    if (!*row) break;
    if (table.number(0) < 1) return table.wrong("the message is empty", "1 or more");
    means.add(table.number(0) * element, table.microseconds());
  }
  if (table.rows() == 0)
    return table.lacks(fmt::format("no all-reduce of {} devices is measured in a graph", devices),
                       "rows of bfloat16 with that num_gpus");
  std::string text = "bytes,time_us\n";
  for (const auto& [bytes, time] : means.line()) text += fmt::format("{},{:.4f}\n", bytes, time);
  return text;
}

} // namespace detail

/// Copies the bundle `options.base` and replaces some of its products.
inline sluice::Status replace_kernels(const AiconfiguratorOptions& options, const sluice::ModelShape& shard,
                                      const Products& products, const std::string& part, const std::string& device,
                                      BundleFiles& bundle) {
  using namespace sluice;
  const std::string& fact = bundle.fact;
  const auto known = product_kernels(shard);
  std::set<std::string> replaced;
  for (const std::string& kernel : options.kernels) {
    const auto* const found =
        std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.name == kernel; });
    if (found == known.end())
      return Error{ErrorCode::bad_input, "--kernels", "it is '" + excerpt(kernel) + "'",
                   "some of down_proj, gate_up_proj, o_proj and qkv_proj"};
    replaced.insert(kernel);
  }
  const std::filesystem::path from = bundle_folder(options.base, options.devices);
  std::error_code failed;
  for (std::filesystem::directory_iterator file(from, failed); !failed && file != std::filesystem::directory_iterator();
       file.increment(failed)) {
    if (file->path().extension() != ".csv") continue;
    Expected<std::string> text = read_bytes_of(file->path());
    if (!text) return text.error();
    bundle.texts[part + file->path().filename().string()] = std::move(*text);
  }
  const auto dense = bundle.texts.find(part + "dense.csv");
  if (failed || dense == bundle.texts.end())
    return Error{ErrorCode::bad_input, "--base", from.string() + " has no dense.csv", "a bundle of kernel times"};
  std::string kept, extrapolated;
  for (std::size_t line = 0; line < dense->second.size();) {
    const std::size_t end = std::min(dense->second.find('\n', line), dense->second.size());
    const std::string row = dense->second.substr(line, end - line);
    line = end + 1;
    if (replaced.count(row.substr(0, row.find(','))) == 0) kept += row + "\n";
  }
  for (const auto& kernel : known) {
    if (replaced.count(std::string{kernel.name}) == 0) continue;
    const Expected<Microseconds> times = products.line(kernel.n, kernel.k, extrapolated);
    if (!times) return times.error();
    add_line(kept, kernel.name, *times);
  }
  if (!extrapolated.empty()) bundle.meta.push_back(fact + "products_extrapolated: " + extrapolated);
  dense->second = std::move(kept);
  std::string names;
  for (const std::string& kernel : replaced) names += (names.empty() ? "" : ", ") + kernel;
  bundle.meta.push_back(fact + "replaced: " + names);
  const std::filesystem::path meta_file = std::filesystem::path(options.base) / "meta.yaml";
  const Expected<std::string> meta = read_bytes_of(meta_file);
  if (!meta) return {};
  // The other kernels keep their own provenance, and how they were timed.
  for (std::size_t line = 0; line < meta->size();) {
    const std::size_t end = std::min(meta->find('\n', line), meta->size());
    const std::string row = meta->substr(line, end - line);
    line = end + 1;
    if (row.starts_with("gpu: ") && row != "gpu: " + device)
      return Error{ErrorCode::bad_input, meta_file.string(), "the bundle is of " + excerpt(row.substr(5)),
                   device + ", as gemm_perf.csv"};
    if (row == "timed_in_graphs: true") bundle.meta.push_back(row);
    for (const char* name : {"source: ", "tables: ", "vllm_version: ", "cuda_version: "})
      if (row.starts_with(name)) bundle.meta.push_back(fact + "base_" + row);
  }
  return {};
}

/// Makes a bundle. Norms, activations, rotary embedding and sampling have no table: they take their bytes at the memory
/// rate, and the constant, that the system's file states.
inline sluice::Expected<BundleFiles> import_aiconfigurator(const AiconfiguratorOptions& options) {
  using namespace sluice;
  const std::filesystem::path tables(options.tables);
  const Expected<nlohmann::json> config = read_json_object(options.config);
  if (!config) return config.error();
  const Expected<ModelShape> shape = read_hf_config(options.config);
  if (!shape) return shape.error();
  if (shape->experts > 0)
    return Error{ErrorCode::unsupported, options.config, "the model has experts", "a dense model's config.json"};
  if (shape->weight_element_bytes != detail::element || shape->quantised() || !shape->gated_mlp)
    return Error{ErrorCode::unsupported, options.config, "the model is not of bfloat16 with a gated MLP",
                 "a Llama- or Qwen-like model"};
  const Expected<ModelShape> shard = tensor_shard(*shape, options.devices, "--devices");
  if (!shard) return shard.error();
  const Expected<detail::System> system = detail::read_system(options.system);
  if (!system) return system.error();
  Expected<std::string> copied = read_bytes_of(options.config);
  if (!copied) return copied.error();

  BundleFiles bundle;
  const std::string part = "tp" + std::to_string(options.devices) + "/";
  const std::string fact = bundle.fact = options.devices == 1 ? "" : "tp" + std::to_string(options.devices) + "_";
  Peak peak(system->flops);
  Expected<PerfTable> gemm = PerfTable::open(tables, "gemm_perf", {{"gemm_dtype", "bfloat16"}}, {"m", "n", "k"});
  if (!gemm) return gemm.error();
  const Expected<Products> products = Products::read(*gemm, peak);
  if (!products) return products.error();
  std::string device = gemm->device(), sources = gemm->source();
  // All tables must be of the same GPU; a framework's version may differ from another table's.
  const auto add_source = [&](const PerfTable& table) -> Status {
    sources += ", " + table.source();
    if (table.device() == device) return {};
    return table.lacks("the table is of " + excerpt(table.device()), device + ", as gemm_perf.csv");
  };
  bundle.meta.push_back("gpu: " + device);
  if (!options.base.empty()) {
    if (Status status = replace_kernels(options, *shard, *products, part, device, bundle); !status)
      return status.error();
  } else {
    bundle.meta.emplace_back("timed_in_graphs: true"); // collector/helper.py, benchmark_with_power
    bundle.meta.emplace_back("computed_from_bytes: embedding, norms, rotary_emb, act_fn, sampler");
    const auto moved = [&](std::int64_t bytes) {
      return (static_cast<double>(bytes) / system->rate + system->constant_s) * 1e6;
    };
    const std::string type = config->value("model_type", ""); // qwen3 normalises Q and K, which a shape does not say
    std::map<std::string_view, Microseconds> kernels;
    std::string extrapolated;
    for (const auto& [name, bytes] : detail::moved_bytes(*shard, type.starts_with("qwen3")))
      for (const int tokens : {1, 16, 256, 16384}) kernels[name][tokens] = moved(bytes * tokens);
    for (const auto& kernel : product_kernels(*shard)) {
      Expected<Microseconds> times = products->line(kernel.n, kernel.k, extrapolated);
      if (!times) return times.error();
      kernels[kernel.name] = std::move(*times);
    }
    std::string& dense = bundle.texts[part + "dense.csv"];
    dense = "layer,tokens,time_us\n";
    for (const auto& [name, line] : kernels) add_line(dense, name, line);
    Expected<Microseconds> head = products->line(shard->vocabulary, shard->hidden, extrapolated);
    if (!head) return head.error();
    if (!extrapolated.empty()) bundle.meta.push_back(fact + "products_extrapolated: " + extrapolated);
    constexpr std::int64_t most_sequences = 1024;
    head->erase(head->upper_bound(most_sequences), head->end());
    std::string& per_sequence = bundle.texts[part + "per_sequence.csv"];
    per_sequence = "layer,sequences,time_us\n";
    add_line(per_sequence, "lm_head", *head);
    Microseconds sampler;
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{256}, most_sequences})
      sampler[count] = moved(2 * count * shard->vocabulary * detail::element);
    add_line(per_sequence, "sampler", sampler);

    std::vector<Wanted> alone = detail::attention_of(*shard);
    alone.push_back({"batch_size", "1"});
    Expected<PerfTable> context = PerfTable::open(tables, "context_attention_perf", std::move(alone), {"isl"});
    if (!context) return context.error();
    Expected<PerfTable> generation = PerfTable::open(tables, "generation_attention_perf", detail::attention_of(*shard),
                                                     {"batch_size", "isl", "step"});
    if (!generation) return generation.error();
    Peak attention(system->flops);
    Expected<std::string> text = detail::attention_csv(*context, *generation, attention, *shard);
    if (!text) return text.error();
    bundle.texts[part + "attention.csv"] = std::move(*text);
    for (const PerfTable* table : {&*context, &*generation})
      if (Status status = add_source(*table); !status) return status.error();
    bundle.meta.push_back(fmt::format("{}prompts_beyond_peak: {} left out", fact, attention.beyond()));
  }
  std::error_code ignored;
  if (options.base.empty() && options.devices > 1 &&
      std::filesystem::exists(tables / "custom_allreduce_perf.csv", ignored)) {
    // "vLLM_custom_graph", "vLLM_nccl_graph": captured in a graph, as a server replays it.
    Expected<PerfTable> reduce = PerfTable::open(
        tables, "custom_allreduce_perf",
        {{"allreduce_dtype", "bfloat16"}, {"num_gpus", std::to_string(options.devices)}, {"backend", "vllm_graph"}},
        {"message_size"});
    if (!reduce) return reduce.error();
    Expected<std::string> text = detail::all_reduce_csv(*reduce, options.devices);
    if (!text) return text.error();
    bundle.texts[part + "all_reduce.csv"] = std::move(*text);
    if (Status status = add_source(*reduce); !status) return status.error();
  }
  bundle.texts["config.json"] = std::move(*copied);
  bundle.meta.emplace_back("source: ai-dynamo/aiconfigurator, Apache-2.0, NVIDIA CORPORATION & AFFILIATES");
  bundle.meta.push_back(fact + "tables: " + sources);
  bundle.meta.push_back("system: " + std::filesystem::path(options.system).filename().string());
  bundle.meta.push_back(
      fmt::format("{}products_beyond_peak: {} left out ({:.0f} TFLOP/s)", fact, peak.beyond(), system->flops * 1e-12));
  return bundle;
}

} // namespace imported
