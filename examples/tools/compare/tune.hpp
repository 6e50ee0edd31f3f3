// SPDX-License-Identifier: Apache-2.0
// tune: chooses each system's own numbers on workloads of its own, before a comparison judges it on others.
//
// A comparison is worth what its weakest baseline got. One budget of tokens for all systems, or one policy's default
// number, favours the systems that were written for it: VllmSwap meets 14 % of its TBT SLO on Azure's code trace with
// vLLM's default of 2,048 tokens an iteration, and 100 % with 128.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/json.hpp"

#include "compare/comparison.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace compared {

/// A number that --tune varies, and its values: "max-batch-tokens", "batch", or a policy's as in --set.
struct TunedNumber {
  std::string name;
  std::vector<std::string> values;
};

/// Reads "max-batch-tokens=128,256;Pause.max_wait=5,20". Errors: no such form, or a value named twice.
sluice::Expected<std::vector<TunedNumber>> read_tuned(std::string_view text);

/// Chooses the numbers of every system of `comparison`, and stores them there (`Comparison::tuned`). The workloads are
/// as many as those that judge, and different ones: the next seeds, or the windows between. Candidates are the numbers
/// as given, and every combination of the values that concern a system; its row with a deposit and the one without are
/// tuned apart. Scored by goodput, over all SLO scales.
///
/// With --out, the file tuning.csv there has every run's goodput, and a repeated command continues from it. Returns how
/// many runs finished: not all of them if it was interrupted.
sluice::Expected<sluice::RunCount> tune(const Options& options, const std::string& command, Comparison& comparison,
                                        sluice::Crew& crew);

/// Returns the flags of the comparison that judges: with windows, twice as many, of which every second one judges.
Options judging(const Options& options);

} // namespace compared
