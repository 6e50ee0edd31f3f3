// SPDX-License-Identifier: Apache-2.0
// Server: the settings of a recorded server, and where each of them comes from.
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/policy/cost/served_tables.hpp"
#include "sluice/state/view/view.hpp"

#include "validate/mechanisms.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace recorded {

/// A quantity that a replay needs, and where it comes from if the recording does not have it.
struct Input {
  enum class Source : std::uint8_t {
    inferred,   ///< from the recording's other facts
    stated,     ///< from documentation, a data sheet or another measurement
    calibrated, ///< stated by somebody who chose it so that a simulation agrees
  };
  std::string what; ///< with its value
  Source source = Source::stated;
  std::string from;                             ///< in a few words
  std::vector<bool Mechanisms::*> used_by = {}; ///< any of these mechanisms needs it; empty: every replay does

  [[nodiscard]] bool used(const Mechanisms& mechanisms) const {
    return used_by.empty() ||
           std::any_of(used_by.begin(), used_by.end(), [&](bool Mechanisms::*one) { return mechanisms.*one; });
  }
};

inline const char* source_name(Input::Source source) {
  switch (source) {
  case Input::Source::inferred:
    return "inferred";
  case Input::Source::stated:
    return "stated";
  case Input::Source::calibrated:
    return "stated, calibrated";
  }
  return "";
}

struct Server {
  sluice::Limits limits;
  sluice::TokenBlocks kv_blocks{0}; ///< that requests can use; 0 if the recording has no number
  bool prefix_caching = true;
  int tensor_parallel = 1;
  int data_parallel = 1;
  bool async_scheduling = true;
  std::vector<std::int64_t> graph_sizes; ///< of its CUDA graphs; empty: it runs without graphs
  std::int64_t in_flight = 0;            ///< requests that its client has in flight at most; 0: no limit
  double front_end_s = 0;                ///< between a client's request and the engine: HTTP, chat template, tokens
  std::string model;
  std::string dataset;       ///< name of the file that the prompts came from; may be empty
  std::string dataset_hash;  ///< its SHA-256; may be empty
  std::vector<Input> inputs; ///< what the recording does not say
};

inline sluice::Error unsupported(const std::string& where, std::string what, std::string expected) {
  return {sluice::ErrorCode::unsupported, where, std::move(what), std::move(expected)};
}

/// A section of meta.json, or an empty object where it is absent (older recordings lack some).
inline nlohmann::json section(const nlohmann::json& parent, const char* name) {
  const auto found = parent.find(name);
  return found != parent.end() && found->is_object() ? *found : nlohmann::json::object();
}

