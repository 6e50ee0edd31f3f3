// SPDX-License-Identifier: Apache-2.0
// read_layer_tables: kernel times as LLMServingSim's first profiler writes them (casys-kaist, branch
// ispass26-artifact).
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/table_profile.hpp"

#include "fleet/table_rows.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fleets {

namespace detail {

/// How that profiler's layers are called in `profiled_kernels`. Several are summed: they run one after the other. The
/// two norms of a layer are one kernel that runs twice, so each counts half.
struct LayerName {
  std::string_view theirs, ours;
  double times = 1;
};
inline constexpr std::array<LayerName, 14> layer_names{{{"embedding", "embedding"},
                                                        {"input_layernorm", "layernorm", 0.5},
                                                        {"post_layernorm", "layernorm", 0.5},
                                                        {"q_proj", "qkv_proj"},
                                                        {"k_proj", "qkv_proj"},
                                                        {"v_proj", "qkv_proj"},
                                                        {"rope", "rotary_emb"},
                                                        {"o_proj", "o_proj"},
                                                        {"gate_proj", "gate_up_proj"},
                                                        {"up_proj", "gate_up_proj"},
                                                        {"act_fn", "act_fn"},
                                                        {"down_proj", "down_proj"},
                                                        {"final_layernorm", "final_layernorm"},
                                                        {"lm_head", "lm_head"}}};

} // namespace detail

/// Reads layers.csv (kernels by tokens), attn_prefill_predictions.csv (a chunk alone, by the KV before it) and
/// attn_decode_predictions.csv (decodes alone, by their number and mean KV) of `folder`, the latter two perhaps in its
/// folder `predictions`, in nanoseconds of one layer on one device of `devices`. The profiler has no sampler, and its
/// `attn` in layers.csv has no KV: both are left out.
inline sluice::Expected<sluice::TableProfile> read_layer_tables(const std::filesystem::path& folder, int devices,
                                                                sluice::LinkCost link) {
  using namespace sluice;
  constexpr std::int64_t most = 1'000'000'000'000'000; // tokens, or nanoseconds
  TableRows layers(folder / "layers.csv", {"layer_name", "input", "tp_size", "latency(ns)"});
  std::map<std::string, std::map<std::int64_t, double>, std::less<>> sums; // seconds by kernel and tokens
  while (layers.next()) {
    const std::int64_t tokens = layers.whole(1, 0, most), of = layers.whole(2, 1, most),
                       nanoseconds = layers.whole(3, 0, most);
    if (of != devices)
      layers.refuse("tp_size is " + std::to_string(of), std::to_string(devices) + ", the devices of an instance");
    for (const detail::LayerName& one : detail::layer_names)
      if (one.theirs == layers.text(0) && tokens > 0)
        sums[std::string{one.ours}][tokens] += one.times * static_cast<double>(nanoseconds) * 1e-9;
  }
  if (!layers.status()) return layers.status().error();
  sluice::detail::MeasuredLines lines;
  for (const auto& [name, points] : sums)
    for (const auto& [tokens, seconds] : points) lines[name].push_back({tokens, seconds});
  for (const detail::LayerName& one : detail::layer_names)
    if (lines.find(one.ours) == lines.end())
      return Error{ErrorCode::bad_input, (folder / "layers.csv").string(),
                   "the layer " + std::string{one.theirs} + " is missing", "its measured times"};

  std::map<std::int64_t, std::map<std::int64_t, double>> by_chunk, by_decodes;
  const auto read = [&](const char* name, std::vector<std::string_view> columns, auto& into) {
    const std::filesystem::path apart = folder / "predictions" / name;
    TableRows rows(std::filesystem::exists(apart) ? apart : folder / name, columns);
    while (rows.next()) {
      const std::int64_t count = rows.whole(0, 0, most), past = rows.whole(1, 0, most);
      into[count][past] = static_cast<double>(rows.whole(2, 0, most)) * 1e-9;
    }
    return rows.status();
  };
  if (Status status =
          read("attn_prefill_predictions.csv", {"prefill_chunk_size", "kv_cache_size", "prediction"}, by_chunk);
      !status)
    return status.error();
  if (Status status = read("attn_decode_predictions.csv", {"batch_size", "kv_cache_size", "prediction"}, by_decodes);
      !status)
    return status.error();
  if (by_chunk.empty() || by_decodes.empty())
    return Error{ErrorCode::bad_input, folder.string(), "there are no attention times",
                 "chunks alone, and decodes alone"};
  std::vector<AttentionGrid::Chunk> grid;
  AttentionGrid::Chunk& none = grid.emplace_back();
  for (const auto& [count, contexts] : by_decodes) {
    AttentionGrid::Past past;
    for (const auto& [tokens, seconds] : contexts) past.contexts.push_back({tokens, seconds});
    none.decodes.push_back({count, {std::move(past)}});
  }
  for (const auto& [tokens, pasts] : by_chunk) {
    AttentionGrid::Decodes alone;
    for (const auto& [past, seconds] : pasts) alone.pasts.push_back({past, {{0, seconds}}});
    grid.push_back({tokens, {std::move(alone)}});
  }
  KernelTimes times;
  times.before = sluice::detail::tabulate(lines, KernelPlace::before);
  times.layer = sluice::detail::tabulate(lines, KernelPlace::layer);
  times.after = sluice::detail::tabulate(lines, KernelPlace::after);
  times.per_sequence = sluice::detail::tabulate(lines, KernelPlace::per_sequence);
  times.attention = AttentionGrid(std::move(grid));
  times.layer_launches = sluice::detail::launches(lines, KernelPlace::layer);
  return TableProfile(std::move(times), link);
}

} // namespace fleets
