// SPDX-License-Identifier: Apache-2.0
// A ladder of rates: its presets, and its figures by stage.
#pragma once

#include "sluice/core/expected.hpp"

#include "fleet/figures.hpp"
#include "fleet/options.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fleets {

/// An input of a preset, with its value, and where it comes from.
struct LadderInput {
  std::string what, from;
};

/// A published load test: what it was given, and nothing that it measured.
struct LadderPreset {
  std::string_view name, what;
  void (*set)(Options& options) = nullptr; ///< flags that the user did not give keep these values
  std::vector<LadderInput> (*inputs)(const Options& options) = nullptr;
};
[[nodiscard]] std::span<const LadderPreset> ladder_presets();

/// One stage behind one router, in the mean over seeds.
struct StageRow {
  std::string router;
  double rate = 0, tokens_per_s = 0, ttft_p90_s = 0, ttft_mean_s = 0, tpot_mean_s = 0;
  double sent_s = 0;      ///< from the first request to the last
  double found = 0;       ///< share of prompts
  double queue_grows = 0; ///< share of seeds
};
[[nodiscard]] std::vector<StageRow> stage_rows(const Ladder& ladder, std::span<const RouterRuns> all);

/// Measured stages: a CSV with the columns stage_rate_per_s, router, output_tokens_per_s and ttft_p90_s, in any order,
/// or with llm-d's own names of them (requested_qps, experiment, output_toks_per_sec_json); perhaps tpot_mean_s, or
/// itl_mean_s, whose double is the mean TPOT: inference-perf, which wrote it, reads a stream by lines and notes a time
/// for each, also for the empty line after each token (apis/completion.py, October 2025).
[[nodiscard]] sluice::Expected<std::vector<StageRow>> read_recording(const std::string& path);

/// The stages as a table, beside a recording's if there is one, and for each router the first rate whose P90 of TTFT
/// exceeds `limit_s`.
[[nodiscard]] std::string ladder_table(std::span<const StageRow> rows, std::span<const StageRow> measured,
                                       double limit_s = 2);
[[nodiscard]] std::string ladder_json(std::span<const StageRow> rows, std::span<const LadderInput> inputs);

} // namespace fleets