inline sluice::Status check_scheduler(const nlohmann::json& scheduler, const std::string& where) {
  using namespace sluice;
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

/// Whether the server launches every kernel itself (`enforce_eager`, or a `cudagraph_mode` of NONE), so that it pads
/// nothing. `arguments`: its engine_kwargs. vLLM's enumeration records NONE as 0 and FULL_AND_PIECEWISE as [2, 1];
/// other modes replay graphs in fewer iterations, which is not modelled.
inline sluice::Expected<bool> runs_without_graphs(const nlohmann::json& arguments, const nlohmann::json& resolved,
                                                  const std::string& path) {
  using namespace sluice;
  for (const nlohmann::json* const settings : {&arguments, &resolved}) {
    const std::string where = path + (settings == &arguments ? ": engine_kwargs" : ": resolved_config");
    const nlohmann::json model = settings == &arguments ? arguments : section(resolved, "model_config");
    if (const JsonFields fields(model, where); fields.has("enforce_eager")) {
      const Expected<bool> eager = fields.flag("enforce_eager");
      if (!eager) return eager.error();
      if (*eager) return true;
    }
    const nlohmann::json compilation = section(*settings, "compilation_config");
    const auto mode = compilation.find("cudagraph_mode");
    if (mode == compilation.end() || mode->is_null()) continue;
    if (*mode == "NONE" || *mode == 0) return true;
    if (*mode != "FULL_AND_PIECEWISE" && *mode != nlohmann::json{2, 1})
      return unsupported(where, "cudagraph_mode is " + excerpt(mode->dump()), "NONE or FULL_AND_PIECEWISE");
  }
  return false;
}

/// The sizes of the graphs that a recording lists, or vLLM's default; none for a server without graphs.
inline sluice::Status read_graph_sizes(const nlohmann::json& arguments, const nlohmann::json& resolved,
                                       const std::string& path, Server& server) {
  using namespace sluice;
  const Expected<bool> eager = runs_without_graphs(arguments, resolved, path);
  if (!eager) return eager.error();
  if (*eager) return {};
  const nlohmann::json compilation = section(resolved, "compilation_config");
  const auto sizes = compilation.find("cudagraph_capture_sizes");
  if (sizes == compilation.end()) {
    server.graph_sizes = CudaGraphs::default_sizes(server.limits.batch);
    server.inputs.push_back({"CUDA graphs of up to " + std::to_string(server.graph_sizes.back()) + " tokens",
                             Input::Source::stated,
                             "vLLM's default for max_num_seqs",
                             {&Mechanisms::padded, &Mechanisms::saving}});
    return {};
  }
  const auto wrong = [&](std::string what) {
    return Error{ErrorCode::bad_input, path + ": compilation_config", std::move(what),
                 "ascending whole numbers from 1"};
  };
  if (!sizes->is_array()) return wrong("cudagraph_capture_sizes is no list");
  for (const nlohmann::json& size : *sizes) {
    if (!size.is_number_integer() || size.get<std::int64_t>() < 1 || size.get<std::int64_t>() > 1 << 20 ||
        (!server.graph_sizes.empty() && size.get<std::int64_t>() <= server.graph_sizes.back()))
      return wrong("cudagraph_capture_sizes has '" + excerpt(size.dump()) + "'");
    server.graph_sizes.push_back(size.get<std::int64_t>());
  }
  return {};
}

/// Whether vLLM `version` schedules one step ahead unless it is told otherwise: since 0.14. An unknown version counts
/// as newer, and so does a build without a release number ("0.1.dev1").
inline bool ahead_by_default(std::string_view version) {
  int major = 0, minor = 0;
  const char* const end = version.data() + version.size();
  const auto [dot, wrong] = std::from_chars(version.data(), end, major);
  if (wrong != std::errc{} || dot == end || *dot != '.') return true;
  const auto [rest, wrong_too] = std::from_chars(dot + 1, end, minor);
  if (wrong_too != std::errc{} || std::string_view(rest, end).starts_with(".dev")) return true;
  return major > 0 || minor >= 14;
}

/// Reads a run's meta.json. `kv_blocks` replaces the recording's number if it is not 0.
inline sluice::Expected<Server> read_server(const std::string& run, std::int64_t kv_blocks) {
  using namespace sluice;
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
  const std::pair<const char*, int*> groups[] = {{"data_parallel_size", &server.data_parallel},
                                                 {"tensor_parallel_size", &server.tensor_parallel}};
  for (const auto& [name, place] : groups) {
    if (!engine.has(name)) continue;
    const Expected<std::int64_t> devices = engine.whole(name, 1, 1 << 16);
    if (!devices) return devices.error();
    *place = static_cast<int>(*devices);
  }
  if (engine.has("pipeline_parallel_size")) {
    const Expected<std::int64_t> devices = engine.whole("pipeline_parallel_size", 1, 1 << 16);
    if (!devices) return devices.error();
    if (*devices != 1) return unsupported(engine.where(), "pipeline_parallel_size is " + std::to_string(*devices), "1");
  }
  if (server.data_parallel > 1 && server.tensor_parallel > 1)
    return unsupported(engine.where(), "both data_parallel_size and tensor_parallel_size are above 1", "one of them");
  const nlohmann::json resolved = section(*meta, "resolved_config");
  const nlohmann::json scheduler = section(resolved, "scheduler_config");
  if (Status status = check_scheduler(scheduler, path + ": scheduler_config"); !status) return status.error();
  const JsonFields schedules(scheduler, path + ": scheduler_config");
  if (schedules.has("async_scheduling")) {
    const Expected<bool> ahead = schedules.flag("async_scheduling");
    if (!ahead) return ahead.error();
    server.async_scheduling = *ahead;
  } else {
    std::string version;
    if (const JsonFields top(*meta, path); top.has("vllm_version")) {
      Expected<std::string> text = top.text("vllm_version", "a text");
      if (!text) return text.error();
      version = std::move(*text);
    }
    server.async_scheduling = ahead_by_default(version);
    server.inputs.push_back({server.async_scheduling ? "async_scheduling" : "no async_scheduling",
                             Input::Source::stated,
                             server.async_scheduling ? "vLLM's default since 0.14" : "vLLM's default before 0.14",
                             {&Mechanisms::ahead}});
  }
  if (Status status = read_graph_sizes(arguments, resolved, path, server); !status) return status.error();

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
  const std::pair<const char*, std::string*> names[] = {{"model", &server.model},
                                                        {"dataset_hash", &server.dataset_hash}};
  for (const auto& [name, place] : names) {
    if (!top.has(name)) continue;
    Expected<std::string> text = top.text(name, "a text");
    if (!text) return text.error();
    *place = std::move(*text);
  }
  if (top.has("front_end_s")) {
    const Expected<double> seconds = top.number("front_end_s", 0, 3600, "seconds, 0 or more");
    if (!seconds) return seconds.error();
    server.front_end_s = *seconds;
    server.inputs.push_back({"the front end's time of a request", Input::Source::stated, "front_end_s in meta.json"});
  }
  if (top.has("dataset_path")) {
    const Expected<std::string> dataset = top.text("dataset_path", "a path");
    if (!dataset) return dataset.error();
    server.dataset = std::filesystem::path(*dataset).filename().string();
  }
  return server;
}

} // namespace recorded
