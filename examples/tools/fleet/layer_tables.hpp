// SPDX-License-Identifier: Apache-2.0
// read_layer_tables: kernel times as LLMServingSim's first profiler writes them (casys-kaist, branch
// ispass26-artifact).
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/text.hpp"
#include "sluice/policy/cost/read_table_profile.hpp"
#include "sluice/policy/cost/table_profile.hpp"
#include "sluice/workload/line_reader.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fleets {

namespace detail {

/// A CSV of numbers after an optional name, with exactly this header.
class NumberRows {
 public:
  NumberRows(sluice::LineReader lines, bool named, std::size_t numbers)
      : lines_(std::move(lines)), named_(named), numbers_(numbers) {}

  static sluice::Expected<NumberRows> open(const std::filesystem::path& path, std::string_view header, bool named) {
    using namespace sluice;
    Expected<LineReader> lines = LineReader::open(path.string());
    if (!lines) return lines.error();
    const Expected<std::optional<std::string_view>> first = lines->next();
    if (!first) return first.error();
    if (!*first || **first != header)
      return Error{ErrorCode::bad_input, path.string(),
                   *first ? "the header is '" + excerpt(**first) + "'" : std::string{"the file is empty"},
                   "'" + std::string{header} + "'"};
    const auto commas = static_cast<std::size_t>(std::count(header.begin(), header.end(), ','));
    return NumberRows(std::move(*lines), named, commas + (named ? 0 : 1));
  }

  /// Reads the next row; false at the end.
  sluice::Expected<bool> next() {
    using namespace sluice;
    const Expected<std::optional<std::string_view>> line = lines_.next();
    if (!line) return line.error();
    if (!*line) return false;
    std::string_view rest = **line;
    if (named_) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      name = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    numbers.assign(numbers_, 0);
    const char *at = rest.data(), *const end = at + rest.size();
    for (std::size_t i = 0; i < numbers_; ++i) {
      const auto [stop, wrong] = std::from_chars(at, end, numbers[i]);
      const bool last = i + 1 == numbers_;
      if (wrong != std::errc{} || numbers[i] < 0 || (last ? stop != end : stop == end || *stop != ','))
        return Error{ErrorCode::bad_input, lines_.where(), "the row is '" + excerpt(**line) + "'",
                     std::to_string(numbers_) + " whole numbers from 0"};
      at = stop + (last ? 0 : 1);
    }
    return true;
  }
  [[nodiscard]] std::string where() const { return lines_.where(); }

  std::string name;
  std::vector<std::int64_t> numbers;

 private:
  sluice::LineReader lines_;
  bool named_;
  std::size_t numbers_;
};

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
/// attn_decode_predictions.csv (decodes alone, by their number and mean KV) of `folder`, in nanoseconds of one layer on
/// one device of `devices`. The profiler has no sampler, and its `attn` in layers.csv has no KV: both are left out.
inline sluice::Expected<sluice::TableProfile> read_layer_tables(const std::filesystem::path& folder, int devices,
                                                                sluice::LinkCost link) {
  using namespace sluice;
  Expected<detail::NumberRows> layers =
      detail::NumberRows::open(folder / "layers.csv", "layer_name,input,kv_cache,tp_size,latency(ns)", true);
  if (!layers) return layers.error();
  std::map<std::string, std::map<std::int64_t, double>, std::less<>> sums; // seconds by kernel and tokens
  for (;;) {
    const Expected<bool> row = layers->next();
    if (!row) return row.error();
    if (!*row) break;
    if (layers->numbers[2] != devices)
      return Error{ErrorCode::bad_input, layers->where(), "tp_size is " + std::to_string(layers->numbers[2]),
                   std::to_string(devices) + ", the devices of an instance"};
    for (const detail::LayerName& one : detail::layer_names)
      if (one.theirs == layers->name && layers->numbers[0] > 0)
        sums[std::string{one.ours}][layers->numbers[0]] += one.times * static_cast<double>(layers->numbers[3]) * 1e-9;
  }
  sluice::detail::MeasuredLines lines;
  for (const auto& [name, points] : sums)
    for (const auto& [tokens, seconds] : points) lines[name].push_back({tokens, seconds});
  for (const detail::LayerName& one : detail::layer_names)
    if (lines.find(one.ours) == lines.end())
      return Error{ErrorCode::bad_input, (folder / "layers.csv").string(),
                   "the layer " + std::string{one.theirs} + " is missing", "its measured times"};

  Expected<detail::NumberRows> chunks = detail::NumberRows::open(folder / "attn_prefill_predictions.csv",
                                                                 "kv_cache_size,prefill_chunk_size,prediction", false);
  if (!chunks) return chunks.error();
  std::map<std::int64_t, std::map<std::int64_t, double>> by_chunk, by_decodes;
  for (;;) {
    const Expected<bool> row = chunks->next();
    if (!row) return row.error();
    if (!*row) break;
    by_chunk[chunks->numbers[1]][chunks->numbers[0]] = static_cast<double>(chunks->numbers[2]) * 1e-9;
  }
  Expected<detail::NumberRows> decodes =
      detail::NumberRows::open(folder / "attn_decode_predictions.csv", "batch_size,kv_cache_size,prediction", false);
  if (!decodes) return decodes.error();
  for (;;) {
    const Expected<bool> row = decodes->next();
    if (!row) return row.error();
    if (!*row) break;
    by_decodes[decodes->numbers[0]][decodes->numbers[1]] = static_cast<double>(decodes->numbers[2]) * 1e-9;
  }
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
