// SPDX-License-Identifier: Apache-2.0
// Unequal decodes: the batches behind a bundle's skew.csv, and its rows.
#pragma once

#include "sluice/model/decoder/model_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace profiled {

/// Batches of up to `most_decodes` decodes of which one is longer than the others. `contexts` ascend.
inline std::vector<sluice::TimedBatch> unequal_batches(int most_decodes, const std::vector<int>& contexts) {
  std::vector<sluice::TimedBatch> all;
  const int longest = contexts.back();
  for (const int count : {most_decodes, std::max(2, most_decodes / 4)})
    for (const int context : {contexts.front(), contexts[contexts.size() / 2]})
      if (context < longest) all.push_back({.decodes = count, .context = context, .longest = longest});
  return all;
}

/// As many decodes, all behind `context` tokens.
inline sluice::TimedBatch equal_batch(const sluice::TimedBatch& unequal, int context) {
  return {.decodes = unequal.decodes, .context = context};
}
inline int mean_context(const sluice::TimedBatch& unequal) {
  return (unequal.longest + (unequal.decodes - 1) * unequal.context) / unequal.decodes;
}

/// skew.csv (read_skew_table). `alpha` is the share of the way from the time of equal decodes of the mean context to
/// the time of equal decodes of the longest one: 0 on a device that computes one sequence after another. It is empty
/// where those two times cannot be told apart. `seconds(batch)`: a layer's time, or nothing if it was not measured;
/// what equal and unequal batches compute beside attention cancels out. Empty without a row that has an alpha.
template <class LayerSeconds>
std::string skew_csv(const std::vector<sluice::TimedBatch>& unequal, LayerSeconds&& seconds) {
  std::string text = "pc,n,kvs,kv_big,kv_mean,t_mean_us,t_max_us,t_skew_us,alpha\n";
  bool any = false;
  for (const sluice::TimedBatch& batch : unequal) {
    const int mean = mean_context(batch);
    const std::optional<double> of_mean = seconds(equal_batch(batch, mean)),
                                of_longest = seconds(equal_batch(batch, batch.longest)), own = seconds(batch);
    if (!of_mean || !of_longest || !own) continue;
    constexpr double least_difference = 1.02;
    std::string alpha;
    if (*of_longest > least_difference * *of_mean)
      alpha = fmt::format("{:.4f}", (*own - *of_mean) / (*of_longest - *of_mean));
    any = any || !alpha.empty();
    text += fmt::format("0,{},{},{},{},{:.6g},{:.6g},{:.6g},{}\n", batch.decodes, batch.context, batch.longest, mean,
                        1e6 * *of_mean, 1e6 * *of_longest, 1e6 * *own, alpha);
  }
  return any ? text : "";
}

} // namespace profiled
